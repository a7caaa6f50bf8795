/* Layers: linear, embedding, norm, activation and arithmetic, dropout, attention, convolution, pooling, batch norm,
 * losses.
 *
 * Each layer declares its parameters under the path of the builder and describes its forward computation. Sharded
 * weights are sharded over tp (Shoeybi et al. 2019). With sequence parallelism (mega_model.sequence_parallel) the
 * layers also insert the gathers and scatters of rows, and activations between sharded layers are sharded by rows.
 * Communication within a group of one rank costs nothing, so layers and models never test the number of ranks.
 *
 * Unless a comment says otherwise: x is [T, C], where T is the number of rows on this rank and C the number of
 * channels; results have the shape of x; x and the result are replicated on tp (sharded by rows with sequence
 * parallelism); parameters are called NAME.weight and NAME.bias; every `options` argument may be NULL, which is the
 * same as a zero-initialized struct. Errors and ownership are those of builder.h. */
#ifndef MEGALITH_LAYERS_H
#define MEGALITH_LAYERS_H

#include "megalith/builder.h"
#include "megalith/rope_scaling.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- linear ---- */

/* If the weight is split into parts of its rows, the bias is split in the same way. If a part names a `file` tensor,
 * that name must end in "weight"; the bias is in the tensor whose name ends in "bias" instead. The same holds for a
 * single part of columns, which only names the tensor. */
typedef struct mega_linear_options {
    bool no_bias;
    mega_param_options weight;
} mega_linear_options;

/* Returns x times the transposed weight, plus the bias: [T, C] -> [T, out]. The weight, [out, C], is replicated. */
mega_tensor mega_linear(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                        const mega_linear_options *options);
/* Like mega_linear, with the output channels sharded over tp: [T, C] -> [T, out/tp]. The result is sharded by
 * channels. */
mega_tensor mega_column_linear(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                               const mega_linear_options *options);
/* Like mega_linear, with the input channels sharded over tp: [T, C/tp] -> [T, out]. x must be sharded by channels.
 * The layer computes partial sums, reduces them over tp, and then adds the bias. */
mega_tensor mega_row_linear(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                            const mega_linear_options *options);

/* ---- embedding ---- */

/* Looks up ids [T] in the table NAME.weight [rows, width], which is replicated: [T] -> [T, width]. Ids range from 0 to
 * rows - 1; another id makes the step fail with MEGA_ERR_USAGE. */
mega_tensor mega_embedding(const mega_builder *b, const char *name, mega_tensor ids, int64_t rows, int64_t width,
                           const mega_param_options *options);
/* Looks up ids [T] in the table NAME.weight, whose rows are sharded over tp: [T] -> [T, width]. The table has
 * vocab_size rows, which are stored in checkpoints, followed by options->padding_rows rows, which are not. */
mega_tensor mega_vocab_embedding(const mega_builder *b, const char *name, mega_tensor ids, int64_t vocab_size,
                                 int64_t width, const mega_param_options *options);
/* Adds a row of the table NAME.weight [max_positions, C] to each row of x; the input "position_ids" selects the row. */
mega_tensor mega_position_embedding(const mega_builder *b, const char *name, mega_tensor x, int64_t max_positions,
                                    const mega_param_options *options);
/* The same with `skipped` rows before that of position 0, which are in the table but never read. */
mega_tensor mega_position_embedding_after(const mega_builder *b, const char *name, mega_tensor x, int64_t max_positions,
                                          int64_t skipped, const mega_param_options *options);

/* Adds a row of the table NAME.weight [rows, C] to each row of x; the input `ids`, I32 with a number for each row of x,
 * selects it. */
mega_tensor mega_embedding_add(const mega_builder *b, const char *name, const char *ids, mega_tensor x, int64_t rows,
                               const mega_param_options *options);

/* ---- norm, activation and arithmetic, dropout ---- */

typedef enum mega_norm_kind {
    MEGA_LAYER_NORM,
    MEGA_RMS_NORM /* without mean and bias: x / sqrt(mean of x^2 + epsilon) */
} mega_norm_kind;
/* Normalizes each row over its channels. */
mega_tensor mega_norm(const mega_builder *b, const char *name, mega_tensor x, mega_norm_kind kind, double epsilon);
typedef struct mega_norm_options {
    mega_norm_kind kind;
    double epsilon;
    bool no_bias, no_weight; /* RMS norm never has a bias */
    bool weight_plus_one;    /* the factor is 1 + NAME.weight, which starts at 0 */
} mega_norm_options;
mega_tensor mega_norm_with(const mega_builder *b, const char *name, mega_tensor x, const mega_norm_options *options);

