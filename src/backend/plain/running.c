/* Running statistics: plain kernel (optimizer_kernels.h). */
#include "backend_impl.h"

static void plain_running_run(const mega_queue *queue, const void *args)
{
    const mega_running_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    for (int64_t i = 0; i < a->count; i++) {
        const double y = a->kept * get(a->y, acc, i) + a->added * get(a->x, acc, i);
        put(a->y, acc, i, y);
        if (a->weight != NULL) put(a->weight, a->head.dtype, i, get(a->y, acc, i));
    }
}

const mega_kernel mega_plain_running = {.name = "running", .run = plain_running_run};
