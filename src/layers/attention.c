/* Attention with its two projections. The heads are cut over tp: a rank computes some of them completely, and the
 * projection after them adds the parts of all ranks. */
#include "layers_impl.h"

#include <math.h>
#include <stdio.h>

/* ---- the options, completed ---- */

/* The numbers of one layer. */
typedef struct attention_plan {
    const mega_attention_options *o;
    const char *name;
    char qkv_name[MEGA_PATH], out_name[MEGA_PATH];
    int64_t channels, head_dim, heads, kv_heads; /* of the whole model */
    bool is_cross;
    mega_tensor source; /* of keys and values, if is_cross */
    int64_t source_positions, source_channels;
    bool keeps, reads; /* is_cross in MEGA_GENERATE: this program keeps keys and values, or reads those kept */
    bool is_apart;     /* Q, K and V are parameters of their own */
    bool holds_all_kv; /* tp does not divide the key/value heads: each rank has all of them */
    char qkv_file[MEGA_PATH + 8]; /* the tensor that they share in the file, if they are apart */
    mega_linear_options qkv;
    mega_attention_shape shape; /* of this rank */
} attention_plan;

/* Returns a message of its own for each wrong number of heads. */
static mega_status check_heads(const mega_builder *b, const attention_plan *p)
{
    const mega_attention_options *o = p->o;
    const char *path = b->path, *name = p->name;
    if (o->num_heads == 0)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "layer \"%s\", %s: %s without num_heads; give the number of heads of the whole model in its "
                         "options",
                         path, name, p->is_cross ? "mega_cross_attention" : "mega_self_attention");
    if (o->head_dim < 0)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "layer \"%s\", %s: head_dim %lld; expected 1 or more, or 0 for the channels over the heads",
                         path, name, (long long)o->head_dim);
    if (o->num_heads < 1 || o->num_heads % b->layout->tp.size != 0)
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "layer \"%s\", %s: %lld attention heads over %d ranks of tp; expected a multiple of the ranks, at "
            "least 1",
            path, name, (long long)o->num_heads, b->layout->tp.size);
    if (o->num_kv_heads < 0 || (o->num_kv_heads > 0 && o->num_heads % o->num_kv_heads != 0))
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "layer \"%s\", %s: %lld key/value heads for %lld attention heads; expected a divisor of the "
                         "attention heads, or 0 for as many",
                         path, name, (long long)o->num_kv_heads, (long long)o->num_heads);
    if (o->head_dim == 0 && p->channels % o->num_heads != 0)
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "layer \"%s\", %s: %lld channels in %lld attention heads; expected a multiple of the heads, or "
            "give head_dim",
            path, name, (long long)p->channels, (long long)o->num_heads);
    return MEGA_OK;
}

static mega_status check_norms(const mega_builder *b, const attention_plan *p)
{
    const mega_norm_options *n = &p->o->qk_norm_options;
    const char *path = b->path, *name = p->name;
    if (p->o->qk_norm == MEGA_QK_NORM_NONE) return MEGA_OK;
    if ((unsigned)p->o->qk_norm > MEGA_QK_NORM_ALL || (unsigned)n->kind > MEGA_RMS_NORM)
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "layer \"%s\", %s: norm %d of queries and keys, of kind %d; expected one of mega_qk_norm and one "
            "of mega_norm_kind",
            path, name, (int)p->o->qk_norm, (int)n->kind);
    return MEGA_OK;
}

static mega_status check_source(const mega_builder *b, const attention_plan *p)
{
    const mega_attention_options *o = p->o;
    const char *what = o->is_causal                            ? "a causal mask"
                       : o->has_window                         ? "a window"
                       : o->alibi                              ? "ALiBi"
                       : o->bias.id != 0                       ? "biases of relative positions"
                       : o->rope != NULL && o->rope->theta > 0 ? "rotary position embedding"
                                                               : NULL;
    if (!p->is_cross) return MEGA_OK;
    if (what != NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "layer \"%s\", %s: mega_cross_attention with %s, which compares positions of one sequence; "
                         "leave it out",
                         b->path, p->name, what);
    if (p->source_positions < 1)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "layer \"%s\", %s: mega_cross_attention to %lld positions of each sample; expected 1 or more",
                         b->path, p->name, (long long)p->source_positions);
    return MEGA_OK;
}

static mega_status check_scores(const mega_builder *b, const attention_plan *p)
{
    const mega_attention_options *o = p->o;
    const char *path = b->path, *name = p->name;
    if (!(o->dropout >= 0.0 && o->dropout < 1.0))
        return MEGA_FAIL(MEGA_ERR_USAGE, "layer \"%s\", %s: dropout %g of attention; expected 0 <= p < 1", path, name,
                         isnan(o->dropout) ? fabs(o->dropout) : o->dropout);
    if (!(o->scale >= 0.0 && isfinite(o->scale)))
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "layer \"%s\", %s: scale %g of attention; expected a finite number above 0, or 0 for "
                         "1 / sqrt(head_dim)",
                         path, name, isnan(o->scale) ? fabs(o->scale) : o->scale);
    if (!(o->softcap >= 0.0 && isfinite(o->softcap)))
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "layer \"%s\", %s: soft-cap %g of attention; expected a finite number above 0, or 0 for none",
                         path, name, isnan(o->softcap) ? fabs(o->softcap) : o->softcap);
    if (o->has_window && (o->window_left < -1 || o->window_right < -1))
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "layer \"%s\", %s: a window of %lld positions to the left and %lld to the right; expected 0 or "
            "more, or -1 for no limit",
            path, name, (long long)o->window_left, (long long)o->window_right);
    MEGA_TRY(check_source(b, p));
    return check_norms(b, p);
}

