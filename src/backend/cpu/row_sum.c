/* Sums of the channels of each row, and their gradient. The threads share the rows and compute each like the plain
 * kernel, which is fast enough for the small tensors at the end of a network. */
#include "cpu/share.h"

static void row_sum_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    mega_row_sum_args part = *(const mega_row_sum_args *)job->args;
    (void)thread;
    part.sum = element_at(part.sum, acc_of(part.head.dtype), begin);
    part.x = const_element_at(part.x, part.x_dtype, begin * part.cols);
    part.rows = end - begin;
    mega_plain_row_sum.run(NULL, &part);
}

static void cpu_row_sum_run(mega_team *team, const void *args)
{
    const mega_row_sum_args *a = args;
    cpu_job_run(team, row_sum_work, args, a->rows, 1, a->rows * a->cols);
}

static void row_sum_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    mega_row_sum_grad_args part = *(const mega_row_sum_grad_args *)job->args;
    (void)thread;
    part.dx = element_at(part.dx, part.x_dtype, begin * part.cols);
    part.dsum = const_element_at(part.dsum, acc_of(part.head.dtype), begin);
    part.rows = end - begin;
    mega_plain_row_sum_grad.run(NULL, &part);
}

static void cpu_row_sum_grad_run(mega_team *team, const void *args)
{
    const mega_row_sum_grad_args *a = args;
    cpu_job_run(team, row_sum_grad_work, args, a->rows, 1, a->rows * a->cols);
}

const mega_kernel mega_cpu_row_sum = {.name = "row_sum", .run = cpu_row_sum_run};
const mega_kernel mega_cpu_row_sum_grad = {.name = "row_sum_grad", .run = cpu_row_sum_grad_run};
