/* Activations by kind and their gradients; the threads share the elements. */
#include "cpu/share.h"

static void activation_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->activation(job->args, begin, end);
}

static void cpu_activation_run(mega_team *team, const void *args)
{
    const mega_activation_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_activation.run(team, args);
    else
        cpu_job_run(team, activation_work, args, a->count, 1024, a->count * 2);
}

static void activation_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->activation_grad(job->args, begin, end);
}

static void cpu_activation_grad_run(mega_team *team, const void *args)
{
    const mega_activation_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_activation_grad.run(team, args);
    else
        cpu_job_run(team, activation_grad_work, args, a->count, 1024, a->count * 2);
}

const mega_kernel mega_cpu_activation = {.name = "activation", .run = cpu_activation_run};
const mega_kernel mega_cpu_activation_grad = {.name = "activation_grad", .run = cpu_activation_grad_run};