/* Applies the activation to each element; x may be sharded. */
mega_tensor mega_activation(const mega_builder *b, mega_tensor x, mega_activation_kind kind);
/* A gated activation: [T, 2F/tp] -> act(gate) * up [T, F/tp]. x is sharded by channels and consists of this rank's part
 * of the gate and of up, in this order, or in the other one with gate_second. A mega_column_linear with two row parts
 * computes such an x. */
mega_tensor mega_glu(const mega_builder *b, mega_tensor x, mega_activation_kind kind, bool gate_second);

/* Elementwise arithmetic on x and y of the same shape. The arguments of mega_mul must not be partial sums. */
mega_tensor mega_add(const mega_builder *b, mega_tensor x, mega_tensor y);
mega_tensor mega_mul(const mega_builder *b, mega_tensor x, mega_tensor y);
mega_tensor mega_scale(const mega_builder *b, mega_tensor x, double factor);
/* Adds a parameter or another vector [C] to each row of x; if x is sharded by channels, the vector must be too. */
mega_tensor mega_bias_add(const mega_builder *b, mega_tensor x, mega_tensor bias);

/* Returns the same values in the same order as [T * C / channels, channels]; x may be a vector [T]. A row of the
 * result must not span two samples. Neither this layer nor its gradient copies any data. */
mega_tensor mega_reshape(const mega_builder *b, mega_tensor x, int64_t channels);

/* Return the first position, or the mean over positions, of each sample: [samples * positions, C] -> [samples, C].
 * Not supported with sequence parallelism yet. */
mega_tensor mega_first_position(const mega_builder *b, mega_tensor x);
mega_tensor mega_mean_positions(const mega_builder *b, mega_tensor x);

/* In MEGA_TRAIN, sets each element to zero with probability p and divides the others by 1 - p; in other modes
 * returns x. The mask depends only on the seed, the step, the sample, the position and the path PATH.NAME, so it is
 * the same in every layout. Using one path twice, or p outside of 0 <= p < 1 in any mode, is recorded as
 * MEGA_ERR_USAGE. Reads the inputs "sample_id" and "seq_position". */
mega_tensor mega_dropout(const mega_builder *b, const char *name, mega_tensor x, double p);
/* Returns residual + dropout(x). */
mega_tensor mega_dropout_add(const mega_builder *b, const char *name, mega_tensor x, mega_tensor residual, double p);

/* ---- attention ---- */

/* Rotary position embedding (Su et al. 2021): pair k of R rotated channels of a head turns by position * theta^(-2k/R).
 * The position is that of the input "position_ids". Frequencies and angles are float32. Numbers of the scaling that are
 * 0 have the defaults of transformers. What DYNAMIC and LONGROPE choose by the length of the sequence, they choose by
 * the number of positions for which the program is built: its positions or, in MEGA_GENERATE, those of a prompt
 * with its continuation. */
typedef struct mega_rope {
    double theta;     /* base of the wavelengths, such as 10000; 0: no rotation */
    double fraction;  /* of the channels of a head, from the first, that are rotated; 0: all */
    bool interleaved; /* a pair is channels 2k and 2k + 1; else k and k + R/2 */
    mega_rope_scaling scaling;
    double factor, beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim, low_freq_factor, high_freq_factor;
    bool no_truncate;
    int64_t original_positions, max_positions;
    const double *long_factor, *short_factor; /* R/2 numbers each */
} mega_rope;

/* Writes the R/2 frequencies for heads of head_dim channels and sequences of `positions`, and the factor on cosines and
 * sines. Returns MEGA_ERR_USAGE for a mistake in `rope`. */
MEGA_CHECK_RESULT mega_status mega_rope_frequencies(const mega_rope *rope, int64_t head_dim, int64_t positions,
                                                    float *out, double *out_factor);

typedef enum mega_qk_norm {
    MEGA_QK_NORM_NONE,
    MEGA_QK_NORM_HEAD, /* over the channels of each head; the heads share one weight */
    MEGA_QK_NORM_ALL   /* over all heads together, of all ranks of tp */
} mega_qk_norm;

/* Latent attention (DeepSeek-AI 2024). A linear layer of a token gives kv_rank channels, from which, after an RMS norm,
 * another computes own_dim channels of the keys and the values of each head, and rope_dim channels more, which are
 * rotated and which the keys of all heads end with. Queries are as wide as keys; the last channels of each head are
 * rotated. Values have value_dim channels, at most as many. A cache holds keys and values of all heads, each as wide as
 * a key. Names follow the path of the builder. */
