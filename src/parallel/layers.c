/* Tensor-parallel layers as graph-writing functions. Rank arithmetic of the model ends here. */
#include "megalith/layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

mega_place mega_place_at(const mega_place *from, const char *fmt, ...)
{
    mega_place at = *from;
    size_t length = strlen(from->path);
    if (length > 0 && length + 1 < sizeof at.path) at.path[length++] = '.';
    va_list ap;
    va_start(ap, fmt);
    const int step = vsnprintf(at.path + length, sizeof at.path - length, fmt, ap);
    va_end(ap);
    if (step < 0 || length + (size_t)step >= sizeof at.path)
        mega_graph_fail(at.graph, MEGA_FAIL(MEGA_ERR_USAGE,
                                            "layer \"%s…\": its path has %lld characters; expected at most %zu, choose "
                                            "shorter names",
                                            at.path, (long long)length + step, sizeof at.path - 1));
    return at;
}

/* A layer's parameter, "PATH.name.weight". One that nobody declared is an error of the graph, and the result none. */
static mega_tensor parameter(const mega_place *at, const char *name, const char *kind)
{
    char full[MEGA_PARAM_NAME + MEGA_PATH_LENGTH];
    snprintf(full, sizeof full, "%s%s%s.%s", at->path, at->path[0] == '\0' ? "" : ".", name, kind);
    return mega_graph_param_named(at->graph, full);
}

static mega_tensor weight(const mega_place *at, const char *name)
{
    return parameter(at, name, "weight");
}

static mega_tensor bias(const mega_place *at, const char *name)
{
    return parameter(at, name, "bias");
}

/* First row of the whole table that this rank holds. */
static int64_t first_row(const mega_place *at, mega_tensor table)
{
    return mega_graph_dim(at->graph, table, 0) * at->layout->tp.rank;
}

/* ---- between what is whole on every rank of tp and what is cut over them ---- */

static bool is_slab(const mega_place *at)
{
    return at->sequence_parallel && at->layout->tp.size > 1;
}

mega_tensor mega_place_rows(const mega_place *at, mega_tensor t)
{
    if (!is_slab(at) || mega_graph_status(at->graph) != MEGA_OK) return t;
    const int64_t rows = mega_graph_dim(at->graph, t, 0) / at->layout->tp.size;
    return mega_op_rows(at->graph, t, rows * at->layout->tp.rank, rows);
}

/* In front of weights that are cut: every rank needs all tokens, and its gradient of them is a summand. */
static mega_tensor to_cut_weights(const mega_place *at, mega_tensor x)
{
    return is_slab(at) ? mega_op_gather_from_sequence(at->graph, x, &at->layout->tp)
                       : mega_op_copy_to_group(at->graph, x, &at->layout->tp);
}

/* Behind them: summands of all tokens become their sum, of all tokens or of a slab. */
static mega_tensor from_cut_weights(const mega_place *at, mega_tensor x)
{
    return is_slab(at) ? mega_op_scatter_to_sequence(at->graph, x, &at->layout->tp)
                       : mega_op_reduce_from_group(at->graph, x, &at->layout->tp);
}

/* The gathered tokens are not kept for the gradient of the weight, but gathered again: they are made inside a recompute
 * region whose product itself is kept, since others read it. */
mega_tensor mega_column_linear(const mega_place *at, const char *name, mega_tensor x)
{
    mega_graph *g = at->graph;
    const mega_scope s = mega_scope_enter(g, "%s", name);
    const bool again = is_slab(at) && !mega_recompute_is_open(g);
    if (again) mega_recompute_begin(g);
    x = to_cut_weights(at, x);
    const mega_tensor y = mega_op_bias_add(g, mega_op_linear(g, x, weight(at, name)), bias(at, name));
    if (again) mega_recompute_end(g);
    mega_scope_leave(g, s);
    return y;
}

mega_tensor mega_row_linear(const mega_place *at, const char *name, mega_tensor x)
{
    mega_graph *g = at->graph;
    const mega_scope s = mega_scope_enter(g, "%s", name);
    const mega_tensor part = mega_op_linear(g, x, weight(at, name));
    const mega_tensor y = mega_op_bias_add(g, from_cut_weights(at, part), bias(at, name));
    mega_scope_leave(g, s);
    return y;
}

mega_tensor mega_vocab_embedding(const mega_place *at, const char *name, mega_tensor ids)
{
    mega_graph *g = at->graph;
    const mega_scope s = mega_scope_enter(g, "%s", name);
    const mega_tensor table = weight(at, name);
    const mega_tensor rows = mega_op_embedding(g, ids, table, (mega_tensor){0}, first_row(at, table));
    const mega_tensor x = from_cut_weights(at, rows);
    mega_scope_leave(g, s);
    return x;
}

mega_tensor mega_position_embedding(const mega_place *at, const char *name, mega_tensor positions, mega_tensor x)
{
    const mega_scope s = mega_scope_enter(at->graph, "%s", name);
    x = mega_op_embedding(at->graph, mega_place_rows(at, positions), weight(at, name), x, 0);
    mega_scope_leave(at->graph, s);
    return x;
}

