/* The caller's own optimizer: a function that updates elements. */
#ifndef MEGALITH_CUSTOM_OPTIMIZER_H
#define MEGALITH_CUSTOM_OPTIMIZER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One update of consecutive elements. param, grad and state[] are F32 (F64 in an F64 program), in memory of the host:
 * the elements themselves, or copies where the host cannot reach the device's memory. */
typedef struct mega_optimizer_call {
    const double *option; /* in the order of the row's list of options */
    double lr, weight_decay;
    double grad_factor; /* to be multiplied with every gradient; contains clipping and the mean over micro-batches */
    int64_t update;     /* number of this update, from 1 */
    int64_t count;      /* elements in param, grad and each state */
    void *param, *const *state;
    const void *grad;
} mega_optimizer_call;

/* Describes the caller's optimizer. Constant; borrowed until the optimizer is destroyed. */
enum { MEGA_OPTIMIZER_STATES = 4 };
typedef struct mega_optimizer_row {
    const char *name;             /* in checkpoints, such as "lion" */
    const char *const *state;     /* names of its states in checkpoints, such as {"exp_avg", NULL}; NULL: none */
    const char *const *option;    /* names of its options, such as {"beta1", "beta2", NULL}; NULL: none */
    const double *option_default; /* one for each option */
    /* Updates the elements begin … end - 1. The threads of the team call it at the same time with disjoint ranges,
     * which differ from run to run, so the result for an element must depend only on that element. If its param, grad
     * and states are all 0 (padding), they must stay 0. There is no way to report an error. */
    void (*update)(const mega_optimizer_call *call, int64_t begin, int64_t end);
} mega_optimizer_row;

#ifdef __cplusplus
}
#endif

#endif
