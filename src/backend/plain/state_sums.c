/* Sums over the states of an optimizer: plain kernel (optimizer_kernels.h). */
#include "backend_impl.h"
#include <math.h>

static void plain_state_sums_run(const mega_queue *queue, const void *args)
{
    const mega_state_sums_args *a = args;
    double sum[3] = {0.0, 0.0, 0.0};
    for (int64_t i = 0; i < a->count; i++) {
        const double x = fabs(get(a->x, acc_of(a->head.dtype), i));
        sum[0] += x * x;
        sum[1] += x;
        sum[2] += sqrt(x);
        if (x > a->sums[3] || isnan(x)) a->sums[3] = x;
    }
    for (int j = 0; j < 3; j++) a->sums[j] += sum[j];
}

const mega_kernel mega_plain_state_sums = {.name = "state_sums", .run = plain_state_sums_run};
