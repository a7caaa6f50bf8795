/* Attention over the heads of this rank. Q, K and V are column ranges of one tensor qkv [T, (H + 2G) D], read in place
 * through row strides, or three tensors, of which K and V may have other rows than Q. Their gradients are written the
 * same way, so that nothing is copied. */
#include "op_members.h"

/* Operands. */
enum {
    ATTENTION_GRAD_DOUT,
    ATTENTION_GRAD_QKV,
    ATTENTION_GRAD_OUT,
    ATTENTION_GRAD_LSE,
    ATTENTION_GRAD_KEY_BEGIN,
    ATTENTION_GRAD_SAMPLE_ID,
    ATTENTION_GRAD_K,
    ATTENTION_GRAD_V,
    ATTENTION_GRAD_KEY_END,
    ATTENTION_GRAD_BIAS
};
enum { ATTENTION_GRAD_DQKV, ATTENTION_GRAD_DK, ATTENTION_GRAD_DV, ATTENTION_GRAD_DBIAS };
enum {
    ATTENTION_CACHED_QKV,
    ATTENTION_CACHED_K_CACHE,
    ATTENTION_CACHED_V_CACHE,
    ATTENTION_CACHED_K,
    ATTENTION_CACHED_V,
    ATTENTION_CACHED_BIAS,
    ATTENTION_CACHED_SINKS
};
enum { ATTENTION_SINKS_GRAD_DOUT, ATTENTION_SINKS_GRAD_OUT, ATTENTION_SINKS_GRAD_LSE, ATTENTION_SINKS_GRAD_SINKS };

static int64_t q_width(const mega_attention_shape *s)
{
    return mega_extent_mul(s->heads, s->head_dim);
}

static int64_t kv_width(const mega_attention_shape *s)
{
    return mega_extent_mul(s->kv_heads, s->head_dim);
}

static int64_t qkv_width(const mega_attention_shape *s)
{
    return mega_extent_mul(mega_extent_add(s->heads, mega_extent_mul(2, s->kv_heads)), s->head_dim);
}

/* Returns the number of keys of a sequence. */
static int64_t keys_of(const mega_attention_shape *s)
{
    return s->keys > 0 ? s->keys : s->seq;
}

/* Checks Q, K and V, which are operands `q`, `k` and `v` of the op. */
static mega_status expect_qkv(const mega_graph *g, const instruction *op, int q, int k, int v)
{
    const mega_attention_shape *s = &op->attr.attention;
    const int64_t rows = mega_extent_mul(s->batch, s->seq), keys = mega_extent_mul(s->batch, keys_of(s));
    if (op->in[k] == 0 && op->in[v] == 0 && keys_of(s) != s->seq)
        return MEGA_MISTAKE("op %s in \"%s\": %lld queries and %lld keys of each sequence in one tensor; give keys and "
                            "values in tensors of their own",
                            mega_op_table[op->kind]->name, op->scope, (long long)s->seq, (long long)keys_of(s));
    if (op->in[k] == 0 && op->in[v] == 0)
        return mega_op_check_operand(g, op, q, "qkv", mega_shape_2d(g->dtype, rows, qkv_width(s)));
    if (op->in[k] == 0 || op->in[v] == 0)
        return MEGA_MISTAKE("op %s in \"%s\": one of keys and values is missing; give both, or neither",
                            mega_op_table[op->kind]->name, op->scope);
    MEGA_TRY(mega_op_check_operand(g, op, q, "q", mega_shape_2d(g->dtype, rows, q_width(s))));
    MEGA_TRY(mega_op_check_operand(g, op, k, "k", mega_shape_2d(g->dtype, keys, kv_width(s))));
    return mega_op_check_operand(g, op, v, "v", mega_shape_2d(g->dtype, keys, kv_width(s)));
}

