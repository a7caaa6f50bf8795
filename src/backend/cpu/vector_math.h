/* Functions of vectors: e^x, 2^x, ln x, 1/x, the logistic function, tanh and the normal distribution function. */
#ifndef MEGA_CPU_VECTOR_MATH_H
#define MEGA_CPU_VECTOR_MATH_H

#include "cpu/vector.h"

/* Returns e^x with a relative error below 2e-7: x = n ln 2 + r, |r| <= ln 2 / 2, e^r = 1 + r + r^2 q(r), where q of
 * degree 4 is fitted to 3e-9. 0 below -87.3 (the result would be denormal), infinity above 88.7, NaN stays NaN. */
ALWAYS vf vexp(vf x)
{
    const vf shift = vset(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    const vf bounded = vmin(vset(89.0f), vmax(vset(-88.0f), x)); /* keeps NaN: both return their second argument */
    const vf biased = bounded * 1.44269504089f + shift, n = biased - shift;
    const vf r = (bounded - n * 0.693359375f) - n * -2.12194440e-4f;
    vf q = vset(0.0013814596f);
    q = q * r + 0.0083687175f;
    q = q * r + 0.041668389f;
    q = q * r + 0.16666521f;
    q = q * r + 0.49999994f;
    const vf e = q * (r * r) + r + 1.0f;
    /* 2^n as a product of two factors, because n may be 128 or -127. */
    const vi whole = (vi)((vu)biased - (vu)shift), half = whole >> 1, rest = whole - half;
    const vf y = e * (vf)((vu)(half + 127) << 23) * (vf)((vu)(rest + 127) << 23);
    return vselect(x < -87.33f, vset(0.0f), y);
}

/* Returns 2^x for x <= 127 with a relative error below 3e-7; 0 below -126 (the result would be denormal), NaN stays
 * NaN. Used in softmax, as it takes half the work of vexp: x = n + f, |f| <= 1/2, and 2^f is a polynomial of degree 5
 * fitted to 7e-8. */
ALWAYS vf vexp2(vf x)
{
#if defined(__AVX512DQ__) && VECTOR_BYTES == 64
    const vf f = (vf)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    const vf shift = vset(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    const vf bounded = vmax(vset(-126.0f), x), biased = bounded + shift, f = bounded - (biased - shift);
#endif
    vf q = vset(0.0013266971f);
    q = q * f + 0.0096754599f;
    q = q * f + 0.055507425f;
    q = q * f + 0.24022122f;
    q = q * f + 0.69314694f;
    q = q * f + 1.0000001f;
#if defined(__AVX512DQ__) && VECTOR_BYTES == 64
    const __mmask16 normal = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
    return (vf)_mm512_maskz_scalef_ps(normal, (__m512)q, (__m512)(x - f));
#else
    const vf y = (vf)((vu)q + ((vu)biased << 23));
    return (vf)((vi)y & ~(vi)(x < -126.0f));
#endif
}

#define LOG2_E 1.44269504f
#define LN_2   0.69314718f

/* Returns ln x for finite x >= 1e-30; the error is below 1e-7 of the larger of 1 and |ln x|. x = 2^n m with sqrt(1/2)
 * <= m < sqrt(2), and ln m is an odd series in (m - 1) / (m + 1). */
ALWAYS vf vlog(vf x)
{
    const vu away = (vu)x - 0x3f3504f3u; /* sqrt(1/2) */
    const vi n = (vi)away >> 23;
    const vf m = (vf)((vu)x - ((vu)n << 23)), t = (m - 1.0f) / (m + 1.0f), t2 = t * t;
    vf q = vset(0.1111111f);
    q = q * t2 + 0.1428571f;
    q = q * t2 + 0.2f;
    q = q * t2 + 0.3333333f;
    return __builtin_convertvector(n, vf) * LN_2 + (t + t * (t2 * q)) * 2.0f;
}

/* Returns 1/x for x in [1, 2^127), with half an ulp more error than the division, which is slow in vectors of 64
 * bytes. */
ALWAYS vf vreciprocal(vf x)
{
#if defined(__AVX512F__) && VECTOR_BYTES == 64
    const vf y = (vf)_mm512_rcp14_ps((__m512)x);
    return y + y * (1.0f - x * y);
#else
    return 1.0f / x;
#endif
}

/* Returns 1 / (1 + 2^x); 0 above 126, NaN stays NaN. Computes 2^x like vexp2. `coarse` (error below 1e-4) is enough for
 * results that are rounded to bf16. */
ALWAYS vf vlogistic2(bool coarse, vf x)
{
    const vf shift = vset(12582912.0f);
    const vf bounded = vmin(vset(126.0f), vmax(vset(-126.0f), x)); /* keeps NaN: both return their second argument */
    const vf biased = bounded + shift, f = bounded - (biased - shift);
    vf q;
    if (coarse) {
        q = vset(0.0551716691f);
        q = q * f + 0.242611122f;
        q = q * f + 0.693260985f;
        q = q * f + 0.999928074f;
    } else {
        q = vset(0.00132764722f);
        q = q * f + 0.00967554133f;
        q = q * f + 0.0555071327f;
        q = q * f + 0.240221197f;
        q = q * f + 0.693146967f;
        q = q * f + 1.00000007f;
    }
    const vf power = (vf)((vu)q + ((vu)biased << 23));
#if defined(__AVX512F__) && VECTOR_BYTES == 64
    const __m512 y = coarse ? _mm512_rcp14_ps((__m512)(1.0f + power)) : (__m512)vreciprocal(1.0f + power);
    return (vf)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(126.0f), _CMP_NGT_UQ), y);
#else
    return (vf)((vi)vreciprocal(1.0f + power) & ~(vi)(x > 126.0f));
#endif
}

/* Returns tanh x. Below 0.75 an odd polynomial fitted to a relative error of 4e-8 is used, because
 * 1 - 2 logistic(-2|x|) loses digits near 0. */
ALWAYS vf vtanh(vf x)
{
    const vf z = x * x, size = (vf)((vi)x & 0x7fffffff);
    vf q = vset(-0.00480235f);
    q = q * z + 0.01971116f;
    q = q * z + -0.0534129f;
    q = q * z + 0.13326965f;
    q = q * z + -0.33333096f;
    const vf large = 1.0f - 2.0f * vlogistic2(false, size * (2.0f * LOG2_E));
    const vf signed_large = (vf)((vi)large | ((vi)x & ~0x7fffffff));
    return vselect(size < 0.75f, x + x * (z * q), signed_large);
}

/* Returns the normal distribution function (1 + erf(x / sqrt 2)) / 2. With z = |x| / sqrt 2 and t = 1 / (1 + z/2),
 * erfc(z) = e^(-z^2) t g(t), where g of degree 8 is fitted to 5e-8 for z <= 10. */
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
