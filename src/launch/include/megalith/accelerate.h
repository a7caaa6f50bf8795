/* The configuration file of Accelerate: where it lies by default. */
#ifndef MEGALITH_ACCELERATE_H
#define MEGALITH_ACCELERATE_H

#include "megalith/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns $HF_HOME/accelerate/default_config.yaml in a new block, where HF_HOME is $XDG_CACHE_HOME/huggingface by default,
 * and XDG_CACHE_HOME ~/.cache; NULL if memory is short. */
char *mega_accelerate_default_file(void);

#ifdef __cplusplus
}
#endif

#endif
