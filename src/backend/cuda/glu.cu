/* Gated activations and their gradient; a thread has eight columns of a row (ops_elementwise.h). */
#include "functions.h"

/* Gate and up of an element as they count, and their slopes: 0 where they are cut. */
typedef struct glu_pair {
    float gate, up, gate_slope, up_slope;
} glu_pair;

BODY glu_pair cut_pair(float gate, float up, float limit)
{
    const bool is_high = gate > limit, is_out = up > limit || up < -limit;
    const float cut = up > limit ? limit : up < -limit ? -limit : up;
    glu_pair p = {gate, up, 1.0f, 1.0f};
    if (limit > 0.0f) {
        p.gate = is_high ? limit : gate, p.up = cut + 1.0f;
        p.gate_slope = is_high ? 0.0f : 1.0f, p.up_slope = is_out ? 0.0f : 1.0f;
    }
    return p;
}

BODY void glu_run(const mega_glu_args *a, mega_dtype t)
{
    const int64_t gate = a->gate_second ? a->cols : 0, up = a->cols - gate;
    const float limit = (float)a->limit, alpha = limit > 0.0f ? (float)a->alpha : 1.0f;
    const float inverse = device_divide(1.0f, alpha);
    for (place p = place_first(a->rows, a->cols); place_goes_on(&p); place_next(&p)) {
        const int64_t at = p.at + p.row * a->cols;
        const eight g = load_eight(a->x, t, at + gate, p.left), u = load_eight(a->x, t, at + up, p.left);
        eight y;
        UNROLL
        for (int k = 0; k < 8; k++) {
            const glu_pair c = cut_pair(g.v[k], u.v[k], limit);
            y.v[k] = activation_at(a->kind, alpha * c.gate).value * inverse * c.up;
        }
        store_eight(a->y, t, p.at, p.left, y);
    }
}
KERNELS_BY_TYPE(glu, mega_glu_args, EIGHT_THREADS)

BODY void glu_grad_run(const mega_glu_grad_args *a, mega_dtype t)
{
    const int64_t gate = a->gate_second ? a->cols : 0, up = a->cols - gate;
    const float limit = (float)a->limit, alpha = limit > 0.0f ? (float)a->alpha : 1.0f;
    const float inverse = device_divide(1.0f, alpha);
    for (place p = place_first(a->rows, a->cols); place_goes_on(&p); place_next(&p)) {
        const int64_t at = p.at + p.row * a->cols;
        const eight dy = load_eight(a->dy, t, p.at, p.left);
        const eight g = load_eight(a->x, t, at + gate, p.left), u = load_eight(a->x, t, at + up, p.left);
        eight dg, du;
        UNROLL
        for (int k = 0; k < 8; k++) {
            const glu_pair c = cut_pair(g.v[k], u.v[k], limit);
            const value_slope act = activation_at(a->kind, alpha * c.gate);
            dg.v[k] = dy.v[k] * c.up * act.slope * c.gate_slope;
            du.v[k] = dy.v[k] * act.value * inverse * c.up_slope;
        }
        store_eight(a->dx, t, at + gate, p.left, dg);
        store_eight(a->dx, t, at + up, p.left, du);
    }
}
KERNELS_BY_TYPE(glu_grad, mega_glu_grad_args, EIGHT_THREADS)
