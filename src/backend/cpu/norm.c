/* Sum of squares, and numbers of zeros and of values that are not finite. The threads share chunks of 65,536 elements,
 * whose results are kept in scratch and added in order. */
#include "cpu/share.h"

/* 256 kB of floats: one claim of a thread reads long enough that claiming costs nothing. The bits of the norm depend on
 * it. The line "norm" of bench_kernels is its speed beside a copy's. */
#define CHUNK 65536

static void cpu_norm_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    const mega_norm_args *a = job->args;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t rest = a->count - chunk * CHUNK;
        job->bodies->norm((const float *)a->x + chunk * CHUNK, rest < CHUNK ? rest : CHUNK,
                          (double *)a->head.scratch + 3 * chunk);
    }
}

static int64_t norm_chunks_of(const mega_norm_args *a)
{
    return (a->count + CHUNK - 1) / CHUNK;
}

static void cpu_norm_run(const mega_queue *queue, const void *args)
{
    const mega_norm_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_norm.run(queue, args);
        return;
    }
    cpu_job_run(mega_queue_team(queue), cpu_norm_work, args, norm_chunks_of(a), 1, a->count);
    double sum[3] = {0.0, 0.0, 0.0};
    for (int64_t k = 0; k < 3 * norm_chunks_of(a); k++) sum[k % 3] += ((const double *)a->head.scratch)[k];
    for (int i = 0; i < 3; i++) a->out[i] = a->adds ? a->out[i] + sum[i] : sum[i];
}

static size_t cpu_norm_scratch(const void *args, int threads)
{
    return (size_t)norm_chunks_of(args) * 3 * sizeof(double);
}

const mega_kernel mega_cpu_norm = {.name = "norm", .run = cpu_norm_run, .scratch = cpu_norm_scratch};
