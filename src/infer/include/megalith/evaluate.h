/* Loss of a model over a sequence of tokens, in overlapping windows (Megatron's WikiText evaluation). */
#ifndef MEGALITH_EVALUATE_H
#define MEGALITH_EVALUATE_H

#include "megalith/engine_commands.h"

typedef struct mega_evaluate_options {
    int64_t stride; /* a window begins `stride` tokens after the last one; 1 … S. S: no overlap */
    int32_t pad;    /* id that fills the rest of the last window; not counted */
    void (*progress)(void *user, int64_t windows, int64_t total); /* or NULL */
    void *user;
    const char *folder; /* of the model, for messages; or NULL */
} mega_evaluate_options;

typedef struct mega_evaluation {
    double loss_sum; /* in nats, over all targets; every token except the first is a target, counted once */
    int64_t targets, windows;
    /* Standard error of loss_sum / targets, taking windows as independent and their targets as not; NAN for a single
     * window. */
    double error;
} mega_evaluation;

/* Returns the number of windows. Window i has inputs i*stride … i*stride + S - 1; the first one counts all its
 * targets, the others their last `stride` targets. */
int64_t mega_evaluate_windows(int64_t tokens, int64_t stride);
/* Collective over the world: ranks of tp and of pp share the model, ranks of dp divide the windows; all get the sum.
 * The engine is in MEGA_EVAL with a GPT (transformer.h); its seq is S, and it runs micro_batch windows at a time.
 * Returns MEGA_ERR_INTERRUPTED on all ranks once the team of one of them is asked to stop,
 * MEGA_ERR_NUMERIC where the loss is not finite. */
mega_status mega_evaluate(mega_engine *engine, const int32_t *tokens, int64_t count,
                          const mega_evaluate_options *options, mega_evaluation *out);

#endif
