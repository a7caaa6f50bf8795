/* Lamb's states and sums, and its trust ratio. The threads share chunks of elements, whose sums are kept in scratch and
 * added in order; F64 is computed the same way. */
#include "cpu/share.h"
#include <math.h>

#define REAL    float
#define SQRT    sqrtf
#define NAME(x) x##_f32
#include "cpu/lamb_moments_body.c"
#undef REAL
#undef SQRT
#undef NAME
#define REAL    double
#define SQRT    sqrt
#define NAME(x) x##_f64
#include "cpu/lamb_moments_body.c"

static void cpu_lamb_moments_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_lamb_moments_args *a = ((const cpu_job *)user)->args;
    for (int64_t first = begin; first < end; first += MEGA_LAMB_CHUNK) {
        const int64_t last = end - first > MEGA_LAMB_CHUNK ? first + MEGA_LAMB_CHUNK : end;
        double *sum = (double *)a->head.scratch + 2 * (first / MEGA_LAMB_CHUNK);
        (a->head.dtype == MEGA_F64 ? lamb_chunk_f64 : lamb_chunk_f32)(a, first, last, sum);
    }
}

static size_t cpu_lamb_moments_scratch(const void *args, int threads)
{
    const mega_lamb_moments_args *a = args;
    return (size_t)((a->count + MEGA_LAMB_CHUNK - 1) / MEGA_LAMB_CHUNK) * 2 * sizeof(double);
}

static void cpu_lamb_moments_run(const mega_queue *queue, const void *args)
{
    const mega_lamb_moments_args *a = args;
    const double *const sum = a->head.scratch;
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    cpu_job_run(mega_queue_team(queue), cpu_lamb_moments_work, args, a->count, MEGA_LAMB_CHUNK, a->count);
    for (int64_t k = 0; k * MEGA_LAMB_CHUNK < a->count && a->sums != NULL; k++)
        for (int j = 0; j < 2; j++) a->sums[j] += sum[2 * k + j];
}

static void cpu_lamb_ratio_run(const mega_queue *queue, const void *args)
{
    mega_plain_lamb_ratio.run(queue, args);
}

const mega_kernel mega_cpu_lamb_moments = {
    .name = "lamb_moments", .run = cpu_lamb_moments_run, .scratch = cpu_lamb_moments_scratch};
const mega_kernel mega_cpu_lamb_ratio = {.name = "lamb_ratio", .run = cpu_lamb_ratio_run};