static mega_status attention_check_rules(const instruction *op)
{
    const mega_attention_shape *s = &op->attr.attention;
    const mega_attention_rules *r = &s->rules;
    const char *name = mega_op_table[op->kind]->name;
    const int64_t most = INT32_MAX;
    if (r->has_window &&
        (r->window_left < -1 || r->window_right < -1 || r->window_left > most || r->window_right > most))
        return MEGA_MISTAKE("op %s in \"%s\": a window of %lld keys to the left and %lld to the right; expected -1 (no "
                            "limit) to %lld",
                            name, op->scope, (long long)r->window_left, (long long)r->window_right, (long long)most);
    if (!(r->softcap >= 0.0 && r->softcap <= 1e30))
        return MEGA_MISTAKE("op %s in \"%s\": soft-cap %g; expected a number above 0, or 0 for none", name, op->scope,
                            r->softcap);
    const bool is_alibi_right = r->alibi_heads == 0 || r->alibi_heads >= mega_extent_add(s->head_begin, s->heads);
    if (!is_alibi_right)
        return MEGA_MISTAKE("op %s in \"%s\": ALiBi over %lld heads, the last of which is head %lld", name, op->scope,
                            (long long)r->alibi_heads, (long long)(mega_extent_add(s->head_begin, s->heads) - 1));
    if (r->group == 0 ? s->heads % s->kv_heads == 0 && r->group_begin == 0
                      : r->group > 0 && r->group_begin >= 0 &&
                            (mega_extent_add(r->group_begin, s->heads) - 1) / r->group < s->kv_heads)
        return MEGA_OK;
    return MEGA_MISTAKE(
        "op %s in \"%s\": %lld heads over %lld key/value heads, groups of %lld from %lld; expected heads "
        "to be a multiple of key/value heads, or groups that have one for each head",
        name, op->scope, (long long)s->heads, (long long)s->kv_heads, (long long)r->group, (long long)r->group_begin);
}

/* Causal masks, windows and ALiBi compare the numbers of query and key, which mean something in one sequence only. */
static mega_status check_keys(const instruction *op)
{
    const mega_attention_shape *s = &op->attr.attention;
    if (s->keys == 0 || s->keys == s->seq ||
        (s->keys > 0 && !s->causal && !s->rules.has_window && s->rules.alibi_heads == 0 && s->rules.bias_buckets == 0))
        return MEGA_OK;
    return MEGA_MISTAKE(
        "op %s in \"%s\": %lld queries and %lld keys of each sequence%s%s%s%s; expected at least 1 key (or 0 "
        "for as many as queries), and neither a causal mask nor a window nor ALiBi nor biases",
        mega_op_table[op->kind]->name, op->scope, (long long)s->seq, (long long)s->keys, s->causal ? ", causal" : "",
        s->rules.has_window ? ", with a window" : "", s->rules.alibi_heads != 0 ? ", with ALiBi" : "",
        s->rules.bias_buckets != 0 ? ", with biases" : "");
}

/* Checks the table of biases, which is operand `bias` of the op. */
static mega_status expect_bias(const mega_graph *g, const instruction *op, int bias)
{
    const mega_attention_shape *s = &op->attr.attention;
    const mega_attention_rules *r = &s->rules;
    const int64_t sides = r->bias_one_side ? 1 : 2;
    if (op->in[bias] == 0 && r->bias_buckets == 0) return MEGA_OK;
    if (op->in[bias] == 0 || r->bias_buckets < 2 * sides || r->bias_buckets % sides != 0 ||
        r->bias_buckets > MEGA_BIAS_BUCKETS || r->bias_distance <= r->bias_buckets / (2 * sides))
        return MEGA_MISTAKE(
            "op %s in \"%s\": %lld buckets of relative positions up to distance %lld, %s a table; expected "
            "a table of %lld to %d buckets (a multiple of %lld), and a distance beyond the short ones",
            mega_op_table[op->kind]->name, op->scope, (long long)r->bias_buckets, (long long)r->bias_distance,
            op->in[bias] == 0 ? "without" : "with", (long long)(2 * sides), MEGA_BIAS_BUCKETS, (long long)sides);
    if (r->softcap > 0.0)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "op %s in \"%s\": a soft-cap and biases of relative positions together are not implemented "
                         "yet; leave one of them out",
                         mega_op_table[op->kind]->name, op->scope);
    return mega_op_check_operand(g, op, bias, "bias", mega_shape_2d(g->dtype, r->bias_buckets, s->heads));
}

