/* The configuration file of Accelerate: where it lies, and what follows from several of its keys together. */
#ifndef MEGALITH_ACCELERATE_H
#define MEGALITH_ACCELERATE_H

#include "megalith/status.h"
#include <stdint.h>

struct json_t;

/* Returns $HF_HOME/accelerate/default_config.yaml in a new block, where HF_HOME is $XDG_CACHE_HOME/huggingface by
 * default, and XDG_CACHE_HOME ~/.cache; NULL if memory is short. */
char *mega_accelerate_default_file(void);
/* Returns the ZeRO stage that follows from the distributed_type of a configuration where no stage is given: that of the
 * strategy of FSDP, or 2, Accelerate's default for DEEPSPEED; -1: none follows. *out_wrong receives the name of a
 * strategy that is not available, otherwise it stays. */
int64_t mega_accelerate_zero_stage(const struct json_t *tree, const char **out_wrong);

#endif
