/* Gradient of attention of 16-bit numbers by tensor cores. P M and dS are rounded before they are multiplied with dout,
 * keys and queries. Part of attention_grad.cu. */

/* Of dq a lane has two queries. */
typedef struct lane_query_grads {
    int i[2], begin[2], end[2]; /* the keys that they see */
    float lse[2], delta[2];
} lane_query_grads;

BODY lane_query_grads lane_grads_begin(const mega_attention_grad_args *g, int64_t b, int64_t h, int first)
{
    const mega_attention_args *const a = &g->forward;
    lane_query_grads q;
    UNROLL
    for (int r = 0; r < 2; r++) {
        q.i[r] = first + (int)thread_x() % 32 / 4 + r * 8;
        q.begin[r] = q.end[r] = 0;
        q.lse[r] = q.delta[r] = 0.0f;
        if (q.i[r] >= a->seq) continue;
        const keys_seen s = seen_by_query(a, b * a->seq + q.i[r], q.i[r]);
        const int64_t at = (h * a->batch + b) * a->seq + q.i[r];
        q.begin[r] = (int)s.begin, q.end[r] = (int)s.end;
        q.lse[r] = ((const float *)a->lse)[at], q.delta[r] = ((const float *)g->head.scratch)[at];
    }
    return q;
}

/* Makes dS of s and dp, the products with keys and values from j0 on. */
BODY void tile_query_grads(const mega_attention_args *a, const lane_query_grads *q, float (*s)[4], float (*dp)[4],
                           int tile, int j0, float slope, const float *biases, const uint8_t *keep, float scale,
                           int first)
{
    EACH_8(n, ATTENTION_16_MOST_TILE, tile)
    {
        EACH_NUMBER(e)
        {
            const int i = q->i[e / 2], c = n * 8 + (int)thread_x() % 4 * 2 + e % 2, j = j0 + c;
            const float bias = a->bias != NULL ? biases[c - (i - first) + ATTENTION_16_OWN - 1] : 0.0f;
            const float factor = kept(keep, scale, tile, i - first, c);
            const pair_grad p =
                pair_grad_of(a, s[n][e], dp[n][e], slope, bias, factor, q->lse[e / 2], q->delta[e / 2], i, j);
            s[n][e] = j >= q->begin[e / 2] && j < q->end[e / 2] ? p.ds : 0.0f;
        }
    }
}

BODY void attention_grad_q_16_run(const mega_attention_grad_args *g, mega_dtype t, int dim, int tile)
{
    SHARED_DYNAMIC(uint16_t, queries);
    const mega_attention_args *const a = &g->forward;
    const int ld = dim + 8, D = (int)a->head_dim;
    uint16_t *const douts = queries + ATTENTION_16_OWN * ld, *const keys = douts + ATTENTION_16_OWN * ld;
    uint16_t *const values = keys + tile * ld;
    float *const biases = (float *)(values + tile * ld);
    uint8_t *const keep = (uint8_t *)(biases + ATTENTION_16_OWN + tile);
    const int first = (int)block_x() * ATTENTION_16_OWN, row = (int)thread_x() / 32 * 16;
    const int64_t h = block_y(), b = block_z(), query = b * a->seq + first;
    const keys_seen seen = seen_by_block(a, first, ATTENTION_16_OWN, tile);
    const float slope = slope_of_head(&a->rules, a->head_begin + h), scale = keep_scale(a);
    const lane_query_grads q = lane_grads_begin(g, b, h, first + row);
    float dq[ATTENTION_MOST_DIM / 8][4], s[8][4], dp[8][4];
    head_clear(dq, dim);
    head_fetch(queries, ATTENTION_16_OWN, dim, a->q, query * a->ld_q + h * D, a->ld_q, a->seq - first, D);
    head_fetch(douts, ATTENTION_16_OWN, dim, g->dout, query * g->ld_dout + h * D, g->ld_dout, a->seq - first, D);
    for (int64_t j = seen.begin; j < seen.end; j += tile) {
        const int64_t at = (b * a->keys + j) * a->ld_kv + key_head(a, h) * D;
        block_barrier(); /* the tile before has been used */
        head_fetch(keys, tile, dim, a->k, at, a->ld_kv, a->keys - j, D);
        head_fetch(values, tile, dim, a->v, at, a->ld_kv, a->keys - j, D);
        copy_async_commit();
        biases_load(biases, ATTENTION_16_OWN + tile - 1, a->bias, t, &a->rules, a->heads, h,
                    j - (first + ATTENTION_16_OWN - 1));
        keep_load(keep, a, g->head.step, b, h, first, ATTENTION_16_OWN, j, tile);
        copy_async_wait(0);
        block_barrier();
        head_products(t, s, tile, queries, row, keys, dim, D);
        head_products(t, dp, tile, douts, row, values, dim, D);
        tile_query_grads(a, &q, s, dp, tile, (int)j, slope, biases, keep, scale, first);
        head_sums(t, dq, s, tile, keys, dim, D);
    }
    head_store(g->dq, t, (query + row) * g->ld_dq + h * D, g->ld_dq, a->seq - first - row, dq, dim, D, (float)a->scale,
               (float)a->scale);
}

