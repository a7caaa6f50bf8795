/* Sums of the squares of rows, by a block a row, and their gradient (ops_wide_norm.h). */
#include "kernel.h"

BODY void square_sum_run(const mega_square_sum_args *a, mega_dtype t)
{
    SHARED(row_shared, s);
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) {
        float sum = 0.0f;
        for (int64_t c = (int64_t)thread_x() * 8; c < a->cols; c += ROW_THREADS * 8) {
            const eight x = load_eight(a->x, t, row * a->cols + c, a->cols - c);
            UNROLL
            for (int k = 0; k < 8; k++) sum += x.v[k] * x.v[k];
        }
        sum = row_fold(sum, s);
        if (thread_x() == 0) ((float *)a->sum)[row] = sum;
    }
}
KERNELS_BY_TYPE(square_sum, mega_square_sum_args, ROW_THREADS)

BODY void square_sum_grad_run(const mega_square_sum_grad_args *a, mega_dtype t)
{
    for (place p = tile_first(a->rows, a->cols); place_goes_on(&p); tile_next(&p, a->rows)) {
        if (p.left <= 0) continue;
        const float twice = 2.0f * ((const float *)a->dsum)[p.row];
        eight x = load_eight(a->x, t, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) x.v[k] *= twice;
        store_eight(a->dx, t, p.at, p.left, x);
    }
}
KERNELS_BY_TYPE(square_sum_grad, mega_square_sum_grad_args, COLUMN_THREADS)
