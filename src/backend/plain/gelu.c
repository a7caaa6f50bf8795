/* GELU of x + bias: plain kernel (ops_elementwise.h). */
#include "plain/activation_value.h"

static void plain_gelu_run(const mega_queue *queue, const void *args)
{
    const mega_gelu_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->cols; c++) {
            double u = get(a->x, t, r * a->cols + c);
            if (a->bias != NULL) u += get(a->bias, t, c);
            put(a->y, t, r * a->cols + c, gelu(u, a->tanh_form));
        }
}

const mega_kernel mega_plain_gelu = {.name = "gelu", .run = plain_gelu_run};
