/* residual + dropout(x + bias); the threads share the rows. Masks are computed for four or more counters at a time. */
#include "cpu/share.h"

static void cpu_dropout_add_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->dropout_add(job->args, begin, end);
}

static void cpu_dropout_add_run(mega_team *team, const void *args)
{
    const mega_dropout_add_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_dropout_add.run(team, args);
    else
        cpu_job_run(team, cpu_dropout_add_work, args, a->rows, 1, a->rows * a->cols);
}

const mega_kernel mega_cpu_dropout_add = {.name = "dropout_add", .run = cpu_dropout_add_run};
