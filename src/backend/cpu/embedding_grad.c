/* Gradient of the embedding table. The threads share the columns, so that rows with equal ids are added in order. */
#include "cpu/share.h"

static void cpu_embedding_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->embedding_grad(job->args, begin, end);
}

static void cpu_embedding_grad_run(mega_team *team, const void *args)
{
    const mega_embedding_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_embedding_grad.run(team, args);
    else
        cpu_job_run(team, cpu_embedding_grad_work, args, a->cols, 16, a->rows * a->cols);
}

const mega_kernel mega_cpu_embedding_grad = {.name = "embedding_grad", .run = cpu_embedding_grad_run};
