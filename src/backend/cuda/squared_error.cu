/* Squared error of rows, by a block a row, and its gradient (ops_loss.h). */
#include "kernel.h"

BODY void squared_error_run(const mega_squared_error_args *a, mega_dtype t)
{
    SHARED(row_shared, s);
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) {
        float sum = 0.0f;
        for (int64_t c = (int64_t)thread_x() * 8; c < a->cols; c += ROW_THREADS * 8) {
            const eight x = load_eight(a->x, t, row * a->cols + c, a->cols - c);
            const eight target = load_eight(a->target, t, row * a->cols + c, a->cols - c);
            UNROLL
            for (int k = 0; k < 8; k++) sum += (x.v[k] - target.v[k]) * (x.v[k] - target.v[k]);
        }
        sum = row_fold(sum, s);
        if (thread_x() == 0) ((float *)a->loss)[row] = sum;
    }
}
KERNELS_BY_TYPE(squared_error, mega_squared_error_args, ROW_THREADS)

BODY void squared_error_grad_run(const mega_squared_error_grad_args *a, mega_dtype t)
{
    for (place p = tile_first(a->rows, a->cols); place_goes_on(&p); tile_next(&p, a->rows)) {
        if (p.left <= 0) continue;
        const float twice = 2.0f * ((const float *)a->dloss)[p.row];
        eight x = load_eight(a->x, t, p.at, p.left);
        const eight target = load_eight(a->target, t, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) x.v[k] = (x.v[k] - target.v[k]) * twice;
        store_eight(a->dx, t, p.at, p.left, x);
    }
}
KERNELS_BY_TYPE(squared_error_grad, mega_squared_error_grad_args, COLUMN_THREADS)
