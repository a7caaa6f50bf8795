/* Tensor-parallel layers, as functions that add ops to a graph. Only layers compute with ranks; models do not. */
#include "layers_impl.h"

#include <stdio.h>
#include <string.h>

mega_tensor layer_param(const mega_builder *b, const char *name, const char *kind, int64_t rows, int64_t columns,
                        const mega_param_options *options)
{
    char full[2 * MEGA_PATH]; /* a name that is cut here is too long in any case */
    if (name == NULL || name[0] == '\0') {
        mega_builder_fail(
            b, MEGA_MISTAKE("layer \"%s\": a layer with a parameter %s has no name; give it one", b->path, kind));
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
                      LAYER_FAIL(MEGA_ERR_UNSUPPORTED, b, layer,
                                 "with sequence parallelism a rank of tp has a part of the rows, and "
                                 "this layer needs all of them, which is not implemented yet; train this model without "
                                 "sequence parallelism"));
    return false;
}

mega_tensor layer_own_rows(const mega_builder *b, mega_tensor t)
{
    if (!layer_has_slab(b) || mega_graph_status(b->graph) != MEGA_OK) return t;
    const int64_t rows = mega_graph_dim(b->graph, t, 0) / b->layout->tp.size;
    return mega_op_rows(b->graph, t, rows * b->layout->tp.rank, rows);
}

mega_tensor layer_row_input(const mega_builder *b, const char *name)
{
    return mega_input(b, name, MEGA_I32, b->positions, 0);
}

mega_tensor layer_to_cut_weights(const mega_builder *b, mega_tensor x)
{
    return layer_has_slab(b) ? mega_op_gather_from_sequence(b->graph, x, &b->layout->tp)
                             : mega_op_copy_to_group(b->graph, x, &b->layout->tp);
}

mega_tensor layer_from_cut_weights(const mega_builder *b, mega_tensor x)
{
    return layer_has_slab(b) ? mega_op_scatter_to_sequence(b->graph, x, &b->layout->tp)
                             : mega_op_reduce_from_group(b->graph, x, &b->layout->tp);
}

/* ---- linear ---- */

static const mega_linear_options plain_linear = {.no_bias = false};

void layer_copy_parts_to_bias(const mega_builder *b, const char *name, const mega_param_options *weight,
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
                              LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                                         "part %d of its weight is in tensor \"%s\"; expected a name "
                                         "of fewer than %d bytes that ends in \"weight\", from which that of the bias "
                                         "follows, or no_bias",
                                         i, of_weight, MEGA_PATH));
        else
            snprintf(file[i], MEGA_PATH, "%.*sbias", (int)stem, of_weight);
        bias->part[i].file = file[i];
    }
}

layer_linear layer_request_linear(const mega_builder *b, const char *name, int64_t out, int64_t in,
                                  const mega_param_options *weight, bool no_bias)
{
    mega_param_options bias = {.shard_rows = weight->shard_rows, .blocks = weight->shard_rows ? weight->blocks : 0};
    bias.partial_gradients = weight->partial_gradients;
    bias.whole_gradients = weight->whole_gradients;
    char file[MEGA_PARAM_PARTS][MEGA_PATH] = {""};
    if (!no_bias && (!weight->shard_columns || weight->num_parts == 1))
        layer_copy_parts_to_bias(b, name, weight, &bias, file);
    if (weight->shard_columns && bias.num_parts == 1) /* a bias has no columns: keep only the part's name */
        bias.part[0] = (mega_param_part){.file = bias.part[0].file, .rows = out};
    if (out < 1)
        mega_builder_fail(b,
                          LAYER_FAIL(MEGA_ERR_USAGE, b, name, "out_channels %lld; expected 1 or more", (long long)out));
    layer_linear p = {.weight = layer_param(b, name, "weight", out, in, weight)};
    if (!no_bias) p.bias = layer_param(b, name, "bias", out, 0, &bias);
    return p;
}

mega_tensor layer_add_bias(const mega_builder *b, mega_tensor x, mega_tensor bias)
{
    return bias.id == 0 ? x : mega_op_bias_add(b->graph, x, bias);
}

