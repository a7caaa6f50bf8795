/* Normalization: layer norm, RMS norm, batch norm. (The contract of all ops is in ops.h.) */
#ifndef MEGALITH_OPS_NORM_H
#define MEGALITH_OPS_NORM_H

#include "megalith/op_types.h"

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
    X(RMS_NORM, rms_norm)                 \
    X(RMS_NORM_GRAD, rms_norm_grad)       \
    X(BATCH_NORM, batch_norm)             \
    X(BATCH_NORM_GRAD, batch_norm_grad)   \
    X(BATCH_NORM_FIXED, batch_norm_fixed) \
    X(BATCH_NORM_UPDATE, batch_norm_update)

/* y = (x - mean) * rstd * gain + bias per row (Ba, Kiros, Hinton 2016), rstd = 1/sqrt(var + eps), biased variance. With
 * rms the mean is taken as 0, so that var is the mean of the squares (Zhang, Sennrich 2019). With plus_one the factor
 * is 1 + gain.
 *   x, y [T, C]; gain, bias [C]; mean, rstd [T] acc, saved for the gradient */
typedef struct mega_layer_norm_args {
    mega_kernel_head head;
    void *y, *mean /* NULL with rms */, *rstd;
    const void *x, *gain /* or NULL */, *bias /* or NULL */;
    int64_t rows, cols;
    double eps;
    bool rms, plus_one;
} mega_layer_norm_args;

/* dx = (layer norm gradient) (+ addend); dgain += , dbias += [C] acc. dx may be the same memory as dy or addend. */
typedef struct mega_layer_norm_grad_args {
    mega_kernel_head head;
    void *dx, *dgain /* or NULL */, *dbias /* or NULL */;
    const void *dy, *x, *mean /* NULL with rms */, *rstd, *gain /* or NULL */, *addend /* or NULL */;
    int64_t rows, cols;
    bool rms, plus_one;
} mega_layer_norm_grad_args;

/* gain and bias may be mega_none(): a factor of 1, nothing added. */
mega_tensor mega_op_layer_norm(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias, double eps);
/* Like mega_op_layer_norm with the factor 1 + gain (Megatron's --apply-layernorm-1p). */
mega_tensor mega_op_layer_norm_plus_one(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias, double eps);
/* x / sqrt(mean of x^2 + eps) * gain per row, or * (1 + gain); gain may be mega_none(). */
mega_tensor mega_op_rms_norm(mega_graph *g, mega_tensor x, mega_tensor gain, double eps, bool plus_one);

/* Batch norm over groups of consecutive rows: y = (x - mean) / sqrt(var + eps) * gain + bias per column. mean and var
 * (biased) are over the `rows` rows of a group.
 *   x, y [groups * rows, C]; gain, bias [C]; mean, var [groups, C] acc, for the gradient and the running statistics */
typedef struct mega_batch_norm_args {
    mega_kernel_head head;
    void *y, *mean, *var;
    const void *x, *gain, *bias;
    int64_t groups, rows, cols;
    double eps;
} mega_batch_norm_args;

/* dx, dgain += , dbias += [C] acc. dx may be the same memory as dy. */
typedef struct mega_batch_norm_grad_args {
    mega_kernel_head head;
    void *dx, *dgain, *dbias;
    const void *dy, *x, *mean, *var, *gain;
    int64_t groups, rows, cols;
    double eps;
} mega_batch_norm_grad_args;

/* Batch norm as in evaluation: mean and var [C] are given, for example running statistics. y may be the same memory as
 * x. */
typedef struct mega_batch_norm_fixed_args {
    mega_kernel_head head;
    void *y;
    const void *x, *gain, *bias, *mean, *var;
    int64_t rows, cols;
    double eps;
    mega_dtype stats; /* type of mean and var: the compute type or acc */
} mega_batch_norm_fixed_args;

/* Contribution of one micro-batch to the running statistics. These follow each group in the order of the samples:
 * running = (1 - momentum) running + momentum * group, where the group's variance is made unbiased: var * rows / (rows
 * - 1). Over a step, running is therefore multiplied by (1 - momentum)^groups (optimizer_update_buffer), and each
 * group adds momentum * (1 - momentum)^n, where n is the number of groups that follow it in this micro-batch or in
 * later ones (step->later_micro_batches). This kernel adds the groups of its micro-batch.
 *   sum_mean, sum_var [C] acc, accumulated; mean, var [groups, C] acc, from batch_norm; rows > 1 */
typedef struct mega_batch_norm_update_args {
    mega_kernel_head head;
    void *sum_mean, *sum_var;
    const void *mean, *var;
    int64_t groups, rows, cols;
    double momentum;
} mega_batch_norm_update_args;

/* Batch norm with the statistics of groups of `group` consecutive rows (samples of a group times pixels); group is at
 * least 2. y is [T, C]; mean and var (biased) are [T / group, C] acc. */
typedef struct mega_batch_norm_result {
    mega_tensor y, mean, var;
} mega_batch_norm_result;
mega_batch_norm_result mega_op_batch_norm(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias,
                                          int64_t group, double eps);
/* Like mega_op_batch_norm, and also updates running statistics in training: mean and var are buffers [C]
 * (mega_param_options). The backward program adds the contribution of the micro-batch to the sums of these buffers
 * (mega_batch_norm_update_args), even if no loss depends on y. */
typedef struct mega_batch_norm_running {
    mega_tensor mean, var;
    double momentum;
} mega_batch_norm_running;
mega_batch_norm_result mega_op_batch_norm_running(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias,
                                                  const mega_batch_norm_running *running, int64_t group, double eps);
/* Like mega_op_batch_norm with given statistics mean and var [C], as in evaluation; it has no gradient. */
mega_tensor mega_op_batch_norm_fixed(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias, mega_tensor mean,
                                     mega_tensor var, double eps);

#endif
