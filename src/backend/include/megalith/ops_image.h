/* Ops on images: convolution, pooling. (The contract of all ops is in ops.h.) */
#ifndef MEGALITH_OPS_IMAGE_H
#define MEGALITH_OPS_IMAGE_H

#include "megalith/op_types.h"

#define MEGA_KERNELS_IMAGE(X) \
    X(conv2d)                 \
    X(conv2d_grad_x)          \
    X(conv2d_grad_w)          \
    X(max_pool2d)             \
    X(max_pool2d_grad)        \
    X(mean_pool2d)            \
    X(mean_pool2d_grad)

#define MEGA_OPS_IMAGE(X)               \
    X(CONV2D, conv2d)                   \
    X(CONV2D_GRAD_X, conv2d_grad_x)     \
    X(CONV2D_GRAD_W, conv2d_grad_w)     \
    X(MAX_POOL2D, max_pool2d)           \
    X(MAX_POOL2D_GRAD, max_pool2d_grad) \
    X(MEAN_POOL2D, mean_pool2d)         \
    X(MEAN_POOL2D_GRAD, mean_pool2d_grad)

/* Convolution, in the sense of PyTorch (a correlation): y[s, i, j, o] = bias[o] + sum over c, p, q of
 * x[s, i stride - padding + p, j stride - padding + q, c] weight[o, c, p, q]; pixels outside the image are 0.
 *   x [samples * height * width, C]: a row is a pixel; y [samples * height' * width', O], where mega_windows_along
 *   gives height' and width'; weight [O, C, size, size]; bias [O] */
typedef struct mega_conv2d_args {
    mega_kernel_head head;
    void *y;
    const void *x, *weight, *bias /* or NULL */;
    mega_windows windows;
    int64_t samples, in_channels, out_channels;
} mega_conv2d_args;

/* dx: the gradient of x, overwritten */
typedef struct mega_conv2d_grad_x_args {
    mega_kernel_head head;
    void *dx;
    const void *dy, *weight;
    mega_windows windows;
    int64_t samples, in_channels, out_channels;
} mega_conv2d_grad_x_args;

/* dweight += , dbias += ; acc */
typedef struct mega_conv2d_grad_w_args {
    mega_kernel_head head;
    void *dweight, *dbias /* or NULL */;
    const void *dy, *x;
    mega_windows windows;
    int64_t samples, in_channels, out_channels;
} mega_conv2d_grad_w_args;

/* The largest pixel of each window, channel by channel; padding is ignored. Among equal pixels the first in the image
 * wins, and a NaN wins over numbers.
 *   x [samples * height * width, C]; y [samples * height' * width', C]; index, of the shape of y: the number of the
 *   largest pixel in its image, saved for the gradient */
typedef struct mega_max_pool2d_args {
    mega_kernel_head head;
    void *y;
    int32_t *index;
    const void *x;
    mega_windows windows;
    int64_t samples, channels;
} mega_max_pool2d_args;

/* dx of a pixel = sum of dy over the windows in which that pixel was the largest, in the order of the windows */
typedef struct mega_max_pool2d_grad_args {
    mega_kernel_head head;
    void *dx;
    const void *dy;
    const int32_t *index;
    mega_windows windows;
    int64_t samples, channels;
} mega_max_pool2d_grad_args;

/* y = sum of the pixels of each window / size^2. Padding counts as zeros, as in PyTorch's AvgPool2d by default. */
typedef struct mega_mean_pool2d_args {
    mega_kernel_head head;
    void *y;
    const void *x;
    mega_windows windows;
    int64_t samples, channels;
} mega_mean_pool2d_args;

typedef struct mega_mean_pool2d_grad_args {
    mega_kernel_head head;
    void *dx;
    const void *dy;
    mega_windows windows;
    int64_t samples, channels;
} mega_mean_pool2d_grad_args;

/* 2-D convolution of images [samples * height * width, C], where a row is a pixel. The weight is [O, C * size * size],
 * in the order of [O, C, size, size] in a file; the bias is [O] or none; the result has O channels. */
mega_tensor mega_op_conv2d(mega_graph *g, mega_tensor x, mega_tensor weight, mega_tensor bias,
                           const mega_windows *windows);
/* The largest pixel of each window, per channel; padding is ignored. The mean counts padding as zeros. The padding must
 * be at most half the window size. */
mega_tensor mega_op_max_pool2d(mega_graph *g, mega_tensor x, const mega_windows *windows);
mega_tensor mega_op_mean_pool2d(mega_graph *g, mega_tensor x, const mega_windows *windows);

#endif
