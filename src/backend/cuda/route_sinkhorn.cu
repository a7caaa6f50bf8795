/* Keys by which the tokens of a group choose all experts alike often: a block has a group, because each iteration reads
 * the sums of the one before (ops_route.h). Scratch: the factors of all rows. */
#include "functions.h"

typedef struct sinkhorn_shared {
    double column[MEGA_ROUTE_EXPERTS];
    double part[ROW_THREADS], sum;
} sinkhorn_shared;

/* The exponentials of this group, in the place of its keys. */
BODY void sinkhorn_begin(const mega_route_sinkhorn_args *a, mega_dtype t, sinkhorn_shared *s, int64_t at)
{
    const float largest = (float)MEGA_SINKHORN_LARGEST;
    for (int64_t i = thread_x(); i < a->rows * a->experts; i += ROW_THREADS) {
        const float logit = get(a->logits, t, at + i);
        ((float *)a->keys)[at + i] = exp_of(logit > largest ? largest : logit);
    }
    for (int64_t e = thread_x(); e < a->experts; e += ROW_THREADS) s->column[e] = 1.0;
    block_barrier();
}

/* The factors of the rows; a thread has a row. */
BODY void sinkhorn_rows(const mega_route_sinkhorn_args *a, const double *column, int64_t at, double *row)
{
    for (int64_t t = thread_x(); t < a->rows; t += ROW_THREADS) {
        const float *x = (const float *)a->keys + at + t * a->experts;
        double sum = MEGA_SINKHORN_EPSILON;
        for (int64_t e = 0; e < a->experts; e++) sum += column[e] * (double)x[e];
        row[t] = 1.0 / (double)a->rows / sum;
    }
    block_barrier();
}

/* The factors of the columns. Where there are fewer of them than threads, several threads share the rows of one.
 * Returns how much the factors have changed, on average. */
BODY double sinkhorn_columns(const mega_route_sinkhorn_args *a, sinkhorn_shared *s, int64_t at, const double *row)
{
    const int64_t width = a->experts < ROW_THREADS ? a->experts : ROW_THREADS, lanes = ROW_THREADS / width;
    const int64_t lane = thread_x() / width;
    double change = 0.0;
    for (int64_t first = 0; first < a->experts; first += width) {
        const int64_t e = first + thread_x() % width;
        double sum = 0.0;
        if (e < a->experts && lane < lanes)
            for (int64_t t = lane; t < a->rows; t += lanes)
                sum += row[t] * (double)((const float *)a->keys)[at + t * a->experts + e];
        s->part[thread_x()] = sum; /* read by others where all columns are one turn, else by this thread alone */
        block_barrier();
        if (lane == 0 && e < a->experts) {
            sum = MEGA_SINKHORN_EPSILON;
            for (int64_t i = 0; i < lanes; i++) sum += s->part[i * width + thread_x()];
            const double was = s->column[e];
            s->column[e] = 1.0 / (double)a->experts / sum;
            change += was > s->column[e] ? was - s->column[e] : s->column[e] - was;
        }
    }
    return block_sum_double(change, &s->sum) / (double)a->experts;
}

BODY void route_sinkhorn_run(const mega_route_sinkhorn_args *a, mega_dtype t)
{
    SHARED(sinkhorn_shared, s);
    for (int64_t g = block_x(); g < a->groups; g += blocks_x()) {
        const int64_t at = g * a->rows * a->experts;
        double *const row = (double *)a->head.scratch + g * a->rows;
        double change = 1.0;
        sinkhorn_begin(a, t, s, at);
        for (int i = 0; i < MEGA_SINKHORN_ITERATIONS && change > MEGA_SINKHORN_TOLERANCE; i++) {
            sinkhorn_rows(a, s->column, at, row);
            change = sinkhorn_columns(a, s, at, row);
        }
        for (int64_t i = thread_x(); i < a->rows * a->experts; i += ROW_THREADS) {
            float *key = (float *)a->keys + at + i;
            *key = (float)(s->column[i % a->experts] * (double)*key * row[i / a->experts]);
        }
        block_barrier(); /* the factors have been read */
    }
}
KERNELS_BY_TYPE(route_sinkhorn, mega_route_sinkhorn_args, ROW_THREADS)
