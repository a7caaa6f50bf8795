/* Activations by kind and their gradients: plain kernel (ops_elementwise.h). */
#include "backend_impl.h"
#include <math.h>

static double logistic(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double activation_of(mega_activation_kind kind, double x)
{
    switch (kind) {
    case MEGA_ACT_RELU: return x <= 0.0 ? 0.0 : x;
    case MEGA_ACT_RELU_SQUARED: return x <= 0.0 ? 0.0 : x * x;
    case MEGA_ACT_SILU: return x * logistic(x);
    case MEGA_ACT_TANH: return tanh(x);
    default: return logistic(x);
    }
}

static double slope_of(mega_activation_kind kind, double x)
{
    const double s = logistic(x), t = tanh(x);
    switch (kind) {
    case MEGA_ACT_RELU: return x <= 0.0 ? 0.0 : x > 0.0 ? 1.0 : x;
    case MEGA_ACT_RELU_SQUARED: return x <= 0.0 ? 0.0 : 2.0 * x;
    case MEGA_ACT_SILU: return s + x * s * logistic(-x);
    case MEGA_ACT_TANH: return 1.0 - t * t;
    default: return s * logistic(-x);
    }
}

static void plain_activation_run(mega_team *team, const void *args)
{
    const mega_activation_args *a = args;
    const mega_dtype t = a->head.dtype;
    (void)team;
    for (int64_t i = 0; i < a->count; i++) put(a->y, t, i, activation_of(a->kind, get(a->x, t, i)));
}

static void plain_activation_grad_run(mega_team *team, const void *args)
{
    const mega_activation_grad_args *a = args;
    const mega_dtype t = a->head.dtype;
    (void)team;
    for (int64_t i = 0; i < a->count; i++) put(a->dx, t, i, get(a->dy, t, i) * slope_of(a->kind, get(a->x, t, i)));
}

const mega_kernel mega_plain_activation = {.name = "activation", .run = plain_activation_run};
const mega_kernel mega_plain_activation_grad = {.name = "activation_grad", .run = plain_activation_grad_run};
