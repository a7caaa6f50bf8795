/* Scaling of rows by the root of the mean of squares, and its gradient (ops_wide_norm.h), in three kernels: sums over
 * chunks of rows for gain, the sums of these, and dx with dsum, where a block has a row. dx comes last because it may
 * be the same memory as dy. */
#include "kernel.h"

/* 1 / sqrt(sum / total + eps) of a row */
BODY float rms_factor(const void *sum, int64_t row, int64_t total, double eps)
{
    const float mean = device_divide(((const float *)sum)[row], (float)total);
    return device_divide(1.0f, device_sqrt(mean + (float)eps));
}

/* The factors of eight columns. */
BODY eight rms_gain(const void *gain, mega_dtype t, int64_t col, int64_t left, bool plus_one)
{
    eight g;
    if (gain != NULL) g = load_eight(gain, t, col, left);
    UNROLL
    for (int k = 0; k < 8; k++) g.v[k] = gain != NULL ? g.v[k] + (plus_one ? 1.0f : 0.0f) : 1.0f;
    return g;
}

BODY void rms_scale_run(const mega_rms_scale_args *a, mega_dtype t)
{
    for (place p = tile_first(a->rows, a->cols); place_goes_on(&p); tile_next(&p, a->rows)) {
        if (p.left <= 0) continue;
        const float r = rms_factor(a->sum, p.row, a->total, a->eps);
        const eight gain = rms_gain(a->gain, t, p.col, p.left, a->plus_one);
        eight x = load_eight(a->x, t, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) x.v[k] = x.v[k] * r * gain.v[k];
        store_eight(a->y, t, p.at, p.left, x);
    }
}
KERNELS_BY_TYPE(rms_scale, mega_rms_scale_args, COLUMN_THREADS)

BODY void rms_scale_grad_columns_run(const mega_rms_scale_grad_args *a, mega_dtype t)
{
    SHARED(column_shared, s);
    const column_part p = column_place(a->rows, a->cols);
    eight dgain;
    UNROLL
    for (int k = 0; k < 8; k++) dgain.v[k] = 0.0f;
    for (int64_t row = p.begin; row < p.end; row += COLUMN_LANES) {
        const float r = rms_factor(a->sum, row, a->total, a->eps);
        const eight dy = load_eight(a->dy, t, row * a->cols + p.col, p.left);
        const eight x = load_eight(a->x, t, row * a->cols + p.col, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) dgain.v[k] += dy.v[k] * x.v[k] * r;
    }
    column_fold(&dgain, s, (float *)a->head.scratch, a->cols);
}
KERNELS_BY_TYPE(rms_scale_grad_columns, mega_rms_scale_grad_args, COLUMN_THREADS)

KERNEL(rms_scale_grad_total, mega_rms_scale_grad_args, COLUMN_THREADS)
{
    column_total((float *)a.dgain, (const float *)a.head.scratch, a.rows, a.cols);
}

BODY void rms_scale_grad_run(const mega_rms_scale_grad_args *a, mega_dtype t)
{
    SHARED(row_shared, s);
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) {
        const float r = rms_factor(a->sum, row, a->total, a->eps);
        float dot = 0.0f;
        for (int64_t c = (int64_t)thread_x() * 8; c < a->cols; c += ROW_THREADS * 8) {
            const int64_t at = row * a->cols + c, left = a->cols - c;
            const eight gain = rms_gain(a->gain, t, c, left, a->plus_one), x = load_eight(a->x, t, at, left);
            eight dy = load_eight(a->dy, t, at, left);
            UNROLL
            for (int k = 0; k < 8; k++) {
                dy.v[k] *= gain.v[k];
                dot += dy.v[k] * x.v[k];
                dy.v[k] *= r;
            }
            store_eight(a->dx, t, at, left, dy);
        }
        dot = row_fold(dot, s);
        if (thread_x() == 0) ((float *)a->dsum)[row] = device_divide(-0.5f * r * r * r, (float)a->total) * dot;
    }
}
KERNELS_BY_TYPE(rms_scale_grad, mega_rms_scale_grad_args, ROW_THREADS)
