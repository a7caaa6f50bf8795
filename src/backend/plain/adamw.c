/* AdamW: plain kernel (kernels.h). */
#include "backend_impl.h"
#include <math.h>

static void plain_adamw_run(const mega_queue *queue, const void *args)
{
    const mega_adamw_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    const double correct1 = 1.0 - pow(a->beta1, (double)a->k), correct2 = 1.0 - pow(a->beta2, (double)a->k);
    const double factor = MEGA_UPDATE_FACTOR(a);
    (void)queue;
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    for (int64_t i = 0; i < a->count; i++) {
        double p = get(a->p, acc, i);
        double g = get(a->g, acc, i) * factor;
        if (a->l2) g += a->weight_decay * p;
        const double m = a->beta1 * get(a->m, acc, i) + (1.0 - a->beta1) * g;
        const double v = a->beta2 * get(a->v, acc, i) + (1.0 - a->beta2) * g * g;
        p -= a->lr * ((m / correct1) / (sqrt(v / correct2) + a->eps) + (a->l2 ? 0.0 : a->weight_decay * p));
        put(a->m, acc, i, m);
        put(a->v, acc, i, v);
        put(a->p, acc, i, p);
        if (a->weight != NULL) put(a->weight, a->head.dtype, i, p);
    }
}

const mega_kernel mega_plain_adamw = {.name = "adamw", .run = plain_adamw_run};
