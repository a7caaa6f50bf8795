/* Kernels: what every op computes, on raw pointers and sizes. No graph, no communicator, no allocation, no error path:
 * shapes were checked by the row of the op table that calls them.
 *
 * Letters: T tokens of this rank (rows), B sequences, S positions, C channels, H heads, G key/value heads, D head size,
 * V vocabulary rows held here, R rows of a head chunk.
 *
 * Each kernel exists as mega_plain_NAME (the definition: one loop per index, sums in double, one thread) and as
 * mega_cpu_NAME (fast). Both take the same argument struct.
 *
 * dtype of a call (head.dtype) is the type of activations and weights: MEGA_F32, MEGA_BF16, or MEGA_F64 (plain only).
 * "acc" below is the wide type that goes with it: f64 for F64, else f32. Statistics, logits and weight gradients are
 * acc. Gradients of weights accumulate (+=); everything else overwrites (=) unless said. Outputs do not overlap inputs
 * unless said. A pointer marked "or NULL" may be absent. Rows are dense unless a leading dimension (ld_*) is given. */
#ifndef MEGALITH_KERNELS_H
#define MEGALITH_KERNELS_H

#include "megalith/dtype.h"
#include "megalith/op_types.h"
#include "megalith/status.h"
#include "megalith/threads.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What changes between two runs of one program. Kernels read it; nothing of it is baked into an instruction. */
typedef struct mega_step_block {
    uint32_t seed; /* of dropout */
    uint32_t step; /* optimizer step, counts from 0 */
    /* Factor on the loss gradient: 1/micro-batches for Megatron's mean per micro-batch (with a denominator tensor), or
     * 1/unmasked tokens of the step; times the loss scale. */
    double loss_factor;
    /* Generation: key/value rows that the cache of each sequence already holds, [B]. */
    const int32_t *kv_length;
    bool first_micro_batch; /* gradients start from nothing: gemm.begins */
    bool last_micro_batch;  /* gradients of the step are complete after its backward */
    /* Products read their weights as they were packed in the first micro-batch of this step
     * (mega_kernel_head.packed). */
    bool keeps_packed;
} mega_step_block;

/* First member of every argument struct. */
typedef struct mega_kernel_head {
    mega_dtype dtype;
    void *scratch; /* mega_kernel.scratch bytes, 64-byte aligned, garbage before and after */
    void *handle;  /* owned by the kernel: made by prepare, freed by release */
    const mega_step_block *step;
    /* NULL, or mega_kernel.packed bytes, 64-byte aligned: where an operand that stays the same through a step lies
     * packed. With step->keeps_packed it is written in the first micro-batch, by calls that have `packs`, and read by
     * all; without, it is not touched. */
    void *packed;
    bool packs;
} mega_kernel_head;

typedef struct mega_kernel {
    const char *name;
    void (*run)(mega_team *team, const void *args);
    /* NULL, or called once after sizes and pointers are set and before the first run (makes GEMM primitives). */
    mega_status (*prepare)(void *args, int threads);
    void (*release)(void *args);
    /* NULL, or bytes of scratch for these sizes and this many threads; pointers of args may still be unset. */
    size_t (*scratch)(const void *args, int threads);
    /* NULL, or bytes of the operand b of these sizes as this kernel packs it, the same for any other operands; 0: it is
     * not worth keeping. */
    size_t (*packed)(const void *args);
} mega_kernel;

/* y[t] = table[ids[t] - begin] (+ addend[t]); a row whose id is outside [begin, begin+V) counts as zeros. Without ids
 * the id of row t is t.
 *   y, addend [T, C]; table [V, C]; ids [T] */
typedef struct mega_embedding_args {
    mega_kernel_head head;
    void *y;
    const int32_t *ids /* or NULL */;
    const void *table, *addend /* or NULL */;
    int64_t rows, cols, begin, table_rows;
} mega_embedding_args;

/* dtable[ids[t] - begin] += dy[t], in order of t. dtable [V, C] acc */
typedef struct mega_embedding_grad_args {
    mega_kernel_head head;
    void *dtable;
    const int32_t *ids;
    const void *dy;
    int64_t rows, cols, begin, table_rows;
} mega_embedding_grad_args;

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

