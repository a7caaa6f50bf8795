/* Functions of floats that device.h does not have, and the activations with their slopes. */
#ifndef MEGA_CUDA_FUNCTIONS_H
#define MEGA_CUDA_FUNCTIONS_H

#include "kernel.h"

#define LOG2_E 1.4426950408889634f
#define LN_2   0.6931471805599453f

BODY float exp_of(float x)
{
    return device_exp2(x * LOG2_E);
}

BODY float log_of(float x)
{
    return device_log2(x) * LN_2;
}

BODY float logistic(float x)
{
    return device_divide(1.0f, 1.0f + exp_of(-x));
}

BODY float size_of(float x)
{
    return bits_float(float_bits(x) & 0x7fffffffu);
}

/* The normal distribution function, as in cpu/vector_math.h. */
BODY float normal_cdf(float x)
{
    const float z = size_of(x) * 0.70710678f, t = device_divide(1.0f, 1.0f + 0.5f * z);
    float g = -0.059069365f;
    g = g * t + 0.28457698f;
    g = g * t + -0.48720413f;
    g = g * t + 0.27807200f;
    g = g * t + -0.026628943f;
    g = g * t + 0.20268825f;
    g = g * t + 0.24310343f;
    g = g * t + 0.28237537f;
    g = g * t + 0.28208640f;
    const float tail = 0.5f * (g * t) * exp_of(-(z * z));
    return x > 0.0f ? 1.0f - tail : tail;
}

/* 0.5 (1 + tanh y) is logistic(2 y), which loses no digits where tanh is near -1. */
#define GELU_TWICE_K 1.5957691216057308f
BODY float gelu_of(float u, bool tanh_form)
{
    return u * (tanh_form ? logistic(GELU_TWICE_K * (u + 0.044715f * u * u * u)) : normal_cdf(u));
}

BODY float gelu_slope(float u, bool tanh_form)
{
    if (!tanh_form) return normal_cdf(u) + u * 0.3989422804f * exp_of(-0.5f * u * u);
    const float y = GELU_TWICE_K * (u + 0.044715f * u * u * u), s = logistic(y), rest = logistic(-y);
    return s + u * s * rest * GELU_TWICE_K * (1.0f + 3.0f * 0.044715f * u * u);
}

BODY float activation_of(mega_activation_kind kind, float x)
{
    switch (kind) {
    case MEGA_ACT_GELU_TANH: return gelu_of(x, true);
    case MEGA_ACT_GELU: return gelu_of(x, false);
    case MEGA_ACT_RELU: return x <= 0.0f ? 0.0f : x;
    case MEGA_ACT_RELU_SQUARED: return x <= 0.0f ? 0.0f : x * x;
    case MEGA_ACT_SILU: return x * logistic(x);
    case MEGA_ACT_TANH: return device_tanh(x);
    case MEGA_ACT_IDENTITY: return x;
    default: return logistic(x);
    }
}

BODY float activation_slope(mega_activation_kind kind, float x)
{
    const float s = logistic(x), rest = logistic(-x);
    switch (kind) {
    case MEGA_ACT_GELU_TANH: return gelu_slope(x, true);
    case MEGA_ACT_GELU: return gelu_slope(x, false);
    case MEGA_ACT_RELU: return x <= 0.0f ? 0.0f : x > 0.0f ? 1.0f : x;
    case MEGA_ACT_RELU_SQUARED: return x <= 0.0f ? 0.0f : 2.0f * x;
    case MEGA_ACT_SILU: return s + x * s * rest;
    case MEGA_ACT_TANH: return 4.0f * logistic(2.0f * x) * logistic(-2.0f * x); /* 1 - tanh^2 without cancelling */
    case MEGA_ACT_IDENTITY: return 1.0f;
    default: return s * rest;
    }
}

#endif