/* Checks the parts by which the caller names the tensors of Q, K and V in the file. */
static mega_status check_parts(const mega_builder *b, const attention_plan *p)
{
    const mega_param_options *w = &p->qkv.weight;
    const int64_t rows[3] = {p->heads * p->head_dim, p->kv_heads * p->head_dim, p->kv_heads * p->head_dim};
    bool is_right = w->num_parts == 0 || w->num_parts == 3;
    for (int i = 0; i < 3 && is_right && w->num_parts == 3; i++) is_right = w->part[i].rows == rows[i];
    if (!is_right)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "layer \"%s\", %s: the weight of qkv has %d parts; expected 3, Q of %lld rows, K and V of "
                         "%lld each",
                         b->path, p->name, w->num_parts, (long long)rows[0], (long long)rows[1]);
    return MEGA_OK;
}

/* If Q, K and V have to be parameters of their own, each needs a tensor of its own in the file. Without parts, that is
 * so where they are apart in every layout. */
static mega_status check_apart(const mega_builder *b, const attention_plan *p)
{
    const mega_param_options *w = &p->qkv.weight;
    const bool is_always = p->is_cross || p->o->qk_norm != MEGA_QK_NORM_NONE;
    bool is_right = !p->is_apart || w->num_parts == 3 || (is_always && w->blocks <= 1);
    for (int i = 0; i < 3 && is_right && p->is_apart && w->num_parts == 3; i++)
        is_right =
            w->part[i].file != NULL && (w->part[i].first == 0 || w->part[i].of_rows > 0) && w->part[i].block == 0;
    if (is_right) return MEGA_OK;
    if (is_always)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "layer \"%s\", %s: %s, and Q, K and V share a tensor of the file, which is "
                         "not implemented yet; name a tensor for each in the parts of qkv",
                         b->path, p->name,
                         p->is_cross ? "keys and values of another source" : "norms of queries and keys");
    return MEGA_FAIL(
        MEGA_ERR_UNSUPPORTED,
        "layer \"%s\", %s: %lld key/value heads over %d ranks of tp, and Q, K and V share a tensor of the "
        "file in parts; tp must then divide the key/value heads (of Q, K and V one after the other, without parts, it "
        "need not)",
        b->path, p->name, (long long)p->kv_heads, b->layout->tp.size);
}

static mega_attention_rules rules_of(const mega_builder *b, const attention_plan *p)
{
    const mega_attention_options *o = p->o;
    mega_attention_rules r = {.has_window = o->has_window,
                              .window_left = o->has_window ? o->window_left : 0,
                              .window_right = o->has_window ? o->window_right : 0,
                              .softcap = o->softcap,
                              .alibi_heads = o->alibi ? p->heads : 0};
    if (o->bias.id != 0) {
        r.bias_buckets = mega_tensor_rows(b, o->bias);
        r.bias_distance = o->bias_distance > 0 ? o->bias_distance : 128;
        r.bias_one_side = o->is_causal;
    }
    if (!p->holds_all_kv) return r;
    r.group = p->heads / p->kv_heads;
    r.group_begin = p->heads / b->layout->tp.size * b->layout->tp.rank;
    return r;
}

/* Returns the shape of attention over the heads of this rank. */
static mega_attention_shape local_heads(const mega_builder *b, const attention_plan *p)
{
    const mega_attention_options *o = p->o;
    const double dropout = b->mode == MEGA_TRAIN ? o->dropout : 0.0;
    const int64_t heads = p->heads / b->layout->tp.size;
    return (mega_attention_shape){.batch = b->samples,
                                  .seq = b->positions,
                                  .heads = heads,
                                  .kv_heads = p->holds_all_kv ? p->kv_heads : p->kv_heads / b->layout->tp.size,
                                  .head_dim = p->head_dim,
                                  .head_begin = heads * b->layout->tp.rank,
                                  .scale = o->scale > 0.0 ? o->scale : 1.0 / sqrt((double)p->head_dim),
                                  .dropout = dropout,
                                  .site = dropout > 0.0 ? mega_builder_dropout_site(b, p->name) : 0,
                                  .causal = o->is_causal,
                                  .keys = p->source_positions,
                                  .rules = rules_of(b, p)};
}

