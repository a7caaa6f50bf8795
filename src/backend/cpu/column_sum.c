/* Sum over rows: chunks of rows are shared among the threads (share.h). */
#include "cpu/share.h"

typedef struct column_sum_job {
    const cpu_bodies *bodies;
    const mega_column_sum_args *args;
    float *partial;
} column_sum_job;

static void work(void *user, int thread, int size)
{
    const column_sum_job *j = user;
    const mega_column_sum_args *a = j->args;
    const int64_t step = chunk_rows(a->rows);
    int64_t begin, end;
    mega_team_share(chunk_count(a->rows), 1, thread, size, &begin, &end);
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t last = (chunk + 1) * step;
        float *partial = j->partial != NULL ? j->partial + chunk * a->cols : NULL;
        j->bodies->column_sum(a, chunk * step, last < a->rows ? last : a->rows, partial);
    }
}

static void run(mega_team *team, const void *args)
{
    const mega_column_sum_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_column_sum.run(team, args);
        return;
    }
    column_sum_job job = {mega_cpu_bodies_get(), a, a->head.scratch};
    mega_team_run(a->rows * a->cols < CPU_SMALL_JOB ? NULL : team, work, &job);
    mega_cpu_fold(team, a->sum, a->head.scratch, chunk_count(a->rows), a->cols, a->cols);
}

static size_t scratch(const void *args, int threads)
{
    const mega_column_sum_args *a = args;
    (void)threads;
    return (size_t)(chunk_count(a->rows) * a->cols) * sizeof(float);
}

const mega_kernel mega_cpu_column_sum = {.name = "column_sum", .run = run, .scratch = scratch};
