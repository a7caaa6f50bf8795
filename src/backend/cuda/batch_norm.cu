/* Batch norm over groups of rows, its gradient, batch norm with given statistics, and the update of running statistics
 * (ops_norm.h). Sums over the rows of a group are those of chunks, which a thread a column then adds up in their order;
 * a chunk's squares are those of the distances from its own mean, so that a large mean costs no digits. */
#include "kernel.h"

/* Scratch of the forward call: sums of the chunks and squares of the chunks [groups, chunks, C], then gain /
 * sqrt(var + eps) [groups, C]. Of the gradient: sums of dy and of dy n with n = (x - mean) rstd, then their means and
 * rstd [groups, C]. */
BODY float *chunk_sums(void *scratch, int which, int64_t groups, int64_t rows, int64_t cols)
{
    return (float *)scratch + which * groups * COLUMN_CHUNKS(rows) * cols;
}

BODY void batch_norm_chunks_run(const mega_batch_norm_args *a, mega_dtype t)
{
    SHARED(column_shared, s);
    const column_part p = column_place(a->rows, a->cols);
    const int64_t chunks = COLUMN_CHUNKS(a->rows), first = (int64_t)block_y() * COLUMN_ROWS(a->rows);
    const float rows = (float)(p.end - first);
    for (int64_t g = block_z(); g < a->groups; g += blocks_z()) {
        float *const sums = chunk_sums(a->head.scratch, 0, a->groups, a->rows, a->cols) + g * chunks * a->cols;
        float *const squares = chunk_sums(a->head.scratch, 1, a->groups, a->rows, a->cols) + g * chunks * a->cols;
        eight sum, square;
        UNROLL
        for (int k = 0; k < 8; k++) sum.v[k] = square.v[k] = 0.0f;
        for (int64_t r = p.begin; r < p.end; r += COLUMN_LANES) {
            const eight x = load_eight(a->x, t, (g * a->rows + r) * a->cols + p.col, p.left);
            UNROLL
            for (int k = 0; k < 8; k++) sum.v[k] += x.v[k];
        }
        column_fold(&sum, s, sums, a->cols);
        block_barrier(); /* the sums are there, written by other threads of this block */
        sum = load_eight(sums, MEGA_F32, block_y() * a->cols + p.col, p.left);
        for (int64_t r = p.begin; r < p.end; r += COLUMN_LANES) {
            const eight x = load_eight(a->x, t, (g * a->rows + r) * a->cols + p.col, p.left);
            UNROLL
            for (int k = 0; k < 8; k++) {
                const float d = x.v[k] - device_divide(sum.v[k], rows);
                square.v[k] += d * d;
            }
        }
        column_fold(&square, s, squares, a->cols);
    }
}
KERNELS_BY_TYPE(batch_norm_chunks, mega_batch_norm_args, COLUMN_THREADS)

/* Mean and variance of chunks together (Chan, Golub, LeVeque 1979). */
BODY void batch_norm_total_run(const mega_batch_norm_args *a, mega_dtype t)
{
    const int64_t c = (int64_t)block_x() * COLUMN_THREADS + thread_x(), chunks = COLUMN_CHUNKS(a->rows);
    const float *const sums = chunk_sums(a->head.scratch, 0, a->groups, a->rows, a->cols);
    const float *const squares = chunk_sums(a->head.scratch, 1, a->groups, a->rows, a->cols);
    float *const factor = chunk_sums(a->head.scratch, 2, a->groups, a->rows, a->cols);
    if (c >= a->cols) return;
    for (int64_t g = block_y(); g < a->groups; g += blocks_y()) {
        double mean = 0.0, square = 0.0;
        for (int64_t n = 0, before = 0; n < chunks; n++) {
            const int64_t rest = a->rows - before, rows = rest < COLUMN_ROWS(a->rows) ? rest : COLUMN_ROWS(a->rows);
            const double share = (double)rows / (double)(before + rows);
            const double step = (double)sums[(g * chunks + n) * a->cols + c] / (double)rows - mean;
            mean += step * share;
            square += (double)squares[(g * chunks + n) * a->cols + c] + step * step * share * (double)before;
            before += rows;
        }
        const float var = (float)(square / (double)a->rows);
        ((float *)a->mean)[g * a->cols + c] = (float)mean;
        ((float *)a->var)[g * a->cols + c] = var;
        factor[g * a->cols + c] = device_divide(get(a->gain, t, c), device_sqrt(var + (float)a->eps));
    }
}
KERNELS_BY_TYPE(batch_norm_total, mega_batch_norm_args, COLUMN_THREADS)

