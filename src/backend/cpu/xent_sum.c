/* Cross-entropy kernel 2 of 3; the threads share the rows. */
#include "cpu/share.h"

static void cpu_xent_sum_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->xent_sum(job->args, begin, end);
}

static void cpu_xent_sum_run(mega_team *team, const void *args)
{
    const mega_xent_sum_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_xent_sum.run(team, args);
    else
        cpu_job_run(team, cpu_xent_sum_work, args, a->rows, 1, a->rows * a->valid * 4);
}

const mega_kernel mega_cpu_xent_sum = {.name = "xent_sum", .run = cpu_xent_sum_run};
