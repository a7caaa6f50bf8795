/* The z-loss of a router's logits and its gradient, by a block a row (ops_route.h). */
#include "xent_row.h"

BODY void route_z_run(const mega_route_z_args *a, mega_dtype t)
{
    SHARED(exp_shared, s);
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) {
        const exp_sum sum = class_sum(a->logits, t, row * a->experts, a->experts, s);
        const float z = log_of(sum.sum) + sum.max;
        if (thread_x() == 0) ((float *)a->loss)[row] = z * z;
    }
}
KERNELS_BY_TYPE(route_z, mega_route_z_args, ROW_THREADS)

/* `from` is the type of the logits, t that of their gradient. */
BODY void route_z_grad_rows(const mega_route_z_grad_args *a, mega_dtype t, mega_dtype from, exp_shared *s)
{
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) {
        const int64_t at = row * a->experts;
        const exp_sum sum = class_sum(a->logits, from, at, a->experts, s);
        const float z = log_of(sum.sum) + sum.max;
        const float factor = device_divide(2.0f * z * ((const float *)a->dloss)[row], sum.sum);
        for (int64_t e = thread_x(); e < a->experts; e += ROW_THREADS)
            put(a->dlogits, t, at + e, factor * exp_of(get(a->logits, from, at + e) - sum.max));
    }
}

BODY void route_z_grad_run(const mega_route_z_grad_args *a, mega_dtype t)
{
    SHARED(exp_shared, s);
    if (a->logits_dtype == MEGA_F32) route_z_grad_rows(a, t, MEGA_F32, s);
    else
        route_z_grad_rows(a, t, t, s);
}
KERNELS_BY_TYPE(route_z_grad, mega_route_z_grad_args, ROW_THREADS)
