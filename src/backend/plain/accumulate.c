/* What a micro-batch adds to a gradient: plain kernel (kernels.h). */
#include "backend_impl.h"

static void plain_accumulate_run(const mega_queue *queue, const void *args)
{
    const mega_accumulate_args *a = args;
    for (int64_t i = 0; i < a->count; i++) {
        const double x = get(a->x, acc_of(a->head.dtype), i);
        put(a->y, a->y_dtype, i, a->overwrites ? x : get(a->y, a->y_dtype, i) + x);
    }
}

const mega_kernel mega_plain_accumulate = {.name = "accumulate", .run = plain_accumulate_run};
