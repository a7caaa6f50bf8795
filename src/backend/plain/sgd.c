/* SGD with momentum: plain kernel (kernels.h). */
#include "backend_impl.h"

static void plain_sgd_run(const mega_queue *queue, const void *args)
{
    const mega_sgd_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    const double factor = MEGA_UPDATE_FACTOR(a);
    (void)queue;
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    for (int64_t i = 0; i < a->count; i++) {
        double p = get(a->p, acc, i);
        const double g = get(a->g, acc, i) * factor + a->weight_decay * p;
        const double momentum = a->first ? g : a->mu * get(a->momentum, acc, i) + g;
        p -= a->lr * momentum;
        put(a->momentum, acc, i, momentum);
        put(a->p, acc, i, p);
        if (a->weight != NULL) put(a->weight, a->head.dtype, i, p);
    }
}

const mega_kernel mega_plain_sgd = {.name = "sgd", .run = plain_sgd_run};
