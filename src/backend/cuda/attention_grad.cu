/* Gradient of attention by multiply-adds (ops_attention.h), in three kernels, without atomics. First delta, the sum
 * over the channels of dout out for each query and head. Then dq, where a block has 16 queries and goes over tiles of
 * keys, and dk and dv, where it has 16 keys and goes over tiles of queries of all heads that read them. With
 * probabilities P and dropout factors M: dP = M dout v, dS = P (dP - delta), dq = scale dS k, dk = scale dS q,
 * dv = P M dout. */
#include "attention_seen.h"

/* Scratch: delta [H, B*S]. A warp has a query of a head. */
BODY void attention_delta_run(const mega_attention_grad_args *g, mega_dtype t)
{
    const mega_attention_args *const a = &g->forward;
    const int64_t row = (int64_t)block_x() * (ROW_THREADS / 32) + thread_x() / 32, h = block_y();
    const bool is_there = row < a->batch * a->seq;
    float sum = 0.0f;
    for (int64_t d = thread_x() % 32; d < a->head_dim && is_there; d += 32)
        sum += get(g->dout, t, row * g->ld_dout + h * a->head_dim + d) *
               get(a->out, t, row * a->ld_out + h * a->head_dim + d);
    sum = warp_sum(sum);
    if (is_there && thread_x() % 32 == 0) ((float *)g->head.scratch)[h * a->batch * a->seq + row] = sum;
}
KERNELS_BY_TYPE(attention_delta, mega_attention_grad_args, ROW_THREADS)

/* P M and dS of one query and key. */
typedef struct pair_grad {
    float pm, ds;
} pair_grad;

BODY pair_grad pair_grad_of(const mega_attention_grad_args *g, float dot, float dp, float slope, int64_t row, int64_t h,
                            int64_t i, int64_t j)
{
    const mega_attention_args *const a = &g->forward;
    const int64_t at = h * a->batch * a->seq + row;
    const value_slope score = score_of(a, dot, slope, i, j);
    const float p = exp_of(score.value - ((const float *)a->lse)[at]),
                keep = keep_factor(a, g->head.step, row, h, i, j);
    const pair_grad r = {p * keep, p * (keep * dp - ((const float *)g->head.scratch)[at]) * score.slope};
    return r;
}

/* The gradient of one query. */
typedef struct query_grad {
    float dq[ATTENTION_MOST_DIM / 32];
} query_grad;

/* Adds a tile of keys, from j0 on, to query i. `share`: one number a lane. */
BODY void query_grad_add(const mega_attention_grad_args *g, mega_dtype t, int dims, query_grad *q, const float *keys,
                         const float *values, float *share, int64_t b, int64_t h, int64_t i, int64_t j0, float slope)
{
    const mega_attention_args *const a = &g->forward;
    const int64_t D = a->head_dim, lane = thread_x() % 32, row = b * a->seq + i, j = j0 + lane;
    const keys_seen seen = seen_by_query(a, row, i);
    const float dot = tile_dot(keys + lane * (D + 1), a->q, t, row * a->ld_q + h * D, (int)D);
    const float dp = tile_dot(values + lane * (D + 1), g->dout, t, row * g->ld_dout + h * D, (int)D);
    const bool is_seen = j >= seen.begin && j < seen.end;
    warp_barrier(); /* what the query before left has been read */
    share[lane] = is_seen ? pair_grad_of(g, dot, dp, slope, row, h, i, j).ds : 0.0f;
    warp_barrier();
    tile_add(q->dq, dims, share, keys, (int)D);
}

BODY void query_grad_store(const mega_attention_grad_args *g, mega_dtype t, int dims, const query_grad *q, int64_t row,
                           int64_t h)
{
    const int64_t lane = thread_x() % 32, D = g->forward.head_dim;
    UNROLL
    for (int n = 0; n < dims; n++)
        if (lane + 32 * n < D)
            put(g->dq, t, row * g->ld_dq + h * D + lane + 32 * n, q->dq[n] * (float)g->forward.scale);
}

