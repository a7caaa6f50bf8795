/* a + b: plain kernel (ops_elementwise.h). */
#include "backend_impl.h"

static void plain_add_run(const mega_queue *queue, const void *args)
{
    const mega_add_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t i = 0; i < a->count; i++) put(a->y, t, i, get(a->a, t, i) + get(a->b, t, i));
}

const mega_kernel mega_plain_add = {.name = "add", .run = plain_add_run};
