/* Activations by kind and their gradients: plain kernel (ops_elementwise.h). */
#include "plain/activation_value.h"

static void plain_activation_run(const mega_queue *queue, const void *args)
{
    const mega_activation_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t i = 0; i < a->count; i++) put(a->y, t, i, activation_of(a->kind, get(a->x, t, i)));
}

static void plain_activation_grad_run(const mega_queue *queue, const void *args)
{
    const mega_activation_grad_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t i = 0; i < a->count; i++) put(a->dx, t, i, get(a->dy, t, i) * slope_of(a->kind, get(a->x, t, i)));
}

const mega_kernel mega_plain_activation = {.name = "activation", .run = plain_activation_run};
const mega_kernel mega_plain_activation_grad = {.name = "activation_grad", .run = plain_activation_grad_run};
