/* Attention with its two projections. The heads are cut over tp: a rank computes some of them completely, and the
 * projection after them adds the parts of all ranks. */
#include "attention_plan.h"

#include <stdio.h>

static mega_attention_qkv project_together(const mega_builder *b, const attention_plan *p, mega_tensor x);
static mega_attention_qkv project_apart(const mega_builder *b, const attention_plan *p, mega_tensor x);
static mega_attention_qkv norm_qk(const mega_builder *b, const attention_plan *p, mega_attention_qkv x);
static mega_attention_qkv rotate(const mega_builder *b, const attention_plan *p, mega_attention_qkv x);
static mega_tensor attend(const mega_builder *b, const attention_plan *p, mega_attention_qkv x);

/* ---- the layer ---- */

/* *p says what the source of keys and values is. */
static mega_tensor attention_layer(const mega_builder *b, const char *name, mega_tensor x,
                                   const mega_attention_options *options, attention_plan *p)
{
    static const mega_attention_options none = {.num_heads = 0};
    const mega_attention_options *o = options != NULL ? options : &none;
    const int64_t channels = p->keeps ? p->source_channels : mega_tensor_channels(b, x);
    if (mega_graph_status(b->graph) != MEGA_OK) return mega_none();
    mega_builder_fail(b, attention_plan_make(b, name, o, channels, p));
    if (mega_graph_status(b->graph) != MEGA_OK) return mega_none();
    p->shape = attention_plan_shape(b, p);
    if (o->latent != NULL) {
        const mega_tensor context = attend(b, p, attention_latent_qkv(b, p, x));
        return mega_row_linear(b, p->out_name, attention_latent_context(b, p, context), channels, o->out);
    }
    const mega_attention_qkv qkv = p->is_apart ? project_apart(b, p, x) : project_together(b, p, x);
    const mega_tensor y = attend(b, p, rotate(b, p, norm_qk(b, p, qkv)));
    return p->keeps ? y : mega_row_linear(b, p->out_name, y, channels, o->out);
}

mega_tensor mega_self_attention(const mega_builder *b, const char *name, mega_tensor x,
                                const mega_attention_options *options)
{
    attention_plan p = {.is_cross = false};
    return attention_layer(b, name, x, options, &p);
}

mega_tensor mega_cross_attention(const mega_builder *b, const char *name, mega_tensor x, mega_tensor source,
                                 int64_t positions, const mega_attention_options *options)
{
    attention_plan p = {.is_cross = true, .source = source, .source_positions = positions};
    if (mega_graph_status(b->graph) != MEGA_OK) return mega_none();
    p.reads = b->mode == MEGA_GENERATE && source.id == 0;
    p.keeps = b->mode == MEGA_GENERATE && source.id != 0;
    if (!p.reads) p.source_channels = mega_tensor_channels(b, source);
    return attention_layer(b, name, x, options, &p);
}

/* ---- queries, keys and values ---- */

/* One projection, whose rows in the file are consecutive: Q, then K, then V. */
static mega_attention_qkv project_together(const mega_builder *b, const attention_plan *p, mega_tensor x)
{
    mega_linear_options in = p->qkv;
    const int64_t q = p->heads * p->head_dim, kv = p->kv_heads * p->head_dim;
    if (in.weight.num_parts == 0 && p->kv_heads == p->heads) in.weight.blocks = 3;
    else if (in.weight.num_parts == 0) {
        in.weight.blocks = 0;
        in.weight.num_parts = 3;
        in.weight.part[0] = (mega_param_part){.rows = q};
        in.weight.part[1] = (mega_param_part){.rows = kv, .first = q};
        in.weight.part[2] = (mega_param_part){.rows = kv, .first = q + kv};
    }
    return (mega_attention_qkv){.q = mega_column_linear(b, p->qkv_name, x, q + 2 * kv, &in)};
}

/* Three projections: of one input, or of x for Q and of the source for K and V. Keys and values that every rank holds
 * whole are read by the heads of all ranks, so that each rank computes a part of their gradients. */
