/* Types that ops and the kernels under them share. */
#ifndef MEGALITH_OP_TYPES_H
#define MEGALITH_OP_TYPES_H

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

#endif
