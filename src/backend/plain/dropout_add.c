/* residual + dropout(x + bias): plain kernel (ops_elementwise.h). */
#include "backend_impl.h"

static void plain_dropout_add_run(const mega_queue *queue, const void *args)
{
    const mega_dropout_add_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->cols; c++) {
            double v = get(a->x, t, r * a->cols + c);
            if (a->bias != NULL) v += get(a->bias, t, c);
            if (a->dropout > 0.0) {
                const uint64_t element = (uint64_t)(a->seq_position[r] * a->cols + c);
                v *= dropout_factor(a->head.step, a->site, a->sample_id[r], element >> 3, (int)(element & 7),
                                    a->dropout);
            }
            if (a->residual != NULL) v += get(a->residual, t, r * a->cols + c);
            put(a->y, t, r * a->cols + c, v);
        }
}

const mega_kernel mega_plain_dropout_add = {.name = "dropout_add", .run = plain_dropout_add_run};
