/* state/run.json: what a checkpoint stores about the run that wrote it. */
#ifndef MEGALITH_RUN_JSON_H
#define MEGALITH_RUN_JSON_H

#include "megalith/checkpoint.h"
#include <jansson.h>

/* Returns all of it in *out; the caller releases it. NULL if there is no checkpoint, or no run.json in it. Returns
 * MEGA_ERR_FORMAT if it is not valid JSON. */
mega_status mega_run_json(json_t **out, const mega_checkpoint *c);

/* The settings of a network that every family has and not every config.json can hold: a checkpoint keeps them here as
 * well, so that they come back when it is opened. Returns MEGA_ERR_MEMORY. */
mega_status mega_run_json_put_network(json_t *root, const mega_model_shape *shape);
/* Sets them in the shape that config.json gave. text: that of run.json; nothing is set where it is not valid. */
void mega_run_json_take_network(const char *text, mega_model_shape *shape);

#endif