mega_tensor mega_linear(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                        const mega_linear_options *options)
{
    const mega_linear_options *o = options != NULL ? options : &plain_linear;
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    const layer_linear p =
        layer_request_linear(b, name, out_channels, mega_tensor_channels(b, x), &o->weight, o->no_bias);
    const mega_tensor y = layer_add_bias(b, mega_op_linear(b->graph, x, p.weight), p.bias);
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
    const layer_linear p =
        layer_request_linear(b, name, out_channels, mega_tensor_channels(b, x), &o.weight, o.no_bias);
    const bool again = layer_has_slab(b) && !mega_graph_region_is_open(g);
    if (again) mega_graph_region_begin(g);
    x = layer_to_cut_weights(b, x);
    const mega_tensor y = layer_add_bias(b, mega_op_linear(g, x, p.weight), p.bias);
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
    const layer_linear p = layer_request_linear(b, name, out_channels, in, &o.weight, o.no_bias);
    const mega_tensor part = mega_op_linear(g, x, p.weight);
    const mega_tensor y = layer_add_bias(b, layer_from_cut_weights(b, part), p.bias);
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
        mega_builder_fail(b, LAYER_FAIL(MEGA_ERR_UNSUPPORTED, b, name,
                                        "a table of a vocabulary in %d parts is not implemented yet; each rank "
                                        "of tp holds a range of its rows, leave blocks and part out",
                                        o.num_parts > 1 ? o.num_parts : o.blocks));
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
    const mega_tensor x = layer_from_cut_weights(b, rows);
    mega_scope_leave(b->graph, s);
    return x;
}

mega_tensor mega_position_embedding(const mega_builder *b, const char *name, mega_tensor x, int64_t max_positions,
                                    const mega_param_options *options)
{
    return mega_position_embedding_after(b, name, x, max_positions, 0, options);
}

/* Id 0 selects row `skipped`. */
static mega_tensor layers_add_rows(const mega_builder *b, const char *name, const char *ids, mega_tensor x,
                                   int64_t rows, int64_t skipped, const mega_param_options *options)
{
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    const mega_tensor own = layer_own_rows(b, layer_row_input(b, ids));
    const mega_tensor table = layer_param(b, name, "weight", rows + skipped, mega_tensor_channels(b, x), options);
    x = mega_op_embedding(b->graph, own, table, x, -skipped);
    mega_scope_leave(b->graph, s);
    return x;
}

mega_tensor mega_position_embedding_after(const mega_builder *b, const char *name, mega_tensor x, int64_t max_positions,
                                          int64_t skipped, const mega_param_options *options)
{
    return layers_add_rows(b, name, "position_ids", x, max_positions, skipped, options);
}

mega_tensor mega_embedding_add(const mega_builder *b, const char *name, const char *ids, mega_tensor x, int64_t rows,
                               const mega_param_options *options)
{
    return layers_add_rows(b, name, ids, x, rows, 0, options);
}

/* ---- norm, activation, dropout ---- */

mega_tensor mega_norm_with(const mega_builder *b, const char *name, mega_tensor x, const mega_norm_options *options)
{
    static const mega_norm_options none = {.kind = MEGA_LAYER_NORM};
    const mega_norm_options *o = options != NULL ? options : &none;
    const mega_param_options start = {.init = o->weight_plus_one ? MEGA_INIT_ZERO : MEGA_INIT_ONE};
    const int64_t channels = mega_tensor_channels(b, x);
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    if (o->kind != MEGA_LAYER_NORM && o->kind != MEGA_RMS_NORM)
        mega_builder_fail(b, LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                                        "norm of kind %d; expected MEGA_LAYER_NORM or MEGA_RMS_NORM", (int)o->kind));
    mega_tensor gain = mega_none(), bias = mega_none();
    if (!o->no_weight) gain = layer_param(b, name, "weight", channels, 0, &start);
    if (!o->no_bias && o->kind == MEGA_LAYER_NORM) bias = layer_param(b, name, "bias", channels, 0, NULL);
    if (o->kind == MEGA_RMS_NORM) x = mega_op_rms_norm(b->graph, x, gain, o->epsilon, o->weight_plus_one);
    else if (o->weight_plus_one)
        x = mega_op_layer_norm_plus_one(b->graph, x, gain, bias, o->epsilon);
    else
        x = mega_op_layer_norm(b->graph, x, gain, bias, o->epsilon);
    mega_scope_leave(b->graph, s);
    return x;
}

