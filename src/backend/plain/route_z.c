/* The z-loss of a router's logits and its gradient: plain kernels (ops_route.h). */
#include "backend_impl.h"
#include <math.h>

/* Returns the logarithm of the sum of the exponentials of a row, which begins at element `at`. */
static double route_log_sum_exp(const void *logits, mega_dtype t, int64_t at, int64_t experts)
{
    double max = -INFINITY, sum = 0.0;
    for (int64_t e = 0; e < experts; e++) max = fmax(max, get(logits, t, at + e));
    for (int64_t e = 0; e < experts; e++) sum += exp(get(logits, t, at + e) - max);
    return log(sum) + max;
}

static void plain_route_z_run(const mega_queue *queue, const void *args)
{
    const mega_route_z_args *a = args;
    (void)queue;
    for (int64_t r = 0; r < a->rows; r++) {
        const double z = route_log_sum_exp(a->logits, a->logits_dtype, r * a->experts, a->experts);
        put(a->loss, acc_of(a->head.dtype), r, z * z);
    }
}

static void plain_route_z_grad_run(const mega_queue *queue, const void *args)
{
    const mega_route_z_grad_args *a = args;
    (void)queue;
    for (int64_t r = 0; r < a->rows; r++) {
        const double z = route_log_sum_exp(a->logits, a->logits_dtype, r * a->experts, a->experts);
        const double factor = 2.0 * z * get(a->dloss, acc_of(a->head.dtype), r);
        for (int64_t i = r * a->experts; i < (r + 1) * a->experts; i++)
            put(a->dlogits, a->head.dtype, i, factor * exp(get(a->logits, a->logits_dtype, i) - z));
    }
}

const mega_kernel mega_plain_route_z = {.name = "route_z", .run = plain_route_z_run};
const mega_kernel mega_plain_route_z_grad = {.name = "route_z_grad", .run = plain_route_z_grad_run};
