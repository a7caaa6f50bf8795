/* Loss of a model over a sequence of tokens, in overlapping windows (Megatron's WikiText evaluation). */
#ifndef MEGALITH_EVALUATE_H
#define MEGALITH_EVALUATE_H

#include "megalith/engine_commands.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_evaluate_options {
    int64_t stride; /* a window begins `stride` tokens after the last one; 1 … S. S: no overlap */
    int32_t pad;    /* id that fills up the last window; not counted */
    void (*progress)(void *user, int64_t windows, int64_t total); /* or NULL */
    void *user;
} mega_evaluate_options;

typedef struct mega_evaluation {
    double loss_sum; /* nats, over all targets: each token but the first is one, counted once */
    int64_t targets, windows;
} mega_evaluation;

/* Window i holds inputs i*stride … i*stride + S - 1; the first counts all its targets, the others the last `stride`. */
int64_t mega_evaluate_windows(int64_t tokens, int64_t stride);
/* Collective over the world: ranks of tp and of pp share the model, ranks of dp share out the windows; all get the sum.
 * The engine is one of a GPT (gpt.h) that evaluates: its seq is S, and micro_batch windows run side by side. On all
 * ranks MEGA_ERR_INTERRUPTED once the team of one is asked to stop. */
mega_status mega_evaluate(mega_evaluation *out, mega_engine *engine, const int32_t *tokens, int64_t count,
                          const mega_evaluate_options *options);

#ifdef __cplusplus
}
#endif

#endif
