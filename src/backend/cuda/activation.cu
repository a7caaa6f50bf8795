/* Activations by kind and their gradients; a thread has eight elements (ops_elementwise.h). */
#include "functions.h"

BODY void activation_run(const mega_activation_args *a, mega_dtype t)
{
    for (place p = place_first(1, a->count); place_goes_on(&p); place_next(&p)) {
        eight x = load_eight(a->x, t, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) x.v[k] = activation_at(a->kind, x.v[k]).value;
        store_eight(a->y, t, p.at, p.left, x);
    }
}
KERNELS_BY_TYPE(activation, mega_activation_args, EIGHT_THREADS)

BODY void activation_grad_run(const mega_activation_grad_args *a, mega_dtype t)
{
    for (place p = place_first(1, a->count); place_goes_on(&p); place_next(&p)) {
        eight x = load_eight(a->x, t, p.at, p.left);
        const eight dy = load_eight(a->dy, t, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) x.v[k] = dy.v[k] * activation_at(a->kind, x.v[k]).slope;
        store_eight(a->dx, t, p.at, p.left, x);
    }
}
KERNELS_BY_TYPE(activation_grad, mega_activation_grad_args, EIGHT_THREADS)