/* c[m, n] = op(a) op(b) (+ bias[n]) (+ residual[m, n]), or c += op(a) op(b) when accumulate.
 * op(a) is [m, k]: stored [m, k] with lda, or [k, m] when trans_a. op(b) is [k, n]: stored [k, n], or [n, k] when
 * trans_b. a, b, bias have head.dtype; c has c_dtype: head.dtype or its acc. No bias or residual with accumulate.
 * residual is [m, n] of c's type and ldc; c may be the same memory. With trans_a: row_sum[m] += the sum of row m of
 * op(a). */
typedef struct mega_gemm_args {
    mega_kernel_head head;
    void *c;
    const void *a, *b, *bias /* or NULL */;
    int64_t m, n, k, lda, ldb, ldc;
    bool trans_a, trans_b, accumulate;
    mega_dtype c_dtype;
    bool begins;          /* with accumulate: c is overwritten in the first micro-batch of a step */
    const void *residual; /* or NULL */
    void *row_sum;        /* [m] acc, or NULL */
} mega_gemm_args;

/* sum[c] += sum over rows of x[t, c]; sum [C] acc */
typedef struct mega_column_sum_args {
    mega_kernel_head head;
    void *sum;
    const void *x;
    int64_t rows, cols;
} mega_column_sum_args;

/* Attention over the heads held here, softmax(scale q k^T) v, flash style: never an [S, S] matrix in memory
 * (Dao et al. 2022). Row t of sequence b and position i is b*S + i. Query i sees keys j with
 * segment_start[t] <= j <= i (segment_start NULL: 0) when causal, else all keys of its sequence.
 *   q [T, H*D] with row stride ld_q; k, v [T, G*D] with ld_kv; out [T, H*D] with ld_out; lse [H, T] acc, natural log of
 *   the softmax denominator. Head h reads key/value head h*G/H.
 * Dropout on probabilities: key j of row (head_begin + h)*S + i of sample sample_id[t] at `site`
 * (mega_dropout_block_of_keys); lse is without it.
 */
typedef struct mega_attention_args {
    mega_kernel_head head;
    void *out, *lse;
    const void *q, *k, *v;
    const int32_t *segment_start /* [T] or NULL */;
    const uint32_t *sample_id /* [T]; may be NULL when dropout is 0 */;
    int64_t batch, seq, heads, kv_heads, head_dim, head_begin, ld_q, ld_kv, ld_out;
    double scale, dropout;
    uint32_t site;
    bool causal;
} mega_attention_args;

/* dq, dk, dv overwrite, with the strides ld_dq, ld_dkv. forward holds the arguments of the forward call (out and lse as
 * results of it). */
typedef struct mega_attention_grad_args {
    mega_kernel_head head;
    void *dq, *dk, *dv;
    const void *dout;
    int64_t ld_dq, ld_dkv, ld_dout;
    mega_attention_args forward;
} mega_attention_grad_args;

/* Generation. Per sequence b: copies the `rows` new keys and values after the step->kv_length[b] ones in the cache,
 * then each new query i (position kv_length[b] + i) sees all keys up to and with its own position. A row whose position
 * lies past the capacity (padding of a last chunk) is not copied and gets out = 0. q [B*rows, H*D] ld_q; k, v [B*rows,
 * G*D] ld_kv; k_cache, v_cache [B, capacity, G*D]; out [B*rows, H*D] ld_out */
typedef struct mega_attention_cached_args {
    mega_kernel_head head;
    void *out, *k_cache, *v_cache;
    const void *q, *k, *v;
    int64_t batch, rows, capacity, heads, kv_heads, head_dim, ld_q, ld_kv, ld_out;
    double scale;
} mega_attention_cached_args;

/* y = gelu(x + bias). tanh form: 0.5 u (1 + tanh(sqrt(2/pi) (u + 0.044715 u^3))), else 0.5 u (1 + erf(u/sqrt 2)).
 * Megatron's fused kernel writes 0.79788456 for sqrt(2/pi); we use the full constant. */
typedef struct mega_gelu_args {
    mega_kernel_head head;
    void *y;
    const void *x, *bias /* [C] or NULL */;
    int64_t rows, cols;
    bool tanh_form;
} mega_gelu_args;

/* dx = dy * gelu'(x + bias); dbias += column sums of dx. dx may be dy. */
typedef struct mega_gelu_grad_args {
    mega_kernel_head head;
    void *dx, *dbias /* acc or NULL */;
    const void *dy, *x, *bias /* or NULL */;
    int64_t rows, cols;
    bool tanh_form;
} mega_gelu_grad_args;