static mega_attention_qkv project_apart(const mega_builder *b, const attention_plan *p, mega_tensor x)
{
    static const char suffix[] = "qkv";
    mega_graph *g = b->graph;
    layer_linear w[3];
    mega_tensor y[3] = {{0}, {0}, {0}};
    for (int i = p->keeps; i < (p->reads ? 1 : 3); i++) {
        char name[MEGA_PATH + 2];
        mega_param_options options = p->qkv.weight;
        snprintf(name, sizeof name, "%s_%c", p->qkv_name, suffix[i]);
        const int64_t rows = (i == 0 ? p->heads : p->kv_heads) * p->head_dim;
        options.num_parts = 1;
        options.part[0] = p->qkv.weight.num_parts == 3 ? p->qkv.weight.part[i] : (mega_param_part){.rows = rows};
        options.part[1] = options.part[2] = (mega_param_part){.rows = 0};
        options.blocks = 0;
        options.partial_gradients = i > 0 && p->holds_all_kv;
        options.shard_rows = !options.partial_gradients;
        const int64_t in = i > 0 && p->is_cross ? p->source_channels : p->channels;
        w[i] = layer_request_linear(b, name, rows, in, &options, p->qkv.no_bias);
    }
    const mega_scope s = mega_scope_enter(g, "%s", p->qkv_name);
    const bool again = layer_has_slab(b) && !mega_graph_region_is_open(g); /* as in mega_column_linear */
    if (again) mega_graph_region_begin(g);
    if (!p->keeps) x = layer_to_cut_weights(b, x);
    const mega_tensor source = p->is_cross && !p->reads ? layer_to_cut_weights(b, p->source) : x;
    for (int i = p->keeps; i < (p->reads ? 1 : 3); i++)
        y[i] = layer_add_bias(b, mega_op_linear(g, i == 0 ? x : source, w[i].weight), w[i].bias);
    if (again) mega_graph_region_end(g);
    mega_scope_leave(g, s);
    return (mega_attention_qkv){.q = y[0], .k = y[1], .v = y[2]};
}

/* ---- norms of queries and keys ---- */

/* Declares weight or bias of a norm of queries or keys. Heads share them, or each rank has the part of its heads; what
 * every rank has whole gets a part of its gradient on each. */
static mega_tensor norm_param(const mega_builder *b, const attention_plan *p, const char *name, bool is_weight,
                              int64_t channels, bool is_cut)
{
    const mega_norm_options *n = &p->o->qk_norm_options;
    const mega_param_options o = {.init = is_weight && !n->weight_plus_one ? MEGA_INIT_ONE : MEGA_INIT_ZERO,
                                  .shard_rows = is_cut,
                                  .partial_gradients = !is_cut};
    if (is_weight ? n->no_weight : n->no_bias || n->kind == MEGA_RMS_NORM) return mega_none();
    return layer_param(b, name, is_weight ? "weight" : "bias", channels, 0, &o);
}

/* Normalizes queries or keys x [T, heads * D] of this rank, of `all` heads in the model. */
static mega_tensor norm_heads(const mega_builder *b, const attention_plan *p, const char *name, mega_tensor x,
                              int64_t all)
{
    const mega_norm_options *n = &p->o->qk_norm_options;
    const bool is_head = p->o->qk_norm == MEGA_QK_NORM_HEAD;
    const int64_t cols = mega_tensor_channels(b, x), channels = is_head ? p->head_dim : all * p->head_dim;
    const bool is_cut = !is_head && cols < channels;
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    if (is_cut && n->kind == MEGA_LAYER_NORM)
        mega_builder_fail(b, LAYER_FAIL(MEGA_ERR_UNSUPPORTED, b, p->name,
                                        "a layer norm over the heads of %d ranks of tp is not "
                                        "implemented yet; train without tensor parallelism, or choose an RMS norm",
                                        b->layout->tp.size));
    const mega_tensor weight = norm_param(b, p, name, true, channels, is_cut);
    const mega_tensor bias = norm_param(b, p, name, false, channels, is_cut);
    if (is_head) x = mega_reshape(b, x, p->head_dim);
    if (is_cut) x = mega_op_rms_norm_over(b->graph, x, weight, &b->layout->tp, n->epsilon, n->weight_plus_one);
    else if (n->kind == MEGA_RMS_NORM)
        x = mega_op_rms_norm(b->graph, x, weight, n->epsilon, n->weight_plus_one);
    else if (n->weight_plus_one)
        x = mega_op_layer_norm_plus_one(b->graph, x, weight, bias, n->epsilon);
    else
        x = mega_op_layer_norm(b->graph, x, weight, bias, n->epsilon);
    mega_scope_leave(b->graph, s);
    return is_head ? mega_reshape(b, x, cols) : x;
}

