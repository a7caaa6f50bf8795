/* Gated activations and their gradient: plain kernel (ops_elementwise.h). */
#include "plain/activation_value.h"

static void plain_glu_run(const mega_queue *queue, const void *args)
{
    const mega_glu_args *a = args;
    const mega_dtype t = a->head.dtype;
    const int64_t F = a->cols, gate = a->gate_second ? F : 0, up = F - gate;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < F; c++) {
            const int64_t at = r * 2 * F + c;
            put(a->y, t, r * F + c, activation_of(a->kind, get(a->x, t, at + gate)) * get(a->x, t, at + up));
        }
}

static void plain_glu_grad_run(const mega_queue *queue, const void *args)
{
    const mega_glu_grad_args *a = args;
    const mega_dtype t = a->head.dtype;
    const int64_t F = a->cols, gate = a->gate_second ? F : 0, up = F - gate;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < F; c++) {
            const int64_t at = r * 2 * F + c;
            const double dy = get(a->dy, t, r * F + c), g = get(a->x, t, at + gate), u = get(a->x, t, at + up);
            put(a->dx, t, at + gate, dy * u * slope_of(a->kind, g));
            put(a->dx, t, at + up, dy * activation_of(a->kind, g));
        }
}

const mega_kernel mega_plain_glu = {.name = "glu", .run = plain_glu_run};
const mega_kernel mega_plain_glu_grad = {.name = "glu_grad", .run = plain_glu_grad_run};
