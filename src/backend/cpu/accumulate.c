/* What a micro-batch adds to a gradient; the threads share the elements. A gradient that is held in 16 bits is widened,
 * added to in float, and rounded, a piece after the other. */
#include "cpu/share.h"
#include <string.h>

static void accumulate_half(const mega_accumulate_args *a, int64_t begin, int64_t end)
{
    enum { PIECE = 512 }; /* 2 kB of floats, in the first level of cache; no benchmark chose it */
    uint16_t *held = a->y;
    float sum[PIECE];
    for (int64_t at = begin; at < end; at += PIECE) {
        const int64_t n = end - at < PIECE ? end - at : PIECE;
        const float *from = (const float *)a->x + at;
        if (a->overwrites) {
            mega_half_narrow(held + at, from, n, a->y_dtype);
            continue;
        }
        mega_half_widen(sum, held + at, n, a->y_dtype);
        for (int64_t i = 0; i < n; i++) sum[i] += from[i];
        mega_half_narrow(held + at, sum, n, a->y_dtype);
    }
}

static void cpu_accumulate_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_accumulate_args *a = ((const cpu_job *)user)->args;
    if (a->y_dtype == MEGA_BF16 || a->y_dtype == MEGA_F16) {
        accumulate_half(a, begin, end);
    } else if (a->overwrites) {
        memcpy(element_at(a->y, a->y_dtype, begin), const_element_at(a->x, a->y_dtype, begin),
               (size_t)(end - begin) * mega_dtype_size(a->y_dtype));
    } else {
        float *restrict y = a->y;
        const float *restrict x = a->x;
        for (int64_t i = begin; i < end; i++) y[i] += x[i];
    }
}

static void cpu_accumulate_run(const mega_queue *queue, const void *args)
{
    const mega_accumulate_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_accumulate.run(queue, args);
    else
        cpu_job_run(mega_queue_team(queue), cpu_accumulate_work, args, a->count, 1024, a->count);
}

const mega_kernel mega_cpu_accumulate = {.name = "accumulate", .run = cpu_accumulate_run};