typedef struct mega_latent_options {
    int64_t q_rank; /* queries are computed from so many channels, after an RMS norm; 0: from the token */
    int64_t kv_rank, own_dim, rope_dim, value_dim;
    double norm_epsilon;
    /* q_down [q_rank, C] and kv_down [kv_rank + rope_dim, C] have a bias if qkv of the options has; q_up [heads *
     * (own_dim + rope_dim), q_rank or C] and kv_up [heads * (own_dim + value_dim), kv_rank] have none. */
    const char *q_down, *q_norm, *q_up, *kv_down, *kv_norm, *kv_up;
} mega_latent_options;

typedef struct mega_attention_options {
    int64_t num_heads;    /* number of heads of the whole model */
    int64_t num_kv_heads; /* of the whole model, a divisor of num_heads; 0 means num_heads */
    int64_t head_dim;     /* 0 means C / num_heads */
    double scale;         /* of the scores; 0 means 1 / sqrt(head_dim) */
    double softcap;       /* c > 0: a score s becomes c tanh(s / c) */
    bool is_causal;
    /* Names of inputs, I32, with a number for each row of x: the first position that the row sees, and one past the
     * last. Padding, documents and prefixes are such numbers. NULL: no limit or, for key_begin of causal attention, the
     * input "key_begin"; there "" is no limit. */
    const char *key_begin, *key_end;
    bool has_window; /* position i sees positions i - window_left to i + window_right; -1: no limit on this side */
    int64_t window_left, window_right;
    bool alibi; /* adds slope * (j - i) to the score of positions i, j (Press et al. 2022) */
    /* A table of biases of the scores by relative position (mega_attention_bias), or none. Distances from bias_distance
     * on, 0 means 128, have the last bucket. Causal attention has buckets for the positions before a row alone. */
    mega_tensor bias;
    int64_t bias_distance;
    /* The parameter PATH.NAME [num_heads] of a score that each softmax of a head has without a value; NULL: none. */
    const char *sinks_name;
    double sinks_std;      /* standard deviation of its initial numbers */
    const mega_rope *rope; /* rotates queries and keys; NULL: no rotation */
    mega_qk_norm qk_norm;  /* normalizes queries and keys before the rotation; the parameters are Q_NORM_NAME.weight and
                             K_NORM_NAME.weight, and .bias if there is one, under the path of the builder */
    mega_norm_options qk_norm_options;
    const char *q_norm_name, *k_norm_name; /* NULL means NAME.q_norm and NAME.k_norm */
    double dropout;                        /* of the probabilities, in MEGA_TRAIN, 0 <= p < 1; its path is PATH.NAME */
    bool recompute_core;                   /* keep only q, k and v; the backward recomputes scores and context */
    const mega_linear_options *qkv, *out;  /* options of the two projections; the parts of qkv are Q, K and V in this
                                             order: num_heads * head_dim rows, then twice num_kv_heads * head_dim */
    const char *qkv_name, *out_name;       /* NULL means NAME.c_attn and NAME.c_proj */
    const mega_latent_options *latent;     /* in the place of Q, K and V; needs head_dim, own_dim + rope_dim of it */
} mega_attention_options;

/* Returns the table of biases NAME.weight [buckets, num_heads] (Raffel et al. 2020), whose columns are cut over tp like
 * heads: a bucket for each short distance, then ever longer ranges (mega_relative_bucket). Layers may share a table. */
mega_tensor mega_attention_bias(const mega_builder *b, const char *name, int64_t buckets, int64_t num_heads,
                                const mega_param_options *options);

/* Multi-head self-attention including both projections, with heads sharded over tp: [T, C] -> [T, C]. The parameters
 * are QKV_NAME and OUT_NAME. Reads the inputs key_begin and key_end (of causal attention, "key_begin" is the position
 * in the sample at which the text of a row begins), "sample_id", and "position_ids" with a rope. A row that sees no
 * position gives zeros to the second projection. In MEGA_GENERATE it reads neither these limits nor "sample_id", and
 * keeps keys and values in the states SCOPE.k_cache and SCOPE.v_cache. With a window these are rings, which hold what
 * the window leaves to the rows of a chunk.
 *
 * tp must divide num_heads. If it does not divide num_kv_heads, every rank holds all key/value heads, and their
 * gradients are summed over tp. In this case, and with qk_norm, Q, K and V are three parameters, QKV_NAME_q, QKV_NAME_k
 * and QKV_NAME_v, so that the parts of qkv must name a tensor for each. */