static mega_attention_qkv norm_qk(const mega_builder *b, const attention_plan *p, mega_attention_qkv x)
{
    char q[MEGA_PATH], k[MEGA_PATH];
    if (p->o->qk_norm == MEGA_QK_NORM_NONE) return x;
    snprintf(q, sizeof q, "%s%s", p->o->q_norm_name != NULL ? p->o->q_norm_name : p->name,
             p->o->q_norm_name != NULL ? "" : ".q_norm");
    snprintf(k, sizeof k, "%s%s", p->o->k_norm_name != NULL ? p->o->k_norm_name : p->name,
             p->o->k_norm_name != NULL ? "" : ".k_norm");
    if (!p->keeps) x.q = norm_heads(b, p, q, x.q, p->heads);
    if (!p->reads) x.k = norm_heads(b, p, k, x.k, p->kv_heads);
    return x;
}

/* ---- rotation ---- */

mega_tensor attention_rope(const mega_builder *b, const attention_plan *p, mega_tensor x, int64_t heads,
                           int64_t head_dim)
{
    const mega_rope *rope = p->o->rope;
    const int64_t generated = b->length > 0 ? b->length : b->cache;
    const int64_t positions = b->mode == MEGA_GENERATE ? generated : b->positions;
    double factor = 1.0;
    if (rope == NULL || rope->theta == 0.0 || mega_graph_status(b->graph) != MEGA_OK) return x;
    float *frequency = mega_calloc((size_t)head_dim, sizeof *frequency);
    mega_status st = frequency != NULL ? mega_rope_frequencies(rope, head_dim, positions, frequency, &factor)
                                       : MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for the frequencies of a rope");
    if (st != MEGA_OK) {
        mega_error_prepend("layer \"%s\", %s", b->path, p->name);
        mega_builder_fail(b, st);
    } else {
        const mega_tensor at = layer_row_input(b, "position_ids");
        const mega_rope_shape s = {.frequency = frequency,
                                   .heads = heads,
                                   .head_dim = head_dim,
                                   .rotated = layer_rope_channels(rope, head_dim),
                                   .factor = (float)factor,
                                   .interleaved = rope->interleaved};
        const mega_scope scope = mega_scope_enter(b->graph, "%s.rope", p->name);
        x = mega_op_rope(b->graph, x, at, &s);
        mega_scope_leave(b->graph, scope);
    }
    mega_free(frequency);
    return x;
}

static mega_attention_qkv rotate(const mega_builder *b, const attention_plan *p, mega_attention_qkv x)
{
    const mega_attention_shape *a = &p->shape;
    x.q = attention_rope(b, p, x.q, p->is_apart ? a->heads : a->heads + a->kv_heads, p->head_dim);
    if (p->is_apart) x.k = attention_rope(b, p, x.k, a->kv_heads, p->head_dim);
    return x;
}

/* ---- attention ---- */

/* Returns the limits of the keys that each row sees. */
static mega_attention_keys key_limits(const mega_builder *b, const attention_plan *p)
{
    const char *begin = p->o->key_begin == NULL && p->o->is_causal ? "key_begin" : p->o->key_begin;
    mega_attention_keys keys = {.begin = mega_none(), .end = mega_none()};
    if (begin != NULL && begin[0] != '\0') keys.begin = layer_row_input(b, begin);
    if (p->o->key_end != NULL) keys.end = layer_row_input(b, p->o->key_end);
    return keys;
}

