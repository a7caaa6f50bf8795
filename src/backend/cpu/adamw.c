/* AdamW; the threads share the elements, and each element is read and written once. */
#include "cpu/share.h"

static void cpu_adamw_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->adamw(job->args, begin, end);
}

static void cpu_adamw_run(mega_team *team, const void *args)
{
    const mega_adamw_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_adamw.run(team, args);
    else
        cpu_job_run(team, cpu_adamw_work, args, a->count, 1024, a->count);
}

const mega_kernel mega_cpu_adamw = {.name = "adamw", .run = cpu_adamw_run};
