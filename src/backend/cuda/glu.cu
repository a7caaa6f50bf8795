/* Gated activations and their gradient; a thread has eight columns of a row (ops_elementwise.h). */
#include "functions.h"

/* How gate and up are cut. Without a limit nothing changes: no number is above infinity, and -0 adds nothing. */
typedef struct glu_cut {
    float limit, offset, alpha, inverse;
} glu_cut;

BODY glu_cut cut_of(double limit, double alpha)
{
    glu_cut c = {-minus_infinity(), -0.0f, 1.0f, 1.0f};
    if (limit > 0.0)
        c.limit = (float)limit, c.offset = 1.0f, c.alpha = (float)alpha, c.inverse = device_divide(1.0f, c.alpha);
    return c;
}

BODY float cut_gate(const glu_cut *c, float gate)
{
    return c->alpha * (gate > c->limit ? c->limit : gate);
}

BODY float cut_up(const glu_cut *c, float up)
{
    return (up > c->limit ? c->limit : up < -c->limit ? -c->limit : up) + c->offset;
}

BODY void glu_run(const mega_glu_args *a, mega_dtype t)
{
    const int64_t gate = a->gate_second ? a->cols : 0, up = a->cols - gate;
    const glu_cut c = cut_of(a->limit, a->alpha);
    for (place p = place_first(a->rows, a->cols); place_goes_on(&p); place_next(&p)) {
        const int64_t at = p.at + p.row * a->cols;
        const eight g = load_eight(a->x, t, at + gate, p.left), u = load_eight(a->x, t, at + up, p.left);
        eight y;
        UNROLL
        for (int k = 0; k < 8; k++)
            y.v[k] = activation_at(a->kind, cut_gate(&c, g.v[k])).value * c.inverse * cut_up(&c, u.v[k]);
        store_eight(a->y, t, p.at, p.left, y);
    }
}
KERNELS_BY_TYPE(glu, mega_glu_args, EIGHT_THREADS)

/* The gradients take the place of gate and up, so that registers suffice. */
BODY void glu_grad_run(const mega_glu_grad_args *a, mega_dtype t)
{
    const int64_t gate = a->gate_second ? a->cols : 0, up = a->cols - gate;
    const glu_cut c = cut_of(a->limit, a->alpha);
    for (place p = place_first(a->rows, a->cols); place_goes_on(&p); place_next(&p)) {
        const int64_t at = p.at + p.row * a->cols;
        const eight dy = load_eight(a->dy, t, p.at, p.left);
        eight g = load_eight(a->x, t, at + gate, p.left), u = load_eight(a->x, t, at + up, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) {
            const value_slope act = activation_at(a->kind, cut_gate(&c, g.v[k]));
            const bool is_out = u.v[k] > c.limit || u.v[k] < -c.limit;
            g.v[k] = g.v[k] > c.limit ? 0.0f : dy.v[k] * cut_up(&c, u.v[k]) * act.slope;
            u.v[k] = is_out ? 0.0f : dy.v[k] * act.value * c.inverse;
        }
        store_eight(a->dx, t, at + gate, p.left, g);
        store_eight(a->dx, t, at + up, p.left, u);
    }
}
KERNELS_BY_TYPE(glu_grad, mega_glu_grad_args, EIGHT_THREADS)
