/* Attention over the heads of this rank. Q, K and V are column ranges of one tensor qkv [T, (H + 2G) D], read in place
 * through row strides. Their gradients are written the same way, so that nothing is copied. */
#include "graph_impl.h"

/* Operands. */
enum {
    ATTENTION_GRAD_DOUT,
    ATTENTION_GRAD_QKV,
    ATTENTION_GRAD_OUT,
    ATTENTION_GRAD_LSE,
    ATTENTION_GRAD_SEGMENT_START,
    ATTENTION_GRAD_SAMPLE_ID
};
enum { ATTENTION_CACHED_QKV, ATTENTION_CACHED_K_CACHE, ATTENTION_CACHED_V_CACHE };

static int64_t qkv_width(const mega_attention_shape *s)
{
    return mega_extent_mul(mega_extent_add(s->heads, mega_extent_mul(2, s->kv_heads)), s->head_dim);
}

static mega_status attention_check_shape(const instruction *op)
{
    const mega_attention_shape *s = &op->attr.attention;
    const char *name = mega_op_table[op->kind]->name;
    if (s->batch < 1 || s->seq < 1 || s->heads < 1 || s->kv_heads < 1 || s->head_dim < 1 || s->heads % s->kv_heads != 0)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "op %s in \"%s\": batch %lld, sequence %lld, heads %lld of size %lld over %lld key/value "
                         "heads; expected all at least 1 and heads a multiple of key/value heads",
                         name, op->scope, (long long)s->batch, (long long)s->seq, (long long)s->heads,
                         (long long)s->head_dim, (long long)s->kv_heads);
    if (!(s->dropout >= 0.0 && s->dropout < 1.0))
        return MEGA_FAIL(MEGA_ERR_USAGE, "op %s in \"%s\": dropout %g; expected 0 <= p < 1", name, op->scope,
                         s->dropout);
    return MEGA_OK;
}

/* ---- attention: in qkv, segment_start [T] or none, sample_id [T] or none; out [T, H D], lse [H, T] acc ---- */

mega_tensor mega_op_attention(mega_graph *g, mega_tensor qkv, mega_tensor segment_start, mega_tensor sample_id,
                              const mega_attention_shape *s)
{
    instruction op = {.kind = OP_ATTENTION,
                      .in = {[ATTENTION_QKV] = qkv.id,
                             [ATTENTION_SEGMENT_START] = segment_start.id,
                             [ATTENTION_SAMPLE_ID] = sample_id.id},
                      .attr = {.attention = *s}};
    return mega_graph_emit(g, &op);
}

static mega_status attention_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_attention_shape *s = &op->attr.attention;
    const int64_t rows = mega_extent_mul(s->batch, s->seq);
    MEGA_TRY(attention_check_shape(op));
    if (s->dropout > 0.0 && op->in[ATTENTION_SAMPLE_ID] == 0)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "op attention in \"%s\": sample ids are missing; the dropout mask is addressed "
                         "by them",
                         op->scope);
    MEGA_TRY(mega_op_expect(g, op, ATTENTION_QKV, "qkv", mega_shape_2d(g->dtype, rows, qkv_width(s))));
    MEGA_TRY(mega_op_expect(g, op, ATTENTION_SEGMENT_START, "segment_start", mega_shape_1d(MEGA_I32, rows)));
    MEGA_TRY(mega_op_expect(g, op, ATTENTION_SAMPLE_ID, "sample_id", mega_shape_1d(MEGA_I32, rows)));
    out[ATTENTION_OUT] = mega_shape_2d(g->dtype, rows, mega_extent_mul(s->heads, s->head_dim));
    out[ATTENTION_LSE] = mega_shape_2d(g->acc, s->heads, rows);
    return MEGA_OK;
}

static void attention_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_ATTENTION_GRAD,
                     .in = {[ATTENTION_GRAD_DOUT] = mega_graph_arrived(g, op, ATTENTION_OUT),
                            [ATTENTION_GRAD_QKV] = op->in[ATTENTION_QKV],
                            [ATTENTION_GRAD_OUT] = op->out[ATTENTION_OUT],
                            [ATTENTION_GRAD_LSE] = op->out[ATTENTION_LSE],
                            [ATTENTION_GRAD_SEGMENT_START] = op->in[ATTENTION_SEGMENT_START],
                            [ATTENTION_GRAD_SAMPLE_ID] = op->in[ATTENTION_SAMPLE_ID]},
                     .attr = op->attr};
    mega_graph_gradient_add(g, op->in[ATTENTION_QKV], mega_graph_emit(g, &d).id);
}

/* Counts two matrix products forward and four backward over the (query, key) pairs that the mask leaves; causal: half
 * of them. Products that a kernel recomputes are not counted. */
