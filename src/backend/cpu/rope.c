/* Rotary position embedding; the threads share the rows. */
#include "cpu/share.h"

/* Returns the floats of scratch per thread: the cosines and sines of a row, each rounded up to cache lines. */
static int64_t rope_scratch_floats(const mega_rope_args *a)
{
    return 2 * ((a->rotated / 2 + 15) / 16 * 16);
}

static void rope_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    const mega_rope_args *a = job->args;
    const int64_t floats = rope_scratch_floats(a);
    float *cosines = (float *)a->head.scratch + thread * floats;
    job->bodies->rope(a, begin, end, cosines, cosines + floats / 2);
}

static void cpu_rope_run(const mega_queue *queue, const void *args)
{
    const mega_rope_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_rope.run(queue, args);
    else
        cpu_job_run(mega_queue_team(queue), rope_work, args, a->rows, 1, a->rows * a->cols);
}

static size_t cpu_rope_scratch(const void *args, int threads)
{
    const mega_rope_args *a = args;
    return a->head.dtype == MEGA_F64 ? 0 : (size_t)(threads * rope_scratch_floats(a)) * sizeof(float);
}

const mega_kernel mega_cpu_rope = {.name = "rope", .run = cpu_rope_run, .scratch = cpu_rope_scratch};
