/* Gradient of attention of F32 by multiply-adds: a block has 16 queries, or keys, a warp four of them. Part of
 * attention_grad.cu. */

/* The gradients of one query (row of a head) and key. */
BODY pair_grad pair_grad_f32(const mega_attention_grad_args *g, float dot, float dp, float slope, float bias,
                             int64_t row, int64_t h, int64_t i, int64_t j)
{
    const mega_attention_args *const a = &g->forward;
    const int64_t at = h * a->batch * a->seq + row;
    return pair_grad_of(a, dot, dp, slope, bias, keep_factor(a, g->head.step, row, h, i, j),
                        ((const float *)a->lse)[at], ((const float *)g->head.scratch)[at], i, j);
}

/* The gradient of one query. */
typedef struct query_grad {
    float dq[ATTENTION_MOST_DIM / 32];
} query_grad;

/* Adds a tile of keys, from j0 on, to query i. `share`: one number a lane; `biases`: by key. */
BODY void query_grad_add(const mega_attention_grad_args *g, int dims, query_grad *q, const float *keys,
                         const float *values, float *share, const float *biases, int64_t b, int64_t h, int64_t i,
                         int64_t j0, float slope)
{
    const mega_attention_args *const a = &g->forward;
    const int64_t D = a->head_dim, lane = thread_x() % 32, row = b * a->seq + i, j = j0 + lane;
    const keys_seen seen = seen_by_query(a, row, i);
    const float dot = tile_dot(keys + lane * (D + 1), a->q, MEGA_F32, row * a->ld_q + h * D, (int)D);
    const float dp = tile_dot(values + lane * (D + 1), g->dout, MEGA_F32, row * g->ld_dout + h * D, (int)D);
    const bool is_seen = j >= seen.begin && j < seen.end;
    const float bias = a->bias != NULL ? biases[lane + ATTENTION_OWN - 1] : 0.0f;
    warp_barrier(); /* what the query before left has been read */
    share[lane] = is_seen ? pair_grad_f32(g, dot, dp, slope, bias, row, h, i, j).ds : 0.0f;
    warp_barrier();
    tile_add(q->dq, dims, share, keys, (int)D);
}

BODY void query_grad_store(const mega_attention_grad_args *g, int dims, const query_grad *q, int64_t row,
                           int64_t h)
{
    const int64_t lane = thread_x() % 32, D = g->forward.head_dim;
    UNROLL
    for (int n = 0; n < ATTENTION_MOST_DIM / 32; n++)
        if (n < dims && lane + 32 * n < D)
            put(g->dq, MEGA_F32, row * g->ld_dq + h * D + lane + 32 * n, q->dq[n] * (float)g->forward.scale);
}