static mega_status attention_check_shape(const instruction *op)
{
    const mega_attention_shape *s = &op->attr.attention;
    const char *name = mega_op_table[op->kind]->name;
    if (s->batch < 1 || s->seq < 1 || s->heads < 1 || s->kv_heads < 1 || s->head_dim < 1)
        return MEGA_MISTAKE("op %s in \"%s\": batch %lld, sequence %lld, heads %lld of size %lld over %lld key/value "
                            "heads; expected all at least 1",
                            name, op->scope, (long long)s->batch, (long long)s->seq, (long long)s->heads,
                            (long long)s->head_dim, (long long)s->kv_heads);
    if (!(s->dropout >= 0.0 && s->dropout < 1.0))
        return MEGA_MISTAKE("op %s in \"%s\": dropout %g; expected 0 <= p < 1", name, op->scope, s->dropout);
    MEGA_TRY(check_keys(op));
    return attention_check_rules(op);
}

/* ---- attention: in qkv (or q), key_begin [T] or none, sample_id [T] or none, k and v or none, key_end [T] or none,
 *      bias [buckets, H] or none; out [T, H D], lse [H, T] acc ---- */

mega_tensor mega_op_attention(mega_graph *g, mega_attention_qkv qkv, mega_attention_keys keys, mega_tensor sample_id,
                              const mega_attention_shape *s)
{
    instruction op = {.kind = OP_ATTENTION,
                      .in = {[ATTENTION_QKV] = qkv.q.id,
                             [ATTENTION_KEY_BEGIN] = keys.begin.id,
                             [ATTENTION_SAMPLE_ID] = sample_id.id,
                             [ATTENTION_K] = qkv.k.id,
                             [ATTENTION_V] = qkv.v.id,
                             [ATTENTION_KEY_END] = keys.end.id,
                             [ATTENTION_BIAS] = qkv.bias.id,
                             [ATTENTION_SINKS] = qkv.sinks.id},
                      .attr = {.attention = *s}};
    return mega_graph_emit(g, &op);
}

static mega_status attention_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_attention_shape *s = &op->attr.attention;
    const int64_t rows = mega_extent_mul(s->batch, s->seq);
    MEGA_TRY(attention_check_shape(op));
    if (s->dropout > 0.0 && op->in[ATTENTION_SAMPLE_ID] == 0)
        return MEGA_MISTAKE("op attention in \"%s\": sample ids are missing; the dropout mask is addressed "
                            "by them",
                            op->scope);
    MEGA_TRY(expect_qkv(g, op, ATTENTION_QKV, ATTENTION_K, ATTENTION_V));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_KEY_BEGIN, "key_begin", mega_shape_1d(MEGA_I32, rows)));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_KEY_END, "key_end", mega_shape_1d(MEGA_I32, rows)));
    MEGA_TRY(expect_bias(g, op, ATTENTION_BIAS));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_SINKS, "sinks", mega_shape_1d(g->dtype, s->heads)));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_SAMPLE_ID, "sample_id", mega_shape_1d(MEGA_I32, rows)));
    out[ATTENTION_OUT] = mega_shape_2d(g->dtype, rows, mega_extent_mul(s->heads, s->head_dim));
    out[ATTENTION_LSE] = mega_shape_2d(g->acc, s->heads, rows);
    return MEGA_OK;
}

/* Returns a new value with the shape of operand `in`, for the gradient of it. */
static int32_t gradient_like(mega_graph *g, const instruction *op, int in)
{
    const graph_tensor t = {.role = ROLE_VALUE, .shape = *mega_op_in(g, op, in), .name = g->tensor[op->in[in]].name};
    return op->in[in] == 0 ? 0 : mega_graph_tensor_add(g, &t);
}

