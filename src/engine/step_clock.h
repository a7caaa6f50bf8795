/* Measures the parts of a step, fills the times of its result, and tells the monitors and the profile of them, so that
 * the code of a step only marks where a part ends. */
#ifndef MEGALITH_STEP_CLOCK_H
#define MEGALITH_STEP_CLOCK_H

#include "megalith/engine.h"
#include "megalith/pipeline.h"

typedef struct step_clock {
    mega_engine *e;            /* NULL: no step has begun */
    mega_step_result *result;  /* receives the times */
    double began, mark, ended; /* of the step; the end of the last part; of a pass whose sums are still awaited, or 0 */
} step_clock;

/* Where the memory is logged (memory_breakdown), in the words of DeepSpeed. */
#define CLOCK_BEFORE_PASSES  "Engine before forward and backward"
#define CLOCK_BEFORE_FORWARD "Engine before forward"
#define CLOCK_AFTER_FORWARD  "Engine after forward"
#define CLOCK_AFTER_BACKWARD "Engine after backward"
#define CLOCK_BEFORE_STEP    "Engine before step"
#define CLOCK_AFTER_STEP     "Engine after step"

step_clock clock_start(mega_engine *e, mega_step_result *result); /* a step begins */
/* The first pass of a step of this many micro-batches begins. */
void clock_begin_passes(step_clock *c, int64_t micro_batches, const char *memory);
void clock_restart(step_clock *c,
                   const char *memory);  /* what came since the last part is not of the step. memory NULL: not logged */
void clock_add_wait(step_clock *c);      /* the part that ends was a wait for other pipeline stages */
void clock_mark_pass_end(step_clock *c); /* a pass has ended, and a wait for its sums begins */
/* The part that ends was a pass, with the wait for its sums if clock_mark_pass_end has been called. */
void clock_add_pass(step_clock *c, const mega_schedule_pass *pass, bool is_last_micro_batch);
void clock_add_sum(step_clock *c);             /* the part that ends was a sum of gradients over the ranks */
void clock_add_update(step_clock *c);          /* the part that ends was the update of the weights */
void clock_end(step_clock *c, double seconds); /* the step has ended; seconds: of all its parts */

#endif
