/* Embedding: rows are shared among the threads. */
#include "cpu/share.h"

static void work(void *user, int thread, int size)
{
    const cpu_job *job = user;
    int64_t begin, end;
    if (cpu_job_share(job, thread, size, &begin, &end)) job->bodies->embedding(job->args, begin, end);
}

static void run(mega_team *team, const void *args)
{
    const mega_embedding_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_embedding.run(team, args);
    else
        cpu_job_run(team, work, args, a->rows, 1, a->rows * a->cols);
}

const mega_kernel mega_cpu_embedding = {.name = "embedding", .run = run};
