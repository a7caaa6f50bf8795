/* Tensor-parallel layers, as functions that add ops to a graph. Only layers compute with ranks; models do not. */
#include "layers_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

mega_tensor layer_param(const mega_builder *b, const char *name, const char *kind, int64_t rows, int64_t columns,
                        const mega_param_options *options)
{
    char full[2 * MEGA_PATH]; /* a name that is cut here is too long in any case */
    if (name == NULL || name[0] == '\0') {
        mega_builder_fail(b, MEGA_FAIL(MEGA_ERR_USAGE,
                                       "layer \"%s\": a layer with a parameter %s has no name; give it one", b->path,
                                       kind));
        return mega_none();
    }
    snprintf(full, sizeof full, "%s.%s", name, kind);
    return mega_builder_param(b, full, rows, columns, options);
}

/* ---- between values that are replicated over tp and values that are sharded ---- */

bool layer_has_slab(const mega_builder *b)
{
    return mega_graph_is_sequence_parallel(b->graph);
}

bool layer_has_all_rows(const mega_builder *b, const char *layer)
{
    if (mega_graph_status(b->graph) != MEGA_OK) return false;
    if (!layer_has_slab(b)) return true;
    mega_builder_fail(b,
                      MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                                "layer \"%s\", %s: with sequence parallelism a rank of tp has a part of the rows, and "
                                "this layer needs all of them, which is not implemented yet; train this model without "
                                "sequence parallelism",
                                b->path, layer));
    return false;
}

static mega_tensor layer_own_rows(const mega_builder *b, mega_tensor t)
{
    if (!layer_has_slab(b) || mega_graph_status(b->graph) != MEGA_OK) return t;
    const int64_t rows = mega_graph_dim(b->graph, t, 0) / b->layout->tp.size;
    return mega_op_rows(b->graph, t, rows * b->layout->tp.rank, rows);
}

static mega_tensor row_input(const mega_builder *b, const char *name)
{
    return mega_input(b, name, MEGA_I32, b->positions, 0);
}

/* Input of a GEMM with sharded weights: gives every rank all tokens. Each rank computes a partial sum of their
 * gradient. */
static mega_tensor to_cut_weights(const mega_builder *b, mega_tensor x)
{
    return layer_has_slab(b) ? mega_op_gather_from_sequence(b->graph, x, &b->layout->tp)
                             : mega_op_copy_to_group(b->graph, x, &b->layout->tp);
}

/* Output of a GEMM with sharded weights: adds the partial sums of the ranks. Each rank gets the sum for all tokens or,
 * with sequence parallelism, for its own tokens. */
static mega_tensor from_cut_weights(const mega_builder *b, mega_tensor x)
{
    return layer_has_slab(b) ? mega_op_scatter_to_sequence(b->graph, x, &b->layout->tp)
                             : mega_op_reduce_from_group(b->graph, x, &b->layout->tp);
}

/* ---- linear ---- */

static const mega_linear_options plain_linear = {.no_bias = false};

typedef struct linear_params {
    mega_tensor weight, bias;
} linear_params;

/* Gives the bias one part for each row part of the weight. If a part of the weight is in tensor "….weight", that of the
 * bias is in "….bias". */
static void copy_parts_to_bias(const mega_builder *b, const char *name, const mega_param_options *weight,
                               mega_param_options *bias, char file[MEGA_PARAM_PARTS][MEGA_PATH])
{
    static const char kind[] = "weight";
    bias->num_parts = weight->num_parts;
    for (int i = 0; i < weight->num_parts && i < MEGA_PARAM_PARTS; i++) {
        const char *of_weight = weight->part[i].file;
        bias->part[i] = weight->part[i];
        if (of_weight == NULL) continue;
        const size_t length = strlen(of_weight), stem = length - strlen(kind);
        if (length < strlen(kind) || length >= MEGA_PATH || strcmp(of_weight + stem, kind) != 0)
            mega_builder_fail(b,
                              MEGA_FAIL(MEGA_ERR_USAGE,
                                        "layer \"%s\", %s: part %d of its weight is in tensor \"%s\"; expected a name "
                                        "of fewer than %d bytes that ends in \"weight\", from which that of the bias "
                                        "follows, or no_bias",
                                        b->path, name == NULL ? "without a name" : name, i, of_weight, MEGA_PATH));
        else
            snprintf(file[i], MEGA_PATH, "%.*sbias", (int)stem, of_weight);
        bias->part[i].file = file[i];
    }
}

