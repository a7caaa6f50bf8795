/* AdamW; a thread has eight elements, and each is read and written once (kernels.h). */
#include "kernel.h"

BODY void adamw_run(const mega_adamw_args *a, mega_dtype t)
{
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    const double *const n = a->number;
    const float correct1 = (float)(1.0 / n[0]), correct2 = (float)(1.0 / n[1]), lr = (float)n[2], eps = (float)a->eps;
    const float beta1 = (float)n[4], beta2 = (float)n[5], rest1 = (float)(1.0 - n[4]), rest2 = (float)(1.0 - n[5]);
    const float l2 = a->l2 ? (float)n[3] : 0.0f, decay = a->l2 ? 0.0f : (float)n[3];
    for (place p = place_first(1, a->count); place_goes_on(&p); place_next(&p)) {
        const eight g = load_eight(a->g, MEGA_F32, p.at, p.left);
        eight x = load_eight(a->p, MEGA_F32, p.at, p.left), m = load_eight(a->m, MEGA_F32, p.at, p.left);
        eight v = load_eight(a->v, MEGA_F32, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) {
            const float slope = g.v[k] * (float)MEGA_UPDATE_FACTOR(a) + l2 * x.v[k];
            m.v[k] = beta1 * m.v[k] + rest1 * slope;
            v.v[k] = beta2 * v.v[k] + rest2 * slope * slope;
            const float step = device_divide(m.v[k] * correct1, device_sqrt(v.v[k] * correct2) + eps);
            x.v[k] -= lr * (step + decay * x.v[k]);
        }
        store_eight(a->m, MEGA_F32, p.at, p.left, m);
        store_eight(a->v, MEGA_F32, p.at, p.left, v);
        store_eight(a->p, MEGA_F32, p.at, p.left, x);
        if (a->weight != NULL) store_eight(a->weight, t, p.at, p.left, x);
    }
}
KERNELS_BY_TYPE(adamw, mega_adamw_args, EIGHT_THREADS)
