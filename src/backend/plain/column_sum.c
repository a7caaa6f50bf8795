/* Sum over rows: plain kernel (ops_linear.h). */
#include "backend_impl.h"

static void plain_column_sum_run(const mega_queue *queue, const void *args)
{
    const mega_column_sum_args *a = args;
    for (int64_t c = 0; c < a->cols; c++) {
        double sum = 0.0;
        for (int64_t r = 0; r < a->rows; r++) sum += get(a->x, a->head.dtype, r * a->cols + c);
        put_add(a->sum, acc_of(a->head.dtype), c, sum);
    }
}

const mega_kernel mega_plain_column_sum = {.name = "column_sum", .run = plain_column_sum_run};
