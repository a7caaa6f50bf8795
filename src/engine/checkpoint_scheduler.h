/* DeepSpeed's schedules in run.json: members "type", "params" and "last_batch_iteration" of "scheduler". */
#ifndef MEGALITH_CHECKPOINT_SCHEDULER_H
#define MEGALITH_CHECKPOINT_SCHEDULER_H

#include "megalith/memory.h"
#include "megalith/schedule.h"
#include <jansson.h>

/* Adds the schedule, of which `steps` updates were made, to a "scheduler" and returns that; takes ownership of it, and
 * returns NULL without memory (or for NULL). */
json_t *checkpoint_put_scheduler(json_t *scheduler, const mega_step_schedule *s, int64_t steps);
/* MEGA_ERR_FORMAT where members are missing or wrong. A "scheduler" without a "type" has kind NONE. */
mega_status checkpoint_read_scheduler(const json_t *scheduler, mega_step_schedule *out);
/* Adds a line to *b for each difference between the schedule and the stored one. */
void checkpoint_scheduler_differs(mega_buffer *b, const mega_step_schedule *s, const json_t *scheduler);
/* Returns the updates made; `iterations` for a checkpoint that does not say it. */
int64_t checkpoint_scheduler_steps(const json_t *scheduler, int64_t iterations);

#endif
