/* Adds a loss of a micro-batch to the sums of a step: plain kernel (kernels.h). */
#include "backend_impl.h"
#include <math.h>

static void plain_loss_add_run(const mega_queue *queue, const void *args)
{
    const mega_loss_add_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    const double sum = get(a->sum, acc, 0), weight = get(a->weight, acc, 0);
    const bool is_finite = isfinite(sum) && isfinite(weight);
    if (a->per_token) {
        a->sums[0] += a->times * sum;
        a->sums[1] += a->times * weight;
    } else {
        a->sums[0] += a->times * (!is_finite ? sum + weight : weight != 0.0 ? sum / weight : 0.0);
        if (!a->is_more) a->sums[1] += a->times;
    }
}

const mega_kernel mega_plain_loss_add = {.name = "loss_add", .run = plain_loss_add_run};
