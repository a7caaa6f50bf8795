/* Declares every kernel: the kernels of the ops (contract: ops.h), and those of gradients, sums and optimizers. */
#ifndef MEGALITH_KERNELS_H
#define MEGALITH_KERNELS_H

#include "megalith/backend_kind.h"
#include "megalith/ops.h"
#include "megalith/optimizer_kernels.h"
#include "megalith/update_block.h"

/* Kernels that update have a block, or NULL: they multiply grad_factor by its factor, and do nothing if it refuses the
 * update. */

/* AdamW (Loshchilov, Hutter 2019) with decoupled decay and bias correction, in one sweep. g is first multiplied by
 * grad_factor. With l2 the decay is added to the gradient instead (plain Adam).
 *   m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
 *   p -= lr * ( (m/(1-b1^k)) / (sqrt(v/(1-b2^k)) + eps) + wd p )
 *   p, m, v, g [count] acc; weight [count] head.dtype receives the rounded p, or is NULL. */
typedef struct mega_adamw_args {
    mega_kernel_head head;
    void *p, *m, *v, *weight /* or NULL */;
    const void *g;
    int64_t count;
    double eps, grad_factor;
    const double *number;           /* [6] 1-b1^k, 1-b2^k, lr, wd, b1, b2: the kernel `numbers` makes them */
    bool l2;                        /* add wd to the gradient: plain Adam */
    const mega_update_block *block; /* or NULL */
} mega_adamw_args;

/* SGD with momentum, as in torch.optim.SGD: g += wd p; buf = first ? g : mu buf + g; p -= lr buf. */
typedef struct mega_sgd_args {
    mega_kernel_head head;
    void *p, *momentum, *weight /* or NULL */;
    const void *g;
    int64_t count;
    double mu, grad_factor;
    const double *number;           /* [3] whether it is the first update, lr, wd */
    const mega_update_block *block; /* or NULL */
} mega_sgd_args;

/* out[0] = sum of squares, out[1] = number of zeros, out[2] = number of values that are not finite. The partial sums
 * of chunks of 65,536 elements are combined in order, so the bits do not depend on the number of threads. With `adds`
 * the three sums are added to what is there. x [count] acc. */
typedef struct mega_norm_args {
    mega_kernel_head head;
    double *out; /* [3] */
    const void *x;
    int64_t count;
    bool adds;
} mega_norm_args;

/* x[i] = 0 for count elements of head.dtype. */
typedef struct mega_zero_args {
    mega_kernel_head head;
    void *x;
    int64_t count;
} mega_zero_args;

/* y = (y_dtype) (y + x), or (y_dtype) x with `overwrites`: what one micro-batch adds to a gradient. x [count] acc; y
 * [count] acc, BF16 or F16. */
typedef struct mega_accumulate_args {
    mega_kernel_head head;
    void *y;
    const void *x;
    int64_t count;
    mega_dtype y_dtype;
    bool overwrites;
} mega_accumulate_args;

/* Adds a loss of one micro-batch, `times` times, to sums[0], and what it counts for to sums[1]. per_token: the sum and
 * the weight of its rows. Otherwise: their quotient, which is 0 without weight, and 1; or 0 if another program of the
 * micro-batch has counted, is_more. sum, weight [1] acc. */
typedef struct mega_loss_add_args {
    mega_kernel_head head;
    double *sums;
    const void *sum, *weight;
    double times;
    bool per_token, is_more;
} mega_loss_add_args;

/* The losses of a step where loss_add has left them, so that no host needs to know them before the check. */
typedef struct mega_check_losses {
    const double *sums; /* [count][2] of each loss, as loss_add has it; NULL: the check is given the loss */
    int64_t count;
    double coefficient[MEGA_METRICS]; /* of each in the loss of the step; 0: it does not count */
    /* not 0: the correction is multiplied by it, and divided by what the first loss that counts has in sums[1] */
    double positions;
} mega_check_losses;

/* The check of a step (update_block.h): from the sums over the gradients in memory, what becomes of the step. The
 * gradients of the step are those in memory times `correction`. A verdict that is not 0 stays; if all is well, the
 * factors are written and the update is counted. */
typedef struct mega_check_args {
    mega_kernel_head head;
    mega_update_block *block;
    double loss, correction, clip, lr, weight_decay;
    mega_check_losses losses;
} mega_check_args;

#define MEGA_KERNEL_LIST(X) \
    MEGA_OPS_KERNELS(X)     \
    X(adamw) X(sgd) X(norm) X(zero) X(accumulate) X(loss_add) X(check) MEGA_KERNELS_OPTIMIZERS(X)

#define MEGA_KERNEL_DECLARE(name) extern const mega_kernel mega_plain_##name, mega_cpu_##name;
MEGA_KERNEL_LIST(MEGA_KERNEL_DECLARE)
#undef MEGA_KERNEL_DECLARE

/* What a program or an optimizer refers to; each backend has a table of kernels by it (kernels.c). */
#define MEGA_KERNEL_ID(name) MEGA_KERNEL_##name,
typedef enum mega_kernel_id { MEGA_KERNEL_NONE, MEGA_KERNEL_LIST(MEGA_KERNEL_ID) MEGA_KERNEL_COUNT } mega_kernel_id;
#undef MEGA_KERNEL_ID

/* Returns NULL for MEGA_KERNEL_NONE, and of CUDA for what it has no kernel for yet. */
const mega_kernel *mega_kernel_of(mega_backend_kind backend, mega_kernel_id id);

#endif
