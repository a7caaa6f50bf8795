/* Sums over rows: the threads share chunks of rows, whose partial sums are then added in order (share.h). */
#include "cpu/share.h"

typedef struct fold {
    const cpu_bodies *bodies;
    float *sum;
    const float *partial;
    int64_t chunks, ld;
} fold;

static void cpu_fold_work(void *user, int thread, int64_t begin, int64_t end)
{
    const fold *f = user;
    f->bodies->fold(f->sum, f->partial, f->chunks, f->ld, begin, end);
}

void mega_cpu_fold(mega_team *team, float *sum, const float *partial, int64_t chunks, int64_t ld, int64_t cols)
{
    fold f = {mega_cpu_bodies_get(), sum, partial, chunks, ld};
    mega_team_for(chunks * cols < CPU_SMALL_JOB ? NULL : team, cols, 16, cpu_fold_work, &f);
}

typedef struct chunks_job {
    cpu_chunk *chunk;
    const void *args;
    int64_t rows, ld;
    float *partial;
} chunks_job;

static void fold_run_chunks(void *user, int thread, int64_t begin, int64_t end)
{
    const chunks_job *j = user;
    const int64_t step = chunk_rows(j->rows);
    for (int64_t i = begin; i < end; i++) {
        const int64_t last = (i + 1) * step;
        j->chunk(j->args, i * step, last < j->rows ? last : j->rows,
                 j->partial != NULL ? j->partial + i * j->ld : NULL);
    }
}

void mega_cpu_chunks(mega_team *team, cpu_chunk *chunk, const void *args, int64_t rows, int64_t cols, float *partial,
                     int64_t ld)
{
    chunks_job job = {chunk, args, rows, ld, partial};
    mega_team_for(rows * cols < CPU_SMALL_JOB ? NULL : team, chunk_count(rows), 1, fold_run_chunks, &job);
}
