/* AdamW: plain kernel (kernels.h). */
#include "backend_impl.h"
#include <math.h>

static void plain_adamw_run(const mega_queue *queue, const void *args)
{
    const mega_adamw_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    const double *n = a->number, factor = MEGA_UPDATE_FACTOR(a);
    (void)queue;
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    const double correct1 = n[0], correct2 = n[1], lr = n[2], decay = n[3], beta1 = n[4], beta2 = n[5];
    for (int64_t i = 0; i < a->count; i++) {
        double p = get(a->p, acc, i);
        double g = get(a->g, acc, i) * factor;
        if (a->l2) g += decay * p;
        const double m = beta1 * get(a->m, acc, i) + (1.0 - beta1) * g;
        const double v = beta2 * get(a->v, acc, i) + (1.0 - beta2) * g * g;
        p -= lr * ((m / correct1) / (sqrt(v / correct2) + a->eps) + (a->l2 ? 0.0 : decay * p));
        put(a->m, acc, i, m);
        put(a->v, acc, i, v);
        put(a->p, acc, i, p);
        if (a->weight != NULL) put(a->weight, a->head.dtype, i, p);
    }
}

const mega_kernel mega_plain_adamw = {.name = "adamw", .run = plain_adamw_run};
