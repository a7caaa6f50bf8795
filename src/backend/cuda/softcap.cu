/* Soft-capped logits and their gradient; a thread has eight elements (ops_elementwise.h). */
#include "kernel.h"

KERNEL(softcap, mega_softcap_args, EIGHT_THREADS)
{
    const float cap = (float)a.cap;
    for (place p = place_first(1, a.count); place_goes_on(&p); place_next(&p)) {
        eight x = load_eight(a.x, MEGA_F32, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) x.v[k] = cap * device_tanh(device_divide(x.v[k], cap));
        store_eight(a.y, MEGA_F32, p.at, p.left, x);
    }
}

BODY void softcap_grad_run(const mega_softcap_grad_args *a, mega_dtype t)
{
    const float cap = (float)a->cap;
    for (place p = place_first(1, a->count); place_goes_on(&p); place_next(&p)) {
        const eight y = load_eight(a->y, MEGA_F32, p.at, p.left);
        eight dx = load_eight(a->dy, t, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) {
            const float share = device_divide(y.v[k], cap);
            dx.v[k] *= 1.0f - share * share;
        }
        store_eight(a->dx, t, p.at, p.left, dx);
    }
}
KERNELS_BY_TYPE(softcap_grad, mega_softcap_grad_args, EIGHT_THREADS)
