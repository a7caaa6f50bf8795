/* Batch norm over groups of rows. Each group is divided into chunks of rows, by a rule that depends only on its length.
 * The threads share the chunks, and the chunks' column sums are added in order. The variance is computed from
 * differences to the mean, so x is read three times (twice for the gradient). Everything is computed in double: squares
 * of x need its exponent range, and a mean far from 0 needs its digits until x is subtracted. */
#include "cpu/share.h"
#include <math.h>

typedef struct norm_job {
    mega_dtype dtype;
    int64_t rows, cols, chunks; /* rows and chunks of a group */
    const void *x, *dy;
    void *y;                     /* or dx */
    const double *mean, *rstd;   /* [groups, C] */
    const double *scale, *shift; /* [groups, C]; [C] */
    const double *by_one, *by_normal;
    double *partial, *partial_n; /* [groups * chunks, C] */
} norm_job;

/* Sets [*first, *last) to the rows of x in chunk `unit`. */
static void norm_chunk(const norm_job *j, int64_t unit, int64_t *first, int64_t *last)
{
    const int64_t step = chunk_rows(j->rows), group = unit / j->chunks, chunk = unit % j->chunks;
    *first = group * j->rows + chunk * step;
    *last = chunk == j->chunks - 1 ? (group + 1) * j->rows : *first + step;
}

/* Calls `block` for each block of channels of each row of the chunks [begin, end). */
typedef void norm_block(const norm_job *j, int64_t unit, int64_t row, int64_t c, int64_t n);

static inline void norm_walk(const norm_job *j, int64_t begin, int64_t end, norm_block *block)
{
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t first, last;
        norm_chunk(j, unit, &first, &last);
        for (int64_t r = first; r < last; r++)
            for (int64_t c = 0; c < j->cols; c += CPU_BLOCK)
                block(j, unit, r, c, j->cols - c < CPU_BLOCK ? j->cols - c : CPU_BLOCK);
    }
}

static void norm_zero(double *partial, const norm_job *j, int64_t begin, int64_t end)
{
    for (int64_t i = begin * j->cols; i < end * j->cols; i++) partial[i] = 0.0;
}

static void norm_run(mega_team *team, const norm_job *j, int64_t groups, mega_team_part *part)
{
    mega_team *const all = groups * j->rows * j->cols < CPU_SMALL_JOB ? NULL : team;
    mega_team_for(all, groups * j->chunks, 1, part, (void *)(uintptr_t)j);
}

/* Returns the sum of a group's chunks in one column. */
static double norm_fold(const norm_job *j, const double *partial, int64_t group, int64_t c)
{
    double sum = 0.0;
    for (int64_t i = group * j->chunks; i < (group + 1) * j->chunks; i++) sum += partial[i * j->cols + c];
    return sum;
}

/* ---- forward ---- */

static void norm_sum_block(const norm_job *j, int64_t unit, int64_t row, int64_t c, int64_t n)
{
    float v[CPU_BLOCK];
    double *sum = j->partial + unit * j->cols + c;
    block_get(v, j->x, j->dtype, row * j->cols + c, n);
    for (int64_t i = 0; i < n; i++) sum[i] += v[i];
}

static void norm_square_block(const norm_job *j, int64_t unit, int64_t row, int64_t c, int64_t n)
{
    float v[CPU_BLOCK];
    double *sum = j->partial + unit * j->cols + c;
    const double *mean = j->mean + unit / j->chunks * j->cols + c;
    block_get(v, j->x, j->dtype, row * j->cols + c, n);
    for (int64_t i = 0; i < n; i++) {
        const double d = v[i] - mean[i];
        sum[i] += d * d;
    }
}

static void norm_put_block(const norm_job *j, int64_t unit, int64_t row, int64_t c, int64_t n)
{
    float v[CPU_BLOCK];
    const int64_t at = unit / j->chunks * j->cols + c;
    block_get(v, j->x, j->dtype, row * j->cols + c, n);
    for (int64_t i = 0; i < n; i++) v[i] = (float)((v[i] - j->mean[at + i]) * j->scale[at + i] + j->shift[c + i]);
    block_put(j->y, j->dtype, row * j->cols + c, n, v);
}

