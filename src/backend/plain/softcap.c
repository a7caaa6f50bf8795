/* Soft-capped logits and their gradient: plain kernel (ops_elementwise.h). */
#include "backend_impl.h"
#include <math.h>

static void plain_softcap_run(const mega_queue *queue, const void *args)
{
    const mega_softcap_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    for (int64_t i = 0; i < a->count; i++) put(a->y, acc, i, a->cap * tanh(get(a->x, acc, i) / a->cap));
}

static void plain_softcap_grad_run(const mega_queue *queue, const void *args)
{
    const mega_softcap_grad_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t i = 0; i < a->count; i++) {
        const double share = get(a->y, acc_of(t), i) / a->cap;
        put(a->dx, t, i, get(a->dy, t, i) * (1.0 - share * share));
    }
}

const mega_kernel mega_plain_softcap = {.name = "softcap", .run = plain_softcap_run};
const mega_kernel mega_plain_softcap_grad = {.name = "softcap_grad", .run = plain_softcap_grad_run};
