/* Matrix products with weights, and biases. (The contract of all ops is in ops.h.) */
#ifndef MEGALITH_OPS_LINEAR_H
#define MEGALITH_OPS_LINEAR_H

#include "megalith/op_types.h"

#define MEGA_KERNELS_LINEAR(X) \
    X(gemm)                    \
    X(column_sum)

#define MEGA_OPS_LINEAR(X)          \
    X(LINEAR, linear)               \
    X(LINEAR_GRAD_X, linear_grad_x) \
    X(LINEAR_GRAD_W, linear_grad_w) \
    X(BIAS_ADD, bias_add)           \
    X(COLUMN_SUM, column_sum)

/* c[m, n] = op(a) op(b) (+ bias[n]) (+ residual[m, n]), or c += op(a) op(b) with accumulate.
 *   op(a) is [m, k]: stored as [m, k] with lda, or as [k, m] with trans_a. op(b) is [k, n]: stored as [k, n], or as [n,
 *   k] with trans_b. a, b and bias have head.dtype; c has c_dtype, which is head.dtype or its acc. accumulate excludes
 *   bias and residual. residual is [m, n] with c's type and ldc, and may be the same memory as c. With trans_a:
 *   row_sum[m] += the sum of row m of op(a). With lower (m = n, no accumulate): the product is symmetric, and elements
 *   above the diagonal may be left as they were. */
typedef struct mega_gemm_args {
    mega_kernel_head head;
    void *c;
    const void *a, *b, *bias /* or NULL */;
    int64_t m, n, k, lda, ldb, ldc;
    bool trans_a, trans_b, accumulate;
    mega_dtype c_dtype;
    bool first_in_step;   /* with accumulate: overwrite c in the first micro-batch of a step */
    const void *residual; /* or NULL */
    void *row_sum;        /* [m] acc, or NULL */
    bool lower;           /* only the elements on and below the diagonal are wanted */
} mega_gemm_args;

/* Writes the name of the code that mega_cpu_gemm runs for bf16, such as "panels, avx2" or "pairs, amx". (F32 always
 * uses the panels.) Returns out. */
const char *mega_gemm_description(char *out, int size);

/* sum[c] += sum over rows of x[t, c]; sum [C] acc */
typedef struct mega_column_sum_args {
    mega_kernel_head head;
    void *sum;
    const void *x;
    int64_t rows, cols;
} mega_column_sum_args;

mega_tensor mega_op_linear(mega_graph *g, mega_tensor x, mega_tensor weight); /* x [T, K], weight [N, K] → [T, N] */
/* The same with a result [T, N] acc; its gradient has the type of x. For the logits of a router. */
mega_tensor mega_op_wide_linear(mega_graph *g, mega_tensor x, mega_tensor weight);
mega_tensor mega_op_bias_add(mega_graph *g, mega_tensor x, mega_tensor bias);
mega_tensor mega_op_logits(mega_graph *g, mega_tensor x, mega_tensor table); /* [n, V] acc */

#endif