static void norm_sum_work(void *user, int thread, int64_t begin, int64_t end)
{
    const norm_job *j = user;
    norm_zero(j->partial, j, begin, end);
    norm_walk(j, begin, end, norm_sum_block);
}

static void norm_square_work(void *user, int thread, int64_t begin, int64_t end)
{
    const norm_job *j = user;
    norm_zero(j->partial, j, begin, end);
    norm_walk(j, begin, end, norm_square_block);
}

static void norm_put_work(void *user, int thread, int64_t begin, int64_t end)
{
    norm_walk(user, begin, end, norm_put_block);
}

static void cpu_batch_norm_run(const mega_queue *queue, const void *args)
{
    const mega_batch_norm_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_batch_norm.run(queue, args);
        return;
    }
    const int64_t all = a->groups * a->cols;
    double *mean = a->head.scratch, *scale = mean + all, *shift = scale + all;
    const norm_job j = {.dtype = a->head.dtype,
                        .rows = a->rows,
                        .cols = a->cols,
                        .chunks = chunk_count(a->rows),
                        .x = a->x,
                        .y = a->y,
                        .mean = mean,
                        .scale = scale,
                        .shift = shift,
                        .partial = shift + a->cols};
    norm_run(mega_queue_team(queue), &j, a->groups, norm_sum_work);
    for (int64_t i = 0; i < all; i++) {
        mean[i] = norm_fold(&j, j.partial, i / a->cols, i % a->cols) / (double)a->rows;
        put(a->mean, MEGA_F32, i, mean[i]);
    }
    norm_run(mega_queue_team(queue), &j, a->groups, norm_square_work);
    for (int64_t c = 0; c < a->cols; c++) shift[c] = get(a->bias, j.dtype, c);
    for (int64_t i = 0; i < all; i++) {
        const double var = norm_fold(&j, j.partial, i / a->cols, i % a->cols) / (double)a->rows;
        scale[i] = get(a->gain, j.dtype, i % a->cols) / sqrt(var + a->eps);
        put(a->var, MEGA_F32, i, var);
    }
    norm_run(mega_queue_team(queue), &j, a->groups, norm_put_work);
}

static size_t batch_norm_scratch(const void *args, int threads)
{
    const mega_batch_norm_args *a = args;
    return (size_t)((a->groups * (2 + chunk_count(a->rows)) + 1) * a->cols) * sizeof(double);
}

/* ---- gradient ---- */

static void norm_grad_sum_block(const norm_job *j, int64_t unit, int64_t row, int64_t c, int64_t n)
{
    float v[CPU_BLOCK], dy[CPU_BLOCK];
    double *sum = j->partial + unit * j->cols + c, *sum_n = j->partial_n + unit * j->cols + c;
    const int64_t at = unit / j->chunks * j->cols + c;
    block_get(v, j->x, j->dtype, row * j->cols + c, n);
    block_get(dy, j->dy, j->dtype, row * j->cols + c, n);
    for (int64_t i = 0; i < n; i++) {
        sum[i] += dy[i];
        sum_n[i] += dy[i] * ((v[i] - j->mean[at + i]) * j->rstd[at + i]);
    }
}

static void norm_grad_put_block(const norm_job *j, int64_t unit, int64_t row, int64_t c, int64_t n)
{
    float v[CPU_BLOCK], dy[CPU_BLOCK];
    const int64_t at = unit / j->chunks * j->cols + c;
    block_get(v, j->x, j->dtype, row * j->cols + c, n);
    block_get(dy, j->dy, j->dtype, row * j->cols + c, n);
    for (int64_t i = 0; i < n; i++) {
        const double normal = (v[i] - j->mean[at + i]) * j->rstd[at + i];
        v[i] = (float)(j->scale[at + i] * (dy[i] - j->by_one[at + i] - normal * j->by_normal[at + i]));
    }
    block_put(j->y, j->dtype, row * j->cols + c, n, v);
}

static void norm_grad_sum_work(void *user, int thread, int64_t begin, int64_t end)
{
    const norm_job *j = user;
    norm_zero(j->partial, j, begin, end);
    norm_zero(j->partial_n, j, begin, end);
    norm_walk(j, begin, end, norm_grad_sum_block);
}

static void norm_grad_put_work(void *user, int thread, int64_t begin, int64_t end)
{
    norm_walk(user, begin, end, norm_grad_put_block);
}

