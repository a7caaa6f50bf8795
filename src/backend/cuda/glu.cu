/* Gated activations and their gradient; a thread has eight columns of a row (ops_elementwise.h). */
#include "functions.h"

BODY void glu_run(const mega_glu_args *a, mega_dtype t)
{
    const int64_t gate = a->gate_second ? a->cols : 0, up = a->cols - gate;
    for (place p = place_first(a->rows, a->cols); place_goes_on(&p); place_next(&p)) {
        const int64_t at = p.at + p.row * a->cols;
        const eight g = load_eight(a->x, t, at + gate, p.left), u = load_eight(a->x, t, at + up, p.left);
        eight y;
        UNROLL
        for (int k = 0; k < 8; k++) y.v[k] = activation_at(a->kind, g.v[k]).value * u.v[k];
        store_eight(a->y, t, p.at, p.left, y);
    }
}
KERNELS_BY_TYPE(glu, mega_glu_args, EIGHT_THREADS)

BODY void glu_grad_run(const mega_glu_grad_args *a, mega_dtype t)
{
    const int64_t gate = a->gate_second ? a->cols : 0, up = a->cols - gate;
    for (place p = place_first(a->rows, a->cols); place_goes_on(&p); place_next(&p)) {
        const int64_t at = p.at + p.row * a->cols;
        const eight dy = load_eight(a->dy, t, p.at, p.left);
        const eight g = load_eight(a->x, t, at + gate, p.left), u = load_eight(a->x, t, at + up, p.left);
        eight dg, du;
        UNROLL
        for (int k = 0; k < 8; k++) {
            const value_slope act = activation_at(a->kind, g.v[k]);
            dg.v[k] = dy.v[k] * u.v[k] * act.slope;
            du.v[k] = dy.v[k] * act.value;
        }
        store_eight(a->dx, t, at + gate, p.left, dg);
        store_eight(a->dx, t, at + up, p.left, du);
    }
}
KERNELS_BY_TYPE(glu_grad, mega_glu_grad_args, EIGHT_THREADS)
