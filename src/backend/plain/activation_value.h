/* Values and slopes of the activations (tensor.h), for the plain kernels. */
#ifndef MEGA_BACKEND_ACTIVATION_VALUE_H
#define MEGA_BACKEND_ACTIVATION_VALUE_H

#include "backend_impl.h"
#include <math.h>

static inline double logistic(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* Hendrycks, Gimpel 2016. */
static inline double gelu(double u, bool tanh_form)
{
    if (tanh_form) return 0.5 * u * (1.0 + tanh(0.79788456080286535588 * (u + 0.044715 * u * u * u)));
    return 0.5 * u * (1.0 + erf(u * 0.70710678118654752440));
}

static inline double gelu_slope(double u, bool tanh_form)
{
    if (tanh_form) {
        const double k = 0.79788456080286535588, th = tanh(k * (u + 0.044715 * u * u * u));
        return 0.5 * (1.0 + th) + 0.5 * u * (1.0 - th * th) * k * (1.0 + 3.0 * 0.044715 * u * u);
    }
    return 0.5 * (1.0 + erf(u * 0.70710678118654752440)) + u * 0.39894228040143267794 * exp(-0.5 * u * u);
}

static inline double activation_of(mega_activation_kind kind, double x)
{
    switch (kind) {
    case MEGA_ACT_GELU_TANH: return gelu(x, true);
    case MEGA_ACT_GELU: return gelu(x, false);
    case MEGA_ACT_RELU: return x <= 0.0 ? 0.0 : x;
    case MEGA_ACT_RELU_SQUARED: return x <= 0.0 ? 0.0 : x * x;
    case MEGA_ACT_SILU: return x * logistic(x);
    case MEGA_ACT_TANH: return tanh(x);
    case MEGA_ACT_IDENTITY: return x;
    default: return logistic(x);
    }
}

static inline double slope_of(mega_activation_kind kind, double x)
{
    const double s = logistic(x), t = tanh(x);
    switch (kind) {
    case MEGA_ACT_GELU_TANH: return gelu_slope(x, true);
    case MEGA_ACT_GELU: return gelu_slope(x, false);
    case MEGA_ACT_RELU: return x <= 0.0 ? 0.0 : x > 0.0 ? 1.0 : x;
    case MEGA_ACT_RELU_SQUARED: return x <= 0.0 ? 0.0 : 2.0 * x;
    case MEGA_ACT_SILU: return s + x * s * logistic(-x);
    case MEGA_ACT_TANH: return 1.0 - t * t;
    case MEGA_ACT_IDENTITY: return 1.0;
    default: return s * logistic(-x);
    }
}

#endif
