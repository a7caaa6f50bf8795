/* Gradient of dropout(x + bias): plain kernel (ops_elementwise.h). */
#include "backend_impl.h"

static void plain_dropout_grad_run(const mega_queue *queue, const void *args)
{
    const mega_dropout_grad_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t c = 0; c < a->cols; c++) {
        double dbias = 0.0;
        for (int64_t r = 0; r < a->rows; r++) {
            double dx = get(a->dy, t, r * a->cols + c);
            if (a->dropout > 0.0) {
                const uint64_t element = (uint64_t)(a->seq_position[r] * a->cols + c);
                dx *= dropout_factor(a->head.step, a->site, a->sample_id[r], element >> 3, (int)(element & 7),
                                     a->dropout);
            }
            put(a->dx, t, r * a->cols + c, dx);
            dbias += dx;
        }
        if (a->dbias != NULL) put_add(a->dbias, acc_of(t), c, dbias);
    }
}

const mega_kernel mega_plain_dropout_grad = {.name = "dropout_grad", .run = plain_dropout_grad_run};