static void attention_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_ATTENTION_GRAD,
                     .in = {[ATTENTION_GRAD_DOUT] = mega_graph_output_gradient(g, op, ATTENTION_OUT),
                            [ATTENTION_GRAD_QKV] = op->in[ATTENTION_QKV],
                            [ATTENTION_GRAD_OUT] = op->out[ATTENTION_OUT],
                            [ATTENTION_GRAD_LSE] = op->out[ATTENTION_LSE],
                            [ATTENTION_GRAD_KEY_BEGIN] = op->in[ATTENTION_KEY_BEGIN],
                            [ATTENTION_GRAD_KEY_END] = op->in[ATTENTION_KEY_END],
                            [ATTENTION_GRAD_BIAS] = op->in[ATTENTION_BIAS],
                            [ATTENTION_GRAD_SAMPLE_ID] = op->in[ATTENTION_SAMPLE_ID],
                            [ATTENTION_GRAD_K] = op->in[ATTENTION_K],
                            [ATTENTION_GRAD_V] = op->in[ATTENTION_V]},
                     .out = {[ATTENTION_GRAD_DK] = gradient_like(g, op, ATTENTION_K),
                             [ATTENTION_GRAD_DV] = gradient_like(g, op, ATTENTION_V)},
                     .attr = op->attr};
    const graph_tensor *bias = &g->tensor[op->in[ATTENTION_BIAS]];
    if (op->in[ATTENTION_BIAS] != 0 && (bias->role == ROLE_WEIGHT || bias->needs_gradient))
        d.out[ATTENTION_GRAD_DBIAS] = mega_graph_gradient_tensor(g, op->in[ATTENTION_BIAS]);
    mega_graph_gradient_add(g, op->in[ATTENTION_QKV], mega_graph_emit(g, &d).id);
    if (op->in[ATTENTION_SINKS] != 0) {
        instruction n = {.kind = OP_ATTENTION_SINKS_GRAD,
                         .in = {[ATTENTION_SINKS_GRAD_DOUT] = d.in[ATTENTION_GRAD_DOUT],
                                [ATTENTION_SINKS_GRAD_OUT] = op->out[ATTENTION_OUT],
                                [ATTENTION_SINKS_GRAD_LSE] = op->out[ATTENTION_LSE],
                                [ATTENTION_SINKS_GRAD_SINKS] = op->in[ATTENTION_SINKS]},
                         .out = {mega_graph_gradient_tensor(g, op->in[ATTENTION_SINKS])},
                         .attr = op->attr};
        mega_graph_emit(g, &n);
    }
    if (op->in[ATTENTION_K] == 0) return;
    mega_graph_gradient_add(g, op->in[ATTENTION_K], d.out[ATTENTION_GRAD_DK]);
    mega_graph_gradient_add(g, op->in[ATTENTION_V], d.out[ATTENTION_GRAD_DV]);
}

double mega_attention_unmasked_share(const mega_attention_shape *s)
{
    const mega_attention_rules *r = &s->rules;
    double pairs = 0.0;
    if (!r->has_window) return s->causal ? 0.5 : 1.0; /* (key_begin and key_end are not known before the run) */
    for (int64_t i = 0; i < s->seq; i++) {
        const int64_t begin = r->window_left >= 0 && i > r->window_left ? i - r->window_left : 0;
        const int64_t open = s->causal ? i + 1 : s->seq, cut = i + r->window_right + 1;
        pairs += (double)((r->window_right >= 0 && cut < open ? cut : open) - begin);
    }
    return pairs / ((double)s->seq * (double)s->seq);
}

/* Counts two matrix products forward and four backward over the (query, key) pairs that causal mask and window leave.
 * Products that a kernel recomputes are not counted. */
static op_cost attention_cost(const mega_graph *g, const instruction *op, double products)
{
    const mega_attention_shape *s = &op->attr.attention;
    const double pairs =
        (double)s->batch * (double)s->heads * (double)s->seq * (double)keys_of(s) * mega_attention_unmasked_share(s);
    double bytes = 0.0;
    for (int i = 0; i < OP_MAX_IN; i++)
        if (op->in[i] != 0) bytes += (double)mega_shape_bytes(mega_op_in(g, op, i));
    for (int i = 0; i < OP_MAX_OUT; i++)
        if (op->out[i] != 0) bytes += (double)mega_shape_bytes(&g->tensor[op->out[i]].shape);
    return (op_cost){products * 2.0 * pairs * (double)s->head_dim, bytes};
}