/* Declares weight and bias. `weight` describes how the weight is sharded; the bias is sharded like the rows of the
 * weight. `in` and `out` are the channels of the whole model. */
static linear_params request_linear(const mega_builder *b, const char *name, int64_t out, int64_t in,
                                    const mega_param_options *weight, bool no_bias)
{
    mega_param_options bias = {.shard_rows = weight->shard_rows, .blocks = weight->shard_rows ? weight->blocks : 0};
    char file[MEGA_PARAM_PARTS][MEGA_PATH] = {""};
    if (!no_bias && (!weight->shard_columns || weight->num_parts == 1))
        copy_parts_to_bias(b, name, weight, &bias, file);
    if (weight->shard_columns && bias.num_parts == 1) /* a bias has no columns: keep only the part's name */
        bias.part[0] = (mega_param_part){.file = bias.part[0].file, .rows = out};
    if (out < 1)
        mega_builder_fail(b, MEGA_FAIL(MEGA_ERR_USAGE, "layer \"%s\", %s: out_channels %lld; expected 1 or more",
                                       b->path, name == NULL ? "without a name" : name, (long long)out));
    linear_params p = {.weight = layer_param(b, name, "weight", out, in, weight)};
    if (!no_bias) p.bias = layer_param(b, name, "bias", out, 0, &bias);
    return p;
}

static mega_tensor add_bias(const mega_builder *b, mega_tensor x, mega_tensor bias)
{
    return bias.id == 0 ? x : mega_op_bias_add(b->graph, x, bias);
}

mega_tensor mega_linear(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                        const mega_linear_options *options)
{
    const mega_linear_options *o = options != NULL ? options : &plain_linear;
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    const linear_params p = request_linear(b, name, out_channels, mega_tensor_channels(b, x), &o->weight, o->no_bias);
    const mega_tensor y = add_bias(b, mega_op_linear(b->graph, x, p.weight), p.bias);
    mega_scope_leave(b->graph, s);
    return y;
}

/* The backward pass gathers the tokens again for the gradient of the weight, which saves the memory of keeping them:
 * the gather is inside a recompute region. The result of the GEMM is kept, since ops outside the region read it. */
mega_tensor mega_column_linear(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                               const mega_linear_options *options)
{
    mega_graph *g = b->graph;
    mega_linear_options o = options != NULL ? *options : plain_linear;
    o.weight.shard_rows = true;
    const mega_scope s = mega_scope_enter(g, "%s", name);
    const linear_params p = request_linear(b, name, out_channels, mega_tensor_channels(b, x), &o.weight, o.no_bias);
    const bool again = layer_has_slab(b) && !mega_graph_region_is_open(g);
    if (again) mega_graph_region_begin(g);
    x = to_cut_weights(b, x);
    const mega_tensor y = add_bias(b, mega_op_linear(g, x, p.weight), p.bias);
    if (again) mega_graph_region_end(g);
    mega_scope_leave(g, s);
    return y;
}

mega_tensor mega_row_linear(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                            const mega_linear_options *options)
{
    mega_graph *g = b->graph;
    mega_linear_options o = options != NULL ? *options : plain_linear;
    o.weight.shard_columns = true;
    const int64_t in = mega_tensor_channels(b, x) * b->layout->tp.size;
    const mega_scope s = mega_scope_enter(g, "%s", name);
    const linear_params p = request_linear(b, name, out_channels, in, &o.weight, o.no_bias);
    const mega_tensor part = mega_op_linear(g, x, p.weight);
    const mega_tensor y = add_bias(b, from_cut_weights(b, part), p.bias);
    mega_scope_leave(g, s);
    return y;
}

/* ---- embedding ---- */

static const mega_param_options plain_param = {.init = MEGA_INIT_FAN_IN};

