/* Running statistics, and a bias of the choice of experts: plain kernels (optimizer_kernels.h). */
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

static void plain_choice_bias_run(const mega_queue *queue, const void *args)
{
    const mega_choice_bias_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    if (MEGA_UPDATE_IS_REFUSED(a->block)) return;
    for (int64_t i = 0; i < a->count; i++) {
        const double missing = a->mean - get(a->x, acc, i);
        put(a->y, acc, i, get(a->y, acc, i) + (missing > 0.0 ? a->rate : missing < 0.0 ? -a->rate : 0.0));
        if (a->weight != NULL) put(a->weight, a->head.dtype, i, get(a->y, acc, i));
    }
}

const mega_kernel mega_plain_running = {.name = "running", .run = plain_running_run};
const mega_kernel mega_plain_choice_bias = {.name = "choice_bias", .run = plain_choice_bias_run};