static op_cost attention_forward_cost(const mega_graph *g, const instruction *op)
{
    return attention_cost(g, op, 2.0);
}

static op_cost attention_grad_cost(const mega_graph *g, const instruction *op)
{
    return attention_cost(g, op, 4.0);
}

/* Q, K and V, or their gradients: addresses of row 0 and row strides. */
typedef struct qkv_columns {
    void *q, *k, *v;
    int64_t ld_q, ld_kv;
} qkv_columns;

static qkv_columns attention_widths(const op_binder *b, const mega_attention_shape *s, int32_t q, int32_t k, int32_t v)
{
    const size_t element = mega_dtype_size(b->g->dtype);
    char *const first = b->address(b, q);
    if (k != 0)
        return (qkv_columns){
            .q = first, .k = b->address(b, k), .v = b->address(b, v), .ld_q = q_width(s), .ld_kv = kv_width(s)};
    return (qkv_columns){.q = first,
                         .k = first + (size_t)q_width(s) * element,
                         .v = first + (size_t)(q_width(s) + kv_width(s)) * element,
                         .ld_q = qkv_width(s),
                         .ld_kv = qkv_width(s)};
}

/* The tensors of a forward call. */
typedef struct attention_tensors {
    int32_t q, k, v, out, lse, key_begin, key_end, sample_id, bias, sinks;
} attention_tensors;

static void fill_attention(const op_binder *b, mega_attention_args *a, const mega_attention_shape *s,
                           const attention_tensors *t)
{
    const qkv_columns x = attention_widths(b, s, t->q, t->k, t->v);
    a->out = b->address(b, t->out);
    a->lse = b->address(b, t->lse);
    a->q = x.q;
    a->k = x.k;
    a->v = x.v;
    a->key_begin = b->address(b, t->key_begin);
    a->key_end = b->address(b, t->key_end);
    a->bias = b->address(b, t->bias);
    a->sinks = b->address(b, t->sinks);
    a->sample_id = b->address(b, t->sample_id);
    a->batch = s->batch;
    a->seq = s->seq;
    a->keys = keys_of(s);
    a->heads = s->heads;
    a->kv_heads = s->kv_heads;
    a->head_dim = s->head_dim;
    a->head_begin = s->head_begin;
    a->ld_q = x.ld_q;
    a->ld_kv = x.ld_kv;
    a->ld_out = q_width(s);
    a->scale = s->scale;
    a->dropout = s->dropout;
    a->site = s->site;
    a->causal = s->causal;
    a->rules = s->rules;
}

static void attention_bind(const op_binder *b, const instruction *op, void *args)
{
    const attention_tensors t = {.q = op->in[ATTENTION_QKV],
                                 .k = op->in[ATTENTION_K],
                                 .v = op->in[ATTENTION_V],
                                 .out = op->out[ATTENTION_OUT],
                                 .lse = op->out[ATTENTION_LSE],
                                 .key_begin = op->in[ATTENTION_KEY_BEGIN],
                                 .key_end = op->in[ATTENTION_KEY_END],
                                 .bias = op->in[ATTENTION_BIAS],
                                 .sinks = op->in[ATTENTION_SINKS],
                                 .sample_id = op->in[ATTENTION_SAMPLE_ID]};
    fill_attention(b, args, &op->attr.attention, &t);
}

const op_row mega_op_row_attention = {OP_ROW(attention, 8, 2, attention),
                                      .optional_in = 1u << ATTENTION_KEY_BEGIN | 1u << ATTENTION_KEY_END |
                                                     1u << ATTENTION_SAMPLE_ID | 1u << ATTENTION_K | 1u << ATTENTION_V |
                                                     1u << ATTENTION_BIAS | 1u << ATTENTION_SINKS,
                                      .shape = attention_shape,
                                      .gradient = attention_gradient,
                                      .cost = attention_forward_cost,
                                      .bind = attention_bind};

