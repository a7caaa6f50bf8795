/* Lamb's states and sums, and its trust ratio: plain kernels (optimizer_kernels.h). */
#include "backend_impl.h"
#include <math.h>

static void plain_lamb_moments_run(const mega_queue *queue, const void *args)
{
    const mega_lamb_moments_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    double sum[2] = {0.0, 0.0};
    (void)queue;
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    const double *n = a->number;
    for (int64_t i = 0; i < a->count; i++) {
        const double p = get(a->p, acc, i), g = get(a->g, acc, i) * MEGA_UPDATE_FACTOR(a);
        const double m = n[4] * get(a->m, acc, i) + (1.0 - n[4]) * g;
        const double v = n[5] * get(a->v, acc, i) + (1.0 - n[5]) * (g * g);
        const double u = m / (sqrt(v + n[1]) + n[2]) + n[3] * p;
        put(a->m, acc, i, m);
        put(a->v, acc, i, v);
        sum[0] += p * p;
        sum[1] += u * u;
    }
    for (int j = 0; j < 2 && a->sums != NULL; j++) a->sums[j] += sum[j];
}

static void plain_lamb_ratio_run(const mega_queue *queue, const void *args)
{
    const mega_lamb_ratio_args *a = args;
    const double param = sqrt(a->squares[0]), step = sqrt(a->squares[1]);
    (void)queue;
    a->ratio[0] = param == 0 || step == 0 ? 1 : fmax(a->least, fmin(a->most, param / step));
}

const mega_kernel mega_plain_lamb_moments = {.name = "lamb_moments", .run = plain_lamb_moments_run};
const mega_kernel mega_plain_lamb_ratio = {.name = "lamb_ratio", .run = plain_lamb_ratio_run};
