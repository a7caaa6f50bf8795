/* Vectors of one width, VECTOR_BYTES, for the bodies of kernels: GNU vector extensions of gcc and clang, so one source
 * serves every instruction set. Included by the isa_*.c files only, after VECTOR_BYTES is defined; everything is
 * inlined into them, because a vector type passed between functions has no ABI below its instruction set. */
#ifndef MEGA_CPU_VECTOR_H
#define MEGA_CPU_VECTOR_H

#include "megalith/dtype.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define VL     (VECTOR_BYTES / 4) /* lanes */
#define ALWAYS static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t vi __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t vu __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t vh __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef float vf_half __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef double vd __attribute__((vector_size(VECTOR_BYTES)));

ALWAYS vf vset(float x)
{
    return x - (vf){0};
}

ALWAYS vf vload(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

ALWAYS void vstore(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}

/* a where the lane of m is all ones, b where it is zero. */
ALWAYS vf vselect(vi m, vf a, vf b)
{
    return (vf)(((vi)a & m) | ((vi)b & ~m));
}

/* The larger; b where either is NaN (what the instruction does). */
ALWAYS vf vmax(vf a, vf b)
{
#if defined(__AVX512F__) && VECTOR_BYTES == 64
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__) && VECTOR_BYTES == 32
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__) && VECTOR_BYTES == 16
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#else
    return vselect(a > b, a, b);
#endif
}

ALWAYS vf vmin(vf a, vf b)
{
#if defined(__AVX512F__) && VECTOR_BYTES == 64
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX__) && VECTOR_BYTES == 32
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__) && VECTOR_BYTES == 16
    return (vf)_mm_min_ps((__m128)a, (__m128)b);
#else
    return vselect(a < b, a, b);
#endif
}

/* VL bf16 numbers as floats. */
ALWAYS vf vwiden(vh h)
{
    return (vf)(__builtin_convertvector(h, vu) << 16);
}

/* To nearest even, NaN stays NaN: mega_f32_to_bf16 for a vector. */
ALWAYS vh vnarrow(vf x)
{
    const vu u = (vu)x;
    const vu rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, quiet = (u >> 16) | 0x40u;
    const vu nan = (vu)(x != x), bits = (quiet & nan) | (rounded & ~nan);
#if defined(__AVX2__) && VECTOR_BYTES == 32
    /* One instruction packs within each half of the register, one brings the halves together. */
    const __m256i packed = _mm256_packus_epi32((__m256i)bits, (__m256i)bits);
    return (vh)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
#else
    return __builtin_convertvector(bits, vh);
#endif
}

/* Elements [i, i + VL) of an array of float, or of bf16 where is_bf16 (a constant after inlining). */
ALWAYS vf vget(bool is_bf16, const void *x, int64_t i)
{
    if (!is_bf16) return vload((const float *)x + i);
    vh h;
    memcpy(&h, (const uint16_t *)x + i, sizeof h);
    return vwiden(h);
}

ALWAYS void vput(bool is_bf16, void *x, int64_t i, vf v)
{
    if (!is_bf16) {
        vstore((float *)x + i, v);
        return;
    }
    const vh h = vnarrow(v);
    memcpy((uint16_t *)x + i, &h, sizeof h);
}

/* The same where only n lanes are left: beyond them (n < VL) lanes read as zero and are not written. */
ALWAYS vf vget_n(bool is_bf16, const void *x, int64_t i, int64_t n)
{
    if (n >= VL) return vget(is_bf16, x, i);
    float lane[VL] = {0};
    for (int64_t l = 0; l < n; l++)
        lane[l] = is_bf16 ? mega_bf16_to_f32(((const uint16_t *)x)[i + l]) : ((const float *)x)[i + l];
    return vload(lane);
}