/* Declares a table whose rows are sharded over tp. */
static mega_tensor vocab_table(const mega_builder *b, const char *name, int64_t vocab_size, int64_t width,
                               const mega_param_options *options)
{
    mega_param_options o = options != NULL ? *options : plain_param;
    o.shard_rows = true;
    if (o.blocks > 1 || o.num_parts > 1)
        mega_builder_fail(
            b, MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "layer \"%s\", %s: a table of a vocabulary in %d parts is not implemented yet; each rank "
                         "of tp holds a range of its rows, leave blocks and part out",
                         b->path, name == NULL ? "without a name" : name, o.num_parts > 1 ? o.num_parts : o.blocks));
    return layer_param(b, name, "weight", vocab_size + o.padding_rows, width, &o);
}

/* Returns the index, in the whole table, of this rank's first row. */
static int64_t first_row(const mega_builder *b, mega_tensor table)
{
    return mega_tensor_rows(b, table) * b->layout->tp.rank;
}

mega_tensor mega_embedding(const mega_builder *b, const char *name, mega_tensor ids, int64_t rows, int64_t width,
                           const mega_param_options *options)
{
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    const mega_tensor table = layer_param(b, name, "weight", rows, width, options);
    const mega_tensor x = mega_op_embedding(b->graph, layer_own_rows(b, ids), table, mega_none(), 0);
    mega_scope_leave(b->graph, s);
    return x;
}

mega_tensor mega_vocab_embedding(const mega_builder *b, const char *name, mega_tensor ids, int64_t vocab_size,
                                 int64_t width, const mega_param_options *options)
{
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    const mega_tensor table = vocab_table(b, name, vocab_size, width, options);
    const mega_tensor rows = mega_op_embedding(b->graph, ids, table, mega_none(), first_row(b, table));
    const mega_tensor x = from_cut_weights(b, rows);
    mega_scope_leave(b->graph, s);
    return x;
}

mega_tensor mega_position_embedding(const mega_builder *b, const char *name, mega_tensor x, int64_t max_positions,
                                    const mega_param_options *options)
{
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    const mega_tensor positions = layer_own_rows(b, row_input(b, "position_ids"));
    const mega_tensor table = layer_param(b, name, "weight", max_positions, mega_tensor_channels(b, x), options);
    x = mega_op_embedding(b->graph, positions, table, x, 0);
    mega_scope_leave(b->graph, s);
    return x;
}

/* ---- norm, activation, dropout ---- */

mega_tensor mega_norm(const mega_builder *b, const char *name, mega_tensor x, mega_norm_kind kind, double epsilon)
{
    const mega_param_options ones = {.init = MEGA_INIT_ONE};
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    if (kind != MEGA_LAYER_NORM)
        mega_builder_fail(b,
                          MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                                    "layer \"%s\", %s: norm of kind %d is not implemented yet; choose MEGA_LAYER_NORM",
                                    b->path, name, (int)kind));
    const mega_tensor gain = layer_param(b, name, "weight", mega_tensor_channels(b, x), 0, &ones);
    const mega_tensor bias = layer_param(b, name, "bias", mega_tensor_channels(b, x), 0, NULL);
    x = mega_op_layer_norm(b->graph, x, gain, bias, epsilon);
    mega_scope_leave(b->graph, s);
    return x;
}

mega_tensor mega_activation(const mega_builder *b, mega_tensor x, mega_activation_kind kind)
{
    return mega_op_activation(b->graph, x, kind);
}

/* Every rank of tp drops the same elements of a row: all of them hold the whole row and use the same mask. */
mega_tensor mega_dropout_add(const mega_builder *b, const char *name, mega_tensor x, mega_tensor residual, double p)
{
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    if (!(p >= 0.0 && p < 1.0))
        mega_builder_fail(b,
                          MEGA_FAIL(MEGA_ERR_USAGE, "layer \"%s\", dropout \"%s\": probability %g; expected 0 <= p < 1",
                                    b->path, name == NULL ? "" : name, isnan(p) ? fabs(p) : p));
    if (p > 0.0 && b->mode == MEGA_TRAIN) {
        const mega_tensor sample = layer_own_rows(b, row_input(b, "sample_id"));
        const mega_tensor position = layer_own_rows(b, row_input(b, "seq_position"));
        x = mega_op_dropout(b->graph, x, p, mega_builder_dropout_site(b, name), sample, position);
    }
    if (residual.id != 0) x = mega_op_add(b->graph, residual, x);
    mega_scope_leave(b->graph, s);
    return x;
}

