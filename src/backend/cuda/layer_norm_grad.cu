/* Gradient of layer norm and RMS norm (ops_norm.h), in three kernels: sums over chunks of rows for gain and bias, the
 * sums of these, and dx, where a block has a row. dx comes last because it may be the same memory as dy. With
 * n = (x - mean) rstd and w = dy gain: dx = rstd (w - mean(w) - n mean(w n)), means over the row. */
#include "kernel.h"

/* Scratch: the sums of gain [chunks, C], then those of bias. */
BODY void layer_norm_grad_columns_run(const mega_layer_norm_grad_args *a, mega_dtype t)
{
    SHARED(column_shared, s);
    const column_part p = column_place(a->rows, a->cols);
    float *const sums = (float *)a->head.scratch;
    eight dgain, dbias;
    UNROLL
    for (int k = 0; k < 8; k++) dgain.v[k] = dbias.v[k] = 0.0f;
    for (int64_t r = p.begin; r < p.end; r += COLUMN_LANES) {
        const eight dy = load_eight(a->dy, t, r * a->cols + p.col, p.left);
        const eight x = load_eight(a->x, t, r * a->cols + p.col, p.left);
        const float mean = a->rms ? 0.0f : ((const float *)a->mean)[r], rstd = ((const float *)a->rstd)[r];
        UNROLL
        for (int k = 0; k < 8; k++) {
            dgain.v[k] += dy.v[k] * ((x.v[k] - mean) * rstd);
            dbias.v[k] += dy.v[k];
        }
    }
    if (a->dgain != NULL) column_fold(&dgain, s, sums, a->cols);
    if (a->dbias != NULL) column_fold(&dbias, s, sums + COLUMN_CHUNKS(a->rows) * a->cols, a->cols);
}
KERNELS_BY_TYPE(layer_norm_grad_columns, mega_layer_norm_grad_args, COLUMN_THREADS)

KERNEL(layer_norm_grad_total, mega_layer_norm_grad_args, COLUMN_THREADS)
{
    const float *const sums = (const float *)a.head.scratch;
    if (a.dgain != NULL) column_total((float *)a.dgain, sums, a.rows, a.cols);
    if (a.dbias != NULL) column_total((float *)a.dbias, sums + COLUMN_CHUNKS(a.rows) * a.cols, a.rows, a.cols);
}

typedef struct grad_parts {
    float w[8], n[8];
} grad_parts;

BODY grad_parts layer_norm_grad_load(const mega_layer_norm_grad_args *a, mega_dtype t, int64_t row, int64_t c,
                                     float mean, float rstd)
{
    const int64_t at = row * a->cols + c, left = a->cols - c;
    const eight dy = load_eight(a->dy, t, at, left), x = load_eight(a->x, t, at, left);
    eight gain;
    if (a->gain != NULL) gain = load_eight(a->gain, t, c, left);
    grad_parts p;
    UNROLL
    for (int k = 0; k < 8; k++) {
        p.w[k] = a->gain != NULL ? dy.v[k] * (gain.v[k] + (a->plus_one ? 1.0f : 0.0f)) : dy.v[k];
        p.n[k] = (x.v[k] - mean) * rstd;
    }
    return p;
}

BODY void layer_norm_grad_run(const mega_layer_norm_grad_args *a, mega_dtype t)
{
    SHARED(row_shared, s);
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) {
        const float mean = a->rms ? 0.0f : ((const float *)a->mean)[row], rstd = ((const float *)a->rstd)[row];
        float sum = 0.0f, sum_n = 0.0f;
        for (int64_t c = (int64_t)thread_x() * 8; c < a->cols; c += ROW_THREADS * 8) {
            const grad_parts p = layer_norm_grad_load(a, t, row, c, mean, rstd);
            UNROLL
            for (int k = 0; k < 8; k++) sum += p.w[k], sum_n += p.w[k] * p.n[k]; /* w is 0 past the end */
        }
        sum = a->rms ? 0.0f : device_divide(row_fold(sum, s), (float)a->cols);
        sum_n = device_divide(row_fold(sum_n, s), (float)a->cols);
        for (int64_t c = (int64_t)thread_x() * 8; c < a->cols; c += ROW_THREADS * 8) {
            const grad_parts p = layer_norm_grad_load(a, t, row, c, mean, rstd);
            const int64_t at = row * a->cols + c, left = a->cols - c;
            eight dx, addend;
            if (a->addend != NULL) addend = load_eight(a->addend, t, at, left);
            UNROLL
            for (int k = 0; k < 8; k++) {
                dx.v[k] = rstd * (p.w[k] - sum - p.n[k] * sum_n);
                if (a->addend != NULL) dx.v[k] += addend.v[k];
            }
            store_eight(a->dx, t, at, left, dx);
        }
    }
}
KERNELS_BY_TYPE(layer_norm_grad, mega_layer_norm_grad_args, ROW_THREADS)
