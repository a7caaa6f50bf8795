/* Conversion between float types: plain kernel (ops_elementwise.h). */
#include "backend_impl.h"

static void plain_convert_run(const mega_queue *queue, const void *args)
{
    const mega_convert_args *a = args;
    for (int64_t i = 0; i < a->count; i++) put(a->dst, a->dst_dtype, i, get(a->src, a->src_dtype, i) * a->scale);
}

const mega_kernel mega_plain_convert = {.name = "convert", .run = plain_convert_run};
