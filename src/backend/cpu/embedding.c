/* Embedding; the threads share the rows. */
#include "cpu/share.h"

static void cpu_embedding_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    (void)thread;
    job->bodies->embedding(job->args, begin, end);
}

static void cpu_embedding_run(mega_team *team, const void *args)
{
    const mega_embedding_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_embedding.run(team, args);
    else
        cpu_job_run(team, cpu_embedding_work, args, a->rows, 1, a->rows * a->cols);
}

const mega_kernel mega_cpu_embedding = {.name = "embedding", .run = cpu_embedding_run};
