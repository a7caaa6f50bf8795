/* Sum of squares, zeros and values that are not finite: plain kernel (kernels.h). */
#include "backend_impl.h"
#include <math.h>

static void plain_norm_run(const mega_queue *queue, const void *args)
{
    const mega_norm_args *a = args;
    double sum[3] = {0.0, 0.0, 0.0};
    for (int64_t i = 0; i < a->count; i++) {
        const double x = get(a->x, acc_of(a->head.dtype), i);
        sum[0] += x * x;
        sum[1] += x == 0.0;
        sum[2] += !isfinite(x);
    }
    for (int i = 0; i < 3; i++) a->out[i] = a->adds ? a->out[i] + sum[i] : sum[i];
}

const mega_kernel mega_plain_norm = {.name = "norm", .run = plain_norm_run};