BODY void batch_norm_run(const mega_batch_norm_args *a, mega_dtype t)
{
    const int64_t rows = a->groups * a->rows;
    const float *const factors = chunk_sums(a->head.scratch, 2, a->groups, a->rows, a->cols);
    for (place p = tile_first(rows, a->cols); place_goes_on(&p); tile_next(&p, rows)) {
        if (p.left <= 0) continue;
        const int64_t at = p.row / a->rows * a->cols + p.col;
        const eight mean = load_eight(a->mean, MEGA_F32, at, p.left);
        const eight factor = load_eight(factors, MEGA_F32, at, p.left), bias = load_eight(a->bias, t, p.col, p.left);
        eight x = load_eight(a->x, t, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) x.v[k] = (x.v[k] - mean.v[k]) * factor.v[k] + bias.v[k];
        store_eight(a->y, t, p.at, p.left, x);
    }
}
KERNELS_BY_TYPE(batch_norm, mega_batch_norm_args, COLUMN_THREADS)

BODY void batch_norm_grad_chunks_run(const mega_batch_norm_grad_args *a, mega_dtype t)
{
    SHARED(column_shared, s);
    const column_part p = column_place(a->rows, a->cols);
    const int64_t size = COLUMN_CHUNKS(a->rows) * a->cols;
    for (int64_t g = block_z(); g < a->groups; g += blocks_z()) {
        const eight mean = load_eight(a->mean, MEGA_F32, g * a->cols + p.col, p.left);
        eight rstd = load_eight(a->var, MEGA_F32, g * a->cols + p.col, p.left), sum, sum_n;
        UNROLL
        for (int k = 0; k < 8; k++) {
            rstd.v[k] = device_divide(1.0f, device_sqrt(rstd.v[k] + (float)a->eps));
            sum.v[k] = sum_n.v[k] = 0.0f;
        }
        for (int64_t r = p.begin; r < p.end; r += COLUMN_LANES) {
            const int64_t at = (g * a->rows + r) * a->cols + p.col;
            const eight dy = load_eight(a->dy, t, at, p.left), x = load_eight(a->x, t, at, p.left);
            UNROLL
            for (int k = 0; k < 8; k++) {
                sum.v[k] += dy.v[k];
                sum_n.v[k] += dy.v[k] * ((x.v[k] - mean.v[k]) * rstd.v[k]);
            }
        }
        column_fold(&sum, s, chunk_sums(a->head.scratch, 0, a->groups, a->rows, a->cols) + g * size, a->cols);
        column_fold(&sum_n, s, chunk_sums(a->head.scratch, 1, a->groups, a->rows, a->cols) + g * size, a->cols);
    }
}
KERNELS_BY_TYPE(batch_norm_grad_chunks, mega_batch_norm_grad_args, COLUMN_THREADS)

KERNEL(batch_norm_grad_total, mega_batch_norm_grad_args, COLUMN_THREADS)
{
    const int64_t c = (int64_t)block_x() * COLUMN_THREADS + thread_x(), chunks = COLUMN_CHUNKS(a.rows);
    const float *const sums = chunk_sums(a.head.scratch, 0, a.groups, a.rows, a.cols);
    const float *const sums_n = chunk_sums(a.head.scratch, 1, a.groups, a.rows, a.cols);
    float *const means = chunk_sums(a.head.scratch, 2, a.groups, a.rows, a.cols);
    float dgain = 0.0f, dbias = 0.0f;
    if (c >= a.cols) return;
    for (int64_t g = 0; g < a.groups; g++) {
        float sum = 0.0f, sum_n = 0.0f;
        for (int64_t n = g * chunks; n < (g + 1) * chunks; n++) {
            sum += sums[n * a.cols + c];
            sum_n += sums_n[n * a.cols + c];
        }
        means[g * a.cols + c] = device_divide(sum, (float)a.rows);
        means[(a.groups + g) * a.cols + c] = device_divide(sum_n, (float)a.rows);
        means[(2 * a.groups + g) * a.cols + c] =
            device_divide(1.0f, device_sqrt(((const float *)a.var)[g * a.cols + c] + (float)a.eps));
        dbias += sum;
        dgain += sum_n;
    }
    ((float *)a.dgain)[c] += dgain;
    ((float *)a.dbias)[c] += dbias;
}