ATTENTION_16_KERNELS(attention_grad_q, mega_attention_grad_args, 64, ATTENTION_16_GRAD_TILE)
ATTENTION_16_KERNELS(attention_grad_q, mega_attention_grad_args, 128, ATTENTION_16_GRAD_TILE)
ATTENTION_16_KERNELS(attention_grad_q, mega_attention_grad_args, 256, ATTENTION_16_GRAD_TILE)

/* What a tile of queries has for all keys of a block. */
typedef struct tile_query {
    float lse, delta;
    int begin, end; /* the keys that it sees */
} tile_query;

BODY void tile_queries_load(tile_query *to, const mega_attention_grad_args *g, int64_t b, int64_t h, int64_t i0,
                            int tile)
{
    const mega_attention_args *const a = &g->forward;
    const int64_t i = i0 + thread_x();
    tile_query q = {0.0f, 0.0f, 0, 0};
    if ((int)thread_x() >= tile) return;
    if (i < a->seq) {
        const keys_seen s = seen_by_query(a, b * a->seq + i, i);
        const int64_t at = (h * a->batch + b) * a->seq + i;
        q.lse = ((const float *)a->lse)[at], q.delta = ((const float *)g->head.scratch)[at];
        q.begin = (int)s.begin, q.end = (int)s.end;
    }
    to[thread_x()] = q;
}

/* Makes dS of s, and P M of dp: the products of keys and values with a tile of queries, from i0 on, and with dout. */
BODY void tile_key_grads(const mega_attention_args *a, const tile_query *q, float (*s)[4], float (*dp)[4], int tile,
                         int i0, int j0, float slope, const float *biases, const uint8_t *keep, float scale)
{
    EACH_8(n, ATTENTION_16_MOST_TILE, tile)
    {
        EACH_NUMBER(e)
        {
            const int r = n * 8 + (int)thread_x() % 4 * 2 + e % 2, i = i0 + r;
            const int c = (int)thread_x() / 32 * 16 + (int)thread_x() % 32 / 4 + e / 2 * 8, j = j0 + c;
            const float bias = a->bias != NULL ? biases[c - r + tile - 1] : 0.0f;
            const float factor = kept(keep, scale, ATTENTION_16_OWN, r, c);
            const pair_grad p =
                pair_grad_of(a, s[n][e], dp[n][e], slope, bias, factor, q[r].lse, q[r].delta, i, j);
            const bool is_seen = j >= q[r].begin && j < q[r].end;
            s[n][e] = is_seen ? p.ds : 0.0f;
            dp[n][e] = is_seen ? p.pm : 0.0f;
        }
    }
}

/* The queries that may see one of the keys of a block, of this head, in whole tiles. */
BODY keys_seen queries_of_block(const mega_attention_args *a, int64_t first, int tile)
{
    const mega_attention_rules *const r = &a->rules;
    keys_seen s = {a->causal ? first : 0, a->seq};
    if (r->has_window && r->window_right >= 0 && first - r->window_right > s.begin) s.begin = first - r->window_right;
    if (r->has_window && r->window_left >= 0 && first + ATTENTION_16_OWN + r->window_left < s.end)
        s.end = first + ATTENTION_16_OWN + r->window_left;
    s.begin = s.begin / tile * tile;
    return s;
}

/* dk and dv of the keys of a block, as wanted: both for up to 128 channels, beyond that one of them, since their sums
 * would not fit into the registers together. */
