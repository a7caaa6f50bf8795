/* Layers whose weights are cut over the tensor-parallel axis (Shoeybi et al. 2019). Each layer declares its parameters
 * (how they are cut stands in the record and nowhere else) and describes its forward. A group of one costs nothing, so
 * no layer and no model asks how many ranks there are.
 *
 * A layer finds its parameters by name: PATH + "." + name + ".weight" / ".bias", for instance
 * "transformer.h.0" + "." + "attn.c_attn" + ".weight". */
#ifndef MEGALITH_LAYERS_H
#define MEGALITH_LAYERS_H

#include "megalith/graph.h"
#include "megalith/parameter.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MEGA_PATH_LENGTH MEGA_PARAM_NAME /* of a path, its end included */

/* Where a layer stands: the graph that is written, and the path in front of parameter names. */
typedef struct mega_place {
    mega_graph *graph;
    const mega_params *params;
    const mega_layout *layout;
    /* Sequence parallelism (Korthikanti et al. 2022): between the layers whose weights are cut, activations are slabs
     * of T/tp tokens, where norms, dropout and residuals work. No meaning where tp has one rank. */
    bool sequence_parallel;
    char path[MEGA_PATH_LENGTH];
} mega_place;
/* What this place sees of t [T, ...]: its slab of rows under sequence parallelism, else all of it. */
mega_tensor mega_place_rows(const mega_place *at, mega_tensor t);
/* The same graph, one step further down the path: "transformer" → "transformer.h.3". A path that does not fit is an
 * error of the graph. */
mega_place mega_place_at(const mega_place *from, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Places of dropout in the model (law 1 addresses random bits by them): site = 8 * layer + kind. */
typedef enum mega_dropout_kind {
    MEGA_DROP_ATTENTION = 0, /* attention probabilities */
    MEGA_DROP_AFTER_ATTENTION = 1,
    MEGA_DROP_AFTER_MLP = 2,
    MEGA_DROP_EMBEDDING = 7 /* layer 0 */
} mega_dropout_kind;
static inline uint32_t mega_dropout_site(int64_t layer, mega_dropout_kind kind)
{
    return (uint32_t)(8 * layer) + (uint32_t)kind;
}

/* --- declaring --- path: without the layer's own name; *_std: of the normal distribution */
typedef struct mega_linear_shape {
    int64_t in, out;
    int blocks; /* equal parts of `out` that are each cut: 3 for Q, K, V; else 1 */
    double init_std;
    bool xavier;             /* Xavier uniform instead of the normal distribution */
    bool transposed_in_file; /* Hugging Face Conv1D */
    bool sequence_parallel;  /* what is whole on every rank sees a slab of the tokens: its gradients are summands */
    mega_tie tie;            /* of a table that the head shares over two pipeline stages */
} mega_linear_shape;
/* Output features cut over tp: weight [out, in] by rows, bias [out] likewise. */
mega_status mega_declare_column_linear(mega_params *p, const char *path, const char *name, const mega_linear_shape *s);
/* Input features cut over tp: weight [out, in] by columns, bias [out] whole on every rank. */
mega_status mega_declare_row_linear(mega_params *p, const char *path, const char *name, const mega_linear_shape *s);
/* Table [padded, width] cut by rows over tp; only the first `vocab` rows exist in the file. */
mega_status mega_declare_vocab_embedding(mega_params *p, const char *path, const char *name, int64_t vocab,
                                         int64_t padded, int64_t width, const mega_linear_shape *init);
/* Table [rows, width], whole on every rank. */
mega_status mega_declare_embedding(mega_params *p, const char *path, const char *name, int64_t rows, int64_t width,
                                   const mega_linear_shape *init);
mega_status mega_declare_layer_norm(mega_params *p, const char *path, const char *name, int64_t width,
                                    bool sequence_parallel);

/* --- describing --- T stands for T/tp where slabs are cut (sequence_parallel) and the weights are not. */
/* x [T, in] → [T, out/tp], bias added. */
mega_tensor mega_column_linear(const mega_place *at, const char *name, mega_tensor x);
/* x [T, in/tp] → [T, out], summed over tp, bias added. */
mega_tensor mega_row_linear(const mega_place *at, const char *name, mega_tensor x);
/* ids [T] → [T, width], summed over tp. */
mega_tensor mega_vocab_embedding(const mega_place *at, const char *name, mega_tensor ids);
/* x + table[positions] */
mega_tensor mega_position_embedding(const mega_place *at, const char *name, mega_tensor positions, mega_tensor x);
mega_tensor mega_layer_norm(const mega_place *at, const char *name, mega_tensor x, double eps);

/* Rows of a micro-batch as layers need them: B sequences of S positions, and who they are. */
typedef struct mega_rows {
    int64_t batch, seq;
    mega_tensor sample_id, seq_position, segment_start; /* [T] */
} mega_rows;

/* residual + dropout(x), [T, C]; residual none: dropout(x). The rows are whole on every rank of tp, and so is the mask.
 */
mega_tensor mega_dropout_add(const mega_place *at, const char *name, mega_tensor x, mega_tensor residual, double p,
                             uint32_t site, const mega_rows *rows);
mega_tensor mega_gelu(const mega_place *at, const char *name, mega_tensor x, bool tanh_form);

typedef struct mega_self_attention_shape {
    int64_t heads, head_dim; /* of the whole model */
    double dropout;
    uint32_t site;
    bool recompute_core; /* keep q, k, v only; scores and context again in the backward */
} mega_self_attention_shape;
/* Causal self-attention, heads cut over tp: c_attn, attention, c_proj. x [T, C] → [T, C]. */
mega_tensor mega_self_attention(const mega_place *at, mega_tensor x, const mega_rows *rows,
                                const mega_self_attention_shape *s);
/* The same while generating: keys and values are kept in states "SCOPE.k_cache", "SCOPE.v_cache" of `capacity`
 * positions.
 */
mega_tensor mega_cached_self_attention(const mega_place *at, mega_tensor x, int64_t batch, int64_t rows,
                                       int64_t capacity, const mega_self_attention_shape *s);

/* Logits of the whole vocabulary on every rank, [tp * T, V / tp] acc: those of the first rank's columns for all T rows,
 * then those of the second. For generation. */
mega_tensor mega_vocab_logits(const mega_place *at, const char *name, mega_tensor x);
/* Logits against the tied table and cross-entropy over a vocabulary cut over tp; padding rows stay out. */
mega_head_result mega_vocab_head_loss(const mega_place *at, const char *name, mega_tensor x, mega_tensor labels,
                                      mega_tensor loss_mask, int64_t vocab, bool with_gradient, bool per_token);

#ifdef __cplusplus
}
#endif

#endif
