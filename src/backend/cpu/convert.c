/* Conversion; the threads share the elements. Vector loops between F32, BF16 and F16, one element at a time for
 * F64. */
#include "cpu/share.h"
#include <float.h>
#include <math.h>

static bool is_fast(mega_dtype t)
{
    return t == MEGA_F32 || t == MEGA_BF16 || t == MEGA_F16;
}

/* Returns whether the vector loops can multiply by scale: they use float, in which a factor may become 0, infinity or
 * denormal. */
static bool fits_float(double scale)
{
    return scale == 0.0 || (fabs(scale) >= FLT_MIN && fabs(scale) <= FLT_MAX);
}

static void cpu_convert_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    const mega_convert_args *a = job->args;
    if (is_fast(a->dst_dtype) && is_fast(a->src_dtype) && fits_float(a->scale)) {
        job->bodies->convert(a, begin, end);
        return;
    }
    for (int64_t i = begin; i < end; i++) put(a->dst, a->dst_dtype, i, get(a->src, a->src_dtype, i) * a->scale);
}

static void cpu_convert_run(const mega_queue *queue, const void *args)
{
    const mega_convert_args *a = args;
    cpu_job_run(mega_queue_team(queue), cpu_convert_work, args, a->count, 1024, a->count);
}

const mega_kernel mega_cpu_convert = {.name = "convert", .run = cpu_convert_run};