mega_tensor mega_layer_norm(const mega_place *at, const char *name, mega_tensor x, double eps)
{
    const mega_scope s = mega_scope_enter(at->graph, "%s", name);
    x = mega_op_layer_norm(at->graph, x, weight(at, name), bias(at, name), eps);
    mega_scope_leave(at->graph, s);
    return x;
}

mega_tensor mega_dropout_add(const mega_place *at, const char *name, mega_tensor x, mega_tensor residual, double p,
                             uint32_t site, const mega_rows *rows)
{
    const mega_scope s = mega_scope_enter(at->graph, "%s", name);
    if (p > 0.0)
        x = mega_op_dropout(at->graph, x, p, site, mega_place_rows(at, rows->sample_id),
                            mega_place_rows(at, rows->seq_position));
    if (residual.id != 0) x = mega_op_add(at->graph, residual, x);
    mega_scope_leave(at->graph, s);
    return x;
}

mega_tensor mega_gelu(const mega_place *at, const char *name, mega_tensor x, bool tanh_form)
{
    const mega_scope s = mega_scope_enter(at->graph, "%s", name);
    x = mega_op_gelu(at->graph, x, tanh_form);
    mega_scope_leave(at->graph, s);
    return x;
}

/* Heads of this rank. */
static mega_attention_shape local_heads(const mega_place *at, const mega_self_attention_shape *s)
{
    const int64_t heads = s->heads / at->layout->tp.size;
    return (mega_attention_shape){.heads = heads,
                                  .kv_heads = heads,
                                  .head_dim = s->head_dim,
                                  .head_begin = heads * at->layout->tp.rank,
                                  .scale = 1.0 / sqrt((double)s->head_dim),
                                  .dropout = s->dropout,
                                  .site = s->site,
                                  .causal = true};
}

mega_tensor mega_self_attention(const mega_place *at, mega_tensor x, const mega_rows *rows,
                                const mega_self_attention_shape *s)
{
    mega_graph *g = at->graph;
    mega_attention_shape shape = local_heads(at, s);
    shape.batch = rows->batch;
    shape.seq = rows->seq;
    const mega_tensor qkv = mega_column_linear(at, "attn.c_attn", x);
    const mega_scope scope = mega_scope_enter(g, "attn");
    if (s->recompute_core) mega_recompute_begin(g);
    const mega_tensor context = mega_op_attention(g, qkv, rows->segment_start, rows->sample_id, &shape);
    if (s->recompute_core) mega_recompute_end(g);
    mega_scope_leave(g, scope);
    return mega_row_linear(at, "attn.c_proj", context);
}

mega_tensor mega_cached_self_attention(const mega_place *at, mega_tensor x, int64_t batch, int64_t rows,
                                       int64_t capacity, const mega_self_attention_shape *s)
{
    mega_graph *g = at->graph;
    mega_attention_shape shape = local_heads(at, s);
    shape.batch = batch;
    shape.seq = rows;
    const int64_t dims[3] = {batch, capacity, shape.kv_heads * shape.head_dim};
    const mega_tensor qkv = mega_column_linear(at, "attn.c_attn", x);
    const mega_dtype dtype = mega_params_compute_dtype(at->params);
    const mega_tensor keys = mega_graph_state(g, "k_cache", dtype, 3, dims);
    const mega_tensor values = mega_graph_state(g, "v_cache", dtype, 3, dims);
    const mega_scope scope = mega_scope_enter(g, "attn");
    const mega_tensor context = mega_op_attention_cached(g, qkv, keys, values, &shape);
    mega_scope_leave(g, scope);
    return mega_row_linear(at, "attn.c_proj", context);
}

mega_tensor mega_vocab_logits(const mega_place *at, const char *name, mega_tensor x)
{
    return mega_op_gather_from_sequence(at->graph, mega_op_logits(at->graph, x, weight(at, name)), &at->layout->tp);
}

mega_head_result mega_vocab_head_loss(const mega_place *at, const char *name, mega_tensor x, mega_tensor labels,
                                      mega_tensor loss_mask, int64_t vocab, bool with_gradient, bool per_token)
{
    const mega_tensor table = weight(at, name);
    const int64_t held = mega_graph_dim(at->graph, table, 0);
    const int64_t begin = first_row(at, table);
    const int64_t real = vocab - begin;
    const mega_head_shape shape = {.vocab_begin = begin,
                                   .valid = real < 0      ? 0
                                            : real < held ? real
                                                          : held,
                                   .with_gradient = with_gradient,
                                   .per_token = per_token};
    const mega_scope s = mega_scope_enter(at->graph, "head");
    x = to_cut_weights(at, x);
    const mega_head_result r = mega_op_lm_head_loss(at->graph, x, table, labels, loss_mask, &shape);
    mega_scope_leave(at->graph, s);
    return r;
}
