/* Adds up the partial sums of chunks of rows (share.h). */
#include "cpu/share.h"

typedef struct fold {
    const cpu_bodies *bodies;
    float *sum;
    const float *partial;
    int64_t chunks, ld, cols;
} fold;

static void work(void *user, int thread, int size)
{
    const fold *f = user;
    int64_t begin, end;
    mega_team_share(f->cols, 16, thread, size, &begin, &end);
    if (begin < end) f->bodies->fold(f->sum, f->partial, f->chunks, f->ld, begin, end);
}

void mega_cpu_fold(mega_team *team, float *sum, const float *partial, int64_t chunks, int64_t ld, int64_t cols)
{
    fold f = {mega_cpu_bodies_get(), sum, partial, chunks, ld, cols};
    mega_team_run(chunks * cols < CPU_SMALL_JOB ? NULL : team, work, &f);
}