static op_cost attention_cost(const mega_graph *g, const instruction *op, double products)
{
    const mega_attention_shape *s = &op->attr.attention;
    const double pairs =
        (double)s->batch * (double)s->heads * (double)s->seq * (double)s->seq * (s->causal ? 0.5 : 1.0);
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

/* Returns the address of column `col` of row 0. */
static void *attention_column(const op_binder *b, int32_t tensor, int64_t col)
{
    return (char *)b->address(b, tensor) + (size_t)col * mega_dtype_size(b->g->dtype);
}

static void fill_attention(const op_binder *b, mega_attention_args *a, const op_attr *attr, int32_t qkv, int32_t out,
                           int32_t lse, int32_t segment_start, int32_t sample_id)
{
    const mega_attention_shape *s = &attr->attention;
    a->out = b->address(b, out);
    a->lse = b->address(b, lse);
    a->q = attention_column(b, qkv, 0);
    a->k = attention_column(b, qkv, s->heads * s->head_dim);
    a->v = attention_column(b, qkv, (s->heads + s->kv_heads) * s->head_dim);
    a->segment_start = b->address(b, segment_start);
    a->sample_id = b->address(b, sample_id);
    a->batch = s->batch;
    a->seq = s->seq;
    a->heads = s->heads;
    a->kv_heads = s->kv_heads;
    a->head_dim = s->head_dim;
    a->head_begin = s->head_begin;
    a->ld_q = a->ld_kv = qkv_width(s);
    a->ld_out = s->heads * s->head_dim;
    a->scale = s->scale;
    a->dropout = s->dropout;
    a->site = s->site;
    a->causal = s->causal;
}

static void attention_bind(const op_binder *b, const instruction *op, void *args)
{
    fill_attention(b, args, &op->attr, op->in[ATTENTION_QKV], op->out[ATTENTION_OUT], op->out[ATTENTION_LSE],
                   op->in[ATTENTION_SEGMENT_START], op->in[ATTENTION_SAMPLE_ID]);
}

const op_row mega_op_row_attention = {.name = "attention",
                                      .num_in = 3,
                                      .num_out = 2,
                                      .optional_in = 1u << ATTENTION_SEGMENT_START | 1u << ATTENTION_SAMPLE_ID,
                                      .shape = attention_shape,
                                      .gradient = attention_gradient,
                                      .cost = attention_forward_cost,
                                      .bind = attention_bind,
                                      .plain = &mega_plain_attention,
                                      .cpu = &mega_cpu_attention};

/* ---- attention_grad: in dout, qkv, out, lse, segment_start or none, sample_id or none; out dqkv ---- */

static mega_status attention_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_attention_shape *s = &op->attr.attention;
    const int64_t rows = mega_extent_mul(s->batch, s->seq);
    MEGA_TRY(attention_check_shape(op));
    const tensor_shape o = mega_shape_2d(g->dtype, rows, mega_extent_mul(s->heads, s->head_dim));
    MEGA_TRY(mega_op_expect(g, op, ATTENTION_GRAD_DOUT, "dout", o));
    MEGA_TRY(mega_op_expect(g, op, ATTENTION_GRAD_QKV, "qkv", mega_shape_2d(g->dtype, rows, qkv_width(s))));
    MEGA_TRY(mega_op_expect(g, op, ATTENTION_GRAD_OUT, "out", o));
    MEGA_TRY(mega_op_expect(g, op, ATTENTION_GRAD_LSE, "lse", mega_shape_2d(g->acc, s->heads, rows)));
    MEGA_TRY(mega_op_expect(g, op, ATTENTION_GRAD_SEGMENT_START, "segment_start", mega_shape_1d(MEGA_I32, rows)));
    MEGA_TRY(mega_op_expect(g, op, ATTENTION_GRAD_SAMPLE_ID, "sample_id", mega_shape_1d(MEGA_I32, rows)));
    out[0] = *mega_op_in(g, op, ATTENTION_GRAD_QKV);
    return MEGA_OK;
}

static void attention_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_attention_grad_args *a = args;
    const mega_attention_shape *s = &op->attr.attention;
    fill_attention(b, &a->forward, &op->attr, op->in[ATTENTION_GRAD_QKV], op->in[ATTENTION_GRAD_OUT],
                   op->in[ATTENTION_GRAD_LSE], op->in[ATTENTION_GRAD_SEGMENT_START], op->in[ATTENTION_GRAD_SAMPLE_ID]);
    a->forward.head = a->head;
    a->dout = b->address(b, op->in[ATTENTION_GRAD_DOUT]);
    a->dq = attention_column(b, op->out[0], 0);
    a->dk = attention_column(b, op->out[0], s->heads * s->head_dim);
    a->dv = attention_column(b, op->out[0], (s->heads + s->kv_heads) * s->head_dim);
    a->ld_dq = a->ld_dkv = qkv_width(s);
    a->ld_dout = s->heads * s->head_dim;
}

