/* state/run.json: what a checkpoint holds of the run that wrote it. */
#ifndef MEGALITH_RUN_JSON_H
#define MEGALITH_RUN_JSON_H

#include "megalith/checkpoint.h"
#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The whole of it; the caller releases it. NULL where there is no checkpoint, or none in it. */
mega_status mega_run_json(json_t **out, const mega_checkpoint *c);

#ifdef __cplusplus
}
#endif

#endif