/* ---- attention_grad: in dout, qkv (or q), out, lse, key_begin or none, sample_id or none, k and v or none, key_end or
 *      none, bias or none; out dqkv (or dq), dk and dv or none, dbias acc, accumulated, or none ---- */

static mega_status attention_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_attention_shape *s = &op->attr.attention;
    const int64_t rows = mega_extent_mul(s->batch, s->seq);
    MEGA_TRY(attention_check_shape(op));
    const tensor_shape o = mega_shape_2d(g->dtype, rows, mega_extent_mul(s->heads, s->head_dim));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_GRAD_DOUT, "dout", o));
    MEGA_TRY(expect_qkv(g, op, ATTENTION_GRAD_QKV, ATTENTION_GRAD_K, ATTENTION_GRAD_V));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_GRAD_OUT, "out", o));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_GRAD_LSE, "lse", mega_shape_2d(g->acc, s->heads, rows)));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_GRAD_KEY_BEGIN, "key_begin", mega_shape_1d(MEGA_I32, rows)));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_GRAD_KEY_END, "key_end", mega_shape_1d(MEGA_I32, rows)));
    MEGA_TRY(expect_bias(g, op, ATTENTION_GRAD_BIAS));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_GRAD_SAMPLE_ID, "sample_id", mega_shape_1d(MEGA_I32, rows)));
    out[ATTENTION_GRAD_DQKV] = *mega_op_in(g, op, ATTENTION_GRAD_QKV);
    out[ATTENTION_GRAD_DK] = out[ATTENTION_GRAD_DV] =
        mega_shape_2d(g->dtype, mega_extent_mul(s->batch, keys_of(s)), kv_width(s));
    out[ATTENTION_GRAD_DBIAS] = mega_shape_2d(g->acc, s->rules.bias_buckets, s->heads);
    return MEGA_OK;
}

static void attention_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_attention_grad_args *a = args;
    const mega_attention_shape *s = &op->attr.attention;
    const attention_tensors t = {.q = op->in[ATTENTION_GRAD_QKV],
                                 .k = op->in[ATTENTION_GRAD_K],
                                 .v = op->in[ATTENTION_GRAD_V],
                                 .out = op->in[ATTENTION_GRAD_OUT],
                                 .lse = op->in[ATTENTION_GRAD_LSE],
                                 .key_begin = op->in[ATTENTION_GRAD_KEY_BEGIN],
                                 .key_end = op->in[ATTENTION_GRAD_KEY_END],
                                 .bias = op->in[ATTENTION_GRAD_BIAS],
                                 .sample_id = op->in[ATTENTION_GRAD_SAMPLE_ID]};
    const qkv_columns d =
        attention_widths(b, s, op->out[ATTENTION_GRAD_DQKV], op->out[ATTENTION_GRAD_DK], op->out[ATTENTION_GRAD_DV]);
    fill_attention(b, &a->forward, s, &t);
    a->forward.head = a->head;
    a->dout = b->address(b, op->in[ATTENTION_GRAD_DOUT]);
    a->dq = d.q;
    a->dk = d.k;
    a->dv = d.v;
    a->dbias = b->address(b, op->out[ATTENTION_GRAD_DBIAS]);
    a->ld_dq = d.ld_q;
    a->ld_dkv = d.ld_kv;
    a->ld_dout = q_width(s);
}

const op_row mega_op_row_attention_grad = {
    OP_ROW(attention_grad, 10, 4, attention_grad),
    .optional_in = 1u << ATTENTION_GRAD_KEY_BEGIN | 1u << ATTENTION_GRAD_KEY_END | 1u << ATTENTION_GRAD_SAMPLE_ID |
                   1u << ATTENTION_GRAD_K | 1u << ATTENTION_GRAD_V | 1u << ATTENTION_GRAD_BIAS,
    .optional_out = 1u << ATTENTION_GRAD_DK | 1u << ATTENTION_GRAD_DV | 1u << ATTENTION_GRAD_DBIAS,
    .accumulates = 1u << ATTENTION_GRAD_DBIAS,
    .shape = attention_grad_shape,
    .cost = attention_grad_cost,
    .bind = attention_grad_bind};

