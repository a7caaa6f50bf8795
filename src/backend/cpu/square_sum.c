/* Sums of the squares of rows, and their gradient. The threads share the rows and compute each like the plain
 * kernel. */
#include "cpu/share.h"

static void square_sum_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    mega_square_sum_args part = *(const mega_square_sum_args *)job->args;
    (void)thread;
    part.sum = element_at(part.sum, acc_of(part.head.dtype), begin);
    part.x = const_element_at(part.x, part.head.dtype, begin * part.cols);
    part.rows = end - begin;
    mega_plain_square_sum.run(NULL, &part);
}

static void cpu_square_sum_run(mega_team *team, const void *args)
{
    const mega_square_sum_args *a = args;
    cpu_job_run(team, square_sum_work, args, a->rows, 1, a->rows * a->cols);
}

static void square_sum_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    mega_square_sum_grad_args part = *(const mega_square_sum_grad_args *)job->args;
    const mega_dtype t = part.head.dtype;
    (void)thread;
    part.dx = element_at(part.dx, t, begin * part.cols);
    part.x = const_element_at(part.x, t, begin * part.cols);
    part.dsum = const_element_at(part.dsum, acc_of(t), begin);
    part.rows = end - begin;
    mega_plain_square_sum_grad.run(NULL, &part);
}

static void cpu_square_sum_grad_run(mega_team *team, const void *args)
{
    const mega_square_sum_grad_args *a = args;
    cpu_job_run(team, square_sum_grad_work, args, a->rows, 1, a->rows * a->cols);
}

const mega_kernel mega_cpu_square_sum = {.name = "square_sum", .run = cpu_square_sum_run};
const mega_kernel mega_cpu_square_sum_grad = {.name = "square_sum_grad", .run = cpu_square_sum_grad_run};