ALWAYS void vput_n(bool is_bf16, void *x, int64_t i, int64_t n, vf v)
{
    if (n >= VL) {
        vput(is_bf16, x, i, v);
        return;
    }
    float lane[VL];
    vstore(lane, v);
    for (int64_t l = 0; l < n; l++) {
        if (is_bf16) ((uint16_t *)x)[i + l] = mega_f32_to_bf16(lane[l]);
        else
            ((float *)x)[i + l] = lane[l];
    }
}

/* x in the first n lanes, zero behind them. */
ALWAYS vf vkeep(vf x, int64_t n)
{
    if (n >= VL) return x;
    float lane[VL];
    vstore(lane, x);
    for (int64_t l = n; l < VL; l++) lane[l] = 0.0f;
    return vload(lane);
}

/* Sum of the lanes, in a fixed order. */
ALWAYS float vsum(vf v)
{
#if VECTOR_BYTES == 32
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
    v += __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
    return v[0];
#else
    float lane[VL];
    vstore(lane, v);
    for (int step = VL / 2; step > 0; step /= 2)
        for (int l = 0; l < step; l++) lane[l] += lane[l + step];
    return lane[0];
#endif
}

ALWAYS float vmax_lane(vf v)
{
#if VECTOR_BYTES == 32
    v = vmax(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    v = vmax(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
    v = vmax(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
    return v[0];
#else
    float lane[VL];
    vstore(lane, v);
    for (int step = VL / 2; step > 0; step /= 2)
        for (int l = 0; l < step; l++) lane[l] = lane[l] > lane[l + step] ? lane[l] : lane[l + step];
    return lane[0];
#endif
}

/* Whether any lane of a comparison is set. */
ALWAYS bool vany(vi m)
{
    int32_t lane[VL], any = 0;
    memcpy(lane, &m, sizeof lane);
    for (int l = 0; l < VL; l++) any |= lane[l];
    return any != 0;
}

/* e^x, relative error below 2e-7: x = n ln 2 + r, |r| <= ln 2 / 2, e^r = 1 + r + r^2 q(r) with q of degree 4 fitted to
 * 3e-9. 0 below -87.3 (the result would be denormal), infinity above 88.7, NaN stays NaN. */
ALWAYS vf vexp(vf x)
{
    const vf shift = vset(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    const vf bounded = vmin(vset(89.0f), vmax(vset(-88.0f), x)); /* NaN stays: both return their second argument */
    const vf biased = bounded * 1.44269504089f + shift, n = biased - shift;
    const vf r = (bounded - n * 0.693359375f) - n * -2.12194440e-4f;
    vf q = vset(0.0013814596f);
    q = q * r + 0.0083687175f;
    q = q * r + 0.041668389f;
    q = q * r + 0.16666521f;
    q = q * r + 0.49999994f;
    const vf e = q * (r * r) + r + 1.0f;
    /* 2^n in two factors, as n may be 128 or -127. */
    const vi whole = (vi)((vu)biased - (vu)shift), half = whole >> 1, rest = whole - half;
    const vf y = e * (vf)((vu)(half + 127) << 23) * (vf)((vu)(rest + 127) << 23);
    return vselect(x < -87.33f, vset(0.0f), y);
}

/* Row i, lane l becomes row l, lane i: blocks of half the lanes change places, then of a quarter, … */
ALWAYS void vtranspose(vf r[VL])
{
#if VECTOR_BYTES == 64
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) {
        if ((i & 8) != 0) continue;
        const vf a = r[i], b = r[i + 8];
        r[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        r[i + 8] = __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    }
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) {
        if ((i & 4) != 0) continue;
        const vf a = r[i], b = r[i + 4];
        r[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
        r[i + 4] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    }
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) {
        if ((i & 2) != 0) continue;
        const vf a = r[i], b = r[i + 2];
        r[i] = __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        r[i + 2] = __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    }
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) {
        if ((i & 1) != 0) continue;
        const vf a = r[i], b = r[i + 1];
        r[i] = __builtin_shufflevector(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
        r[i + 1] = __builtin_shufflevector(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
    }
#elif VECTOR_BYTES == 32
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) {
        if ((i & 4) != 0) continue;
        const vf a = r[i], b = r[i + 4];
        r[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    }
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) {
        if ((i & 2) != 0) continue;
        const vf a = r[i], b = r[i + 2];
        r[i] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
        r[i + 2] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) {
        if ((i & 1) != 0) continue;
        const vf a = r[i], b = r[i + 1];
        r[i] = __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14);
        r[i + 1] = __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
    }
#else
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) {
        if ((i & 2) != 0) continue;
        const vf a = r[i], b = r[i + 2];
        r[i] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
        r[i + 2] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    }
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) {
        if ((i & 1) != 0) continue;
        const vf a = r[i], b = r[i + 1];
        r[i] = __builtin_shufflevector(a, b, 0, 4, 2, 6);
        r[i + 1] = __builtin_shufflevector(a, b, 1, 5, 3, 7);
    }
#endif
}

