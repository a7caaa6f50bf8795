/* Gated activations and their gradient: plain kernel (ops_elementwise.h). */
#include "plain/activation_value.h"

/* Gate and up of an element as they count, and their slopes: 0 where they are cut. */
typedef struct glu_pair {
    double gate, up, gate_slope, up_slope;
} glu_pair;

static glu_pair cut_pair(double gate, double up, double limit)
{
    if (!(limit > 0.0)) return (glu_pair){gate, up, 1.0, 1.0};
    const bool is_high = gate > limit, is_out = up > limit || up < -limit;
    const double cut = up > limit ? limit : up < -limit ? -limit : up;
    return (glu_pair){is_high ? limit : gate, cut + 1.0, is_high ? 0.0 : 1.0, is_out ? 0.0 : 1.0};
}

static void plain_glu_run(const mega_queue *queue, const void *args)
{
    const mega_glu_args *a = args;
    const mega_dtype t = a->head.dtype;
    const int64_t F = a->cols, gate = a->gate_second ? F : 0, up = F - gate;
    const double alpha = a->limit > 0.0 ? a->alpha : 1.0;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < F; c++) {
            const int64_t at = r * 2 * F + c;
            const glu_pair p = cut_pair(get(a->x, t, at + gate), get(a->x, t, at + up), a->limit);
            put(a->y, t, r * F + c, activation_of(a->kind, alpha * p.gate) / alpha * p.up);
        }
}

static void plain_glu_grad_run(const mega_queue *queue, const void *args)
{
    const mega_glu_grad_args *a = args;
    const mega_dtype t = a->head.dtype;
    const int64_t F = a->cols, gate = a->gate_second ? F : 0, up = F - gate;
    const double alpha = a->limit > 0.0 ? a->alpha : 1.0;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < F; c++) {
            const int64_t at = r * 2 * F + c;
            const double dy = get(a->dy, t, r * F + c);
            const glu_pair p = cut_pair(get(a->x, t, at + gate), get(a->x, t, at + up), a->limit);
            put(a->dx, t, at + gate, dy * p.up * slope_of(a->kind, alpha * p.gate) * p.gate_slope);
            put(a->dx, t, at + up, dy * activation_of(a->kind, alpha * p.gate) / alpha * p.up_slope);
        }
}

const mega_kernel mega_plain_glu = {.name = "glu", .run = plain_glu_run};
const mega_kernel mega_plain_glu_grad = {.name = "glu_grad", .run = plain_glu_grad_run};
