/* Losses and metrics: cross-entropy with the LM head, squared error, sums over rows, accuracy. (What holds for all ops:
 * ops.h.) */
#ifndef MEGALITH_OPS_LOSS_H
#define MEGALITH_OPS_LOSS_H

#include "megalith/op_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MEGA_KERNELS_LOSS(X) \
    X(squared_error)         \
    X(squared_error_grad)    \
    X(accuracy)              \
    X(cross_entropy)         \
    X(cross_entropy_grad)    \
    X(labelled_sum)          \
    X(xent_max)              \
    X(xent_sum)              \
    X(xent_grad)             \
    X(xent)                  \
    X(masked_sum)            \
    X(masked_sum_grad)       \
    X(loss_seed)

#define MEGA_OPS_LOSS(X)                      \
    X(SQUARED_ERROR, squared_error)           \
    X(SQUARED_ERROR_GRAD, squared_error_grad) \
    X(ACCURACY, accuracy)                     \
    X(CROSS_ENTROPY, cross_entropy)           \
    X(CROSS_ENTROPY_GRAD, cross_entropy_grad) \
    X(LABELLED_SUM, labelled_sum)             \
    X(MASKED_SUM, masked_sum)                 \
    X(MASKED_SUM_GRAD, masked_sum_grad)       \
    X(LOSS_SEED, loss_seed)                   \
    X(XENT_MAX, xent_max)                     \
    X(XENT_SUM, xent_sum)                     \
    X(XENT_GRAD, xent_grad)                   \
    X(XENT, xent)

/* Cross-entropy of a chunk of rows over the vocabulary rows held here: columns [0, V) of logits [R, ld] acc, of which
 * the first `valid` are real (padding stays out of the softmax). Column v is id begin + v. Split in three so that a
 * vocabulary cut over tp needs two small all-reduces between them.
 * 1: row_max[r] = max of the valid logits */
typedef struct mega_xent_max_args {
    mega_kernel_head head;
    void *row_max; /* [R] acc */
    const void *logits;
    int64_t rows, valid, ld;
} mega_xent_max_args;

/* 2: sums[2r] = sum over valid columns of exp(logit - row_max); sums[2r+1] = logit of the label if held here, else 0 */
typedef struct mega_xent_sum_args {
    mega_kernel_head head;
    void *sums; /* [R, 2] acc */
    const void *logits, *row_max;
    const int32_t *labels; /* [R] */
    int64_t rows, valid, ld, begin;
} mega_xent_sum_args;

/* 3: loss[r] = log(sum) + row_max - label logit (natural log, acc, not masked); and when dlogits is given,
 * dlogits[r, v] = (softmax - [v is the label]) * loss_mask[r] * coefficient * step->loss_factor / denominator, 0 in
 * padding columns, head.dtype. dlogits may be the same memory as logits when the types have one size. */
typedef struct mega_xent_grad_args {
    mega_kernel_head head;
    void *loss;    /* [R] acc */
    void *dlogits; /* [R, ld] or NULL */
    const void *logits, *row_max, *sums;
    const int32_t *labels;
    const float *loss_mask;  /* [R] */
    const void *denominator; /* [1] acc, or NULL for 1; 0 counts as 1 */
    int64_t rows, cols, valid, ld, begin;
    double coefficient; /* of this loss in the sum that is minimized */
} mega_xent_grad_args;

/* The three in one sweep, for a vocabulary that is held whole: loss[r] and, when dlogits is given, its gradient. Each
 * row is read from memory once. Members as above. */
typedef struct mega_xent_args {
    mega_kernel_head head;
    void *loss;    /* [R] acc */
    void *dlogits; /* [R, ld] or NULL; may be the same memory as logits when the types have one size */
    const void *logits;
    const int32_t *labels;
    const float *loss_mask;  /* [R]; NULL without dlogits */
    const void *denominator; /* [1] acc, or NULL for 1; 0 counts as 1 */
    int64_t rows, cols, valid, ld, begin;
    double coefficient; /* of this loss in the sum that is minimized */
} mega_xent_args;

/* out[0] = sum of x[i] * mask[i], out[0] acc, summed in double in order; an x or a mask that is NULL counts as ones. */
typedef struct mega_masked_sum_args {
    mega_kernel_head head;
    void *out;
    const void *x;     /* [count] acc, or NULL */
    const float *mask; /* or NULL */
    int64_t count;
} mega_masked_sum_args;

/* dx[i] = dout[0] * mask[i]. dx, dout acc */
typedef struct mega_masked_sum_grad_args {
    mega_kernel_head head;
    void *dx;
    const void *dout;
    const float *mask; /* or NULL */
    int64_t count;
} mega_masked_sum_grad_args;

/* seed[0] = coefficient * step->loss_factor / weight[0], where the backward pass begins for a loss that is a sum
 * divided by a weight; 0 where the weight is 0 or less, as the loss is then. seed, weight acc; a weight that is NULL
 * counts as 1. */
