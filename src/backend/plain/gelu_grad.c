/* Gradient of GELU: plain kernel (ops_elementwise.h). */
#include "plain/activation_value.h"

static void plain_gelu_grad_run(const mega_queue *queue, const void *args)
{
    const mega_gelu_grad_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t c = 0; c < a->cols; c++) {
        double dbias = 0.0;
        for (int64_t r = 0; r < a->rows; r++) {
            double u = get(a->x, t, r * a->cols + c);
            if (a->bias != NULL) u += get(a->bias, t, c);
            const double dx = get(a->dy, t, r * a->cols + c) * gelu_slope(u, a->tanh_form);
            put(a->dx, t, r * a->cols + c, dx);
            dbias += dx;
        }
        if (a->dbias != NULL) put_add(a->dbias, acc_of(t), c, dbias);
    }
}

const mega_kernel mega_plain_gelu_grad = {.name = "gelu_grad", .run = plain_gelu_grad_run};
