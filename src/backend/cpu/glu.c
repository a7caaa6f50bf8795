/* Gated activations and their gradient; the threads share the rows. */
#include "cpu/share.h"

static void glu_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->glu(job->args, begin, end);
}

static void cpu_glu_run(mega_team *team, const void *args)
{
    const mega_glu_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_glu.run(team, args);
    else
        cpu_job_run(team, glu_work, args, a->rows, 1, a->rows * a->cols * 4);
}

static void glu_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->glu_grad(job->args, begin, end);
}

static void cpu_glu_grad_run(mega_team *team, const void *args)
{
    const mega_glu_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_glu_grad.run(team, args);
    else
        cpu_job_run(team, glu_grad_work, args, a->rows, 1, a->rows * a->cols * 4);
}

const mega_kernel mega_cpu_glu = {.name = "glu", .run = cpu_glu_run};
const mega_kernel mega_cpu_glu_grad = {.name = "glu_grad", .run = cpu_glu_grad_run};