/* Returns how many positions a cache has. With a window it is a ring of those that the first row of a chunk still sees
 * and of the rows of the chunk, some of which may be padding that a later row overwrites. The longest chunk is what the
 * cache has beyond the length. */
static int64_t cache_positions(const mega_builder *b, const attention_plan *p)
{
    const mega_attention_rules *r = &p->shape.rules;
    const int64_t chunk = b->length > 0 ? b->cache - b->length : 0;
    if (!r->has_window || r->window_left < 0 || chunk < b->positions) return b->cache;
    return r->window_left < b->cache - chunk ? r->window_left + chunk : b->cache;
}

/* Keeps keys and values of a source for the programs that generate, or sets them in x from what is kept. */
static void share_source(const mega_builder *b, const attention_plan *p, mega_attention_qkv *x)
{
    mega_graph *g = b->graph;
    const int64_t dims[2] = {b->samples * p->source_positions, p->shape.kv_heads * p->head_dim};
    const mega_scope s = mega_scope_enter(g, "%s", p->name);
    const mega_tensor keys = mega_graph_state(g, "source_k", mega_graph_dtype(g), 2, dims);
    const mega_tensor values = mega_graph_state(g, "source_v", mega_graph_dtype(g), 2, dims);
    if (p->keeps) {
        mega_op_keep(g, x->k, keys);
        mega_op_keep(g, x->v, values);
    }
    x->k = keys;
    x->v = values;
    mega_scope_leave(g, s);
}

/* Attention over the sequence or, in MEGA_GENERATE, over the keys and values so far. */
static mega_tensor attend(const mega_builder *b, const attention_plan *p, mega_attention_qkv x)
{
    mega_graph *g = b->graph;
    x.bias = p->o->bias;
    if (p->o->sinks_name != NULL) {
        const mega_param_options o = {.init = MEGA_INIT_NORMAL, .init_std = p->o->sinks_std, .shard_rows = true};
        x.sinks = mega_builder_param(b, p->o->sinks_name, p->heads, 0, &o);
    }
    if (p->keeps || p->reads) share_source(b, p, &x);
    if (p->keeps) return mega_none();
    if (b->mode == MEGA_GENERATE && !p->is_cross) {
        const int64_t dims[3] = {b->samples, cache_positions(b, p), p->shape.kv_heads * p->head_dim};
        mega_attention_shape shape = p->shape;
        shape.is_ring = dims[1] < b->cache;
        const mega_tensor keys = mega_graph_state(g, "k_cache", mega_graph_dtype(g), 3, dims);
        const mega_tensor values = mega_graph_state(g, "v_cache", mega_graph_dtype(g), 3, dims);
        const mega_scope s = mega_scope_enter(g, "%s", p->name);
        const mega_tensor context = mega_op_attention_cached(g, x, keys, values, &shape);
        mega_scope_leave(g, s);
        return context;
    }
    const mega_attention_keys keys = key_limits(b, p);
    const mega_tensor sample_id = layer_row_input(b, "sample_id");
    const mega_scope s = mega_scope_enter(g, "%s", p->name);
    if (p->o->recompute_core) mega_recompute_begin(b);
    const mega_tensor context = mega_op_attention(g, x, keys, sample_id, &p->shape);
    if (p->o->recompute_core) mega_recompute_end(b);
    mega_scope_leave(g, s);
    return context;
}

mega_tensor mega_attention_bias(const mega_builder *b, const char *name, int64_t buckets, int64_t num_heads,
                                const mega_param_options *options)
{
    mega_param_options o = options != NULL ? *options : (mega_param_options){.init = MEGA_INIT_FAN_IN};
    o.shard_columns = true;
    return layer_param(b, name, "weight", buckets, num_heads, &o);
}
