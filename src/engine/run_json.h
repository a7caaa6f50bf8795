/* state/run.json: what a checkpoint holds of the run that wrote it. */
#ifndef MEGA_RUN_JSON_H
#define MEGA_RUN_JSON_H

#include "megalith/checkpoint.h"
#include <jansson.h>

/* The whole of it; the caller releases it. NULL where there is no checkpoint, or none in it. */
mega_status engine_run_json(json_t **out, const mega_checkpoint *c);

#endif