/* y = activation(x), any kind but the two of gelu, which have their own kernel. A NaN stays NaN. y may be x. */
typedef struct mega_activation_args {
    mega_kernel_head head;
    void *y;
    const void *x;
    int64_t count;
    mega_activation_kind kind;
} mega_activation_args;

/* dx = dy * activation'(x); the slope of relu at 0 is 0. dx may be dy or x. */
typedef struct mega_activation_grad_args {
    mega_kernel_head head;
    void *dx;
    const void *dy, *x;
    int64_t count;
    mega_activation_kind kind;
} mega_activation_grad_args;

/* y = residual + dropout(x + bias). Element seq_position[t]*C + c of sample sample_id[t] at `site`; kept values are
 * multiplied by 1/(1-p). y may be x or residual. With p = 0 sample_id and seq_position may be NULL. */
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

/* dx = mask * dy / (1-p); dbias += column sums of dx. dx may be dy. */
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

/* y = a + b; y may be a or b */
typedef struct mega_add_args {
    mega_kernel_head head;
    void *y;
    const void *a, *b;
    int64_t count;
} mega_add_args;

/* y = a * b, element by element; y may be a or b */
typedef struct mega_mul_args {
    mega_kernel_head head;
    void *y;
    const void *a, *b;
    int64_t count;
} mega_mul_args;

/* Means of groups of consecutive rows: y[i] = mean of x[i * group] … x[i * group + group - 1].
 *   x [rows * group, C]; y [rows, C] */
typedef struct mega_mean_rows_args {
    mega_kernel_head head;
    void *y;
    const void *x;
    int64_t rows, group, cols;
} mega_mean_rows_args;

/* dx[t] = dy[t / group] / group. dx [rows * group, C]; dy [rows, C] */
typedef struct mega_mean_rows_grad_args {
    mega_kernel_head head;
    void *dx;
    const void *dy;
    int64_t rows, group, cols;
} mega_mean_rows_grad_args;

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

/* Convolution (a correlation, as PyTorch's): y[s, i, j, o] = bias[o] + sum over c, p, q of
 * x[s, i stride - padding + p, j stride - padding + q, c] weight[o, c, p, q]; pixels outside of the image are 0.
 *   x [samples * height * width, C]: a row is a pixel; y [samples * height' * width', O], with mega_windows_along;
 *   weight [O, C, size, size]; bias [O] */
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

/* The largest pixel of each window, channel by channel; padding never wins. Of equal pixels the first in its image
 * wins, and a NaN wins over numbers. x [samples * height * width, C]; y [samples * height' * width', C]; index, of its
 * shape: the pixel's number in its image, saved for the gradient */
typedef struct mega_max_pool2d_args {
    mega_kernel_head head;
    void *y;
    int32_t *index;
    const void *x;
    mega_windows windows;
    int64_t samples, channels;
} mega_max_pool2d_args;

/* dx of a pixel = sum of dy of the windows in which it won, in their order */
typedef struct mega_max_pool2d_grad_args {
    mega_kernel_head head;
    void *dx;
    const void *dy;
    const int32_t *index;
    mega_windows windows;
    int64_t samples, channels;
} mega_max_pool2d_grad_args;

/* y = sum of the pixels of each window / size^2: padding counts as zeros, as PyTorch's AvgPool2d by default. */
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

/* Batch norm over groups of consecutive rows: y = (x - mean) / sqrt(var + eps) * gain + bias per column, mean and
 * (biased) variance over the `rows` rows of a group.
 *   x, y [groups * rows, C]; gain, bias [C]; mean, var [groups, C] acc, saved for the gradient and the running
 * statistics
 */
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

/* The form of evaluation: mean and var [C] acc are given, such as running statistics. y may be x. */
typedef struct mega_batch_norm_fixed_args {
    mega_kernel_head head;
    void *y;
    const void *x, *gain, *bias, *mean, *var;
    int64_t rows, cols;
    double eps;
} mega_batch_norm_fixed_args;

/* Running statistics, once for each group in order: running = (1 - momentum) running + momentum * group, with the
 * unbiased variance, var * rows / (rows - 1).
 *   running_mean, running_var [C] acc; mean, var [groups, C] acc, as batch_norm leaves them; rows > 1 */
