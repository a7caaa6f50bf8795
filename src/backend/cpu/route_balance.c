/* The balance loss: the threads share blocks of experts of each group, and the parts of the loss are added in order.
 * Its gradient: the threads share the tokens. How evenly experts are used is computed by the plain kernel: a group has
 * few numbers. */
#include "cpu/share.h"

enum { ROUTE_BLOCK = 16 };

static int64_t route_blocks(int64_t experts)
{
    return (experts + ROUTE_BLOCK - 1) / ROUTE_BLOCK;
}

/* Returns the part of the loss of group g that `width` experts from `first` on have. */
static double balance_of_block(const mega_route_balance_args *a, int64_t g, int64_t first, int64_t width)
{
    double sum[ROUTE_BLOCK] = {0}, loss = 0.0;
    int64_t count[ROUTE_BLOCK] = {0};
    for (int64_t t = g * a->rows; t < (g + 1) * a->rows; t++) {
        const float *share = (const float *)a->share + t * a->experts + first;
        for (int64_t i = 0; i < width; i++) sum[i] += share[i];
        for (int64_t j = 0; j < a->counted; j++) {
            const int64_t e = a->choice[t * a->choices + j] - first;
            if (e >= 0 && e < width) count[e]++;
        }
    }
    for (int64_t i = 0; i < width; i++) {
        const double fraction = (double)count[i] / (double)(a->rows * a->counted);
        ((float *)a->fraction)[g * a->experts + first + i] = (float)fraction;
        loss += fraction * (sum[i] / (double)a->rows);
    }
    return loss;
}

static void cpu_route_balance_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_route_balance_args *a = ((const cpu_job *)user)->args;
    const int64_t blocks = route_blocks(a->experts);
    double *const part = a->head.scratch;
    (void)thread;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit % blocks * ROUTE_BLOCK, left = a->experts - first;
        part[unit] = balance_of_block(a, unit / blocks, first, left < ROUTE_BLOCK ? left : ROUTE_BLOCK);
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
    cpu_job_run(mega_queue_team(queue), cpu_route_balance_work, args, a->groups * blocks, 1,
                a->groups * a->rows * a->experts);
    for (int64_t g = 0; g < a->groups; g++) {
        double loss = 0.0;
        for (int64_t i = 0; i < blocks; i++) loss += ((const double *)a->head.scratch)[g * blocks + i];
        ((float *)a->loss)[g] = (float)((double)a->experts * loss);
    }
}

static size_t cpu_route_balance_scratch(const void *args, int threads)
{
    const mega_route_balance_args *a = args;
    (void)threads;
    return (size_t)(a->groups * route_blocks(a->experts)) * sizeof(double);
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

const mega_kernel mega_cpu_route_balance = {
    .name = "route_balance", .run = cpu_route_balance_run, .scratch = cpu_route_balance_scratch};
const mega_kernel mega_cpu_route_balance_grad = {.name = "route_balance_grad", .run = cpu_route_balance_grad_run};
const mega_kernel mega_cpu_route_load = {.name = "route_load", .run = cpu_route_load_run};
