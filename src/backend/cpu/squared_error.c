/* Squared error of rows, and its gradient. The threads share the rows and compute each like the plain kernel. */
#include "cpu/share.h"

static void squared_error_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    mega_squared_error_args part = *(const mega_squared_error_args *)job->args;
    const mega_dtype t = part.head.dtype;
    (void)thread;
    part.loss = element_at(part.loss, acc_of(t), begin);
    part.x = const_element_at(part.x, t, begin * part.cols);
    part.target = const_element_at(part.target, t, begin * part.cols);
    part.rows = end - begin;
    mega_plain_squared_error.run(NULL, &part);
}

static void cpu_squared_error_run(mega_team *team, const void *args)
{
    const mega_squared_error_args *a = args;
    cpu_job_run(team, squared_error_work, args, a->rows, 1, a->rows * a->cols);
}

static void squared_error_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    mega_squared_error_grad_args part = *(const mega_squared_error_grad_args *)job->args;
    const mega_dtype t = part.head.dtype;
    (void)thread;
    part.dx = element_at(part.dx, t, begin * part.cols);
    part.dloss = const_element_at(part.dloss, acc_of(t), begin);
    part.x = const_element_at(part.x, t, begin * part.cols);
    part.target = const_element_at(part.target, t, begin * part.cols);
    part.rows = end - begin;
    mega_plain_squared_error_grad.run(NULL, &part);
}

static void cpu_squared_error_grad_run(mega_team *team, const void *args)
{
    const mega_squared_error_grad_args *a = args;
    cpu_job_run(team, squared_error_grad_work, args, a->rows, 1, a->rows * a->cols);
}

const mega_kernel mega_cpu_squared_error = {.name = "squared_error", .run = cpu_squared_error_run};
const mega_kernel mega_cpu_squared_error_grad = {.name = "squared_error_grad", .run = cpu_squared_error_grad_run};