/* Names the tensor in which the file has Q, K and V one after the other, for the three parameters that hold its rows. */
static void share_tensor(attention_plan *p)
{
    mega_param_options *w = &p->qkv.weight;
    const int64_t q = p->heads * p->head_dim, kv = p->kv_heads * p->head_dim, all = q + 2 * kv;
    snprintf(p->qkv_file, sizeof p->qkv_file, "%s.weight", p->qkv_name);
    w->blocks = 0;
    w->num_parts = 3;
    w->part[0] = (mega_param_part){.file = p->qkv_file, .rows = q, .of_rows = all};
    w->part[1] = (mega_param_part){.file = p->qkv_file, .rows = kv, .first = q, .of_rows = all};
    w->part[2] = (mega_param_part){.file = p->qkv_file, .rows = kv, .first = q + kv, .of_rows = all};
}

static mega_status make_plan(const mega_builder *b, const char *name, const mega_attention_options *o, int64_t channels,
                             attention_plan *p)
{
    p->o = o;
    p->name = name;
    p->channels = channels;
    if (name == NULL || name[0] == '\0')
        return MEGA_FAIL(MEGA_ERR_USAGE, "layer \"%s\": a layer %s has no name; give it one", b->path,
                         p->is_cross ? "mega_cross_attention" : "mega_self_attention");
    MEGA_TRY(check_heads(b, p));
    MEGA_TRY(check_scores(b, p));
    p->heads = o->num_heads;
    p->kv_heads = o->num_kv_heads > 0 ? o->num_kv_heads : o->num_heads;
    p->head_dim = o->head_dim > 0 ? o->head_dim : channels / o->num_heads;
    p->holds_all_kv = p->kv_heads % b->layout->tp.size != 0;
    p->is_apart = p->is_cross || p->holds_all_kv || o->qk_norm != MEGA_QK_NORM_NONE;
    if (o->qkv != NULL) p->qkv = *o->qkv;
    if (o->qkv_name != NULL) snprintf(p->qkv_name, sizeof p->qkv_name, "%s", o->qkv_name);
    else
        snprintf(p->qkv_name, sizeof p->qkv_name, "%s.c_attn", name);
    const bool is_shared = p->holds_all_kv && !p->is_cross && o->qk_norm == MEGA_QK_NORM_NONE;
    if (is_shared && p->qkv.weight.num_parts == 0 && p->qkv.weight.blocks <= 1) share_tensor(p);
    MEGA_TRY(check_parts(b, p));
    MEGA_TRY(check_apart(b, p));
    if (o->out_name != NULL) snprintf(p->out_name, sizeof p->out_name, "%s", o->out_name);
    else
        snprintf(p->out_name, sizeof p->out_name, "%s.c_proj", name);
    return MEGA_OK;
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
        mega_builder_fail(b, MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                                       "layer \"%s\", %s: a layer norm over the heads of %d ranks of tp is not "
                                       "implemented yet; train without tensor parallelism, or choose an RMS norm",
                                       b->path, p->name, b->layout->tp.size));
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

static mega_attention_qkv rotate(const mega_builder *b, const attention_plan *p, mega_attention_qkv x)
{
    const mega_rope *rope = p->o->rope;
    const int64_t generated = b->length > 0 ? b->length : b->cache;
    const int64_t positions = b->mode == MEGA_GENERATE ? generated : b->positions;
    double factor = 1.0;
    if (rope == NULL || rope->theta == 0.0 || mega_graph_status(b->graph) != MEGA_OK) return x;
    float *frequency = mega_calloc((size_t)p->head_dim, sizeof *frequency);
    mega_status st = frequency != NULL ? mega_rope_frequencies(rope, p->head_dim, positions, frequency, &factor)
                                       : MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for the frequencies of a rope");
    if (st != MEGA_OK) {
        mega_error_prepend("layer \"%s\", %s", b->path, p->name);
        mega_builder_fail(b, st);
    } else {
        const mega_tensor at = layer_row_input(b, "position_ids");
        const mega_attention_shape *a = &p->shape;
        mega_rope_shape s = {.frequency = frequency,
                             .heads = p->is_apart ? a->heads : a->heads + a->kv_heads,
                             .head_dim = p->head_dim,
                             .rotated = layer_rope_channels(rope, p->head_dim),
                             .factor = (float)factor,
                             .interleaved = rope->interleaved};
        const mega_scope scope = mega_scope_enter(b->graph, "%s.rope", p->name);
        x.q = mega_op_rope(b->graph, x.q, at, &s);
        s.heads = a->kv_heads;
        if (p->is_apart) x.k = mega_op_rope(b->graph, x.k, at, &s);
        mega_scope_leave(b->graph, scope);
    }
    mega_free(frequency);
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

/* *p says what the source of keys and values is. */
static mega_tensor attention_layer(const mega_builder *b, const char *name, mega_tensor x,
                                   const mega_attention_options *options, attention_plan *p)
{
    static const mega_attention_options none = {.num_heads = 0};
    const mega_attention_options *o = options != NULL ? options : &none;
    const int64_t channels = p->keeps ? p->source_channels : mega_tensor_channels(b, x);
    if (mega_graph_status(b->graph) != MEGA_OK) return mega_none();
    mega_builder_fail(b, make_plan(b, name, o, channels, p));
    if (mega_graph_status(b->graph) != MEGA_OK) return mega_none();
    p->shape = local_heads(b, p);
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
