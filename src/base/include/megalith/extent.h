/* Products and sums of sizes (elements, rows, tokens) that saturate at INT64_MAX on overflow, so the caller checks a
 * formula once, by comparing its result with a limit. */
#ifndef MEGALITH_EXTENT_H
#define MEGALITH_EXTENT_H

#include <stdint.h>

/* Limit on the elements of a tensor: more than any machine holds, yet the bytes of all tensors of a program cannot
 * overflow. */
#define MEGA_MOST_ELEMENTS ((int64_t)1 << 46)

/* a and b are at least 0. */
static inline int64_t mega_extent_mul(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static inline int64_t mega_extent_add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

#endif
