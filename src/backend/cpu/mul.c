/* a * b; the threads share the elements. */
#include "cpu/share.h"

static void mul_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->mul(job->args, begin, end);
}

static void cpu_mul_run(mega_team *team, const void *args)
{
    const mega_mul_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_mul.run(team, args);
    else
        cpu_job_run(team, mul_work, args, a->count, 1024, a->count);
}

const mega_kernel mega_cpu_mul = {.name = "mul", .run = cpu_mul_run};
