/* Sums of the squares of rows: plain kernels (ops_wide_norm.h). */
#include "backend_impl.h"

static void plain_square_sum_run(const mega_queue *queue, const void *args)
{
    const mega_square_sum_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t row = 0; row < a->rows; row++) {
        double sum = 0.0;
        for (int64_t i = row * a->cols; i < (row + 1) * a->cols; i++) sum += get(a->x, t, i) * get(a->x, t, i);
        put(a->sum, acc_of(t), row, sum);
    }
}

static void plain_square_sum_grad_run(const mega_queue *queue, const void *args)
{
    const mega_square_sum_grad_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t row = 0; row < a->rows; row++)
        for (int64_t i = row * a->cols; i < (row + 1) * a->cols; i++)
            put(a->dx, t, i, 2.0 * get(a->x, t, i) * get(a->dsum, acc_of(t), row));
}

const mega_kernel mega_plain_square_sum = {.name = "square_sum", .run = plain_square_sum_run};
const mega_kernel mega_plain_square_sum_grad = {.name = "square_sum_grad", .run = plain_square_sum_grad_run};