/* ---- attention_sinks_grad: in dout [T, H D], out [T, H D], lse [H, T] acc, sinks [H]; out dsinks [H] acc,
 *      accumulated ---- */

static mega_status attention_sinks_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_attention_shape *s = &op->attr.attention;
    const int64_t rows = mega_extent_mul(s->batch, s->seq);
    const tensor_shape o = mega_shape_2d(g->dtype, rows, q_width(s));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_SINKS_GRAD_DOUT, "dout", o));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_SINKS_GRAD_OUT, "out", o));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_SINKS_GRAD_LSE, "lse", mega_shape_2d(g->acc, s->heads, rows)));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_SINKS_GRAD_SINKS, "sinks", mega_shape_1d(g->dtype, s->heads)));
    out[0] = mega_shape_1d(g->acc, s->heads);
    return MEGA_OK;
}

static void attention_sinks_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_attention_sinks_grad_args *a = args;
    (void)b;
    a->heads = op->attr.attention.heads;
    a->head_dim = op->attr.attention.head_dim;
}

const op_row mega_op_row_attention_sinks_grad = {
    OP_ROW(attention_sinks_grad, 4, 1, attention_sinks_grad), .accumulates = 1u << 0,
    .shape = attention_sinks_grad_shape,
    .members = MEMBERS(OUT(attention_sinks_grad, dsinks, 0), IN(attention_sinks_grad, dout, ATTENTION_SINKS_GRAD_DOUT),
                       IN(attention_sinks_grad, out, ATTENTION_SINKS_GRAD_OUT),
                       IN(attention_sinks_grad, lse, ATTENTION_SINKS_GRAD_LSE),
                       IN(attention_sinks_grad, sinks, ATTENTION_SINKS_GRAD_SINKS),
                       DIM(attention_sinks_grad, rows, ATTENTION_SINKS_GRAD_DOUT, 0)),
    .bind = attention_sinks_grad_bind};

/* ---- attention_cached: in qkv (or q), k_cache, v_cache (states, appended to), k and v or none, bias or none; out
 *      [T, H D]; for generation: no gradient ---- */

mega_tensor mega_op_attention_cached(mega_graph *g, mega_attention_qkv qkv, mega_tensor k_cache, mega_tensor v_cache,
                                     const mega_attention_shape *s)
{
    instruction op = {.kind = OP_ATTENTION_CACHED,
                      .in = {[ATTENTION_CACHED_QKV] = qkv.q.id,
                             [ATTENTION_CACHED_K_CACHE] = k_cache.id,
                             [ATTENTION_CACHED_V_CACHE] = v_cache.id,
                             [ATTENTION_CACHED_K] = qkv.k.id,
                             [ATTENTION_CACHED_V] = qkv.v.id,
                             [ATTENTION_CACHED_BIAS] = qkv.bias.id,
                             [ATTENTION_CACHED_SINKS] = qkv.sinks.id},
                      .attr = {.attention = *s}};
    return mega_graph_emit(g, &op);
}

static mega_status check_ring(const instruction *op, int64_t capacity)
{
    const mega_attention_shape *s = &op->attr.attention;
    const bool is_short = s->rules.has_window && s->rules.window_left >= 0;
    if (!s->is_ring || (is_short && capacity >= mega_extent_add(s->rules.window_left, s->seq))) return MEGA_OK;
    return MEGA_MISTAKE(
        "op attention_cached in \"%s\": a ring of %lld positions for %lld new rows and %s; expected a window "
        "to the left that has with the new rows at most the positions of the ring",
        op->scope, (long long)capacity, (long long)s->seq, is_short ? "a longer window" : "no window");
}

