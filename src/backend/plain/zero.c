/* Zeroing: plain kernel (kernels.h). */
#include "backend_impl.h"

static void plain_zero_run(const mega_queue *queue, const void *args)
{
    const mega_zero_args *a = args;
    for (int64_t i = 0; i < a->count; i++) put(a->x, a->head.dtype, i, 0.0);
}

const mega_kernel mega_plain_zero = {.name = "zero", .run = plain_zero_run};