BODY void batch_norm_grad_run(const mega_batch_norm_grad_args *a, mega_dtype t)
{
    const int64_t rows = a->groups * a->rows, size = a->groups * a->cols;
    const float *const means = chunk_sums(a->head.scratch, 2, a->groups, a->rows, a->cols);
    for (place p = tile_first(rows, a->cols); place_goes_on(&p); tile_next(&p, rows)) {
        if (p.left <= 0) continue;
        const int64_t at = p.row / a->rows * a->cols + p.col;
        const eight mean = load_eight(a->mean, MEGA_F32, at, p.left), gain = load_eight(a->gain, t, p.col, p.left);
        const eight of_dy = load_eight(means, MEGA_F32, at, p.left);
        const eight of_dy_n = load_eight(means, MEGA_F32, size + at, p.left);
        const eight rstd = load_eight(means, MEGA_F32, 2 * size + at, p.left);
        const eight x = load_eight(a->x, t, p.at, p.left);
        eight dy = load_eight(a->dy, t, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) {
            const float n = (x.v[k] - mean.v[k]) * rstd.v[k];
            dy.v[k] = gain.v[k] * rstd.v[k] * (dy.v[k] - of_dy.v[k] - n * of_dy_n.v[k]);
        }
        store_eight(a->dx, t, p.at, p.left, dy);
    }
}
KERNELS_BY_TYPE(batch_norm_grad, mega_batch_norm_grad_args, COLUMN_THREADS)

BODY void batch_norm_fixed_run(const mega_batch_norm_fixed_args *a, mega_dtype t)
{
    const mega_dtype stats = a->stats == MEGA_F32 ? MEGA_F32 : t;
    for (place p = tile_first(a->rows, a->cols); place_goes_on(&p); tile_next(&p, a->rows)) {
        if (p.left <= 0) continue;
        const eight gain = load_eight(a->gain, t, p.col, p.left), bias = load_eight(a->bias, t, p.col, p.left);
        const eight mean = load_eight(a->mean, stats, p.col, p.left), var = load_eight(a->var, stats, p.col, p.left);
        eight x = load_eight(a->x, t, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) {
            const float normal = device_divide(x.v[k] - mean.v[k], device_sqrt(var.v[k] + (float)a->eps));
            x.v[k] = normal * gain.v[k] + bias.v[k];
        }
        store_eight(a->y, t, p.at, p.left, x);
    }
}
KERNELS_BY_TYPE(batch_norm_fixed, mega_batch_norm_fixed_args, COLUMN_THREADS)

KERNEL(batch_norm_update, mega_batch_norm_update_args, COLUMN_THREADS)
{
    const int64_t c = (int64_t)block_x() * COLUMN_THREADS + thread_x();
    const double keep = 1.0 - a.momentum, unbiased = (double)a.rows / ((double)a.rows - 1.0);
    const double later = whole_power(keep, a.groups * a.head.step->later_micro_batches);
    double mean = 0.0, var = 0.0;
    if (c >= a.cols) return;
    for (int64_t g = 0; g < a.groups; g++) {
        mean = keep * mean + a.momentum * (double)((const float *)a.mean)[g * a.cols + c];
        var = keep * var + a.momentum * (double)((const float *)a.var)[g * a.cols + c] * unbiased;
    }
    ((float *)a.sum_mean)[c] += (float)(later * mean);
    ((float *)a.sum_var)[c] += (float)(later * var);
}
