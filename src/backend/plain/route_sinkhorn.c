/* Keys by which the tokens of a group choose all experts alike often: plain kernel (ops_route.h). */
#include "backend_impl.h"
#include <math.h>

/* Returns the factor of row t that makes its sum 1 / rows. */
static double sinkhorn_row(const mega_route_sinkhorn_args *a, int64_t t, const double *column)
{
    double sum = MEGA_SINKHORN_EPSILON;
    for (int64_t e = 0; e < a->experts; e++) sum += column[e] * get(a->keys, acc_of(a->head.dtype), t * a->experts + e);
    return 1.0 / (double)a->rows / sum;
}

/* One iteration. Returns by how much the factors of the columns have changed, on average. */
static double sinkhorn_iterate(const mega_route_sinkhorn_args *a, int64_t first, double *column, double *was)
{
    double sum[MEGA_ROUTE_EXPERTS], change = 0.0;
    for (int64_t e = 0; e < a->experts; e++) sum[e] = MEGA_SINKHORN_EPSILON;
    for (int64_t t = first; t < first + a->rows; t++) {
        const double row = sinkhorn_row(a, t, column);
        for (int64_t e = 0; e < a->experts; e++)
            sum[e] += row * get(a->keys, acc_of(a->head.dtype), t * a->experts + e);
    }
    for (int64_t e = 0; e < a->experts; e++) {
        was[e] = column[e];
        column[e] = 1.0 / (double)a->experts / sum[e];
        change += fabs(was[e] - column[e]);
    }
    return change / (double)a->experts;
}

static void plain_route_sinkhorn_run(const mega_queue *queue, const void *args)
{
    const mega_route_sinkhorn_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    double column[MEGA_ROUTE_EXPERTS], was[MEGA_ROUTE_EXPERTS];
    (void)queue;
    for (int64_t i = 0; i < a->groups * a->rows * a->experts; i++) {
        const double logit = get(a->logits, a->logits_dtype, i);
        put(a->keys, acc, i, exp(logit > MEGA_SINKHORN_LARGEST ? MEGA_SINKHORN_LARGEST : logit));
    }
    for (int64_t g = 0; g < a->groups; g++) {
        const int64_t first = g * a->rows;
        int left = MEGA_SINKHORN_ITERATIONS;
        for (int64_t e = 0; e < a->experts; e++) column[e] = 1.0;
        while (left-- > 0 && sinkhorn_iterate(a, first, column, was) > MEGA_SINKHORN_TOLERANCE) continue;
        for (int64_t t = first; t < first + a->rows; t++) {
            const double row = sinkhorn_row(a, t, was);
            for (int64_t e = 0; e < a->experts; e++)
                put(a->keys, acc, t * a->experts + e, column[e] * get(a->keys, acc, t * a->experts + e) * row);
        }
    }
}

const mega_kernel mega_plain_route_sinkhorn = {.name = "route_sinkhorn", .run = plain_route_sinkhorn_run};
