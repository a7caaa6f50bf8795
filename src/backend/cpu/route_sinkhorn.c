/* Keys by which the tokens of a group choose all experts alike often. The threads share chunks of the rows of a group;
 * an iteration adds the sums of the chunks in order, so that bits do not depend on the number of threads. Exponentials
 * are floats, sums are in double. F64 runs the plain kernel. */
#include "cpu/share.h"
#include <math.h>
#include <string.h>

/* An iteration over the rows of a group that begin at `first`, or with `ends` what follows the last one. */
typedef struct sinkhorn_pass {
    const mega_route_sinkhorn_args *args;
    int64_t first;
    const double *column; /* the factors that the rows read */
    const double *last;   /* with ends: the factors of the keys */
    double *sums;         /* [chunks, E] */
    bool ends;
} sinkhorn_pass;

static float *sinkhorn_keys(const mega_route_sinkhorn_args *a, int64_t row)
{
    return (float *)a->keys + row * a->experts;
}

/* Four sums, which the processor adds side by side. */
static double row_factor_of(const mega_route_sinkhorn_args *a, const double *column, const float *x)
{
    double sum[4] = {MEGA_SINKHORN_EPSILON, 0.0, 0.0, 0.0};
    int64_t e = 0;
    for (; e + 4 <= a->experts; e += 4)
        for (int i = 0; i < 4; i++) sum[i] += column[e + i] * (double)x[e + i];
    for (; e < a->experts; e++) sum[0] += column[e] * (double)x[e];
    return 1.0 / (double)a->rows / (sum[0] + sum[1] + (sum[2] + sum[3]));
}

static void sinkhorn_work(void *user, int thread, int64_t begin, int64_t end)
{
    const sinkhorn_pass *p = user;
    const mega_route_sinkhorn_args *a = p->args;
    (void)thread;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t from = chunk * chunk_rows(a->rows), to = from + chunk_rows(a->rows);
        double *const sum = p->sums + chunk * a->experts;
        memset(sum, 0, (size_t)a->experts * sizeof *sum);
        for (int64_t t = from; t < (to < a->rows ? to : a->rows); t++) {
            float *const x = sinkhorn_keys(a, p->first + t);
            const double row = row_factor_of(a, p->column, x);
            if (!p->ends)
                for (int64_t e = 0; e < a->experts; e++) sum[e] += row * (double)x[e];
            else
                for (int64_t e = 0; e < a->experts; e++) x[e] = (float)(p->last[e] * (double)x[e] * row);
        }
    }
}

static void sinkhorn_exponentials(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_route_sinkhorn_args *a = ((const cpu_job *)user)->args;
    const float largest = (float)MEGA_SINKHORN_LARGEST;
    (void)thread;
    for (int64_t row = begin; row < end; row++)
        for (int64_t at = 0; at < a->experts; at += CPU_BLOCK) {
            const int64_t n = a->experts - at < CPU_BLOCK ? a->experts - at : CPU_BLOCK;
            float *const x = sinkhorn_keys(a, row) + at;
            block_get(x, a->logits, a->logits_dtype, row * a->experts + at, n);
            for (int64_t i = 0; i < n; i++) x[i] = expf(x[i] > largest ? largest : x[i]);
        }
}

static void sinkhorn_group(mega_team *team, const mega_route_sinkhorn_args *a, int64_t first)
{
    const int64_t experts = a->experts, chunks = chunk_count(a->rows);
    double *const column = a->head.scratch, *const was = column + experts;
    sinkhorn_pass p = {.args = a, .first = first, .column = was, .last = column, .sums = was + experts};
    double change = 1.0;
    for (int64_t e = 0; e < experts; e++) column[e] = 1.0;
    for (int i = 0; i < MEGA_SINKHORN_ITERATIONS && change > MEGA_SINKHORN_TOLERANCE; i++) {
        memcpy(was, column, (size_t)experts * sizeof *was);
        mega_team_for(team, chunks, 1, sinkhorn_work, &p);
        change = 0.0;
        for (int64_t e = 0; e < experts; e++) {
            double sum = MEGA_SINKHORN_EPSILON;
            for (int64_t chunk = 0; chunk < chunks; chunk++) sum += p.sums[chunk * experts + e];
            column[e] = 1.0 / (double)experts / sum;
            change += fabs(was[e] - column[e]);
        }
        change /= (double)experts;
    }
    p.ends = true;
    mega_team_for(team, chunks, 1, sinkhorn_work, &p);
}

static void cpu_route_sinkhorn_run(const mega_queue *queue, const void *args)
{
    const mega_route_sinkhorn_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_route_sinkhorn.run(queue, args);
        return;
    }
    mega_team *const team = a->rows * a->experts < CPU_SMALL_JOB ? NULL : mega_queue_team(queue);
    cpu_job_run(mega_queue_team(queue), sinkhorn_exponentials, args, a->groups * a->rows, 1,
                a->groups * a->rows * a->experts);
    for (int64_t g = 0; g < a->groups; g++) sinkhorn_group(team, a, g * a->rows);
}

static size_t cpu_route_sinkhorn_scratch(const void *args, int threads)
{
    const mega_route_sinkhorn_args *a = args;
    (void)threads;
    return (size_t)((2 + chunk_count(a->rows)) * a->experts) * sizeof(double);
}

const mega_kernel mega_cpu_route_sinkhorn = {
    .name = "route_sinkhorn", .run = cpu_route_sinkhorn_run, .scratch = cpu_route_sinkhorn_scratch};
