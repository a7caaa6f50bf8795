/* Sums of the channels of each row and their gradient: plain kernel (ops_rows.h). */
#include "backend_impl.h"

static void plain_row_sum_run(const mega_queue *queue, const void *args)
{
    const mega_row_sum_args *a = args;
    for (int64_t r = 0; r < a->rows; r++) {
        double sum = 0.0;
        for (int64_t c = 0; c < a->cols; c++) sum += get(a->x, a->x_dtype, r * a->cols + c);
        put(a->sum, acc_of(a->head.dtype), r, sum);
    }
}

static void plain_row_sum_grad_run(const mega_queue *queue, const void *args)
{
    const mega_row_sum_grad_args *a = args;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->cols; c++)
            put(a->dx, a->x_dtype, r * a->cols + c, get(a->dsum, acc_of(a->head.dtype), r));
}

const mega_kernel mega_plain_row_sum = {.name = "row_sum", .run = plain_row_sum_run};
const mega_kernel mega_plain_row_sum_grad = {.name = "row_sum_grad", .run = plain_row_sum_grad_run};