mega_tensor mega_dropout(const mega_builder *b, const char *name, mega_tensor x, double p)
{
    return mega_dropout_add(b, name, x, mega_none(), p);
}

/* ---- attention ---- */

/* Returns the shape of attention over the heads of this rank. */
static mega_attention_shape local_heads(const mega_builder *b, const char *name, const mega_attention_options *o,
                                        int64_t head_dim)
{
    const double dropout = b->mode == MEGA_TRAIN ? o->dropout : 0.0;
    const int64_t heads = o->num_heads / b->layout->tp.size;
    return (mega_attention_shape){.batch = b->samples,
                                  .seq = b->positions,
                                  .heads = heads,
                                  .kv_heads = heads,
                                  .head_dim = head_dim,
                                  .head_begin = heads * b->layout->tp.rank,
                                  .scale = 1.0 / sqrt((double)head_dim),
                                  .dropout = dropout,
                                  .site = dropout > 0.0 ? mega_builder_dropout_site(b, name) : 0,
                                  .causal = o->is_causal};
}

static mega_tensor attention_core(const mega_builder *b, const char *name, mega_tensor qkv,
                                  const mega_attention_options *o, const mega_attention_shape *shape)
{
    mega_graph *g = b->graph;
    const mega_tensor segment_start = row_input(b, "segment_start"), sample_id = row_input(b, "sample_id");
    const mega_scope s = mega_scope_enter(g, "%s", name);
    if (o->recompute_core) mega_recompute_begin(b);
    const mega_tensor context = mega_op_attention(g, qkv, segment_start, sample_id, shape);
    if (o->recompute_core) mega_recompute_end(b);
    mega_scope_leave(g, s);
    return context;
}

static mega_tensor cached_core(const mega_builder *b, const char *name, mega_tensor qkv,
                               const mega_attention_shape *shape)
{
    mega_graph *g = b->graph;
    const int64_t dims[3] = {b->samples, b->cache, shape->kv_heads * shape->head_dim};
    const mega_tensor keys = mega_graph_state(g, "k_cache", mega_graph_dtype(g), 3, dims);
    const mega_tensor values = mega_graph_state(g, "v_cache", mega_graph_dtype(g), 3, dims);
    const mega_scope s = mega_scope_enter(g, "%s", name);
    const mega_tensor context = mega_op_attention_cached(g, qkv, keys, values, shape);
    mega_scope_leave(g, s);
    return context;
}

/* Returns false, and records the error, if the options are invalid, for example if tp does not divide the heads. */
static bool check_heads(const mega_builder *b, const char *name, const mega_attention_options *o, int64_t channels)
{
    mega_status st = MEGA_OK;
    if (name == NULL || name[0] == '\0')
        st = MEGA_FAIL(MEGA_ERR_USAGE, "layer \"%s\": a layer mega_self_attention has no name; give it one", b->path);
    else if (o->num_heads == 0)
        st = MEGA_FAIL(MEGA_ERR_USAGE,
                       "layer \"%s\", %s: mega_self_attention without num_heads; give the number of heads of the whole "
                       "model in its options",
                       b->path, name);
    else if (!(o->dropout >= 0.0 && o->dropout < 1.0))
        st = MEGA_FAIL(MEGA_ERR_USAGE, "layer \"%s\", %s: dropout %g of attention; expected 0 <= p < 1", b->path, name,
                       isnan(o->dropout) ? fabs(o->dropout) : o->dropout);
    else if (o->head_dim < 0)
        st = MEGA_FAIL(MEGA_ERR_USAGE,
                       "layer \"%s\", %s: head_dim %lld; expected 1 or more, or 0 for the channels over the heads",
                       b->path, name, (long long)o->head_dim);
    else if (o->num_heads < 1 || o->num_heads % b->layout->tp.size != 0)
        st = MEGA_FAIL(
            MEGA_ERR_USAGE,
            "layer \"%s\", %s: %lld attention heads over %d ranks of tp; expected a multiple of the ranks, at "
            "least 1",
            b->path, name, (long long)o->num_heads, b->layout->tp.size);
    else if (o->head_dim == 0 && channels % o->num_heads != 0)
        st = MEGA_FAIL(MEGA_ERR_USAGE,
                       "layer \"%s\", %s: %lld channels in %lld attention heads; expected a multiple of the heads, or "
                       "give head_dim",
                       b->path, name, (long long)channels, (long long)o->num_heads);
    mega_builder_fail(b, st);
    return st == MEGA_OK;
}