const op_row mega_op_row_attention_grad = {.name = "attention_grad",
                                           .num_in = 6,
                                           .num_out = 1,
                                           .optional_in =
                                               1u << ATTENTION_GRAD_SEGMENT_START | 1u << ATTENTION_GRAD_SAMPLE_ID,
                                           .shape = attention_grad_shape,
                                           .cost = attention_grad_cost,
                                           .bind = attention_grad_bind,
                                           .plain = &mega_plain_attention_grad,
                                           .cpu = &mega_cpu_attention_grad};

/* ---- attention_cached: in qkv, k_cache, v_cache (states, appended to); out [T, H D]; for generation: no
 *      gradient ---- */

mega_tensor mega_op_attention_cached(mega_graph *g, mega_tensor qkv, mega_tensor k_cache, mega_tensor v_cache,
                                     const mega_attention_shape *s)
{
    instruction op = {.kind = OP_ATTENTION_CACHED,
                      .in = {[ATTENTION_CACHED_QKV] = qkv.id,
                             [ATTENTION_CACHED_K_CACHE] = k_cache.id,
                             [ATTENTION_CACHED_V_CACHE] = v_cache.id},
                      .attr = {.attention = *s}};
    return mega_graph_emit(g, &op);
}

static mega_status attention_cached_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_attention_shape *s = &op->attr.attention;
    MEGA_TRY(attention_check_shape(op));
    if (s->dropout != 0.0 || !s->causal)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "op attention_cached in \"%s\": dropout %g, %s; expected no dropout and causal", op->scope,
                         s->dropout, s->causal ? "causal" : "not causal");
    const int64_t rows = mega_extent_mul(s->batch, s->seq);
    MEGA_TRY(mega_op_expect(g, op, ATTENTION_CACHED_QKV, "qkv", mega_shape_2d(g->dtype, rows, qkv_width(s))));
    MEGA_TRY(mega_op_expect_dims(g, op, ATTENTION_CACHED_K_CACHE, "k_cache", g->dtype, 3));
    const tensor_shape cache = {
        g->dtype, 3, {s->batch, mega_op_in_dim(g, op, ATTENTION_CACHED_K_CACHE, 1), s->kv_heads * s->head_dim, 0}};
    MEGA_TRY(mega_op_expect(g, op, ATTENTION_CACHED_K_CACHE, "k_cache", cache));
    MEGA_TRY(mega_op_expect(g, op, ATTENTION_CACHED_V_CACHE, "v_cache", cache));
    out[0] = mega_shape_2d(g->dtype, rows, mega_extent_mul(s->heads, s->head_dim));
    return MEGA_OK;
}

static void attention_cached_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_attention_cached_args *a = args;
    const mega_attention_shape *s = &op->attr.attention;
    a->out = b->address(b, op->out[0]);
    a->k_cache = b->address(b, op->in[ATTENTION_CACHED_K_CACHE]);
    a->v_cache = b->address(b, op->in[ATTENTION_CACHED_V_CACHE]);
    a->q = attention_column(b, op->in[ATTENTION_CACHED_QKV], 0);
    a->k = attention_column(b, op->in[ATTENTION_CACHED_QKV], s->heads * s->head_dim);
    a->v = attention_column(b, op->in[ATTENTION_CACHED_QKV], (s->heads + s->kv_heads) * s->head_dim);
    a->batch = s->batch;
    a->rows = s->seq;
    a->capacity = mega_op_in_dim(b->g, op, ATTENTION_CACHED_K_CACHE, 1);
    a->heads = s->heads;
    a->kv_heads = s->kv_heads;
    a->head_dim = s->head_dim;
    a->ld_q = a->ld_kv = qkv_width(s);
    a->ld_out = s->heads * s->head_dim;
    a->scale = s->scale;
}

/* Counts the cost for a full cache. */
static op_cost attention_cached_cost(const mega_graph *g, const instruction *op)
{
    const mega_attention_shape *s = &op->attr.attention;
    const double keys = (double)mega_op_in_dim(g, op, ATTENTION_CACHED_K_CACHE, 1);
    const double bytes = 2.0 * (double)mega_shape_bytes(mega_op_in(g, op, ATTENTION_CACHED_K_CACHE));
    return (op_cost){4.0 * (double)(s->batch * s->seq * s->heads * s->head_dim) * keys, bytes};
}

const op_row mega_op_row_attention_cached = {.name = "attention_cached",
                                             .num_in = 3,
                                             .num_out = 1,
                                             .mutates = 1u << ATTENTION_CACHED_K_CACHE | 1u << ATTENTION_CACHED_V_CACHE,
                                             .shape = attention_cached_shape,
                                             .cost = attention_cached_cost,
                                             .bind = attention_cached_bind,
                                             .plain = &mega_plain_attention_cached,
                                             .cpu = &mega_cpu_attention_cached};
