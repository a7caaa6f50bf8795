/* The gradient at which the backward pass starts, for a loss that is a sum divided by a weight: plain kernel
 * (ops_loss.h). */
#include "backend_impl.h"

static void plain_loss_seed_run(const mega_queue *queue, const void *args)
{
    const mega_loss_seed_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    const double weight = a->weight != NULL ? get(a->weight, acc, 0) : 1.0;
    put(a->seed, acc, 0, weight != 0.0 ? a->coefficient * a->head.step->loss_factor / weight : 0.0);
}

const mega_kernel mega_plain_loss_seed = {.name = "loss_seed", .run = plain_loss_seed_run};
