/* Vectors of VECTOR_BYTES bytes, for the bodies of kernels. They are GNU vector extensions of gcc and clang, so that
 * one source serves every instruction set. Only the isa_*.c files include this header, after they define VECTOR_BYTES.
 * All functions are inlined, because there is no ABI for passing a vector type that the base instruction set lacks. */
#ifndef MEGA_CPU_VECTOR_H
#define MEGA_CPU_VECTOR_H

#include "megalith/dtype.h"
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define VL (VECTOR_BYTES / 4) /* lanes */
/* A long function, where one call costs little. Vectors of 16 bytes can be passed everywhere. */
#define LONG static __attribute__((noinline, unused))
#if VECTOR_BYTES == 16
#define LONG_IF_PORTABLE LONG
#else
#define LONG_IF_PORTABLE ALWAYS
#endif
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

/* Returns a in lanes where m is all ones, and b in lanes where m is zero. */
ALWAYS vf vselect(vi m, vf a, vf b)
{
    return (vf)(((vi)a & m) | ((vi)b & ~m));
}

/* Returns the larger of both; b if either is NaN, as the machine instruction does. */
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

/* Number types. The bodies take the type of their arrays as an argument that is a constant after inlining, so that only
 * these functions know how a number is stored. Types are F32, BF16 and F16; arithmetic is always float. */

/* Runs `call`, in which `type` is a constant with the value of `dtype`: one copy of the loops for each type.
 * With ONLY_BF16 the caller has looked at the type. */
#ifdef ONLY_BF16
#define BY_TYPE(dtype, call)               \
    do {                                   \
        const mega_dtype type = MEGA_BF16; \
        (void)(dtype);                     \
        call;                              \
    } while (0)
#else
#define BY_TYPE(dtype, call)                   \
    do {                                       \
        switch (dtype) {                       \
        case MEGA_BF16: {                      \
            const mega_dtype type = MEGA_BF16; \
            call;                              \
            break;                             \
        }                                      \
        case MEGA_F16: {                       \
            const mega_dtype type = MEGA_F16;  \
            call;                              \
            break;                             \
        }                                      \
        default: {                             \
            const mega_dtype type = MEGA_F32;  \
            call;                              \
        }                                      \
        }                                      \
    } while (0)
#endif

/* Returns the bytes of a number. */
ALWAYS int64_t vsize(mega_dtype type)
{
    return type == MEGA_F32 ? 4 : 2;
}

/* Converts VL numbers of F16 to floats, and a signaling NaN to a quiet one, like mega_f16_to_f32. The generic form
 * makes no denormal floats: a denormal number is the difference of two normal ones. */
LONG_IF_PORTABLE vf vwiden_f16(vh h)
{
#if defined(__AVX512F__) && VECTOR_BYTES == 64
    return (vf)_mm512_cvtph_ps((__m256i)h);
#elif defined(__F16C__) && VECTOR_BYTES == 32
    return (vf)_mm256_cvtph_ps((__m128i)h);
#else
    const vu u = __builtin_convertvector(h, vu), sign = (u & 0x8000u) << 16, size = (u & 0x7fffu) << 13;
    const vf tiny = (vf)(size + 0x38800000u) - vset(6.103515625e-5f); /* 2^-14 */
    const vu special = size + 0x70000000u, quiet = (vu)(size > 0x0f800000u) & 0x400000u;
    vu bits = size + 0x38000000u;
    bits = (vu)vselect((vi)(size < 0x00800000u), tiny, (vf)bits);
    bits = (vu)vselect((vi)(size >= 0x0f800000u), (vf)(special | quiet), (vf)bits);
    return (vf)(bits | sign);
#endif
}

/* Rounds to the nearest even F16; numbers of at least 65520 become infinity, NaN stays NaN. The vector form of
 * mega_f32_to_f16. */
LONG_IF_PORTABLE vh vnarrow_f16(vf x)
{
#if defined(__AVX512F__) && VECTOR_BYTES == 64
    return (vh)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__F16C__) && VECTOR_BYTES == 32
    return (vh)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
#else
    const vu sign = ((vu)x >> 16) & 0x8000u, size = (vu)x & 0x7fffffffu;
    const vu tiny = (vu)((vf)size + 0.5f) - 0x3f000000u; /* the addition rounds at 2^-24, the smallest F16 */
    const vu nan = 0x7e00u | ((size >> 13) & 0x3ffu), infinity = (vu){0} + 0x7c00u;
    vu bits = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
    bits = (vu)vselect((vi)(size < 0x38800000u), (vf)tiny, (vf)bits);
    bits = (vu)vselect((vi)(size >= 0x47800000u), (vf)infinity, (vf)bits);
    bits = (vu)vselect((vi)(size > 0x7f800000u), (vf)nan, (vf)bits);
    return __builtin_convertvector(bits | sign, vh);
#endif
}

