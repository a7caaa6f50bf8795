/* Number types: names, sizes, conversions. */
#include "megalith/dtype.h"
#include "base_impl.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const struct {
    const char *name;
    size_t size;
} types[MEGA_DTYPE_COUNT] = {
    [MEGA_F32] = {"f32", 4}, [MEGA_BF16] = {"bf16", 2}, [MEGA_F64] = {"f64", 8}, [MEGA_F16] = {"f16", 2},
    [MEGA_I32] = {"i32", 4}, [MEGA_I64] = {"i64", 8},   [MEGA_U8] = {"u8", 1},   [MEGA_U16] = {"u16", 2},
    [MEGA_I8] = {"i8", 1},   [MEGA_I16] = {"i16", 2},
};

size_t mega_dtype_size(mega_dtype t)
{
    return (unsigned)t < MEGA_DTYPE_COUNT ? types[t].size : 0;
}

const char *mega_dtype_name(mega_dtype t)
{
    return (unsigned)t < MEGA_DTYPE_COUNT ? types[t].name : "unknown";
}

float mega_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, fraction = h & 0x3ffu;
    float f;
    if (exponent == 0) { /* zero and subnormal: fraction * 2^-24, exact in a float */
        f = (float)fraction * 5.9604644775390625e-8f;
        return sign ? -f : f;
    }
    const uint32_t u = exponent == 31 ? sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0)
                                      : sign | (exponent + 112) << 23 | fraction << 13;
    memcpy(&f, &u, sizeof f);
    return f;
}

uint16_t mega_f32_to_f16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    const uint16_t sign = (uint16_t)((u >> 16) & 0x8000u);
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((u >> 13) & 0x3ffu)); /* NaN, quiet */
    if (u >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);                       /* 65536 and above */
    if (u >= 0x38800000u) { /* normal; a carry out of the fraction increments the exponent, up to infinity */
        const uint32_t rounded = u - 0x38000000u + 0xfffu + ((u >> 13) & 1u);
        return (uint16_t)(sign | rounded >> 13);
    }
    if (u < 0x33000000u) return sign; /* less than half of the smallest subnormal: rounds to 0 */
    const uint32_t shift = 126u - (u >> 23), fraction = (u & 0x7fffffu) | 0x800000u;
    const uint32_t kept = fraction >> shift, rest = fraction & ((1u << shift) - 1u), half = 1u << (shift - 1u);
    return (uint16_t)(sign | (kept + (rest > half || (rest == half && (kept & 1u)))));
}

#if defined(__x86_64__)
/* These convert as many F16 numbers as whole vectors hold, and return how many. Every processor of MEGA_ISA_AVX2 has
 * them. */
__attribute__((target("avx2,f16c"))) static int64_t widen_vectors(float *out, const uint16_t *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + i))));
    return i;
}

__attribute__((target("avx2,f16c"))) static int64_t narrow_vectors(uint16_t *out, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}
#endif

void mega_half_widen(float *out, const uint16_t *x, int64_t n, mega_dtype t)
{
    int64_t i = 0;
    if (t == MEGA_BF16) {
        for (; i < n; i++) out[i] = mega_bf16_to_f32(x[i]);
        return;
    }
#if defined(__x86_64__)
    if (mega_cpu_isa_of_processor() >= MEGA_ISA_AVX2) i = widen_vectors(out, x, n);
#endif
    for (; i < n; i++) out[i] = mega_f16_to_f32(x[i]);
}

void mega_half_narrow(uint16_t *out, const float *x, int64_t n, mega_dtype t)
{
    int64_t i = 0;
    if (t == MEGA_BF16) {
        for (; i < n; i++) out[i] = mega_f32_to_bf16(x[i]);
        return;
    }
#if defined(__x86_64__)
    if (mega_cpu_isa_of_processor() >= MEGA_ISA_AVX2) i = narrow_vectors(out, x, n);
#endif
    for (; i < n; i++) out[i] = mega_f32_to_f16(x[i]);
}
