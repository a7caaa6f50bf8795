/* Sums of the channels of each row, by a block a row, and their gradient (ops_rows.h). The type is that of x. */
#include "kernel.h"

BODY void row_sum_run(const mega_row_sum_args *a, mega_dtype t)
{
    SHARED(row_shared, s);
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) {
        float sum = 0.0f;
        for (int64_t c = (int64_t)thread_x() * 8; c < a->cols; c += ROW_THREADS * 8) {
            const eight x = load_eight(a->x, t, row * a->cols + c, a->cols - c);
            UNROLL
            for (int k = 0; k < 8; k++) sum += x.v[k];
        }
        sum = row_fold(sum, s);
        if (thread_x() == 0) ((float *)a->sum)[row] = sum;
    }
}
KERNELS_BY_TYPE(row_sum, mega_row_sum_args, ROW_THREADS)

BODY void row_sum_grad_run(const mega_row_sum_grad_args *a, mega_dtype t)
{
    for (place p = tile_first(a->rows, a->cols); place_goes_on(&p); tile_next(&p, a->rows)) {
        if (p.left <= 0) continue;
        const float dsum = ((const float *)a->dsum)[p.row];
        eight dx;
        UNROLL
        for (int k = 0; k < 8; k++) dx.v[k] = dsum;
        store_eight(a->dx, t, p.at, p.left, dx);
    }
}
KERNELS_BY_TYPE(row_sum_grad, mega_row_sum_grad_args, COLUMN_THREADS)