/* Converts VL numbers of BF16 to floats. Written out for widths where gcc compiles the conversion badly. */
ALWAYS vf vwiden_bf16(vh h)
{
#if defined(__AVX512F__) && VECTOR_BYTES == 64
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#elif defined(__AVX2__) && VECTOR_BYTES == 32
    return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)h), 16);
#else
    return (vf)(__builtin_convertvector(h, vu) << 16);
#endif
}

/* Rounds to the nearest even BF16; NaN stays NaN. The vector form of mega_f32_to_bf16. */
ALWAYS vh vnarrow_bf16(vf x)
{
#if defined(__AVX512F__) && VECTOR_BYTES == 64
    const __m512i u = (__m512i)x;
    const __mmask16 nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    const __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i bits = _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x400000));
    return (vh)_mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
#else
    const vu u = (vu)x;
    const vu rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, quiet = (u >> 16) | 0x40u;
    const vu nan = (vu)(x != x), bits = (quiet & nan) | (rounded & ~nan);
#if defined(__AVX2__) && VECTOR_BYTES == 32
    /* The first instruction packs within each half of the register, the second joins the halves. */
    const __m256i packed = _mm256_packus_epi32((__m256i)bits, (__m256i)bits);
    return (vh)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
#else
    return __builtin_convertvector(bits, vh);
#endif
#endif
}

/* Converts VL numbers of a 16-bit type to floats, and back, rounding exactly. */
ALWAYS vf vwiden(mega_dtype type, vh h)
{
    return type == MEGA_F16 ? vwiden_f16(h) : vwiden_bf16(h);
}

ALWAYS vh vnarrow(mega_dtype type, vf x)
{
    return type == MEGA_F16 ? vnarrow_f16(x) : vnarrow_bf16(x);
}

/* Like vnarrow, for activations and their gradients: uses the processor's own instruction for BF16 if there is one. The
 * only difference from vnarrow is that a number below 2^-126 becomes zero. The results of the optimizer and of
 * `convert` always go through vnarrow, so that the weights in a checkpoint are exactly those of the run. */
ALWAYS vh vround(mega_dtype type, vf x)
{
#if defined(__AVX512BF16__) && VECTOR_BYTES == 64
    if (type == MEGA_BF16) return (vh)_mm512_cvtneps_pbh((__m512)x);
#endif
    return vnarrow(type, x);
}

/* Loads elements [i, i + VL) of an array. */
ALWAYS vf vget(mega_dtype type, const void *x, int64_t i)
{
    if (type == MEGA_F32) return vload((const float *)x + i);
    vh h;
    memcpy(&h, (const uint16_t *)x + i, sizeof h);
    return vwiden(type, h);
}

ALWAYS void vput(mega_dtype type, void *x, int64_t i, vf v)
{
    if (type == MEGA_F32) {
        vstore((float *)x + i, v);
        return;
    }
    const vh h = vround(type, v);
    memcpy((uint16_t *)x + i, &h, sizeof h);
}

ALWAYS void vput_exact(mega_dtype type, void *x, int64_t i, vf v)
{
    if (type == MEGA_F32) {
        vstore((float *)x + i, v);
        return;
    }
    const vh h = vnarrow(type, v);
    memcpy((uint16_t *)x + i, &h, sizeof h);
}

/* One element. */
ALWAYS float get1(mega_dtype type, const void *x, int64_t i)
{
    return type == MEGA_BF16  ? mega_bf16_to_f32(((const uint16_t *)x)[i])
           : type == MEGA_F16 ? mega_f16_to_f32(((const uint16_t *)x)[i])
                              : ((const float *)x)[i];
}

ALWAYS void put1(mega_dtype type, void *x, int64_t i, float v)
{
    if (type == MEGA_BF16) ((uint16_t *)x)[i] = mega_f32_to_bf16(v);
    else if (type == MEGA_F16)
        ((uint16_t *)x)[i] = mega_f32_to_f16(v);
    else
        ((float *)x)[i] = v;
}

/* Results of at least this many bytes would leave the cache before they are read again. They are stored past the cache,
 * which avoids reading the lines that are overwritten (a copy of 50 MB is twice as fast). Smaller results stay in the
 * cache for the op that reads them. */
#define STREAM_BYTES ((int64_t)16 << 20)

/* Returns whether to store a result [rows, cols] at y past the cache: if it is large and its rows begin cache lines. */
ALWAYS bool vstreams(mega_dtype type, const void *y, int64_t rows, int64_t cols)
{
    const int64_t row = cols * vsize(type);
    return rows * row >= STREAM_BYTES && (((uint64_t)(uintptr_t)y | (uint64_t)row) & 63) == 0;
}