BODY void attention_grad_q_run(const mega_attention_grad_args *g, mega_dtype t, int dims)
{
    SHARED_DYNAMIC(float, keys);
    const mega_attention_args *const a = &g->forward;
    const int64_t D = a->head_dim, size = ATTENTION_TILE * (D + 1), h = block_y(), b = block_z();
    float *const values = keys + size, *const share = values + size + thread_x() / 32 * 32;
    const int64_t first = (int64_t)block_x() * ATTENTION_OWN, own = first + thread_x() / 32 * ATTENTION_WARP_OWN;
    const int64_t last = first + ATTENTION_OWN < a->seq ? first + ATTENTION_OWN - 1 : a->seq - 1;
    const int64_t end = seen_by_rules(a, last).end < a->keys ? seen_by_rules(a, last).end : a->keys;
    const float slope = slope_of_head(a, h);
#define BEGIN(r) query_grad q##r = {{0.0f}};
    EACH_OWN(BEGIN)
    for (int64_t j = seen_by_rules(a, first).begin / ATTENTION_TILE * ATTENTION_TILE; j < end; j += ATTENTION_TILE) {
        const int64_t at = (b * a->keys + j) * a->ld_kv + kv_head_of(a, h) * D;
        block_barrier(); /* the tile before has been used */
        tile_load(keys, a->k, t, at, a->ld_kv, a->keys - j, (int)D);
        tile_load(values, a->v, t, at, a->ld_kv, a->keys - j, (int)D);
        block_barrier();
#define ADD(r) \
    if (own + (r) < a->seq) query_grad_add(g, t, dims, &q##r, keys, values, share, b, h, own + (r), j, slope);
        EACH_OWN(ADD)
    }
#define STORE(r) \
    if (own + (r) < a->seq) query_grad_store(g, t, dims, &q##r, b * a->seq + own + (r), h);
    EACH_OWN(STORE)
}
#undef BEGIN
#undef ADD
#undef STORE

ATTENTION_KERNELS(attention_grad_q, mega_attention_grad_args, 64)
ATTENTION_KERNELS(attention_grad_q, mega_attention_grad_args, 128)
ATTENTION_KERNELS(attention_grad_q, mega_attention_grad_args, 256)

/* The gradients of one key and value. */
typedef struct key_state {
    float dk[ATTENTION_MOST_DIM / 32], dv[ATTENTION_MOST_DIM / 32];
} key_state;

/* Adds a tile of queries of head h, from i0 on, to key j. `share`: two numbers a lane. */
BODY void key_add(const mega_attention_grad_args *g, mega_dtype t, int dims, key_state *k, const float *queries,
                  const float *douts, float *share, int64_t b, int h, int i0, int j, float slope)
{
    const mega_attention_args *const a = &g->forward;
    const int lane = (int)thread_x() % 32, i = i0 + lane;
    const int64_t D = a->head_dim, row = b * a->seq + i;
    const int64_t at = (b * a->keys + j) * a->ld_kv + kv_head_of(a, h) * D;
    const float dot = tile_dot(queries + lane * (D + 1), a->k, t, at, (int)D);
    const float dp = tile_dot(douts + lane * (D + 1), a->v, t, at, (int)D);
    pair_grad p = {0.0f, 0.0f};
    if (i < a->seq) {
        const keys_seen seen = seen_by_query(a, row, i);
        if (j >= seen.begin && j < seen.end) p = pair_grad_of(g, dot, dp, slope, row, h, i, j);
    }
    warp_barrier(); /* what the key before left has been read */
    share[lane] = p.ds;
    share[32 + lane] = p.pm;
    warp_barrier();
    tile_add(k->dk, dims, share, queries, (int)D);
    tile_add(k->dv, dims, share + 32, douts, (int)D);
}

BODY void key_store(const mega_attention_grad_args *g, mega_dtype t, int dims, const key_state *k, int64_t row,
                    int64_t kv)
{
    const mega_attention_args *const a = &g->forward;
    const int64_t lane = thread_x() % 32;
    UNROLL
    for (int n = 0; n < dims; n++) {
        const int64_t d = lane + 32 * n, at = row * g->ld_dkv + kv * a->head_dim + d;
        if (d >= a->head_dim) continue;
        put(g->dk, t, at, k->dk[n] * (float)a->scale);
        put(g->dv, t, at, k->dv[n]);
    }
}

BODY void attention_grad_kv_run(const mega_attention_grad_args *g, mega_dtype t, int dims)
{
    SHARED_DYNAMIC(float, queries);
    const mega_attention_args *const a = &g->forward;
    const int64_t D = a->head_dim, size = ATTENTION_TILE * (D + 1), kv = block_y(), b = block_z();
    float *const douts = queries + size, *const share = douts + size + thread_x() / 32 * 64;
    const int first = (int)block_x() * ATTENTION_OWN, own = first + (int)thread_x() / 32 * ATTENTION_WARP_OWN;
#define BEGIN(r) key_state k##r = {{0.0f}, {0.0f}};
    EACH_OWN(BEGIN)
    for (int h = 0; h < (int)a->heads; h++) {
        if (kv_head_of(a, h) != kv) continue;
        const float slope = slope_of_head(a, h);
        for (int i = a->causal ? first / ATTENTION_TILE * ATTENTION_TILE : 0; i < a->seq; i += ATTENTION_TILE) {
            const int64_t row = b * a->seq + i;
            block_barrier(); /* the tile before has been used */
            tile_load(queries, a->q, t, row * a->ld_q + h * D, a->ld_q, a->seq - i, (int)D);
            tile_load(douts, g->dout, t, row * g->ld_dout + h * D, g->ld_dout, a->seq - i, (int)D);
            block_barrier();
#define ADD(r) \
    if (own + (r) < a->keys) key_add(g, t, dims, &k##r, queries, douts, share, b, h, i, own + (r), slope);
            EACH_OWN(ADD)
        }
    }
#define STORE(r) \
    if (own + (r) < a->keys) key_store(g, t, dims, &k##r, b * a->keys + own + (r), kv);
    EACH_OWN(STORE)
}

ATTENTION_KERNELS(attention_grad_kv, mega_attention_grad_args, 128)
ATTENTION_KERNELS(attention_grad_kv, mega_attention_grad_args, 256)
