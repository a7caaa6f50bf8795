/* Normalization: layer norm, batch norm. (What holds for all ops: ops.h.) */
#ifndef MEGALITH_OPS_NORM_H
#define MEGALITH_OPS_NORM_H

#include "megalith/op_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MEGA_KERNELS_NORM(X) \
    X(layer_norm)            \
    X(layer_norm_grad)       \
    X(batch_norm)            \
    X(batch_norm_grad)       \
    X(batch_norm_fixed)      \
    X(batch_norm_update)

#define MEGA_OPS_NORM(X)                  \
    X(LAYER_NORM, layer_norm)             \
    X(LAYER_NORM_GRAD, layer_norm_grad)   \
    X(BATCH_NORM, batch_norm)             \
    X(BATCH_NORM_GRAD, batch_norm_grad)   \
    X(BATCH_NORM_FIXED, batch_norm_fixed) \
    X(BATCH_NORM_UPDATE, batch_norm_update)

/* y = (x - mean) * rstd * gain + bias per row (Ba, Kiros, Hinton 2016), rstd = 1/sqrt(var + eps), biased variance.
 *   x, y [T, C]; gain, bias [C]; mean, rstd [T] acc, saved for the gradient */
typedef struct mega_layer_norm_args {
    mega_kernel_head head;
    void *y, *mean, *rstd;
    const void *x, *gain, *bias;
    int64_t rows, cols;
    double eps;
} mega_layer_norm_args;

/* dx = (layer norm gradient) (+ addend); dgain += , dbias += [C] acc. dx may be the same memory as dy or addend. */
typedef struct mega_layer_norm_grad_args {
    mega_kernel_head head;
    void *dx, *dgain, *dbias;
    const void *dy, *x, *mean, *rstd, *gain, *addend /* or NULL */;
    int64_t rows, cols;
} mega_layer_norm_grad_args;

mega_tensor mega_op_layer_norm(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias, double eps);

/* Batch norm over groups of consecutive rows: y = (x - mean) / sqrt(var + eps) * gain + bias per column, mean and
 * (biased) variance over the `rows` rows of a group.
 *   x, y [groups * rows, C]; gain, bias [C]; mean, var [groups, C] acc, for the gradient and the running statistics */
typedef struct mega_batch_norm_args {
    mega_kernel_head head;
    void *y, *mean, *var;
    const void *x, *gain, *bias;
    int64_t groups, rows, cols;
    double eps;
} mega_batch_norm_args;

/* dx, dgain += , dbias += [C] acc. dx may be dy. */
typedef struct mega_batch_norm_grad_args {
    mega_kernel_head head;
    void *dx, *dgain, *dbias;
    const void *dy, *x, *mean, *var, *gain;
    int64_t groups, rows, cols;
    double eps;
} mega_batch_norm_grad_args;

/* The form of evaluation: mean and var [C] are given, such as running statistics. y may be x. */
typedef struct mega_batch_norm_fixed_args {
    mega_kernel_head head;
    void *y;
    const void *x, *gain, *bias, *mean, *var;
    int64_t rows, cols;
    double eps;
    mega_dtype stats; /* of mean and var: the compute type or acc */
} mega_batch_norm_fixed_args;

/* Running statistics follow each group in the order of samples: running = (1 - momentum) running + momentum * group,
 * with the unbiased variance, var * rows / (rows - 1). What the groups of a step add to them is a sum over its
 * micro-batches, of which this is the part of one: that of its last group counts momentum, times 1 - momentum for each
 * group that follows, in this micro-batch or in a later one (step->later_micro_batches). Of what running was before,
 * (1 - momentum)^groups of the step is left (mega_optimizer_update_buffers).
 *   sum_mean, sum_var [C] acc, added to; mean, var [groups, C] acc, as batch_norm leaves them; rows > 1 */
typedef struct mega_batch_norm_update_args {
    mega_kernel_head head;
    void *sum_mean, *sum_var;
    const void *mean, *var;
    int64_t groups, rows, cols;
    double momentum;
} mega_batch_norm_update_args;

/* Batch norm with the statistics of groups of `group` consecutive rows (samples of a group times pixels), at least 2:
 * y [T, C]; mean, var [T / group, C] acc, of which var is biased. */
typedef struct mega_batch_norm_result {
    mega_tensor y, mean, var;
} mega_batch_norm_result;
mega_batch_norm_result mega_op_batch_norm(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias,
                                          int64_t group, double eps);
/* The same, which in training also updates running statistics: mean and var are buffers [C] (mega_param_options), to
 * whose sums the backward program adds what mega_batch_norm_update_args says, whether or not a loss depends on y. */
typedef struct mega_batch_norm_running {
    mega_tensor mean, var;
    double momentum;
} mega_batch_norm_running;
mega_batch_norm_result mega_op_batch_norm_running(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias,
                                                  const mega_batch_norm_running *running, int64_t group, double eps);
/* The same with statistics that are given, mean and var [C], as in evaluation; without a gradient. */
mega_tensor mega_op_batch_norm_fixed(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias, mega_tensor mean,
                                     mega_tensor var, double eps);

#ifdef __cplusplus
}
#endif

#endif
