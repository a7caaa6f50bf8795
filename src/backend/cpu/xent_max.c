/* Cross-entropy kernel 1 of 3; the threads share the rows. */
#include "cpu/share.h"

static void cpu_xent_max_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->xent_max(job->args, begin, end);
}

static void cpu_xent_max_run(mega_team *team, const void *args)
{
    const mega_xent_max_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_xent_max.run(team, args);
    else
        cpu_job_run(team, cpu_xent_max_work, args, a->rows, 1, a->rows * a->valid);
}

const mega_kernel mega_cpu_xent_max = {.name = "xent_max", .run = cpu_xent_max_run};
