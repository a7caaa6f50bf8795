/* Loss of a model over a sequence of tokens, in overlapping windows (Megatron's WikiText evaluation). */
#ifndef MEGALITH_EVALUATE_H
#define MEGALITH_EVALUATE_H

#include "megalith/language.h"
#include "megalith/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_evaluate_options {
    int64_t batch;       /* windows side by side */
    int64_t seq;         /* inputs of a window, S */
    int64_t stride;      /* a window begins `stride` tokens after the last one; 1 … seq. seq: no overlap */
    int32_t pad;         /* id that fills up the last window; not counted */
    size_t memory_limit; /* bytes that this process may hold (--memory-limit); 0: not given */
    mega_program_backend backend;
    mega_team *team;   /* borrowed, or NULL */
    mega_world *world; /* borrowed, or NULL: what is under way between ranks moves on while one computes */
    void (*progress)(void *user, int64_t windows, int64_t total); /* or NULL */
    void *user;
} mega_evaluate_options;

typedef struct mega_evaluation {
    double loss_sum; /* nats, over all targets: each token but the first is one, counted once */
    int64_t targets, windows;
} mega_evaluation;

/* Window i holds inputs i*stride … i*stride + S - 1; the first counts all its targets, the others the last `stride`. */
int64_t mega_evaluate_windows(int64_t tokens, int64_t stride);
/* Collective over the layout: ranks of tp and of pp share the model, ranks of dp share out the windows; all get the
 * sum. */
mega_status mega_evaluate(mega_evaluation *out, const mega_language_model *m, mega_params *params,
                          const mega_layout *layout, const int32_t *tokens, int64_t count,
                          const mega_evaluate_options *options);

#ifdef __cplusplus
}
#endif

#endif
