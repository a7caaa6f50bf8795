/* Shared by all kernels: reading and writing an element of any float type as a double, and dropout. */
#ifndef MEGA_BACKEND_IMPL_H
#define MEGA_BACKEND_IMPL_H

#include "megalith/dtype.h"
#include "megalith/kernels.h"
#include "megalith/philox.h"

/* Returns the accumulation type for a type; statistics, logits and weight gradients have it. */
static inline mega_dtype acc_of(mega_dtype t)
{
    return t == MEGA_F64 ? MEGA_F64 : MEGA_F32;
}

/* Returns element i of x as a double. */
static inline double get(const void *x, mega_dtype t, int64_t i)
{
    switch (t) {
    case MEGA_F64: return ((const double *)x)[i];
    case MEGA_BF16: return mega_bf16_to_f32(((const uint16_t *)x)[i]);
    case MEGA_F16: return mega_f16_to_f32(((const uint16_t *)x)[i]);
    default: return ((const float *)x)[i];
    }
}

/* Stores v in x[i], rounded to nearest even (16-bit types through float). */
static inline void put(void *x, mega_dtype t, int64_t i, double v)
{
    switch (t) {
    case MEGA_F64: ((double *)x)[i] = v; break;
    case MEGA_BF16: ((uint16_t *)x)[i] = mega_f32_to_bf16((float)v); break;
    case MEGA_F16: ((uint16_t *)x)[i] = mega_f32_to_f16((float)v); break;
    default: ((float *)x)[i] = (float)v; break;
    }
}

/* x[i] += v */
static inline void put_add(void *x, mega_dtype t, int64_t i, double v)
{
    put(x, t, i, get(x, t, i) + v);
}

/* Returns the dropout factor of element i of a block of eight, with dropout probability p: 0 or 1/(1-p). */
static inline double dropout_factor(const mega_step_block *step, uint32_t site, uint32_t sample, uint64_t block, int i,
                                    double p)
{
    const mega_philox r = mega_philox_dropout(step->seed, site, step->step, sample, block);
    return mega_dropout_bits(r, i) >= mega_dropout_threshold(p) ? mega_dropout_scale(p) : 0.0;
}

/* Returns a rounded up to a multiple of 64, the alignment of scratch. */
static inline size_t round_up_64(size_t a)
{
    return (a + 63) / 64 * 64;
}

#endif
