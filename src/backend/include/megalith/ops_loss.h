/* Losses and metrics: cross-entropy with the LM head, squared error, sums over rows, accuracy. (The contract of all ops
 * is in ops.h.) */
#ifndef MEGALITH_OPS_LOSS_H
#define MEGALITH_OPS_LOSS_H

#include "megalith/op_types.h"

#define MEGA_KERNELS_LOSS(X) \
    X(squared_error)         \
    X(squared_error_grad)    \
    X(accuracy)              \
    X(cross_entropy)         \
    X(cross_entropy_grad)    \
    X(labelled_sum)          \
    X(label_weights)         \
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
    X(LABEL_WEIGHTS, label_weights)           \
    X(MASKED_SUM, masked_sum)                 \
    X(MASKED_SUM_GRAD, masked_sum_grad)       \
    X(LOSS_SEED, loss_seed)                   \
    X(XENT_MAX, xent_max)                     \
    X(XENT_SUM, xent_sum)                     \
    X(XENT_GRAD, xent_grad)                   \
    X(XENT, xent)

/* Cross-entropy over the vocabulary rows of this rank, for a chunk of rows. The logits are [R, ld] acc; their columns
 * [0, V) are this rank's, and the first `valid` of these are real (padding takes no part in the softmax). Column v is
 * id begin + v. There are three kernels, so that a vocabulary that is sharded over tp needs only two small all-reduces,
 * one between each two of them.
 * 1: row_max[r] = max of the valid logits */
typedef struct mega_xent_max_args {
    mega_kernel_head head;
    void *row_max; /* [R] acc */
    const void *logits;
    int64_t rows, valid, ld;
} mega_xent_max_args;

/* 2: sums[2r] = sum over valid columns of exp(logit - row_max); sums[2r+1] = logit of the label if this rank has it,
 * else 0 */
typedef struct mega_xent_sum_args {
    mega_kernel_head head;
    void *sums; /* [R, 2] acc */
    const void *logits, *row_max;
    const int32_t *labels; /* [R] */
    int64_t rows, valid, ld, begin;
} mega_xent_sum_args;

/* 3: loss[r] = log(sum) + row_max - label logit (natural log, acc, not masked). If dlogits is not NULL, it is
 * dlogits[r, v] = (softmax - [v is the label]) * loss_mask[r] * coefficient * step->loss_factor / denominator, and 0 in
 * padding columns; its type is head.dtype. It may be the same memory as logits if the types have the same size. */
typedef struct mega_xent_grad_args {
    mega_kernel_head head;
    void *loss;    /* [R] acc */
    void *dlogits; /* [R, ld] or NULL */
    const void *logits, *row_max, *sums;
    const int32_t *labels;
    const float *loss_mask;  /* [R] */
    const void *denominator; /* [1] acc, or NULL for 1; 0 means 1 */
    int64_t rows, cols, valid, ld, begin;
    double coefficient; /* factor of this loss in the minimized sum */
} mega_xent_grad_args;

/* The three kernels in one sweep, for a vocabulary that is not sharded: computes loss[r] and, if dlogits is not NULL,
 * the gradient. Reads each row from memory once. Members as above. */
typedef struct mega_xent_args {
    mega_kernel_head head;
    void *loss;    /* [R] acc */
    void *dlogits; /* [R, ld] or NULL; may be the same memory as logits if the types have the same size */
    const void *logits;
    const int32_t *labels;
    const float *loss_mask;  /* [R]; NULL without dlogits */
    const void *denominator; /* [1] acc, or NULL for 1; 0 means 1 */
    int64_t rows, cols, valid, ld, begin;
    double coefficient; /* factor of this loss in the minimized sum */
} mega_xent_args;

/* out[0] = sum of x[i] * mask[i], out[0] acc, summed in order in double; if x or mask is NULL, its elements count as
 * 1. */
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

/* seed[0] = coefficient * step->loss_factor / weight[0]: the gradient at which the backward pass starts, for a loss
 * that is a sum divided by a weight. 0 if the weight is 0, in which case the loss is 0 too. seed and weight are acc; a
 * NULL weight means 1. */
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

/* dx = 2 (x - target) dloss[t]. dx may be the same memory as x or target. */
typedef struct mega_squared_error_grad_args {
    mega_kernel_head head;
    void *dx;
    const void *dloss /* [T] acc */, *x, *target;
    int64_t rows, cols;
} mega_squared_error_grad_args;

/* hit[t] = 1 if the largest logit of row t is at its label, else 0. Among equal logits the first is the largest; a row
 * with a NaN is not a hit. counts[t] = 1 if the label is a class, that is, in [0, classes), and not `ignored`; else
 * hit[t] and counts[t] are both 0: it is ignored, or the weight of its row is 0. (Others are mistakes:
 * graph/passes/pass_labels.c.) */
typedef struct mega_accuracy_args {
    mega_kernel_head head;
    void *hit, *counts;    /* [T] acc */
    const void *logits;    /* [T, classes] */
    const int32_t *labels; /* [T] */
    int64_t rows, classes;
    mega_dtype logits_dtype; /* head.dtype or its acc */
    int32_t ignored;
} mega_accuracy_args;