mega_tensor mega_self_attention(const mega_builder *b, const char *name, mega_tensor x,
                                const mega_attention_options *options);

/* Attention of the rows of x [T, C] to a source [U, D], which has `positions` rows of each sample, such as the output
 * of an encoder: queries are computed from x, keys and values from the source. The result is [T, C]. Q, K and V are
 * three parameters as with qk_norm above. key_begin and key_end are positions of the source. Refuses causal attention,
 * windows, ALiBi, biases and rope, which compare positions of one sequence.
 *
 * In MEGA_GENERATE the source is read once: a program that is given one keeps its keys and values, ignores x, which may
 * be mega_none() (then give head_dim), and returns mega_none(). A program whose source is mega_none() attends to those
 * kept. */
mega_tensor mega_cross_attention(const mega_builder *b, const char *name, mega_tensor x, mega_tensor source,
                                 int64_t positions, const mega_attention_options *options);

/* Returns the number of rows of a table of `vocab` ids, padded so that tp divides it: the next multiple of
 * multiple * tp (Megatron's rule). */
int64_t mega_vocab_pad(int64_t vocab, int64_t multiple, int tp);

/* ---- convolution, pooling, batch norm ----
 *
 * These layers, and all losses below except mega_vocab_loss and mega_class_loss, need all rows of a sample and
 * therefore record MEGA_ERR_UNSUPPORTED with sequence parallelism. */

/* Height and width of an image in pixels. The positions of a sample are its pixels, row by row. */
typedef struct mega_image_size {
    int64_t height, width;
} mega_image_size;

typedef struct mega_conv_options {
    int kernel_size, stride, padding; /* in pixels, in both directions; stride 0 means 1 */
    bool no_bias;
    mega_init init; /* initialization of the weight */
} mega_conv_options;

/* 2-D convolution: [samples * height * width, C] -> [samples * height' * width', out_channels]. *inout_size is the
 * image size of x on entry and of the result on return. The weight is [out_channels, C * kernel_size^2] in memory
 * and [out_channels, C, kernel_size, kernel_size] in checkpoints. */
mega_tensor mega_conv2d(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                        const mega_conv_options *options, mega_image_size *inout_size);

typedef struct mega_pool_options {
    int window, stride, padding; /* in pixels, in both directions; stride 0 means window */
} mega_pool_options;

/* Maximum or mean over windows of window x window pixels. The maximum ignores padding; the mean counts padding as
 * zeros. */
mega_tensor mega_max_pool2d(const mega_builder *b, mega_tensor x, const mega_pool_options *options,
                            mega_image_size *inout_size);
mega_tensor mega_mean_pool2d(const mega_builder *b, mega_tensor x, const mega_pool_options *options,
                             mega_image_size *inout_size);

/* Batch normalization over channels.
 *
 * In training, each group of `group_samples` samples that are consecutive in the order of the run has its own
 * statistics, which therefore do not depend on the micro-batch size or the number of ranks. MEGA_ERR_USAGE is recorded
 * if group_samples does not divide the micro-batch.
 *
 * In evaluation the running mean and (unbiased) variance are used. They are the buffers NAME.running_mean and
 * NAME.running_var, which are updated once per group, in the order of the samples, when a training step ends;
 * recomputation and evaluation do not update them. With momentum 0 these buffers do not exist, and evaluation uses the
 * statistics of its own groups. */
mega_tensor mega_batch_norm(const mega_builder *b, const char *name, mega_tensor x, int group_samples, double momentum,
                            double epsilon);

/* ---- losses ---- */

/* Labels. In all losses and metrics below, a label of a row is a class (0 … classes - 1; of a vocabulary, its ids
 * without padding), or the ignored label, -100, which takes its row out of the loss and of its weight. Any other label
 * is MEGA_ERR_USAGE of the call that reads it, on all ranks, with the sample, the label and the number of classes;
 * except in rows of weight 0, where any number will do. The weight of a row is what is given to the loss, an input or a
 * value that the model computes; that of mega_row_cross_entropy is what mega_mul multiplies its result by and what
 * mega_sum weights it by, if every use of it is weighted alike. Metrics of labels that have a loss count its rows.
 *
 * mega_ignore_label gives the labels of an input (mega_input) another label to ignore, which may be a class, in all
 * layers of the model. */
