/* Layer norm and RMS norm: a block has a row (ops_norm.h). */
#include "kernel.h"

BODY void layer_norm_row(const mega_layer_norm_args *a, mega_dtype t, int64_t row, row_shared *s)
{
    const int64_t at = row * a->cols, step = ROW_THREADS * 8;
    const float cols = (float)a->cols;
    float mean = 0.0f, squares = 0.0f;
    for (int64_t c = (int64_t)thread_x() * 8; c < a->cols && !a->rms; c += step) {
        const eight x = load_eight(a->x, t, at + c, a->cols - c);
        UNROLL
        for (int k = 0; k < 8; k++) mean += x.v[k];
    }
    if (!a->rms) mean = device_divide(row_fold(mean, s), cols);
    for (int64_t c = (int64_t)thread_x() * 8; c < a->cols; c += step) {
        const eight x = load_eight(a->x, t, at + c, a->cols - c);
        UNROLL
        for (int k = 0; k < 8; k++) {
            const float d = c + k < a->cols ? x.v[k] - mean : 0.0f;
            squares += d * d;
        }
    }
    const float variance = device_divide(row_fold(squares, s), cols);
    const float rstd = device_divide(1.0f, device_sqrt(variance + (float)a->eps));
    for (int64_t c = (int64_t)thread_x() * 8; c < a->cols; c += step) {
        const int64_t left = a->cols - c;
        eight x = load_eight(a->x, t, at + c, left), gain, bias;
        if (a->gain != NULL) gain = load_eight(a->gain, t, c, left);
        if (a->bias != NULL) bias = load_eight(a->bias, t, c, left);
        UNROLL
        for (int k = 0; k < 8; k++) {
            x.v[k] = (x.v[k] - mean) * rstd;
            if (a->gain != NULL) x.v[k] *= gain.v[k] + (a->plus_one ? 1.0f : 0.0f);
            if (a->bias != NULL) x.v[k] += bias.v[k];
        }
        store_eight(a->y, t, at + c, left, x);
    }
    if (thread_x() != 0) return;
    if (a->mean != NULL) ((float *)a->mean)[row] = mean;
    ((float *)a->rstd)[row] = rstd;
}

BODY void layer_norm_run(const mega_layer_norm_args *a, mega_dtype t)
{
    SHARED(row_shared, s);
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) layer_norm_row(a, t, row, s);
}
KERNELS_BY_TYPE(layer_norm, mega_layer_norm_args, ROW_THREADS)
