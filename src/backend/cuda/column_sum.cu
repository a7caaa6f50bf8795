/* Sum over rows, in chunks of them and then of the chunks (ops_linear.h). */
#include "kernel.h"

BODY void column_sum_run(const mega_column_sum_args *a, mega_dtype t)
{
    SHARED(column_shared, s);
    const column_part p = column_place(a->rows, a->cols);
    eight sum;
    UNROLL
    for (int k = 0; k < 8; k++) sum.v[k] = 0.0f;
    for (int64_t r = p.begin; r < p.end; r += COLUMN_LANES) {
        const eight x = load_eight(a->x, t, r * a->cols + p.col, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) sum.v[k] += x.v[k];
    }
    column_fold(&sum, s, (float *)a->head.scratch, a->cols);
}
KERNELS_BY_TYPE(column_sum, mega_column_sum_args, COLUMN_THREADS)

KERNEL(column_sum_total, mega_column_sum_args, COLUMN_THREADS)
{
    column_total((float *)a.sum, (const float *)a.head.scratch, a.rows, a.cols);
}
