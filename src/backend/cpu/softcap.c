/* Soft-capped logits and their gradient; the threads share the elements. */
#include "cpu/share.h"

static void softcap_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->softcap(job->args, begin, end);
}

static void cpu_softcap_run(mega_team *team, const void *args)
{
    const mega_softcap_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_softcap.run(team, args);
    else
        cpu_job_run(team, softcap_work, args, a->count, 1024, a->count * 2);
}

static void softcap_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->softcap_grad(job->args, begin, end);
}

static void cpu_softcap_grad_run(mega_team *team, const void *args)
{
    const mega_softcap_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_softcap_grad.run(team, args);
    else
        cpu_job_run(team, softcap_grad_work, args, a->count, 1024, a->count * 2);
}

const mega_kernel mega_cpu_softcap = {.name = "softcap", .run = cpu_softcap_run};
const mega_kernel mega_cpu_softcap_grad = {.name = "softcap_grad", .run = cpu_softcap_grad_run};
