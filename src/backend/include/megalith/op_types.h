/* Types that ops and the kernels under them share. */
#ifndef MEGALITH_OP_TYPES_H
#define MEGALITH_OP_TYPES_H

#include <stdint.h>

/* x is the input. MEGA_ACT_GELU_TANH and MEGA_ACT_GELU are 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) and
 * 0.5 x (1 + erf(x / sqrt 2)). */
typedef enum mega_activation_kind {
    MEGA_ACT_GELU_TANH,
    MEGA_ACT_GELU,
    MEGA_ACT_RELU,         /* max(x, 0) */
    MEGA_ACT_RELU_SQUARED, /* max(x, 0)^2 */
    MEGA_ACT_SILU,         /* x / (1 + e^-x) */
    MEGA_ACT_TANH,
    MEGA_ACT_SIGMOID /* 1 / (1 + e^-x) */
} mega_activation_kind;

/* Windows of size x size pixels that move over images of height x width pixels, `stride` pixels at a time in both
 * directions, with `padding` pixels around the image. */
typedef struct mega_windows {
    int64_t height, width, size, stride, padding;
} mega_windows;

/* Windows along a direction of `extent` pixels: the height or width of the result. */
static inline int64_t mega_windows_along(const mega_windows *w, int64_t extent)
{
    return (extent + 2 * w->padding - w->size) / w->stride + 1;
}

#endif