/* 2^x for x <= 127, relative error below 3e-7; 0 below -126 (the result would be denormal), NaN stays NaN. Half the
 * work of vexp, for softmax: x = n + f, |f| <= 1/2, 2^f by a polynomial of degree 5 fitted to 7e-8. */
ALWAYS vf vexp2(vf x)
{
    const vf shift = vset(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    const vf bounded = vmax(vset(-126.0f), x), biased = bounded + shift, f = bounded - (biased - shift);
    vf q = vset(0.0013266971f);
    q = q * f + 0.0096754599f;
    q = q * f + 0.055507425f;
    q = q * f + 0.24022122f;
    q = q * f + 0.69314694f;
    q = q * f + 1.0000001f;
    const vf y = (vf)((vu)q + ((vu)biased << 23));
    return (vf)((vi)y & ~(vi)(x < -126.0f));
}

#define LOG2_E 1.44269504f

/* 1 / (1 + e^-x), 0 below -87.33. x = n ln 2 + r as in vexp, e^-r by the polynomial of vexp2 in r; n lies within what
 * the exponent of a float holds, so one subtraction of bits multiplies by 2^-n. */
ALWAYS vf vsigmoid(vf x)
{
    const vf shift = vset(12582912.0f);
    const vf bounded = vmin(vset(87.33f), vmax(vset(-87.33f), x));
    const vf biased = bounded * 1.44269504089f + shift, n = biased - shift;
    const vf r = (bounded - n * 0.693359375f) - n * -2.12194440e-4f;
    vf e = vset(-0.00829171707f);
    e = e * r + 0.0419150292f;
    e = e * r + -0.166676625f;
    e = e * r + 0.499988996f;
    e = e * r + -0.999999653f;
    e = e * r + 1.0000001f;
    const vf y = 1.0f / (1.0f + (vf)((vu)e - ((vu)biased << 23)));
    return (vf)((vi)y & ~(vi)(x < -87.33f));
}

/* The normal distribution function (1 + erf(x / sqrt 2)) / 2. With z = |x| / sqrt 2 and t = 1 / (1 + z/2),
 * erfc(z) = e^(-z^2) t g(t), g of degree 8 fitted to 5e-8 for z <= 10. */
ALWAYS vf vnormal_cdf(vf x)
{
    const vf z = (vf)((vi)x & 0x7fffffff) * 0.70710678f, t = 1.0f / (1.0f + 0.5f * z);
    vf g = vset(-0.059069365f);
    g = g * t + 0.28457698f;
    g = g * t + -0.48720413f;
    g = g * t + 0.27807200f;
    g = g * t + -0.026628943f;
    g = g * t + 0.20268825f;
    g = g * t + 0.24310343f;
    g = g * t + 0.28237537f;
    g = g * t + 0.28208640f;
    const vf tail = 0.5f * (g * t) * vexp(-(z * z));
    return vselect(x > 0.0f, 1.0f - tail, tail);
}

#endif
