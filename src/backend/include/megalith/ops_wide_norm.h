/* RMS norm of rows whose channels are divided among ranks: the sum of the squares, which ranks add, and the scaling by
 * it. (The contract of all ops is in ops.h.) */
#ifndef MEGALITH_OPS_WIDE_NORM_H
#define MEGALITH_OPS_WIDE_NORM_H

#include "megalith/op_types.h"

#define MEGA_KERNELS_WIDE_NORM(X) \
    X(square_sum)                 \
    X(square_sum_grad)            \
    X(rms_scale)                  \
    X(rms_scale_grad)

#define MEGA_OPS_WIDE_NORM(X)           \
    X(SQUARE_SUM, square_sum)           \
    X(SQUARE_SUM_GRAD, square_sum_grad) \
    X(RMS_SCALE, rms_scale)             \
    X(RMS_SCALE_GRAD, rms_scale_grad)

/* sum[t] = sum of x[t, c]^2 over the channels. x [T, C]; sum [T] acc */
typedef struct mega_square_sum_args {
    mega_kernel_head head;
    void *sum;
    const void *x;
    int64_t rows, cols;
} mega_square_sum_args;

/* dx[t, c] = 2 x[t, c] dsum[t]. dx, x [T, C]; dsum [T] acc */
typedef struct mega_square_sum_grad_args {
    mega_kernel_head head;
    void *dx;
    const void *x, *dsum;
    int64_t rows, cols;
} mega_square_sum_grad_args;

/* y = x * r * gain, or x * r * (1 + gain) with plus_one; r = 1 / sqrt(sum[t] / total + eps).
 *   x, y [T, C]; sum [T] acc; gain [C] */
typedef struct mega_rms_scale_args {
    mega_kernel_head head;
    void *y;
    const void *x, *sum, *gain /* or NULL: 1 */;
    int64_t rows, cols, total;
    double eps;
    bool plus_one;
} mega_rms_scale_args;

/* dx = dy * r * gain; dsum[t] = -r^3 / (2 total) * sum of dy * gain * x over the channels; dgain += sum of dy * x * r
 * over the rows. dx may be dy.  dsum [T] acc; dgain [C] acc */
typedef struct mega_rms_scale_grad_args {
    mega_kernel_head head;
    void *dx, *dsum, *dgain /* or NULL */;
    const void *dy, *x, *sum, *gain /* or NULL */;
    int64_t rows, cols, total;
    double eps;
    bool plus_one;
} mega_rms_scale_grad_args;

#endif
