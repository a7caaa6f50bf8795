/* Data types of tensor elements and of files. */
#ifndef MEGALITH_DTYPE_H
#define MEGALITH_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mega_dtype {
    MEGA_F32 = 0,
    MEGA_BF16,
    MEGA_F64,
    MEGA_F16,
    MEGA_I32,
    MEGA_I64,
    MEGA_U8,
    MEGA_U16,
    MEGA_I8,
    MEGA_I16,
    MEGA_DTYPE_COUNT
} mega_dtype;

/* What ranks make of their numbers. */
typedef enum mega_reduce { MEGA_REDUCE_SUM, MEGA_REDUCE_MAX, MEGA_REDUCE_MIN } mega_reduce;

size_t mega_dtype_size(mega_dtype t);
const char *mega_dtype_name(mega_dtype t); /* "f32", "bf16", … */

/* bfloat16 is the upper half of a float; rounds to nearest even, and NaN stays NaN. */
static inline float mega_bf16_to_f32(uint16_t h)
{
    const uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static inline uint16_t mega_f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
float mega_f16_to_f32(uint16_t h);
uint16_t mega_f32_to_f16(float f);

/* Both 16-bit types, with the type as an argument. Arithmetic on them is in float. */
static inline bool mega_dtype_is_half(mega_dtype t)
{
    return t == MEGA_BF16 || t == MEGA_F16;
}
static inline float mega_half_to_f32(uint16_t h, mega_dtype t)
{
    return t == MEGA_BF16 ? mega_bf16_to_f32(h) : mega_f16_to_f32(h);
}
static inline uint16_t mega_f32_to_half(float f, mega_dtype t)
{
    return t == MEGA_BF16 ? mega_f32_to_bf16(f) : mega_f32_to_f16(f);
}
/* Arrays of n numbers: out[i] = x[i], the same numbers as above, in vectors where the processor has them. */
void mega_half_widen(float *out, const uint16_t *x, int64_t n, mega_dtype t);
void mega_half_narrow(uint16_t *out, const float *x, int64_t n, mega_dtype t);

#ifdef __cplusplus
}
#endif

#endif
