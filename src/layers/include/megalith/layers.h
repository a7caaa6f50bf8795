/* Layers: linear, embedding, norm, activation and arithmetic, dropout, attention, convolution, pooling, batch norm,
 * losses.
 *
 * Each layer declares its parameters under the path of the builder and describes its forward computation. Weights that
 * are sharded are sharded over tp (Shoeybi et al. 2019); with sequence parallelism (mega_model.sequence_parallel)
 * the layers also insert the gathers and scatters of rows, and activations between sharded layers are sharded by rows.
 * A group of one rank costs nothing, so no layer and no model asks how many ranks there are.
 *
 * Unless a comment says otherwise: x is [T, C], where T is the number of rows on this rank and C the number of
 * channels; results have the shape of x; x and the result are replicated on tp (sharded by rows with sequence
 * parallelism); parameters are called NAME.weight and NAME.bias; every `options` argument may be NULL, which is the
 * same as a zero-initialized struct. Errors and ownership are those of builder.h. */
#ifndef MEGALITH_LAYERS_H
#define MEGALITH_LAYERS_H

#include "megalith/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- linear ---- */

/* Parts of the rows of the weight are those of the bias too. A `file` then ends in "weight", and the bias is in the
 * tensor that ends in "bias" instead. So it is with one part of columns, which names the tensor alone. */
typedef struct mega_linear_options {
    bool no_bias;
    mega_param_options weight;
} mega_linear_options;

/* Returns x times the transposed weight, plus the bias: [T, C] -> [T, out]. The weight, [out, C], is replicated. */
mega_tensor mega_linear(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                        const mega_linear_options *options);
/* As mega_linear, with the output channels sharded over tp: [T, C] -> [T, out/tp]. The result is sharded by channels.
 */
mega_tensor mega_column_linear(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                               const mega_linear_options *options);
/* As mega_linear, with the input channels sharded over tp: [T, C/tp] -> [T, out]. x must be sharded by channels. The
 * products are partial; the layer reduces them over tp and then adds the bias. */
mega_tensor mega_row_linear(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                            const mega_linear_options *options);

/* ---- embedding ---- */

/* Looks up ids [T] in the table NAME.weight [rows, width], which is replicated: [T] -> [T, width]. Ids range from 0 to
 * rows - 1; another id makes the step fail with MEGA_ERR_USAGE. */
mega_tensor mega_embedding(const mega_builder *b, const char *name, mega_tensor ids, int64_t rows, int64_t width,
                           const mega_param_options *options);
/* Looks up ids [T] in the table NAME.weight, whose rows are sharded over tp: [T] -> [T, width]. The table has
 * vocab_size rows, which checkpoints hold, and options->padding_rows further ones. */
mega_tensor mega_vocab_embedding(const mega_builder *b, const char *name, mega_tensor ids, int64_t vocab_size,
                                 int64_t width, const mega_param_options *options);
/* Adds to each row of x the row of the table NAME.weight [max_positions, C] that the input "position_ids" names. */
mega_tensor mega_position_embedding(const mega_builder *b, const char *name, mega_tensor x, int64_t max_positions,
                                    const mega_param_options *options);

/* ---- norm, activation and arithmetic, dropout ---- */

typedef enum mega_norm_kind { MEGA_LAYER_NORM } mega_norm_kind;
/* Normalizes each row over its channels. */
mega_tensor mega_norm(const mega_builder *b, const char *name, mega_tensor x, mega_norm_kind kind, double epsilon);

/* Element by element; x may be sharded. */
mega_tensor mega_activation(const mega_builder *b, mega_tensor x, mega_activation_kind kind);

/* Element by element. x and y have the same shape. mega_mul needs values that are no partial sums. */
mega_tensor mega_add(const mega_builder *b, mega_tensor x, mega_tensor y);
mega_tensor mega_mul(const mega_builder *b, mega_tensor x, mega_tensor y);
mega_tensor mega_scale(const mega_builder *b, mega_tensor x, double factor);
/* Adds a parameter or another vector [C] to each row of x; where x is sharded by channels, so is the vector. */
mega_tensor mega_bias_add(const mega_builder *b, mega_tensor x, mega_tensor bias);

/* Returns the same numbers in the same order as [T * C / channels, channels]; x may be a vector [T]. A row must not
 * cross a sample. Costs nothing, and neither does its gradient. */
mega_tensor mega_reshape(const mega_builder *b, mega_tensor x, int64_t channels);

/* Return the first position, or the mean over positions, of each sample: [samples * positions, C] -> [samples, C]. Not
 * with sequence parallelism yet. */
mega_tensor mega_first_position(const mega_builder *b, mega_tensor x);
mega_tensor mega_mean_positions(const mega_builder *b, mega_tensor x);

/* In MEGA_TRAIN, sets each element to zero with probability p and divides the others by 1 - p; else returns x. The mask
 * is a function of the seed, the step, the sample, the position and the path PATH.NAME, so no layout changes it. Using
 * one path twice, or p outside of 0 <= p < 1 in any mode, is recorded as MEGA_ERR_USAGE. Reads the inputs "sample_id"
 * and "seq_position". */
mega_tensor mega_dropout(const mega_builder *b, const char *name, mega_tensor x, double p);
/* Returns residual + dropout(x). */
mega_tensor mega_dropout_add(const mega_builder *b, const char *name, mega_tensor x, mega_tensor residual, double p);

/* ---- attention ---- */

