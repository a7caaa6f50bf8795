/* Number types. */
#include "megalith/dtype.h"

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