typedef struct mega_loss_seed_args {
    mega_kernel_head head;
    void *seed;
    const void *weight; /* or NULL */
    double coefficient;
} mega_loss_seed_args;

/* loss[t] = sum over columns of (x - target)^2. x, target [T, C]; loss [T] acc */
typedef struct mega_squared_error_args {
    mega_kernel_head head;
    void *loss;
    const void *x, *target;
    int64_t rows, cols;
} mega_squared_error_args;

/* dx = 2 (x - target) dloss[t]. dx may be x or target. */
typedef struct mega_squared_error_grad_args {
    mega_kernel_head head;
    void *dx;
    const void *dloss /* [T] acc */, *x, *target;
    int64_t rows, cols;
} mega_squared_error_grad_args;

/* Whether the largest logit of a row is that of its label: hit[t] = 1 or 0. Of equal logits the first is the largest; a
 * row with a NaN is no hit. counts[t] = 1 where the label is a class, a number in [0, classes); else hit and counts are
 * both 0. */
typedef struct mega_accuracy_args {
    mega_kernel_head head;
    void *hit, *counts;    /* [T] acc */
    const void *logits;    /* [T, classes] */
    const int32_t *labels; /* [T] */
    int64_t rows, classes;
    mega_dtype logits_dtype; /* head.dtype or its acc */
} mega_accuracy_args;

/* loss[t] = log of the sum over classes of exp(logit) - logit of the label (natural log); 0 where the label is no
 * class, a number in [0, classes). */
typedef struct mega_cross_entropy_args {
    mega_kernel_head head;
    void *loss;            /* [T] acc */
    const void *logits;    /* [T, classes] */
    const int32_t *labels; /* [T] */
    int64_t rows, classes;
    mega_dtype logits_dtype; /* head.dtype or its acc */
} mega_cross_entropy_args;

/* dlogits[t, c] = (softmax - [c is the label]) dloss[t]; 0 where the label is no class. dlogits may be logits. */
typedef struct mega_cross_entropy_grad_args {
    mega_kernel_head head;
    void *dlogits;
    const void *dloss /* [T] acc */, *logits;
    const int32_t *labels;
    int64_t rows, classes;
    mega_dtype logits_dtype; /* of dlogits too */
} mega_cross_entropy_grad_args;

/* sum[0] = sum of the weights of the rows whose label is a class, in double in order; a row counts 1 without weights.
 */
typedef struct mega_labelled_sum_args {
    mega_kernel_head head;
    void *sum; /* [1] acc */
    const int32_t *labels;
    const float *weights; /* [T] or NULL */
    int64_t rows, classes;
} mega_labelled_sum_args;

typedef struct mega_head_shape {
    int64_t vocab_begin, valid; /* first id held here; real rows held here */
    int64_t chunk_rows;         /* rows of a chunk; 0: choose */
    bool with_gradient;         /* gradients are made in the forward program (training) */
} mega_head_shape;
/* LM head with cross-entropy by chunks of rows: logits never whole in memory. x [T, C], table [V, C].
 * token_loss [T] acc (unmasked); loss: the sum of token_loss * loss_mask, and of loss_mask. In training `loss` is
 * declared with mega_loss_add. */
mega_head_result mega_op_lm_head_loss(mega_graph *g, mega_tensor x, mega_tensor table, mega_tensor labels,
                                      mega_tensor loss_mask, const mega_head_shape *s);
/* sum: of x [T] acc, each row times its weight; weight: of the weights [T] f32. Without weights each row counts 1. The
 * sum has a gradient to x, none to weights. */
mega_loss mega_op_weighted_sum(mega_graph *g, mega_tensor x, mega_tensor weights);
/* [T] acc: per row, the sum over columns of (x - target)^2. x, target [T, C] */
mega_tensor mega_op_squared_error(mega_graph *g, mega_tensor x, mega_tensor target);
/* [T] acc: the softmax cross-entropy of each row of logits [T, classes], dtype or acc, against labels [T] i32; 0,
 * without a gradient, for a row whose label is no class (such as -100). A model may weight them before their sum. */
mega_tensor mega_op_cross_entropy(mega_graph *g, mega_tensor logits, mega_tensor labels);
/* [1] acc: the sum of weights [T] f32 over the rows whose label is a class; their number without weights. */
mega_tensor mega_op_labelled_sum(mega_graph *g, mega_tensor labels, mega_tensor weights, int64_t classes);
/* sum: rows whose largest logit (the first of equal ones) is that of the label; weight: rows whose label is a class.
 * logits [T, classes], labels [T] i32. A metric: it has no gradient. */
mega_loss mega_op_accuracy(mega_graph *g, mega_tensor logits, mega_tensor labels);

#ifdef __cplusplus
}
#endif

#endif
