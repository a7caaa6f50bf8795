/* Means of groups of rows, and their gradient. The threads share the groups and compute each like the plain kernel,
 * which is fast enough for the small tensors at the end of a network. */
#include "cpu/share.h"

static void mean_rows_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    mega_mean_rows_args part = *(const mega_mean_rows_args *)job->args;
    (void)thread;
    part.y = element_at(part.y, part.head.dtype, begin * part.cols);
    part.x = const_element_at(part.x, part.head.dtype, begin * part.group * part.cols);
    part.rows = end - begin;
    mega_plain_mean_rows.run(NULL, &part);
}

static void cpu_mean_rows_run(mega_team *team, const void *args)
{
    const mega_mean_rows_args *a = args;
    cpu_job_run(team, mean_rows_work, args, a->rows, 1, a->rows * a->group * a->cols);
}

static void mean_rows_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    mega_mean_rows_grad_args part = *(const mega_mean_rows_grad_args *)job->args;
    (void)thread;
    part.dx = element_at(part.dx, part.head.dtype, begin * part.group * part.cols);
    part.dy = const_element_at(part.dy, part.head.dtype, begin * part.cols);
    part.rows = end - begin;
    mega_plain_mean_rows_grad.run(NULL, &part);
}

static void cpu_mean_rows_grad_run(mega_team *team, const void *args)
{
    const mega_mean_rows_grad_args *a = args;
    cpu_job_run(team, mean_rows_grad_work, args, a->rows, 1, a->rows * a->group * a->cols);
}

const mega_kernel mega_cpu_mean_rows = {.name = "mean_rows", .run = cpu_mean_rows_run};
const mega_kernel mega_cpu_mean_rows_grad = {.name = "mean_rows_grad", .run = cpu_mean_rows_grad_run};