BODY void attention_grad_keys(const mega_attention_grad_args *g, mega_dtype t, int dim, int tile, bool wants_k,
                              bool wants_v)
{
    SHARED_DYNAMIC(uint16_t, keys);
    const mega_attention_args *const a = &g->forward;
    const int ld = dim + 8, D = (int)a->head_dim;
    uint16_t *const values = keys + ATTENTION_16_OWN * ld, *const queries = values + ATTENTION_16_OWN * ld;
    uint16_t *const douts = queries + tile * ld;
    float *const biases = (float *)(douts + tile * ld);
    uint8_t *const keep = (uint8_t *)(biases + ATTENTION_16_OWN + tile);
    tile_query *const q = (tile_query *)(keep + ATTENTION_16_OWN * tile / 8);
    const int first = (int)block_x() * ATTENTION_16_OWN, row = (int)thread_x() / 32 * 16;
    const int64_t kv = block_y(), b = block_z(), key = b * a->keys + first;
    const keys_seen seen = queries_of_block(a, first, tile);
    const float scale = keep_scale(a);
    float dk[ATTENTION_MOST_DIM / 8][4], dv[ATTENTION_MOST_DIM / 8][4], s[8][4], dp[8][4];
    head_clear(dk, dim);
    head_clear(dv, dim);
    head_fetch(keys, ATTENTION_16_OWN, dim, a->k, key * a->ld_kv + kv * D, a->ld_kv, a->keys - first, D);
    head_fetch(values, ATTENTION_16_OWN, dim, a->v, key * a->ld_kv + kv * D, a->ld_kv, a->keys - first, D);
    for (int64_t h = 0; h < a->heads; h++) {
        if (key_head(a, h) != kv) continue;
        const float slope = slope_of_head(&a->rules, a->head_begin + h);
        for (int64_t i = seen.begin; i < seen.end; i += tile) {
            const int64_t query = b * a->seq + i;
            block_barrier(); /* the tile before has been used */
            head_fetch(queries, tile, dim, a->q, query * a->ld_q + h * D, a->ld_q, a->seq - i, D);
            head_fetch(douts, tile, dim, g->dout, query * g->ld_dout + h * D, g->ld_dout, a->seq - i, D);
            copy_async_commit();
            tile_queries_load(q, g, b, h, i, tile);
            biases_load(biases, ATTENTION_16_OWN + tile - 1, a->bias, t, &a->rules, a->heads, h,
                        first - (i + tile - 1));
            keep_load(keep, a, g->head.step, b, h, i, tile, first, ATTENTION_16_OWN);
            copy_async_wait(0);
            block_barrier();
            head_products(t, s, tile, keys, row, queries, dim, D);
            head_products(t, dp, tile, values, row, douts, dim, D);
            tile_key_grads(a, q, s, dp, tile, (int)i, first, slope, biases, keep, scale);
            if (wants_v) head_sums(t, dv, dp, tile, douts, dim, D);
            if (wants_k) head_sums(t, dk, s, tile, queries, dim, D);
        }
    }
    const int64_t at = (key + row) * g->ld_dkv + kv * D, left = a->keys - first - row;
    if (wants_k) head_store(g->dk, t, at, g->ld_dkv, left, dk, dim, D, (float)a->scale, (float)a->scale);
    if (wants_v) head_store(g->dv, t, at, g->ld_dkv, left, dv, dim, D, 1.0f, 1.0f);
}

BODY void attention_grad_kv_16_run(const mega_attention_grad_args *g, mega_dtype t, int dim, int tile)
{
    attention_grad_keys(g, t, dim, tile, true, true);
}

BODY void attention_grad_k_16_run(const mega_attention_grad_args *g, mega_dtype t, int dim, int tile)
{
    attention_grad_keys(g, t, dim, tile, true, false);
}

BODY void attention_grad_v_16_run(const mega_attention_grad_args *g, mega_dtype t, int dim, int tile)
{
    attention_grad_keys(g, t, dim, tile, false, true);
}

ATTENTION_16_KERNELS(attention_grad_kv, mega_attention_grad_args, 64, ATTENTION_16_KEY_TILE)
ATTENTION_16_KERNELS(attention_grad_kv, mega_attention_grad_args, 128, ATTENTION_16_KEY_TILE)
ATTENTION_16_KERNELS(attention_grad_k, mega_attention_grad_args, 256, ATTENTION_16_KEY_TILE)
ATTENTION_16_KERNELS(attention_grad_v, mega_attention_grad_args, 256, ATTENTION_16_KEY_TILE)
