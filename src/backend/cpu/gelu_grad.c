/* Gradient of GELU: chunks of rows are shared among the threads, the column sums for the bias made on the way. */
#include "cpu/share.h"

typedef struct gelu_grad_job {
    const cpu_bodies *bodies;
    const mega_gelu_grad_args *args;
    float *partial;
} gelu_grad_job;

static void work(void *user, int thread, int size)
{
    const gelu_grad_job *j = user;
    const mega_gelu_grad_args *a = j->args;
    const int64_t step = chunk_rows(a->rows);
    int64_t begin, end;
    mega_team_share(chunk_count(a->rows), 1, thread, size, &begin, &end);
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t last = (chunk + 1) * step;
        float *partial = j->partial != NULL ? j->partial + chunk * a->cols : NULL;
        j->bodies->gelu_grad(a, chunk * step, last < a->rows ? last : a->rows, partial);
    }
}

static void run(mega_team *team, const void *args)
{
    const mega_gelu_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_gelu_grad.run(team, args);
        return;
    }
    gelu_grad_job job = {mega_cpu_bodies_get(), a, a->dbias != NULL ? a->head.scratch : NULL};
    mega_team_run(a->rows * a->cols < CPU_SMALL_JOB ? NULL : team, work, &job);
    if (a->dbias != NULL) mega_cpu_fold(team, a->dbias, a->head.scratch, chunk_count(a->rows), a->cols, a->cols);
}

static size_t scratch(const void *args, int threads)
{
    const mega_gelu_grad_args *a = args;
    (void)threads;
    return (size_t)(chunk_count(a->rows) * a->cols) * sizeof(float);
}

const mega_kernel mega_cpu_gelu_grad = {.name = "gelu_grad", .run = run, .scratch = scratch};
