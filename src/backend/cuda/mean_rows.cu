/* Means of groups of rows, and their gradient; a thread has eight columns (ops_rows.h). */
#include "kernel.h"

BODY void mean_rows_run(const mega_mean_rows_args *a, mega_dtype t)
{
    for (place p = tile_first(a->rows, a->cols); place_goes_on(&p); tile_next(&p, a->rows)) {
        if (p.left <= 0) continue;
        eight sum;
        UNROLL
        for (int k = 0; k < 8; k++) sum.v[k] = 0.0f;
        for (int64_t i = 0; i < a->group; i++) {
            const eight x = load_eight(a->x, t, (p.row * a->group + i) * a->cols + p.col, p.left);
            UNROLL
            for (int k = 0; k < 8; k++) sum.v[k] += x.v[k];
        }
        UNROLL
        for (int k = 0; k < 8; k++) sum.v[k] = device_divide(sum.v[k], (float)a->group);
        store_eight(a->y, t, p.at, p.left, sum);
    }
}
KERNELS_BY_TYPE(mean_rows, mega_mean_rows_args, COLUMN_THREADS)

BODY void mean_rows_grad_run(const mega_mean_rows_grad_args *a, mega_dtype t)
{
    const int64_t rows = a->rows * a->group;
    for (place p = tile_first(rows, a->cols); place_goes_on(&p); tile_next(&p, rows)) {
        if (p.left <= 0) continue;
        eight dy = load_eight(a->dy, t, p.row / a->group * a->cols + p.col, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) dy.v[k] = device_divide(dy.v[k], (float)a->group);
        store_eight(a->dx, t, p.at, p.left, dy);
    }
}
KERNELS_BY_TYPE(mean_rows_grad, mega_mean_rows_grad_args, COLUMN_THREADS)