typedef struct mega_batch_norm_update_args {
    mega_kernel_head head;
    void *running_mean, *running_var;
    const void *mean, *var;
    int64_t groups, rows, cols;
    double momentum;
} mega_batch_norm_update_args;

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
 * dlogits[r, v] = (softmax - [v is the label]) * loss_mask[r] * step->loss_factor / denominator, 0 in padding columns,
 * head.dtype. dlogits may be the same memory as logits when the types have one size. */
typedef struct mega_xent_grad_args {
    mega_kernel_head head;
    void *loss;    /* [R] acc */
    void *dlogits; /* [R, ld] or NULL */
    const void *logits, *row_max, *sums;
    const int32_t *labels;
    const float *loss_mask;  /* [R] */
    const void *denominator; /* [1] acc, or NULL for 1; 0 counts as 1 */
    int64_t rows, cols, valid, ld, begin;
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

/* dst = (dst_dtype) (src * scale), element by element; types F32, BF16, F64, F16. */
typedef struct mega_convert_args {
    mega_kernel_head head;
    void *dst;
    const void *src;
    int64_t count;
    mega_dtype dst_dtype, src_dtype;
    double scale;
} mega_convert_args;

/* AdamW (Loshchilov, Hutter 2019), decoupled decay, bias corrected, in one sweep; g is multiplied by grad_factor (the
 * clip coefficient) on the way in; with l2 the decay is added to the gradient instead (plain Adam).
 *   m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
 *   p -= lr * ( (m/(1-b1^k)) / (sqrt(v/(1-b2^k)) + eps) + wd p )
 *   p, m, v, g [count] acc; weight [count] head.dtype receives the rounded p, or NULL. k counts from 1. */
typedef struct mega_adamw_args {
    mega_kernel_head head;
    void *p, *m, *v, *weight /* or NULL */;
    const void *g;
    int64_t count, k;
    double lr, beta1, beta2, eps, weight_decay, grad_factor;
    bool l2; /* weight_decay joins the gradient: plain Adam */
} mega_adamw_args;

/* SGD with momentum as torch.optim.SGD: g += wd p; buf = first ? g : mu buf + g; p -= lr buf. */
typedef struct mega_sgd_args {
    mega_kernel_head head;
    void *p, *momentum, *weight /* or NULL */;
    const void *g;
    int64_t count;
    double lr, mu, weight_decay, grad_factor;
    bool first;
} mega_sgd_args;

/* out[0] = sum of squares, out[1] = count of zeros, out[2] = count of values that are not finite. Chunks of 65,536
 * elements whose partial sums are combined in order: the bits do not depend on the number of threads. x [count] acc. */
typedef struct mega_norm_args {
    mega_kernel_head head;
    double *out; /* [3] */
    const void *x;
    int64_t count;
} mega_norm_args;

/* A long list is folded differently every time. */
/* clang-format off */
#define MEGA_KERNEL_LIST(X) \
    X(embedding) X(embedding_grad) X(layer_norm) X(layer_norm_grad) \
    X(gemm) X(column_sum) X(attention) X(attention_grad) \
    X(attention_cached) X(gelu) X(gelu_grad) X(dropout_add) \
    X(dropout_grad) X(add) X(xent_max) X(xent_sum) \
    X(xent_grad) X(xent) X(masked_sum) X(convert) X(adamw) \
    X(sgd) X(norm) X(activation) X(activation_grad) \
    X(mul) X(mean_rows) X(mean_rows_grad) X(squared_error) \
    X(squared_error_grad) X(accuracy) X(masked_sum_grad) \
    X(conv2d) X(conv2d_grad_x) X(conv2d_grad_w) \
    X(max_pool2d) X(max_pool2d_grad) X(mean_pool2d) X(mean_pool2d_grad) \
    X(batch_norm) X(batch_norm_grad) X(batch_norm_fixed) X(batch_norm_update)
/* clang-format on */

#define MEGA_KERNEL_DECLARE(name) extern const mega_kernel mega_plain_##name, mega_cpu_##name;
MEGA_KERNEL_LIST(MEGA_KERNEL_DECLARE)
#undef MEGA_KERNEL_DECLARE

/* "own panels, avx2", "own pairs, amx", or "oneDNN 2.6.3, …": what mega_cpu_gemm runs on for bf16 (F32 always takes the
 * panels). Returns out. MEGA_GEMM=onednn in the environment sends every product to oneDNN, for comparison. */
const char *mega_gemm_description(char *out, int size);

#ifdef __cplusplus
}
#endif

#endif