typedef struct mega_attention_options {
    int64_t num_heads; /* of the whole model */
    int64_t head_dim;  /* 0: C / num_heads */
    bool is_causal;
    double dropout;                       /* of the probabilities, in MEGA_TRAIN, 0 <= p < 1; its path is PATH.NAME */
    bool recompute_core;                  /* keep q, k, v only; scores and context again in the backward */
    const mega_linear_options *qkv, *out; /* options of the two projections; parts of qkv: Q, K, V in
                                             this order, num_heads * head_dim rows each */
} mega_attention_options;

/* Multi-head self-attention including both projections, with heads sharded over tp: [T, C] -> [T, C]. The parameters
 * are NAME.c_attn and NAME.c_proj. Reads the inputs "segment_start" (where the text of a row begins in its sample) and
 * "sample_id". In MEGA_GENERATE the same call needs neither and keeps keys and values in the states SCOPE.k_cache and
 * SCOPE.v_cache. */
mega_tensor mega_self_attention(const mega_builder *b, const char *name, mega_tensor x,
                                const mega_attention_options *options);

/* Rows of a table of `vocab` ids whose number tp ranks divide: the next multiple of multiple * tp (Megatron's rule). */
int64_t mega_vocab_pad(int64_t vocab, int64_t multiple, int tp);

/* ---- convolution, pooling, batch norm ----
 *
 * These layers, and the losses below but for that of a vocabulary, need all rows of a sample, so that they are refused
 * with sequence parallelism. */

/* Height and width of an image whose pixels are the positions of a sample, row by row. */
typedef struct mega_image_size {
    int64_t height, width;
} mega_image_size;

typedef struct mega_conv_options {
    int kernel_size, stride, padding; /* in pixels, both directions; stride 0: 1 */
    bool no_bias;
    mega_init init; /* of the weight */
} mega_conv_options;

/* 2-D convolution: [samples * height * width, C] -> [samples * height' * width', out_channels]. *inout_size is the size
 * of x on entry and that of the result on return. The weight is [out_channels, C * kernel_size^2], in the checkpoint
 * [out_channels, C, kernel_size, kernel_size]. */
mega_tensor mega_conv2d(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                        const mega_conv_options *options, mega_image_size *inout_size);

typedef struct mega_pool_options {
    int window, stride, padding; /* in pixels, both directions; stride 0: window */
} mega_pool_options;

/* Maximum, or mean, over windows of window x window pixels; padding never wins, and is zeros for the mean. */
mega_tensor mega_max_pool2d(const mega_builder *b, mega_tensor x, const mega_pool_options *options,
                            mega_image_size *inout_size);
mega_tensor mega_mean_pool2d(const mega_builder *b, mega_tensor x, const mega_pool_options *options,
                             mega_image_size *inout_size);

/* Batch normalization over channels. In training the statistics are those of groups of `group_samples` samples that are
 * consecutive in the order of the run, so that neither the micro-batch size nor the number of ranks changes them; a
 * group that does not divide the micro-batch is recorded as MEGA_ERR_USAGE. In evaluation they are the running mean and
 * (unbiased) variance, which are buffers NAME.running_mean and NAME.running_var, updated once per group in the order of
 * the samples when a step ends; recomputation and evaluation do not update them. With momentum 0 there are none, and
 * evaluation uses the statistics of its own groups. */
mega_tensor mega_batch_norm(const mega_builder *b, const char *name, mega_tensor x, int group_samples, double momentum,
                            double epsilon);

/* ---- losses ---- */

/* Softmax cross-entropy of logits [n, classes] against labels [n] (I32). weights is [n] F32, or mega_none() for 1 each.
 * Rows whose label is not a class (such as -100) count nothing. */
mega_loss mega_cross_entropy(const mega_builder *b, mega_tensor logits, mega_tensor labels, mega_tensor weights);
/* The same before the sum, [n] in the accumulation type, 0 where the label is not a class. A model may weight it
 * itself: mega_mul, mega_scale, mega_reshape (losses of a sample in a row), mega_sum. */
mega_tensor mega_row_cross_entropy(const mega_builder *b, mega_tensor logits, mega_tensor labels);

/* Sum of x over rows and channels, weighted by row; the weight is the sum of the row weights, or the number of rows
 * without them. Turns any computed value, [n, C] or losses by row [n], into a loss. */
mega_loss mega_sum(const mega_builder *b, mega_tensor x, mega_tensor weights);

/* Sum over rows and channels of (x - target)^2, weighted by row; the weight is the sum of the row weights. Without
 * weights the loss is ((x - target)**2).sum(1).mean() of PyTorch, not MSELoss. */
mega_loss mega_squared_error(const mega_builder *b, mega_tensor x, mega_tensor target, mega_tensor weights);

/* Number of rows whose largest logit is that of the label. A metric: it has no gradient. */
mega_loss mega_accuracy(const mega_builder *b, mega_tensor logits, mega_tensor labels);

typedef struct mega_vocab_loss_options {
    int64_t vocab_size;
    mega_param_options table;
} mega_vocab_loss_options;

/* Cross-entropy of x [T, C] times the table NAME.weight [vocab_size + padding, C], sharded over tp. The table is shared
 * with a mega_vocab_embedding of the same full name, if there is one. Logits are computed in chunks of rows and are
 * never whole in memory. labels and weights are [T]. In MEGA_TRAIN the forward computes the gradients too. */
mega_head_result mega_vocab_loss(const mega_builder *b, const char *name, mega_tensor x, mega_tensor labels,
                                 mega_tensor weights, const mega_vocab_loss_options *options);
/* The logits of all rows on every rank, [tp * T, V / tp] acc: first the columns of the first rank for all T rows, then
 * those of the second. For generation. */
mega_tensor mega_vocab_logits(const mega_builder *b, const char *name, mega_tensor x, int64_t vocab_size,
                              const mega_param_options *options);

#ifdef __cplusplus
}
#endif

#endif
