/* SGD with momentum: plain kernel (kernels.h). */
#include "backend_impl.h"

static void plain_sgd_run(const mega_queue *queue, const void *args)
{
    const mega_sgd_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    const double *n = a->number, factor = MEGA_UPDATE_FACTOR(a);
    (void)queue;
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    const bool is_first = n[0] != 0;
    const double lr = n[1], decay = n[2];
    for (int64_t i = 0; i < a->count; i++) {
        double p = get(a->p, acc, i);
        const double g = get(a->g, acc, i) * factor + decay * p;
        const double momentum = is_first ? g : a->mu * get(a->momentum, acc, i) + g;
        p -= lr * momentum;
        put(a->momentum, acc, i, momentum);
        put(a->p, acc, i, p);
        if (a->weight != NULL) put(a->weight, a->head.dtype, i, p);
    }
}

const mega_kernel mega_plain_sgd = {.name = "sgd", .run = plain_sgd_run};