/* Like vput, but past the cache with `stream`. Call vstream_end after the last one. */
ALWAYS void vput_stream(bool stream, mega_dtype type, void *x, int64_t i, vf v)
{
#if defined(__x86_64__)
    if (stream) {
        if (type != MEGA_F32) {
            const vh h = vround(type, v);
#if VECTOR_BYTES == 64
            _mm256_stream_si256((__m256i *)(void *)((uint16_t *)x + i), (__m256i)h);
#elif VECTOR_BYTES == 32
            _mm_stream_si128((__m128i *)(void *)((uint16_t *)x + i), (__m128i)h);
#else
            _mm_stream_si64((long long *)(void *)((uint16_t *)x + i), (long long)h);
#endif
        } else {
#if VECTOR_BYTES == 64
            _mm512_stream_ps((float *)x + i, (__m512)v);
#elif VECTOR_BYTES == 32
            _mm256_stream_ps((float *)x + i, (__m256)v);
#else
            _mm_stream_ps((float *)x + i, (__m128)v);
#endif
        }
        return;
    }
#endif
    (void)stream;
    vput(type, x, i, v);
}

/* Makes the stores past the cache visible to other threads before anything that follows. */
ALWAYS void vstream_end(bool stream)
{
#if defined(__x86_64__)
    if (stream) _mm_sfence();
#endif
    (void)stream;
}

#if defined(__AVX512BW__) && defined(__AVX512VL__) && VECTOR_BYTES == 64
/* Returns the mask of the first n lanes of VL, n in 0…VL. */
ALWAYS __mmask16 vlanes(int64_t n)
{
    return (__mmask16)(0xffffu >> (VL - n));
}
#endif

#if VECTOR_BYTES < 64 || !defined(__AVX512BW__) || !defined(__AVX512VL__)
/* The last elements of rows, in calls, because these loops are longer than what surrounds them. */
LONG void lanes_read(mega_dtype type, float lane[VL], const void *x, int64_t i, int64_t n)
{
    for (int64_t l = 0; l < VL; l++) lane[l] = l < n ? get1(type, x, i + l) : 0.0f;
}

LONG void lanes_write(mega_dtype type, const float lane[VL], void *x, int64_t i, int64_t n)
{
    for (int64_t l = 0; l < n; l++) put1(type, x, i + l, lane[l]);
}
#endif

/* Like vget and vput for only n < VL elements: the other lanes read as zero and are not written. */
ALWAYS vf vget_n(mega_dtype type, const void *x, int64_t i, int64_t n)
{
    if (n >= VL) return vget(type, x, i);
#if defined(__AVX512BW__) && defined(__AVX512VL__) && VECTOR_BYTES == 64
    if (type != MEGA_F32) return vwiden(type, (vh)_mm256_maskz_loadu_epi16(vlanes(n), (const uint16_t *)x + i));
    return (vf)_mm512_maskz_loadu_ps(vlanes(n), (const float *)x + i);
#else
    float lane[VL];
    lanes_read(type, lane, x, i, n);
    return vload(lane);
#endif
}

ALWAYS void vput_n(mega_dtype type, void *x, int64_t i, int64_t n, vf v)
{
    if (n >= VL) {
        vput(type, x, i, v);
        return;
    }
#if defined(__AVX512BW__) && defined(__AVX512VL__) && VECTOR_BYTES == 64
    if (type == MEGA_F32) _mm512_mask_storeu_ps((float *)x + i, vlanes(n), (__m512)v);
    else
        _mm256_mask_storeu_epi16((uint16_t *)x + i, vlanes(n), (__m256i)vround(type, v));
#else
    float lane[VL];
    vstore(lane, v);
    lanes_write(type, lane, x, i, n);
#endif
}

/* Returns x in the first n lanes and zero in the others. */
ALWAYS vf vkeep(vf x, int64_t n)
{
    if (n >= VL) return x;
#if defined(__AVX512F__) && VECTOR_BYTES == 64
    return (vf)_mm512_maskz_mov_ps((__mmask16)(0xffffu >> (VL - n)), (__m512)x);
#else
    float lane[VL];
    vstore(lane, x);
    for (int64_t l = n; l < VL; l++) lane[l] = 0.0f;
    return vload(lane);
#endif
}

/* Returns the sum of the lanes, added in a fixed order. */
ALWAYS float vsum(vf v)
{
#if VECTOR_BYTES == 64
    v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    v += __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    return v[0];
#elif VECTOR_BYTES == 32
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
#if VECTOR_BYTES == 64
    v = vmax(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    v = vmax(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    v = vmax(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    v = vmax(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
    return v[0];
#elif VECTOR_BYTES == 32
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

/* Returns whether any lane of a comparison is set. */
ALWAYS bool vany(vi m)
{
    int32_t lane[VL], any = 0;
    memcpy(lane, &m, sizeof lane);
    for (int l = 0; l < VL; l++) any |= lane[l];
    return any != 0;
}

/* Transposes: row i, lane l becomes row l, lane i. Blocks of half the lanes are exchanged, then of a quarter, … */
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

#endif
