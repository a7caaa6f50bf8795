/* a + b; the threads share the elements. */
#include "cpu/share.h"

static void cpu_add_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->add(job->args, begin, end);
}

static void cpu_add_run(mega_team *team, const void *args)
{
    const mega_add_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_add.run(team, args);
    else
        cpu_job_run(team, cpu_add_work, args, a->count, 1024, a->count);
}

const mega_kernel mega_cpu_add = {.name = "add", .run = cpu_add_run};