/* loss[t] = log of the sum over classes of exp(logit) - logit of the label (natural log); 0 if the label is `ignored`,
 * which may be a class, or no class, that is, not in [0, classes). */
typedef struct mega_cross_entropy_args {
    mega_kernel_head head;
    void *loss;            /* [T] acc */
    const void *logits;    /* [T, classes] */
    const int32_t *labels; /* [T] */
    int64_t rows, classes;
    mega_dtype logits_dtype; /* head.dtype or its acc */
    int32_t ignored;
} mega_cross_entropy_args;

/* dlogits[t, c] = (softmax - [c is the label]) dloss[t]; 0 if the label is `ignored` or no class. dlogits may be the
 * same memory as logits. */
typedef struct mega_cross_entropy_grad_args {
    mega_kernel_head head;
    void *dlogits;
    const void *dloss /* [T] acc */, *logits;
    const int32_t *labels;
    int64_t rows, classes;
    mega_dtype logits_dtype; /* also the type of dlogits */
    int32_t ignored;
} mega_cross_entropy_grad_args;

/* sum[0] = sum of the weights of the rows whose label is a class and not `ignored`, summed in order in double; without
 * weights, their number. */
typedef struct mega_labelled_sum_args {
    mega_kernel_head head;
    void *sum; /* [1] acc */
    const int32_t *labels;
    const float *weights; /* [T] or NULL */
    int64_t rows, classes;
    int32_t ignored;
} mega_labelled_sum_args;

/* The weights of the rows of a loss, and the labels that are mistakes. The weight of row t is given[t / (rows /
 * num_given)] * mask[t / (rows / num_masks)], where an absent factor is 1. weights[t] is this weight if the label is a
 * class and not `ignored`, else 0. wrong = {how many rows have a weight other than 0 and a label neither a class
 * nor `ignored`, the first of these rows, its label}, or zeros. */
typedef struct mega_label_weights_args {
    mega_kernel_head head;
    float *weights;        /* [T] or NULL */
    int32_t *wrong;        /* [3] */
    const int32_t *labels; /* [T] */
    const void *given;     /* [num_given] acc, or NULL; num_given divides rows */
    const float *mask;     /* [num_masks], or NULL; num_masks divides rows */
    int64_t rows, classes, num_given, num_masks;
    int32_t ignored;
} mega_label_weights_args;

typedef struct mega_head_shape {
    int64_t vocab_begin, valid; /* first id on this rank; real rows on this rank */
    int64_t chunk_rows;         /* rows of a chunk; 0: chosen automatically */
    bool with_gradient;         /* the forward program also computes the gradients (training) */
    mega_tensor bias;           /* [V], added to the logits; mega_none(): none */
    double softcap;             /* logits become softcap * tanh(logits / softcap); 0: as they are */
} mega_head_shape;
/* Returns the logits [T, V] acc of all rows, with the bias and the cap of the shape, for generation. */
mega_tensor mega_op_head_logits(mega_graph *g, mega_tensor x, mega_tensor table, const mega_head_shape *s);
/* LM head with cross-entropy, computed by chunks of rows so that memory never holds all logits. x [T, C], table [V, C].
 * Results: token_loss [T] acc (not masked), and a loss with the sums of token_loss * loss_mask and of loss_mask. In
 * training `loss` is declared with mega_loss_add. */
mega_head_result mega_op_lm_head_loss(mega_graph *g, mega_tensor x, mega_tensor table, mega_tensor labels,
                                      mega_tensor loss_mask, const mega_head_shape *s);
/* Returns the sum of x [T] acc, where each row is multiplied by its weight, and the sum of the weights [T] f32. Without
 * weights each row counts as 1. The sum has a gradient with respect to x but not to the weights. */
mega_loss mega_op_weighted_sum(mega_graph *g, mega_tensor x, mega_tensor weights);
/* Returns per row the sum over columns of (x - target)^2, [T] acc; x and target are [T, C]. */
mega_tensor mega_op_squared_error(mega_graph *g, mega_tensor x, mega_tensor target);
/* Returns the softmax cross-entropy of each row, [T] acc, from logits [T, classes] of type dtype or acc and labels [T]
 * i32. Rows whose label is -100 have loss 0 and no gradient. A model may weight the losses before
 * summing them. */
mega_tensor mega_op_cross_entropy(mega_graph *g, mega_tensor logits, mega_tensor labels);
/* Returns the sum of weights [T] f32 over the rows whose label is a class, [1] acc; without weights, the number of
 * these rows. */
mega_tensor mega_op_labelled_sum(mega_graph *g, mega_tensor labels, mega_tensor weights, int64_t classes);
/* Returns mask [T] f32 with 0 in the rows whose label is not a class or is ignored. A label that is neither, in a
 * row of another weight than 0, is a mistake, which mega_program_wrong_labels reports after the forward. */
mega_tensor mega_op_label_weights(mega_graph *g, mega_tensor labels, mega_tensor mask, int64_t classes);
/* Returns as sum the number of rows whose largest logit (the first of equal ones) is at the label, and as weight the
 * number of rows whose label is a class. logits [T, classes], labels [T] i32. This is a metric: it has no gradient. */
mega_loss mega_op_accuracy(mega_graph *g, mega_tensor logits, mega_tensor labels);

#endif
