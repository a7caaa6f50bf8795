/* Elementwise ops: activations, gated or not, sums, products, dropout. (The contract of all ops is in ops.h.) */
#ifndef MEGALITH_OPS_ELEMENTWISE_H
#define MEGALITH_OPS_ELEMENTWISE_H

#include "megalith/op_types.h"

#define MEGA_KERNELS_ELEMENTWISE(X) \
    X(gelu)                         \
    X(gelu_grad)                    \
    X(activation)                   \
    X(activation_grad)              \
    X(glu)                          \
    X(glu_grad)                     \
    X(softcap)                      \
    X(softcap_grad)                 \
    X(dropout_add)                  \
    X(dropout_grad)                 \
    X(add)                          \
    X(mul)                          \
    X(convert)

#define MEGA_OPS_ELEMENTWISE(X)         \
    X(GELU, gelu)                       \
    X(GELU_GRAD, gelu_grad)             \
    X(ACTIVATION, activation)           \
    X(ACTIVATION_GRAD, activation_grad) \
    X(GLU, glu)                         \
    X(GLU_GRAD, glu_grad)               \
    X(SOFTCAP, softcap)                 \
    X(SOFTCAP_GRAD, softcap_grad)       \
    X(ADD, add)                         \
    X(MUL, mul)                         \
    X(SCALE, scale)                     \
    X(DROPOUT, dropout)                 \
    X(DROPOUT_GRAD, dropout_grad)

/* y = gelu(u) with u = x + bias. The tanh form is 0.5 u (1 + tanh(sqrt(2/pi) (u + 0.044715 u^3))), the other form 0.5 u
 * (1 + erf(u/sqrt 2)). Megatron's fused kernel rounds sqrt(2/pi) to 0.79788456; this one does not. */
typedef struct mega_gelu_args {
    mega_kernel_head head;
    void *y;
    const void *x, *bias /* [C] or NULL */;
    int64_t rows, cols;
    bool tanh_form;
} mega_gelu_args;

/* dx = dy * gelu'(x + bias); dbias += column sums of dx. dx may be the same memory as dy. */
typedef struct mega_gelu_grad_args {
    mega_kernel_head head;
    void *dx, *dbias /* acc or NULL */;
    const void *dy, *x, *bias /* or NULL */;
    int64_t rows, cols;
    bool tanh_form;
} mega_gelu_grad_args;

/* y = activation(x), for all kinds except the two gelu forms, which have their own kernel. The activation of a NaN is
 * NaN. y may be the same memory as x. */
typedef struct mega_activation_args {
    mega_kernel_head head;
    void *y;
    const void *x;
    int64_t count;
    mega_activation_kind kind;
} mega_activation_args;

/* dx = dy * activation'(x); the slope of relu at 0 is 0. dx may be the same memory as dy or x. */
typedef struct mega_activation_grad_args {
    mega_kernel_head head;
    void *dx;
    const void *dy, *x;
    int64_t count;
    mega_activation_kind kind;
} mega_activation_grad_args;

/* y = act(gate) * up, where a row of x is [gate, up], or [up, gate] with gate_second, `cols` columns each.
 * With a limit, gate and up are cut: y = act(alpha g) / alpha * (u + 1), where g = min(gate, limit) and u is up between
 * -limit and limit (gpt_oss). What is cut has no gradient.
 *   y [T, F]; x [T, 2F] */
typedef struct mega_glu_args {
    mega_kernel_head head;
    void *y;
    const void *x;
    int64_t rows, cols;
    mega_activation_kind kind; /* all kinds */
    bool gate_second;
    double limit, alpha; /* limit 0: none, and alpha is 1 */
} mega_glu_args;

/* dx has the columns of x; it may be the same memory as x. */
typedef struct mega_glu_grad_args {
    mega_kernel_head head;
    void *dx;
    const void *dy, *x;
    int64_t rows, cols;
    mega_activation_kind kind;
    bool gate_second;
    double limit, alpha;
} mega_glu_grad_args;

/* y = cap * tanh(x / cap), which bounds logits. x, y acc; y may be the same memory as x. */
typedef struct mega_softcap_args {
    mega_kernel_head head;
    void *y;
    const void *x;
    int64_t count;
    double cap;
} mega_softcap_args;

/* dx = dy * (1 - (y / cap)^2), from the result y, acc. dx may be the same memory as dy. */
typedef struct mega_softcap_grad_args {
    mega_kernel_head head;
    void *dx;
    const void *dy, *y;
    int64_t count;
    double cap;
} mega_softcap_grad_args;

/* y = residual + dropout(x + bias). The dropout mask is that of element seq_position[t]*C + c of sample sample_id[t] at
 * `site`; kept values are multiplied by 1/(1-p). y may be the same memory as x or residual. If p is 0, sample_id and
 * seq_position may be NULL. */
typedef struct mega_dropout_add_args {
    mega_kernel_head head;
    void *y;
    const void *x, *bias /* or NULL */, *residual /* or NULL */;
    const uint32_t *sample_id;
    const int32_t *seq_position;
    int64_t rows, cols;
    double dropout;
    uint32_t site;
} mega_dropout_add_args;

/* dx = mask * dy / (1-p); dbias += column sums of dx. dx may be the same memory as dy. */
typedef struct mega_dropout_grad_args {
    mega_kernel_head head;
    void *dx, *dbias /* acc or NULL */;
    const void *dy;
    const uint32_t *sample_id;
    const int32_t *seq_position;
    int64_t rows, cols;
    double dropout;
    uint32_t site;
} mega_dropout_grad_args;

/* y = a + b; y may be the same memory as a or b */
typedef struct mega_add_args {
    mega_kernel_head head;
    void *y;
    const void *a, *b;
    int64_t count;
} mega_add_args;

/* y = a * b, elementwise; y may be the same memory as a or b */
typedef mega_add_args mega_mul_args;

/* dst = (dst_dtype) (src * scale), elementwise; types F32, BF16, F64, F16. dst may be src if count is 1. */
typedef struct mega_convert_args {
    mega_kernel_head head;
    void *dst;
    const void *src;
    int64_t count;
    mega_dtype dst_dtype, src_dtype;
    double scale;
} mega_convert_args;

mega_tensor mega_op_gelu(mega_graph *g, mega_tensor x, bool tanh_form);
mega_tensor mega_op_activation(mega_graph *g, mega_tensor x, mega_activation_kind kind); /* x [T, C] */
/* x [T, 2F] -> act(gate) * up [T, F]; gate is the first half of the columns, or the second. */
mega_tensor mega_op_glu(mega_graph *g, mega_tensor x, mega_activation_kind kind, bool gate_second);
mega_tensor mega_op_glu_limited(mega_graph *g, mega_tensor x, mega_activation_kind kind, bool gate_second, double limit,
                                double alpha);                         /* both above 0 */
mega_tensor mega_op_softcap(mega_graph *g, mega_tensor x, double cap); /* x [T, C] acc; without a gradient rule */
mega_tensor mega_op_add(mega_graph *g, mega_tensor a, mega_tensor b);
mega_tensor mega_op_mul(mega_graph *g, mega_tensor a, mega_tensor b); /* elementwise */
mega_tensor mega_op_scale(mega_graph *g, mega_tensor x, double factor);
/* p = 0 returns x. */
mega_tensor mega_op_dropout(mega_graph *g, mega_tensor x, double p, uint32_t site, mega_tensor sample_id,
                            mega_tensor seq_position);

#endif
