/* A graph: tensors in execution order, as a model function writes them. A straight list with static shapes and no
 * control flow. Compiled into a program (program.h) by describe → differentiate → recompute → place → fuse → schedule →
 * plan. */
#ifndef MEGALITH_GRAPH_H
#define MEGALITH_GRAPH_H

#include "megalith/comm.h"
#include "megalith/memory.h"
#include "megalith/op_types.h"
#include "megalith/parameter.h"
#include "megalith/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_graph mega_graph;
typedef struct mega_tensor {
    int32_t id; /* 0: none */
} mega_tensor;

/* dtype: of activations and weights, F32, BF16 or F64. Errors while describing are kept in the graph and returned by
 * mega_graph_status, so that a model function reads as formulas. params is borrowed; it may be empty, since describing
 * declares parameters (mega_builder_param), and need not be placed before mega_program_build. */
mega_status mega_graph_create(mega_graph **out, mega_dtype dtype, mega_params *params, const mega_layout *layout);
void mega_graph_destroy(mega_graph *g);
mega_status mega_graph_status(const mega_graph *g);
/* Records an error that a layer found itself: mega_graph_fail(g, MEGA_FAIL(…)). The first error stays. */
void mega_graph_fail(mega_graph *g, mega_status st);
mega_dtype mega_graph_dtype(const mega_graph *g);          /* as given to create */
mega_params *mega_graph_params(const mega_graph *g);       /* as given to create */
const mega_layout *mega_graph_layout(const mega_graph *g); /* as given to create */

/* Names: "h.3" is put in front of what is declared until leave. All of them together have fewer than MEGA_GRAPH_SCOPE
 * characters. */