BODY void attention_grad_q_f32_run(const mega_attention_grad_args *g, int dims)
{
    SHARED_DYNAMIC(float, keys);
    const mega_attention_args *const a = &g->forward;
    const int64_t D = a->head_dim, size = ATTENTION_TILE * (D + 1), h = block_y(), b = block_z();
    float *const values = keys + size, *const share = values + size + thread_x() / 32 * 32;
    float *const biases = values + size + ATTENTION_THREADS;
    const int64_t first = (int64_t)block_x() * ATTENTION_OWN, own = first + thread_x() / 32 * ATTENTION_WARP_OWN;
    const keys_seen seen = seen_by_block(a, first, ATTENTION_OWN, ATTENTION_TILE);
    const float slope = slope_of_head(&a->rules, a->head_begin + h);
#define BEGIN(r) query_grad q##r = {{0.0f}};
    EACH_OWN(BEGIN)
    for (int64_t j = seen.begin; j < seen.end; j += ATTENTION_TILE) {
        const int64_t at = (b * a->keys + j) * a->ld_kv + key_head(a, h) * D;
        block_barrier(); /* the tile before has been used */
        tile_load(keys, a->k, MEGA_F32, at, a->ld_kv, a->keys - j, (int)D);
        tile_load(values, a->v, MEGA_F32, at, a->ld_kv, a->keys - j, (int)D);
        biases_load(biases, ATTENTION_BIASES, a->bias, MEGA_F32, &a->rules, a->heads, h, j - first - ATTENTION_OWN + 1);
        block_barrier();
#define ADD(r)              \
    if (own + (r) < a->seq) \
        query_grad_add(g, dims, &q##r, keys, values, share, biases + first - own - (r), b, h, own + (r), j, slope);
        EACH_OWN(ADD)
    }
#define STORE(r) \
    if (own + (r) < a->seq) query_grad_store(g, dims, &q##r, b * a->seq + own + (r), h);
    EACH_OWN(STORE)
}
#undef BEGIN
#undef ADD
#undef STORE

ATTENTION_F32_KERNEL(attention_grad_q, mega_attention_grad_args, 64)
ATTENTION_F32_KERNEL(attention_grad_q, mega_attention_grad_args, 128)
ATTENTION_F32_KERNEL(attention_grad_q, mega_attention_grad_args, 256)

/* The gradients of one key and value. */
typedef struct key_state {
    float dk[ATTENTION_MOST_DIM / 32], dv[ATTENTION_MOST_DIM / 32];
} key_state;

/* Adds a tile of queries of head h, from i0 on, to key j. `share`: two numbers a lane; `biases`: by query, the
 * last first. */
BODY void key_add(const mega_attention_grad_args *g, int dims, key_state *k, const float *queries,
                  const float *douts, float *share, const float *biases, int64_t b, int h, int i0, int j,
                  float slope)
{
    const mega_attention_args *const a = &g->forward;
    const int lane = (int)thread_x() % 32, i = i0 + lane;
    const int64_t D = a->head_dim, row = b * a->seq + i;
    const int64_t at = (b * a->keys + j) * a->ld_kv + key_head(a, h) * D;
    const float dot = tile_dot(queries + lane * (D + 1), a->k, MEGA_F32, at, (int)D);
    const float dp = tile_dot(douts + lane * (D + 1), a->v, MEGA_F32, at, (int)D);
    pair_grad p = {0.0f, 0.0f, 0.0f};
    if (i < a->seq) {
        const keys_seen seen = seen_by_query(a, row, i);
        const float bias = a->bias != NULL ? biases[ATTENTION_TILE - 1 - lane] : 0.0f;
        if (j >= seen.begin && j < seen.end) p = pair_grad_f32(g, dot, dp, slope, bias, row, h, i, j);
    }
    warp_barrier(); /* what the key before left has been read */
    share[lane] = p.ds;
    share[32 + lane] = p.pm;
    warp_barrier();
    tile_add(k->dk, dims, share, queries, (int)D);
    tile_add(k->dv, dims, share + 32, douts, (int)D);
}

BODY void key_store(const mega_attention_grad_args *g, int dims, const key_state *k, int64_t row,
                    int64_t kv)
{
    const mega_attention_args *const a = &g->forward;
    const int64_t lane = thread_x() % 32;
    UNROLL
    for (int n = 0; n < ATTENTION_MOST_DIM / 32; n++) {
        const int64_t d = lane + 32 * n, at = row * g->ld_dkv + kv * a->head_dim + d;
        if (n >= dims || d >= a->head_dim) continue;
        put(g->dk, MEGA_F32, at, k->dk[n] * (float)a->scale);
        put(g->dv, MEGA_F32, at, k->dv[n]);
    }
}

BODY void attention_grad_kv_f32_run(const mega_attention_grad_args *g, int dims)
{
    SHARED_DYNAMIC(float, queries);
    const mega_attention_args *const a = &g->forward;
    const int64_t D = a->head_dim, size = ATTENTION_TILE * (D + 1), kv = block_y(), b = block_z();
    float *const douts = queries + size, *const share = douts + size + thread_x() / 32 * 64;
    float *const biases = douts + size + 2 * ATTENTION_THREADS;
    const int first = (int)block_x() * ATTENTION_OWN, own = first + (int)thread_x() / 32 * ATTENTION_WARP_OWN;
#define BEGIN(r) key_state k##r = {{0.0f}, {0.0f}};
    EACH_OWN(BEGIN)
    for (int h = 0; h < (int)a->heads; h++) {
        if (key_head(a, h) != kv) continue;
        const float slope = slope_of_head(&a->rules, a->head_begin + h);
        for (int i = a->causal ? first / ATTENTION_TILE * ATTENTION_TILE : 0; i < a->seq; i += ATTENTION_TILE) {
            const int64_t row = b * a->seq + i;
            block_barrier(); /* the tile before has been used */
            tile_load(queries, a->q, MEGA_F32, row * a->ld_q + h * D, a->ld_q, a->seq - i, (int)D);
            tile_load(douts, g->dout, MEGA_F32, row * g->ld_dout + h * D, g->ld_dout, a->seq - i, (int)D);
            biases_load(biases, ATTENTION_BIASES, a->bias, MEGA_F32, &a->rules, a->heads, h,
                        first - (i + ATTENTION_TILE - 1));
            block_barrier();
#define ADD(r)               \
    if (own + (r) < a->keys) \
        key_add(g, dims, &k##r, queries, douts, share, biases + own - first + (r), b, h, i, own + (r), slope);
            EACH_OWN(ADD)
        }
    }
#define STORE(r) \
    if (own + (r) < a->keys) key_store(g, dims, &k##r, b * a->keys + own + (r), kv);
    EACH_OWN(STORE)
}

ATTENTION_F32_KERNEL(attention_grad_kv, mega_attention_grad_args, 128)
ATTENTION_F32_KERNEL(attention_grad_kv, mega_attention_grad_args, 256)
