/* Functions of floats that device.h does not have, and the activations with their slopes. */
#ifndef MEGA_CUDA_FUNCTIONS_H
#define MEGA_CUDA_FUNCTIONS_H

#include "kernel.h"

#define LOG2_E 1.4426950408889634f
#define LN_2   0.6931471805599453f

BODY float minus_infinity(void)
{
    return bits_float(0xff800000u);
}

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

typedef struct value_slope {
    float value, slope;
} value_slope;

/* An activation and its slope at x. Of what the caller does not use, the compiler leaves no code. */
BODY value_slope activation_at(mega_activation_kind kind, float x)
{
    value_slope r = {x, 1.0f}; /* MEGA_ACT_IDENTITY */
    if (kind == MEGA_ACT_GELU_TANH) {
        r.value = gelu_of(x, true), r.slope = gelu_slope(x, true);
    } else if (kind == MEGA_ACT_GELU) {
        r.value = gelu_of(x, false), r.slope = gelu_slope(x, false);
    } else if (kind == MEGA_ACT_RELU) {
        r.value = x <= 0.0f ? 0.0f : x, r.slope = x <= 0.0f ? 0.0f : x > 0.0f ? 1.0f : x;
    } else if (kind == MEGA_ACT_RELU_SQUARED) {
        r.value = x <= 0.0f ? 0.0f : x * x, r.slope = x <= 0.0f ? 0.0f : 2.0f * x;
    } else if (kind == MEGA_ACT_TANH) { /* the slope is 1 - tanh^2, without cancelling */
        r.value = device_tanh(x), r.slope = 4.0f * logistic(2.0f * x) * logistic(-2.0f * x);
    } else if (kind != MEGA_ACT_IDENTITY) {
        const float s = logistic(x), slope = s * logistic(-x);
        r.value = kind == MEGA_ACT_SILU ? x * s : s;
        r.slope = kind == MEGA_ACT_SILU ? s + x * slope : slope;
    }
    return r;
}

#endif