#define MEGA_GRAPH_SCOPE 256
typedef struct mega_scope {
    size_t length;
} mega_scope;
mega_scope mega_scope_enter(mega_graph *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mega_scope_leave(mega_graph *g, mega_scope scope);

/* Tensors that the caller fills before a run (mega_program_tensor) and reads after it. */
mega_tensor mega_graph_input(mega_graph *g, const char *name, mega_dtype dtype, int num_dims, const int64_t *dim);
void mega_graph_output(mega_graph *g, mega_tensor t, const char *name);
/* Keeps its content between runs (key/value caches). The scope stands in front of its name: "h.3.k_cache". */
mega_tensor mega_graph_state(mega_graph *g, const char *name, mega_dtype dtype, int num_dims, const int64_t *dim);
mega_tensor mega_graph_param(mega_graph *g, int param); /* the weight of a declared parameter */
/* Differentiation starts from gradients that are given: the head makes its own; here the caller fills the gradient of t
 * as input `name` before each backward (a pipeline stage; a test). */
void mega_graph_seed_gradient(mega_graph *g, mega_tensor t, const char *name);
/* The gradient of a float input, as output `name` of the backward program. */
void mega_graph_want_gradient(mega_graph *g, mega_tensor input, const char *name);
/* Sequence parallelism (Korthikanti et al. 2022): between layers whose weights are sharded over tp, each rank of tp has
 * a slab of T/tp rows, where norms, dropout and residuals work. Without effect where tp has one rank. Set before the
 * first layer. */
void mega_graph_set_sequence_parallel(mega_graph *g, bool on);
bool mega_graph_is_sequence_parallel(const mega_graph *g);
int mega_graph_dim_count(const mega_graph *g, mega_tensor t);
int64_t mega_graph_dim(const mega_graph *g, mega_tensor t, int dim); /* 0 where t has no such dimension */

/* Marks what is described between begin and end as one recompute region: only its inputs are saved, its ops are cloned
 * into the backward. */
void mega_recompute_begin(mega_graph *g);
void mega_recompute_end(mega_graph *g);
bool mega_recompute_is_open(const mega_graph *g);
/* The inputs of all regions are whole on every rank of the axis: each keeps its share of their rows and gathers them
 * when they are needed again. Inputs of the graph, and what others read in the backward too, stay whole. */
void mega_recompute_distribute(mega_graph *g, const mega_axis *axis);

/* --- forward ops (letters: kernels.h). Weight layouts are [out, in]. --- */
mega_tensor mega_op_embedding(mega_graph *g, mega_tensor ids, mega_tensor table, mega_tensor addend, int64_t begin);
mega_tensor mega_op_layer_norm(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias, double eps);
mega_tensor mega_op_linear(mega_graph *g, mega_tensor x, mega_tensor weight); /* x [T, K], weight [N, K] → [T, N] */
mega_tensor mega_op_bias_add(mega_graph *g, mega_tensor x, mega_tensor bias);
mega_tensor mega_op_gelu(mega_graph *g, mega_tensor x, bool tanh_form);
mega_tensor mega_op_activation(mega_graph *g, mega_tensor x, mega_activation_kind kind); /* x [T, C] */
mega_tensor mega_op_add(mega_graph *g, mega_tensor a, mega_tensor b);
mega_tensor mega_op_mul(mega_graph *g, mega_tensor a, mega_tensor b); /* element by element */
mega_tensor mega_op_scale(mega_graph *g, mega_tensor x, double factor);
/* Means of groups of `group` consecutive rows, such as the positions of each sample: [n * group, C] → [n, C]. */
mega_tensor mega_op_mean_rows(mega_graph *g, mega_tensor x, int64_t group);
/* Images are [samples * height * width, C]: a row is a pixel. 2-D convolution: weight [O, C * size * size], in the
 * order of a file's [O, C, size, size]; bias [O] or none; the result has O channels. */
mega_tensor mega_op_conv2d(mega_graph *g, mega_tensor x, mega_tensor weight, mega_tensor bias,
                           const mega_windows *windows);
/* The largest pixel of each window, of each channel; padding never wins. The mean counts padding as zeros. The padding
 * is at most half of the size. */
mega_tensor mega_op_max_pool2d(mega_graph *g, mega_tensor x, const mega_windows *windows);
mega_tensor mega_op_mean_pool2d(mega_graph *g, mega_tensor x, const mega_windows *windows);
/* Batch norm with the statistics of groups of `group` consecutive rows (samples of a group times pixels), at least 2:
 * y [T, C]; mean, var [T / group, C] acc, of which var is biased. */
typedef struct mega_batch_norm_result {
    mega_tensor y, mean, var;
} mega_batch_norm_result;
mega_batch_norm_result mega_op_batch_norm(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias,
                                          int64_t group, double eps);
/* The same with statistics that are given, mean and var [C] acc, as in evaluation; without a gradient. */
mega_tensor mega_op_batch_norm_fixed(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias, mega_tensor mean,
                                     mega_tensor var, double eps);
/* p = 0 returns x. */
mega_tensor mega_op_dropout(mega_graph *g, mega_tensor x, double p, uint32_t site, mega_tensor sample_id,
                            mega_tensor seq_position);
typedef struct mega_attention_shape {
    int64_t batch, seq, heads, kv_heads, head_dim, head_begin;
    double scale, dropout;
    uint32_t site;
    bool causal;
} mega_attention_shape;
/* qkv [T, (H+2G)*D]: Q heads, then K heads, then V heads. */
mega_tensor mega_op_attention(mega_graph *g, mega_tensor qkv, mega_tensor segment_start, mega_tensor sample_id,
                              const mega_attention_shape *s);
/* Generation: s->seq is the rows of each sequence in this program (1 for decode). caches [B, capacity, G*D]. */
mega_tensor mega_op_attention_cached(mega_graph *g, mega_tensor qkv, mega_tensor k_cache, mega_tensor v_cache,
                                     const mega_attention_shape *s);

typedef struct mega_head_shape {
    int64_t vocab_begin, valid; /* first id held here; real rows held here */
    int64_t chunk_rows;         /* rows of a chunk; 0: choose */
    bool with_gradient;         /* gradients are made in the forward program (training) */
    bool per_token;             /* loss_factor alone scales the gradient; else also 1/sum(loss_mask) */
} mega_head_shape;
/* LM head with cross-entropy by chunks of rows: logits never whole in memory. x [T, C], table [V, C].
 * token_loss [T] acc (unmasked); mask_sum [1] acc; loss_sum [1] acc = sum(token_loss * loss_mask). */
typedef struct mega_head_result {
    mega_tensor token_loss, loss_sum, mask_sum;
} mega_head_result;
mega_head_result mega_op_lm_head_loss(mega_graph *g, mega_tensor x, mega_tensor table, mega_tensor labels,
                                      mega_tensor loss_mask, const mega_head_shape *s);
/* A loss or a metric, sum / weight; both [1] acc. */
typedef struct mega_sums {
    mega_tensor sum, weight;
} mega_sums;
/* sum: of x [T] acc, each row times its weight; weight: of the weights [T] f32. Without weights each row counts 1. The
 * sum has a gradient to x, none to weights. */
mega_sums mega_op_weighted_sum(mega_graph *g, mega_tensor x, mega_tensor weights);
/* [T] acc: per row, the sum over columns of (x - target)^2. x, target [T, C] */
mega_tensor mega_op_squared_error(mega_graph *g, mega_tensor x, mega_tensor target);
/* sum: rows whose largest logit (the first of equal ones) is that of the label; weight: rows whose label is a class.
 * logits [T, classes], labels [T] i32. A metric: it has no gradient. */
mega_sums mega_op_accuracy(mega_graph *g, mega_tensor logits, mega_tensor labels);
/* Rows of x gathered at rows[i]; for generation: only last rows get logits. [n, C] */
mega_tensor mega_op_take_rows(mega_graph *g, mega_tensor x, mega_tensor rows);
/* A view of `count` consecutive rows of t. Its gradient becomes the gradient of t, zero in the other rows. */
mega_tensor mega_op_rows(mega_graph *g, mega_tensor t, int64_t begin, int64_t count);
mega_tensor mega_op_logits(mega_graph *g, mega_tensor x, mega_tensor table); /* [n, V] acc */

/* Collectives with gradient rules; a group of one returns x. copy: identity forward, all-reduce backward ("f" of the
 * Megatron paper); reduce: all-reduce forward, identity backward ("g"). */
mega_tensor mega_op_copy_to_group(mega_graph *g, mega_tensor x, const mega_axis *axis);
mega_tensor mega_op_reduce_from_group(mega_graph *g, mega_tensor x, const mega_axis *axis);
/* Sequence parallelism: each rank holds a slab of T/size consecutive rows. gather: all-gather forward, [T/size, C] →
 * [T, C], reduce-scatter backward (what the ranks make of the whole are summands of its gradient); scatter:
 * reduce-scatter of summands forward, [T, C] → [T/size, C], all-gather backward. */
mega_tensor mega_op_gather_from_sequence(mega_graph *g, mega_tensor x, const mega_axis *axis);
mega_tensor mega_op_scatter_to_sequence(mega_graph *g, mega_tensor x, const mega_axis *axis);

/* Where the place pass lets ranks of dp exchange what (with one of them: nowhere). How parameters are shared out is
 * said by mega_params_shard. */
typedef struct mega_place_options {
    bool overlap_reduce; /* gradients are summed by bucket while the backward runs; with ZeRO 2 and 3 they are in any
                            case, and this leaves the sum of one bucket under way until the next is complete */
    /* ZeRO 3, in elements */
    int64_t prefetch_elements; /* a bucket of up to so many is gathered while the one before is used */
    int64_t reuse_elements;    /* a bucket stays for its next use where up to so many others are used between */
    int64_t live_elements;     /* no bucket is prefetched, or stays, where more than so many would be there */
} mega_place_options;

#ifdef __cplusplus
}
#endif

#endif
