/* The balance loss: one thread counts choices, then the threads share blocks of experts of each group, and the parts of
 * the loss are added in order.
 * Its gradient: the threads share the tokens. How evenly experts are used is computed by the plain kernel: a group has
 * few numbers. */
#include "cpu/share.h"
#include <string.h>

enum { ROUTE_BLOCK = 16 };

static int64_t route_blocks(int64_t experts)
{
    return (experts + ROUTE_BLOCK - 1) / ROUTE_BLOCK;
}

/* Scratch: the parts of the loss, and how often each expert of each group is chosen. */
static double *balance_parts(const mega_route_balance_args *a)
{
    return a->head.scratch;
}

static int64_t *balance_counts(const mega_route_balance_args *a)
{
    return (int64_t *)(balance_parts(a) + a->groups * route_blocks(a->experts));
}

/* sum[i] = the sum of the shares of expert first + i over the tokens of group g. */
static void balance_sums(double *sum, const mega_route_balance_args *a, int64_t g, int64_t first, int64_t width)
{
    const float *share = (const float *)a->share + g * a->rows * a->experts + first;
    memset(sum, 0, ROUTE_BLOCK * sizeof *sum);
    if (width == ROUTE_BLOCK) /* a constant, for which the compiler makes vectors */
        for (int64_t t = 0; t < a->rows; t++)
            for (int i = 0; i < ROUTE_BLOCK; i++) sum[i] += share[t * a->experts + i];
    else
        for (int64_t t = 0; t < a->rows; t++)
            for (int64_t i = 0; i < width; i++) sum[i] += share[t * a->experts + i];
}

static void cpu_route_balance_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_route_balance_args *a = ((const cpu_job *)user)->args;
    const int64_t blocks = route_blocks(a->experts);
    double sum[ROUTE_BLOCK];
    (void)thread;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t g = unit / blocks, first = unit % blocks * ROUTE_BLOCK, left = a->experts - first;
        const int64_t width = left < ROUTE_BLOCK ? left : ROUTE_BLOCK;
        double loss = 0.0;
        balance_sums(sum, a, g, first, width);
        for (int64_t i = 0; i < width; i++) {
            const int64_t e = g * a->experts + first + i;
            const double fraction = (double)balance_counts(a)[e] / (double)(a->rows * a->counted);
            ((float *)a->fraction)[e] = (float)fraction;
            loss += fraction * (sum[i] / (double)a->rows);
        }
        balance_parts(a)[unit] = loss;
    }
}

static void cpu_route_balance_run(const mega_queue *queue, const void *args)
{
    const mega_route_balance_args *a = args;
    const int64_t blocks = route_blocks(a->experts);
    if (a->head.dtype == MEGA_F64) {
        mega_plain_route_balance.run(queue, args);
        return;
    }
    memset(balance_counts(a), 0, (size_t)(a->groups * a->experts) * sizeof(int64_t));
    for (int64_t t = 0; t < a->groups * a->rows; t++)
        for (int64_t j = 0; j < a->counted; j++)
            balance_counts(a)[t / a->rows * a->experts + a->choice[t * a->choices + j]]++;
    cpu_job_run(mega_queue_team(queue), cpu_route_balance_work, args, a->groups * blocks, 1,
                a->groups * a->rows * a->experts);
    for (int64_t g = 0; g < a->groups; g++) {
        double loss = 0.0;
        for (int64_t i = 0; i < blocks; i++) loss += balance_parts(a)[g * blocks + i];
        ((float *)a->loss)[g] = (float)((double)a->experts * loss);
    }
}

static size_t cpu_route_balance_scratch(const void *args, int threads)
{
    const mega_route_balance_args *a = args;
    (void)threads;
    return (size_t)(a->groups * route_blocks(a->experts)) * sizeof(double) +
           (size_t)(a->groups * a->experts) * sizeof(int64_t);
}

static void cpu_route_balance_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_route_balance_grad_args *a = ((const cpu_job *)user)->args;
    (void)thread;
    for (int64_t t = begin; t < end; t++) {
        const int64_t g = t / a->rows;
        const float *fraction = (const float *)a->fraction + g * a->experts;
        float *dshare = (float *)a->dshare + t * a->experts;
        const float factor = (float)((double)((const float *)a->dloss)[g] * (double)a->experts / (double)a->rows);
        for (int64_t e = 0; e < a->experts; e++) dshare[e] = factor * fraction[e];
    }
}

static void cpu_route_balance_grad_run(const mega_queue *queue, const void *args)
{
    const mega_route_balance_grad_args *a = args;
    const int64_t tokens = a->groups * a->rows;
    if (a->head.dtype == MEGA_F64) mega_plain_route_balance_grad.run(queue, args);
    else
        cpu_job_run(mega_queue_team(queue), cpu_route_balance_grad_work, args, tokens, 1, tokens * a->experts);
}

static void cpu_route_load_run(const mega_queue *queue, const void *args)
{
    mega_plain_route_load.run(queue, args);
}

/* One addition a choice: too little for threads. */
static void cpu_route_count_run(const mega_queue *queue, const void *args)
{
    mega_plain_route_count.run(queue, args);
}

const mega_kernel mega_cpu_route_balance = {
    .name = "route_balance", .run = cpu_route_balance_run, .scratch = cpu_route_balance_scratch};
const mega_kernel mega_cpu_route_balance_grad = {.name = "route_balance_grad", .run = cpu_route_balance_grad_run};
const mega_kernel mega_cpu_route_load = {.name = "route_load", .run = cpu_route_load_run};
const mega_kernel mega_cpu_route_count = {.name = "route_count", .run = cpu_route_count_run};
