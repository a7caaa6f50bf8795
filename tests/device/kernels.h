/* Arguments of the kernels of kernels.cu, on which the software device is tested. */
#ifndef DEVICE_TEST_KERNELS_H
#define DEVICE_TEST_KERNELS_H

#include <stdint.h>

/* `mistake` plants one; 0: none. */
typedef struct scale_args { /* y = x * factor + addend */
    float *y;
    const float *x;
    float factor, addend;
    int64_t count; /* a multiple of 4 */
    int32_t mistake;
} scale_args;
enum { SCALE_PAST_END = 1, SCALE_TWICE, SCALE_UNALIGNED, SCALE_OTHER_OPERAND };

typedef struct row_sum_args { /* y[r] = sum of x[r, :] */
    float *y;
    const float *x;
    int32_t rows, cols, mistake;
} row_sum_args;
enum { ROW_SUM_NO_BARRIER = 1, ROW_SUM_LATE_BARRIER, ROW_SUM_FIFTH_WARP, ROW_SUM_HALF_BARRIER, ROW_SUM_ALONE };

typedef struct transpose_args { /* y[c, r] = x[r, c] of 32 x 32 numbers, by one warp */
    float *y;
    const float *x;
    int32_t mistake;
} transpose_args;
enum { TRANSPOSE_NO_BARRIER = 1, TRANSPOSE_FIRST_BARRIER, TRANSPOSE_BY_EXCHANGE };

typedef struct
    product_args { /* c[m, n] = a[m, k] b[n, k]^T, a and b of 16 bits, c f32; m, n multiples of 64, k of 32 */
    float *c;
    const uint16_t *a, *b;
    int32_t m, n, k, mistake;
} product_args;
enum { PRODUCT_NO_WAIT = 1, PRODUCT_NO_BARRIER, PRODUCT_NO_COMMIT, PRODUCT_LATE_BARRIER };

typedef struct tile_args { /* d[16, 8] = a[16, k] b[8, k]^T for one warp; a, b f32, rounded to tf32: k = 8 */
    float *d;
    const float *a, *b;
} tile_args;

#endif