static mega_status attention_cached_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_attention_shape *s = &op->attr.attention;
    MEGA_TRY(attention_check_shape(op));
    if (s->dropout != 0.0 || !s->causal)
        return MEGA_MISTAKE("op attention_cached in \"%s\": dropout %g, %s; expected no dropout and causal", op->scope,
                            s->dropout, s->causal ? "causal" : "not causal");
    const int64_t rows = mega_extent_mul(s->batch, s->seq);
    MEGA_TRY(expect_qkv(g, op, ATTENTION_CACHED_QKV, ATTENTION_CACHED_K, ATTENTION_CACHED_V));
    MEGA_TRY(mega_op_check_dims(g, op, ATTENTION_CACHED_K_CACHE, "k_cache", g->dtype, 3));
    const tensor_shape cache = {
        g->dtype, 3, {s->batch, mega_op_in_dim(g, op, ATTENTION_CACHED_K_CACHE, 1), s->kv_heads * s->head_dim, 0}};
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_CACHED_K_CACHE, "k_cache", cache));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_CACHED_V_CACHE, "v_cache", cache));
    MEGA_TRY(check_ring(op, cache.dim[1]));
    MEGA_TRY(expect_bias(g, op, ATTENTION_CACHED_BIAS));
    MEGA_TRY(mega_op_check_operand(g, op, ATTENTION_CACHED_SINKS, "sinks", mega_shape_1d(g->dtype, s->heads)));
    out[0] = mega_shape_2d(g->dtype, rows, mega_extent_mul(s->heads, s->head_dim));
    return MEGA_OK;
}

static void attention_cached_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_attention_cached_args *a = args;
    const mega_attention_shape *s = &op->attr.attention;
    const qkv_columns x =
        attention_widths(b, s, op->in[ATTENTION_CACHED_QKV], op->in[ATTENTION_CACHED_K], op->in[ATTENTION_CACHED_V]);
    a->q = x.q;
    a->k = x.k;
    a->v = x.v;
    a->ld_q = x.ld_q;
    a->ld_kv = x.ld_kv;
    a->ld_out = q_width(s);
}

/* Counts the cost for a full cache. */
static op_cost attention_cached_cost(const mega_graph *g, const instruction *op)
{
    const mega_attention_shape *s = &op->attr.attention;
    const double keys = (double)mega_op_in_dim(g, op, ATTENTION_CACHED_K_CACHE, 1);
    const double bytes = 2.0 * (double)mega_shape_bytes(mega_op_in(g, op, ATTENTION_CACHED_K_CACHE));
    return (op_cost){4.0 * (double)(s->batch * s->seq * s->heads * s->head_dim) * keys, bytes};
}

const op_row mega_op_row_attention_cached = {
    OP_ROW(attention_cached, 7, 1, attention_cached),
    .optional_in = 1u << ATTENTION_CACHED_K | 1u << ATTENTION_CACHED_V | 1u << ATTENTION_CACHED_BIAS |
                   1u << ATTENTION_CACHED_SINKS,
    .mutates = 1u << ATTENTION_CACHED_K_CACHE | 1u << ATTENTION_CACHED_V_CACHE,
    .shape = attention_cached_shape,
    .cost = attention_cached_cost,
    .members = MEMBERS(
        OUT(attention_cached, out, 0), IN(attention_cached, k_cache, ATTENTION_CACHED_K_CACHE),
        IN(attention_cached, v_cache, ATTENTION_CACHED_V_CACHE), IN(attention_cached, bias, ATTENTION_CACHED_BIAS),
        IN(attention_cached, sinks, ATTENTION_CACHED_SINKS),
        DIM(attention_cached, capacity, ATTENTION_CACHED_K_CACHE, 1), ATTR(attention_cached, batch, attention.batch),
        ATTR(attention_cached, rows, attention.seq), ATTR(attention_cached, heads, attention.heads),
        ATTR(attention_cached, kv_heads, attention.kv_heads), ATTR(attention_cached, head_dim, attention.head_dim),
        ATTR(attention_cached, head_begin, attention.head_begin), ATTR(attention_cached, scale, attention.scale),
        ATTR(attention_cached, is_ring, attention.is_ring), ATTR(attention_cached, rules, attention.rules)),
    .bind = attention_cached_bind};
