/* GELU of x + bias; the threads share the rows. */
#include "cpu/share.h"

static void cpu_gelu_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->gelu(job->args, begin, end);
}

static void cpu_gelu_run(mega_team *team, const void *args)
{
    const mega_gelu_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_gelu.run(team, args);
    else
        cpu_job_run(team, cpu_gelu_work, args, a->rows, 1, a->rows * a->cols * 4);
}

const mega_kernel mega_cpu_gelu = {.name = "gelu", .run = cpu_gelu_run};