void mega_ignore_label(const mega_builder *b, mega_tensor labels, int32_t label);

/* Softmax cross-entropy of logits [n, classes] against labels [n] (I32). weights is [n] F32, or mega_none() for
 * weights of 1. */
mega_loss mega_cross_entropy(const mega_builder *b, mega_tensor logits, mega_tensor labels, mega_tensor weights);
/* Returns the loss of each row, [n] in the accumulation type; 0 if its label is ignored. A model may compute its
 * own weighted loss from it: mega_mul, mega_scale, mega_reshape (one sample's losses per row), mega_sum. */
mega_tensor mega_row_cross_entropy(const mega_builder *b, mega_tensor logits, mega_tensor labels);

/* Sum of x over rows and channels, weighted by row. The weight of the loss is the sum of the row weights, or the
 * number of rows if there are none. Makes a loss of any computed value: [n, C], or a loss per row [n]. */
mega_loss mega_sum(const mega_builder *b, mega_tensor x, mega_tensor weights);

/* Sum over rows and channels of (x - target)^2, weighted by row. The weight of the loss is the sum of the row
 * weights, or the number of rows if there are none; the loss then equals PyTorch's ((x - target)**2).sum(1).mean(),
 * not MSELoss. */
mega_loss mega_squared_error(const mega_builder *b, mega_tensor x, mega_tensor target, mega_tensor weights);

/* Number of rows whose largest logit is at their label. This is a metric: it has no gradient. */
mega_loss mega_accuracy(const mega_builder *b, mega_tensor logits, mega_tensor labels);

/* A classifier of samples, which works with sequence parallelism too.
 *
 * mega_pooler returns a linear layer of the first position of each sample, with the output channels sharded over tp:
 * [T, C] -> [samples, out/tp]. mega_class_loss applies a linear layer to such a value, sharded by channels, and returns
 * the softmax cross-entropy of the logits [samples, classes], which are the same on every rank, against labels
 * [samples] (I32). out_logits may be NULL. */
mega_tensor mega_pooler(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                        const mega_linear_options *options);
mega_loss mega_class_loss(const mega_builder *b, const char *name, mega_tensor x, mega_tensor labels, int64_t classes,
                          const mega_linear_options *options, mega_tensor *out_logits);
/* The same for a choice: `choices` consecutive rows of x belong to one sample, each gets one number, and the softmax is
 * over these. labels is [rows / choices], the logits are [rows, 1]. */
mega_loss mega_choice_loss(const mega_builder *b, const char *name, mega_tensor x, mega_tensor labels, int64_t choices,
                           const mega_linear_options *options, mega_tensor *out_logits);

typedef struct mega_vocab_loss_options {
    int64_t vocab_size;
    mega_param_options table;
    bool has_bias;         /* NAME.bias [vocab_size + padding] is added to the logits */
    double softcap;        /* logits become softcap * tanh(logits / softcap); 0: as they are */
    const char *bias_name; /* of the bias, under the path of the builder; NULL: NAME.bias */
} mega_vocab_loss_options;

/* Cross-entropy of the logits, which are x [T, C] times the transposed table NAME.weight [vocab_size + padding, C],
 * sharded over tp. The table is shared with a mega_vocab_embedding of the same full name, if there is one. Logits are
 * computed in chunks of rows, so memory never holds all of them. labels and weights are [T]. In MEGA_TRAIN the forward
 * pass also computes the gradients:
 *
 *       x [T, C]              logits [R, V / tp]
 *     | rows of chunk 0 |  -> | one chunk at a time |  -> its losses, then its gradients: of its rows of x, and
 *     | rows of chunk 1 |       in the same memory        added to that of the table
 *     | ...             | */
mega_head_result mega_vocab_loss(const mega_builder *b, const char *name, mega_tensor x, mega_tensor labels,
                                 mega_tensor weights, const mega_vocab_loss_options *options);
/* Returns the logits of all rows on every rank, [tp * T, V / tp] acc: all T rows of the first rank's columns, then
 * all T rows of the second rank's columns, and so on. For generation. */
mega_tensor mega_vocab_logits(const mega_builder *b, const char *name, mega_tensor x, int64_t vocab_size,
                              const mega_param_options *options);
/* The same with bias and cap. */
mega_tensor mega_vocab_logits_with(const mega_builder *b, const char *name, mega_tensor x,
                                   const mega_vocab_loss_options *options);

#ifdef __cplusplus
}
#endif

#endif
