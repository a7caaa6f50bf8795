/* Cross-entropy in one sweep; the threads share the rows. */
#include "cpu/share.h"

static void cpu_xent_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->xent(job->args, begin, end);
}

static void cpu_xent_run(mega_team *team, const void *args)
{
    const mega_xent_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_xent.run(team, args);
    else
        cpu_job_run(team, cpu_xent_work, args, a->rows, 1, a->rows * a->valid * 8);
}

const mega_kernel mega_cpu_xent = {.name = "xent", .run = cpu_xent_run};