static void cpu_batch_norm_grad_run(const mega_queue *queue, const void *args)
{
    const mega_batch_norm_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_batch_norm_grad.run(queue, args);
        return;
    }
    const int64_t all = a->groups * a->cols, chunks = chunk_count(a->rows);
    double *mean = a->head.scratch, *rstd = mean + all, *scale = rstd + all, *by_one = scale + all;
    double *by_normal = by_one + all;
    const norm_job j = {.dtype = a->head.dtype,
                        .rows = a->rows,
                        .cols = a->cols,
                        .chunks = chunks,
                        .x = a->x,
                        .dy = a->dy,
                        .y = a->dx,
                        .mean = mean,
                        .rstd = rstd,
                        .scale = scale,
                        .by_one = by_one,
                        .by_normal = by_normal,
                        .partial = by_normal + all,
                        .partial_n = by_normal + all + all * chunks};
    for (int64_t i = 0; i < all; i++) {
        mean[i] = get(a->mean, MEGA_F32, i);
        rstd[i] = 1.0 / sqrt(get(a->var, MEGA_F32, i) + a->eps);
        scale[i] = get(a->gain, j.dtype, i % a->cols) * rstd[i];
    }
    norm_run(mega_queue_team(queue), &j, a->groups, norm_grad_sum_work);
    for (int64_t i = 0; i < all; i++) {
        const double sum = norm_fold(&j, j.partial, i / a->cols, i % a->cols);
        const double sum_n = norm_fold(&j, j.partial_n, i / a->cols, i % a->cols);
        by_one[i] = sum / (double)a->rows;
        by_normal[i] = sum_n / (double)a->rows;
        put_add(a->dbias, MEGA_F32, i % a->cols, sum);
        put_add(a->dgain, MEGA_F32, i % a->cols, sum_n);
    }
    norm_run(mega_queue_team(queue), &j, a->groups, norm_grad_put_work);
}

static size_t batch_norm_grad_scratch(const void *args, int threads)
{
    const mega_batch_norm_grad_args *a = args;
    return (size_t)(a->groups * a->cols * (5 + 2 * chunk_count(a->rows))) * sizeof(double);
}

/* ---- evaluation: all rows are one group with given statistics ---- */

static void cpu_batch_norm_fixed_run(const mega_queue *queue, const void *args)
{
    const mega_batch_norm_fixed_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_batch_norm_fixed.run(queue, args);
        return;
    }
    double *mean = a->head.scratch, *scale = mean + a->cols, *shift = scale + a->cols;
    const norm_job j = {.dtype = a->head.dtype,
                        .rows = a->rows,
                        .cols = a->cols,
                        .chunks = chunk_count(a->rows),
                        .x = a->x,
                        .y = a->y,
                        .mean = mean,
                        .scale = scale,
                        .shift = shift};
    for (int64_t c = 0; c < a->cols; c++) {
        mean[c] = get(a->mean, a->stats, c);
        scale[c] = get(a->gain, j.dtype, c) / sqrt(get(a->var, a->stats, c) + a->eps);
        shift[c] = get(a->bias, j.dtype, c);
    }
    norm_run(mega_queue_team(queue), &j, 1, norm_put_work);
}

static size_t batch_norm_fixed_scratch(const void *args, int threads)
{
    const mega_batch_norm_fixed_args *a = args;
    return (size_t)(3 * a->cols) * sizeof(double);
}

/* One number per channel: too little work for several threads. */
static void cpu_batch_norm_update_run(const mega_queue *queue, const void *args)
{
    mega_plain_batch_norm_update.run(queue, args);
}

const mega_kernel mega_cpu_batch_norm = {
    .name = "batch_norm", .run = cpu_batch_norm_run, .scratch = batch_norm_scratch};
const mega_kernel mega_cpu_batch_norm_grad = {
    .name = "batch_norm_grad", .run = cpu_batch_norm_grad_run, .scratch = batch_norm_grad_scratch};
const mega_kernel mega_cpu_batch_norm_fixed = {
    .name = "batch_norm_fixed", .run = cpu_batch_norm_fixed_run, .scratch = batch_norm_fixed_scratch};
const mega_kernel mega_cpu_batch_norm_update = {.name = "batch_norm_update", .run = cpu_batch_norm_update_run};
