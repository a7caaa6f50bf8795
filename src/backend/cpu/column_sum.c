/* Sum over rows; the threads share chunks of rows (share.h). */
#include "cpu/share.h"

static void cpu_column_sum_chunk(const void *args, int64_t begin, int64_t end, float *partial)
{
    mega_cpu_bodies_get()->column_sum(args, begin, end, partial);
}

static void cpu_column_sum_run(mega_team *team, const void *args)
{
    const mega_column_sum_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_column_sum.run(team, args);
        return;
    }
    mega_cpu_chunks(team, cpu_column_sum_chunk, a, a->rows, a->cols, a->head.scratch, a->cols);
    mega_cpu_fold(team, a->sum, a->head.scratch, chunk_count(a->rows), a->cols, a->cols);
}

static size_t cpu_column_sum_scratch(const void *args, int threads)
{
    const mega_column_sum_args *a = args;
    (void)threads;
    return (size_t)(chunk_count(a->rows) * a->cols) * sizeof(float);
}

const mega_kernel mega_cpu_column_sum = {
    .name = "column_sum", .run = cpu_column_sum_run, .scratch = cpu_column_sum_scratch};
