/* Layer norm and RMS norm; the threads share the rows. */
#include "cpu/share.h"

static void cpu_layer_norm_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->layer_norm(job->args, begin, end);
}

static void cpu_layer_norm_run(mega_team *team, const void *args)
{
    const mega_layer_norm_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_layer_norm.run(team, args);
    else
        cpu_job_run(team, cpu_layer_norm_work, args, a->rows, 1, a->rows * a->cols);
}

const mega_kernel mega_cpu_layer_norm = {.name = "layer_norm", .run = cpu_layer_norm_run};
