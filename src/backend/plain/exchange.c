/* Exchange of two buffers: plain kernel (optimizer_kernels.h). */
#include "backend_impl.h"

static void plain_exchange_run(const mega_queue *queue, const void *args)
{
    const mega_exchange_args *a = args;
    for (int64_t i = 0; i < a->count; i++) {
        const double kept = get(a->a, a->head.dtype, i);
        put(a->a, a->head.dtype, i, get(a->b, a->head.dtype, i));
        put(a->b, a->head.dtype, i, kept);
    }
}

const mega_kernel mega_plain_exchange = {.name = "exchange", .run = plain_exchange_run};
