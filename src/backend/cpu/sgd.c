/* SGD with momentum; the threads share the elements. */
#include "cpu/share.h"

static void cpu_sgd_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->sgd(job->args, begin, end);
}

static void cpu_sgd_run(mega_team *team, const void *args)
{
    const mega_sgd_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_sgd.run(team, args);
    else
        cpu_job_run(team, cpu_sgd_work, args, a->count, 1024, a->count);
}

const mega_kernel mega_cpu_sgd = {.name = "sgd", .run = cpu_sgd_run};
