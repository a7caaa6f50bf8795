/* state/run.json: what a checkpoint stores about the run that wrote it. */
#ifndef MEGALITH_RUN_JSON_H
#define MEGALITH_RUN_JSON_H

#include "megalith/checkpoint.h"
#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns all of it in *out; the caller releases it. NULL if there is no checkpoint, or no run.json in it. Returns
 * MEGA_ERR_FORMAT if it is not valid JSON. */
mega_status mega_run_json(json_t **out, const mega_checkpoint *c);

#ifdef __cplusplus
}
#endif

#endif