mega_tensor mega_norm(const mega_builder *b, const char *name, mega_tensor x, mega_norm_kind kind, double epsilon)
{
    return mega_norm_with(b, name, x, &(mega_norm_options){.kind = kind, .epsilon = epsilon});
}

mega_tensor mega_glu(const mega_builder *b, mega_tensor x, mega_activation_kind kind, bool gate_second)
{
    return mega_op_glu(b->graph, x, kind, gate_second);
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
        mega_builder_fail(b, MEGA_MISTAKE("layer \"%s\", dropout \"%s\": probability %g; expected 0 <= p < 1", b->path,
                                          name == NULL ? "" : name, layer_shown(p)));
    if (p > 0.0 && b->mode == MEGA_TRAIN) {
        const mega_tensor sample = layer_own_rows(b, layer_row_input(b, "sample_id"));
        const mega_tensor position = layer_own_rows(b, layer_row_input(b, "seq_position"));
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

/* ---- losses ---- */

/* Declares the table and the bias of a head, and returns which rows of the vocabulary this rank has. */
static mega_tensor request_head(const mega_builder *b, const char *name, mega_tensor x,
                                const mega_vocab_loss_options *o, mega_head_shape *shape)
{
    const mega_tensor table = vocab_table(b, name, o->vocab_size, mega_tensor_channels(b, x), &o->table);
    const mega_param_options bias = {.shard_rows = true, .padding_rows = o->table.padding_rows};
    const int64_t held = mega_tensor_rows(b, table), begin = first_row(b, table);
    const int64_t real = o->vocab_size - begin;
    *shape = (mega_head_shape){.vocab_begin = begin,
                               .valid = real < 0      ? 0
                                        : real < held ? real
                                                      : held,
                               .with_gradient = b->mode == MEGA_TRAIN,
                               .softcap = o->softcap};
    const int64_t rows = o->vocab_size + o->table.padding_rows;
    if (o->has_bias)
        shape->bias = o->bias_name != NULL ? mega_builder_param(b, o->bias_name, rows, 0, &bias)
                                           : layer_param(b, name, "bias", rows, 0, &bias);
    return table;
}

mega_tensor mega_vocab_logits_with(const mega_builder *b, const char *name, mega_tensor x,
                                   const mega_vocab_loss_options *options)
{
    static const mega_vocab_loss_options none = {.vocab_size = 0};
    mega_head_shape shape;
    const mega_tensor table = request_head(b, name, x, options != NULL ? options : &none, &shape);
    return mega_op_gather_from_sequence(b->graph, mega_op_head_logits(b->graph, x, table, &shape), &b->layout->tp);
}

mega_tensor mega_vocab_logits(const mega_builder *b, const char *name, mega_tensor x, int64_t vocab_size,
                              const mega_param_options *options)
{
    const mega_vocab_loss_options o = {.vocab_size = vocab_size,
                                       .table = options != NULL ? *options : (mega_param_options){0}};
    return mega_vocab_logits_with(b, name, x, &o);
}

mega_head_result mega_vocab_loss(const mega_builder *b, const char *name, mega_tensor x, mega_tensor labels,
                                 mega_tensor weights, const mega_vocab_loss_options *options)
{
    static const mega_vocab_loss_options none = {.vocab_size = 0};
    mega_head_shape shape;
    const mega_tensor table = request_head(b, name, x, options != NULL ? options : &none, &shape);
    const mega_scope s = mega_scope_enter(b->graph, "head");
    x = layer_to_cut_weights(b, x);
    const mega_head_result r = mega_op_lm_head_loss(b->graph, x, table, labels, weights, &shape);
    mega_scope_leave(b->graph, s);
    return r;
}

int64_t mega_vocab_pad(int64_t vocab, int64_t multiple, int tp)
{
    const int64_t step = multiple * tp;
    return (vocab + step - 1) / step * step;
}
