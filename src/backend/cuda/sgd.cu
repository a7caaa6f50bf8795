/* SGD with momentum; a thread has eight elements (kernels.h). */
#include "kernel.h"

BODY void sgd_run(const mega_sgd_args *a, mega_dtype t)
{
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    const double *const n = a->number;
    const bool is_first = n[0] != 0.0;
    const float lr = (float)n[1], decay = (float)n[2], mu = (float)a->mu, factor = (float)MEGA_UPDATE_FACTOR(a);
    for (place p = place_first(1, a->count); place_goes_on(&p); place_next(&p)) {
        const eight g = load_eight(a->g, MEGA_F32, p.at, p.left);
        eight x = load_eight(a->p, MEGA_F32, p.at, p.left), m;
        if (!is_first) m = load_eight(a->momentum, MEGA_F32, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) {
            const float slope = g.v[k] * factor + decay * x.v[k];
            m.v[k] = is_first ? slope : mu * m.v[k] + slope;
            x.v[k] -= lr * m.v[k];
        }
        store_eight(a->momentum, MEGA_F32, p.at, p.left, m);
        store_eight(a->p, MEGA_F32, p.at, p.left, x);
        if (a->weight != NULL) store_eight(a->weight, t, p.at, p.left, x);
    }
}
KERNELS_BY_TYPE(sgd, mega_sgd_args, EIGHT_THREADS)