/* Checks the parts by which the caller names the tensors of Q, K and V in the file. */
static bool check_qkv_parts(const mega_builder *b, const char *name, const mega_param_options *weight, int64_t rows)
{
    bool is_right = weight->num_parts == 0 || weight->num_parts == 3;
    for (int i = 0; i < 3 && is_right && weight->num_parts == 3; i++) is_right = weight->part[i].rows == rows;
    if (!is_right)
        mega_builder_fail(b,
                          MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                                    "layer \"%s\", %s: the weight of qkv has %d parts; expected 3 of %lld rows each (K "
                                    "and V of fewer heads than Q are not implemented yet)",
                                    b->path, name, weight->num_parts, (long long)rows));
    return is_right;
}

mega_tensor mega_self_attention(const mega_builder *b, const char *name, mega_tensor x,
                                const mega_attention_options *options)
{
    static const mega_attention_options none = {.num_heads = 0};
    const mega_attention_options *o = options != NULL ? options : &none;
    const int64_t channels = mega_tensor_channels(b, x);
    if (mega_graph_status(b->graph) != MEGA_OK) return mega_none();
    if (!check_heads(b, name, o, channels)) return mega_none();
    const int64_t head_dim = o->head_dim > 0 ? o->head_dim : channels / o->num_heads;
    if (o->qkv != NULL && !check_qkv_parts(b, name, &o->qkv->weight, o->num_heads * head_dim)) return mega_none();
    const mega_attention_shape shape = local_heads(b, name, o, head_dim);
    mega_linear_options in = o->qkv != NULL ? *o->qkv : plain_linear;
    if (in.weight.num_parts == 0) in.weight.blocks = 3; /* Q, K, V */
    char step[MEGA_PATH];
    snprintf(step, sizeof step, "%s.c_attn", name);
    const mega_tensor qkv = mega_column_linear(b, step, x, 3 * o->num_heads * head_dim, &in);
    const mega_tensor context =
        b->mode == MEGA_GENERATE ? cached_core(b, name, qkv, &shape) : attention_core(b, name, qkv, o, &shape);
    snprintf(step, sizeof step, "%s.c_proj", name);
    return mega_row_linear(b, step, context, channels, o->out);
}

/* ---- losses ---- */

mega_tensor mega_vocab_logits(const mega_builder *b, const char *name, mega_tensor x, int64_t vocab_size,
                              const mega_param_options *options)
{
    const mega_tensor table = vocab_table(b, name, vocab_size, mega_tensor_channels(b, x), options);
    return mega_op_gather_from_sequence(b->graph, mega_op_logits(b->graph, x, table), &b->layout->tp);
}

mega_head_result mega_vocab_loss(const mega_builder *b, const char *name, mega_tensor x, mega_tensor labels,
                                 mega_tensor weights, const mega_vocab_loss_options *options)
{
    static const mega_vocab_loss_options none = {.vocab_size = 0};
    const mega_vocab_loss_options *o = options != NULL ? options : &none;
    const mega_tensor table = vocab_table(b, name, o->vocab_size, mega_tensor_channels(b, x), &o->table);
    const int64_t held = mega_tensor_rows(b, table), begin = first_row(b, table);
    const int64_t real = o->vocab_size - begin;
    const mega_head_shape shape = {.vocab_begin = begin,
                                   .valid = real < 0      ? 0
                                            : real < held ? real
                                                          : held,
                                   .with_gradient = b->mode == MEGA_TRAIN};
    const mega_scope s = mega_scope_enter(b->graph, "head");
    x = to_cut_weights(b, x);
    const mega_head_result r = mega_op_lm_head_loss(b->graph, x, table, labels, weights, &shape);
    mega_scope_leave(b->graph, s);
    return r;
}

int64_t mega_vocab_pad(int64_t vocab, int64_t multiple, int tp)
{
    const int64_t step = multiple * tp;
    return (vocab + step - 1) / step * step;
}
