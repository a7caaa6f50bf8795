/* Gradient of layer norm: chunks of rows are shared among the threads, the column sums for gain and bias made on the
 * way. */
#include "cpu/share.h"

typedef struct layer_norm_grad_job {
    const cpu_bodies *bodies;
    const mega_layer_norm_grad_args *args;
    float *partial;
} layer_norm_grad_job;

static void work(void *user, int thread, int size)
{
    const layer_norm_grad_job *j = user;
    const mega_layer_norm_grad_args *a = j->args;
    const int64_t step = chunk_rows(a->rows);
    int64_t begin, end;
    mega_team_share(chunk_count(a->rows), 1, thread, size, &begin, &end);
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t last = (chunk + 1) * step;
        float *partial = j->partial + 2 * chunk * a->cols;
        j->bodies->layer_norm_grad(a, chunk * step, last < a->rows ? last : a->rows, partial, partial + a->cols);
    }
}

static void run(mega_team *team, const void *args)
{
    const mega_layer_norm_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_layer_norm_grad.run(team, args);
        return;
    }
    layer_norm_grad_job job = {mega_cpu_bodies_get(), a, a->head.scratch};
    mega_team_run(a->rows * a->cols < CPU_SMALL_JOB ? NULL : team, work, &job);
    mega_cpu_fold(team, a->dgain, a->head.scratch, chunk_count(a->rows), 2 * a->cols, a->cols);
    mega_cpu_fold(team, a->dbias, (const float *)a->head.scratch + a->cols, chunk_count(a->rows), 2 * a->cols, a->cols);
}

static size_t scratch(const void *args, int threads)
{
    const mega_layer_norm_grad_args *a = args;
    (void)threads;
    return (size_t)(chunk_count(a->rows) * a->cols * 2) * sizeof(float);
}

const mega_kernel mega_cpu_layer_norm_grad = {.name = "layer_norm_grad", .run = run, .scratch = scratch};
