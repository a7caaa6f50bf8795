/* Attention of F32 by multiply-adds, with a running maximum and sum: a block has 16 queries of a head, a warp four of
 * them. Of each tile of 32 keys a lane has the score of one; for the sum of values it has some channels. Part of
 * attention.cu. */

/* Of one query: the sum of the values, and the maximum and the sum of the exponentials. (In one struct with them, clang
 * would leave the array in memory.) */
typedef struct query_values {
    float out[ATTENTION_MOST_DIM / 32];
} query_values;
typedef struct query_state {
    float max, sum;
} query_state;

/* Adds a tile of keys, from j0 on, to query i. `share`: one number a lane; `biases`: by key. */
BODY void query_add(const mega_attention_args *a, int dims, query_values *v, query_state *q, const float *keys,
                    const float *values, float *share, const float *biases, int64_t row, int64_t h, int64_t i,
                    int64_t j0, float slope)
{
    const int64_t lane = thread_x() % 32, j = j0 + lane;
    const keys_seen seen = seen_by_query(a, row, i);
    const bool is_seen = j >= seen.begin && j < seen.end;
    const float dot =
        tile_dot(keys + lane * (a->head_dim + 1), a->q, MEGA_F32, row * a->ld_q + h * a->head_dim, (int)a->head_dim);
    const float bias = a->bias != NULL ? biases[lane + ATTENTION_OWN - 1] : 0.0f;
    const float score = is_seen ? score_of(a->scale, &a->rules, dot, slope, bias, i, j).value : minus_infinity();
    /* A NaN is no maximum, but its probability and so the sum are NaN. */
    const float max = device_max(warp_max(score == score ? score : minus_infinity()), q->max);
    const float fade = q->max == max ? 1.0f : exp_of(q->max - max); /* (both may be -infinity) */
    const float p = is_seen ? exp_of(score - max) : 0.0f;
    q->max = max;
    q->sum = q->sum * fade + warp_sum(p);
    warp_barrier(); /* what the query before left has been read */
    share[lane] = is_seen ? p * keep_factor(a, a->head.step, row, h, i, j) : 0.0f;
    warp_barrier();
    UNROLL
    for (int n = 0; n < ATTENTION_MOST_DIM / 32; n++) /* (clang unrolls it for each head size only in this form) */
        if (n < dims) v->out[n] *= fade;
    tile_add(v->out, dims, share, values, (int)a->head_dim);
}

BODY void query_store(const mega_attention_args *a, int dims, const query_values *v, const query_state *q,
                      int64_t row, int64_t h)
{
    const int64_t lane = thread_x() % 32;
    const bool has_keys = q->sum != 0.0f; /* or a NaN */
    const float inverse = has_keys ? device_divide(1.0f, q->sum) : 0.0f;
    UNROLL
    for (int n = 0; n < ATTENTION_MOST_DIM / 32; n++)
        if (n < dims && lane + 32 * n < a->head_dim)
            put(a->out, MEGA_F32, row * a->ld_out + h * a->head_dim + lane + 32 * n, v->out[n] * inverse);
    if (lane == 0) ((float *)a->lse)[h * a->batch * a->seq + row] = has_keys ? q->max + log_of(q->sum) : 0.0f;
}

BODY void attention_f32_run(const mega_attention_args *a, int dims)
{
    SHARED_DYNAMIC(float, keys);
    const int64_t size = ATTENTION_TILE * (a->head_dim + 1), h = block_y(), b = block_z();
    float *const values = keys + size, *const share = values + size + thread_x() / 32 * 32;
    float *const biases = values + size + ATTENTION_THREADS;
    const int64_t first = (int64_t)block_x() * ATTENTION_OWN, own = first + thread_x() / 32 * ATTENTION_WARP_OWN;
    const keys_seen seen = seen_by_block(a, first, ATTENTION_OWN, ATTENTION_TILE);
    const int64_t g = key_head(a, h) * a->head_dim;
    const float slope = slope_of_head(&a->rules, a->head_begin + h);
    const float sink = a->sinks != NULL ? get(a->sinks, MEGA_F32, h) : minus_infinity();
#define BEGIN(r)                  \
    query_values v##r = {{0.0f}}; \
    query_state q##r = {sink, a->sinks != NULL ? 1.0f : 0.0f};
    EACH_OWN(BEGIN)
    for (int64_t j = seen.begin; j < seen.end; j += ATTENTION_TILE) {
        const int64_t at = (b * a->keys + j) * a->ld_kv + g;
        block_barrier(); /* the tile before has been used */
        tile_load(keys, a->k, MEGA_F32, at, a->ld_kv, a->keys - j, (int)a->head_dim);
        tile_load(values, a->v, MEGA_F32, at, a->ld_kv, a->keys - j, (int)a->head_dim);
        biases_load(biases, ATTENTION_BIASES, a->bias, MEGA_F32, &a->rules, a->heads, h, j - first - ATTENTION_OWN + 1);
        block_barrier();
#define ADD(r)              \
    if (own + (r) < a->seq) \
        query_add(a, dims, &v##r, &q##r, keys, values, share, biases + first - own - (r), b * a->seq + own + (r), h, \
                  own + (r), j, slope);
        EACH_OWN(ADD)
    }
#define STORE(r) \
    if (own + (r) < a->seq) query_store(a, dims, &v##r, &q##r, b * a->seq + own + (r), h);
    EACH_OWN(STORE)
}

#undef BEGIN
#undef ADD
#undef STORE

ATTENTION_F32_KERNEL(attention, mega_attention_args, 64)
ATTENTION_F32_KERNEL(attention, mega_attention_args, 128)
ATTENTION_F32_KERNEL(attention, mega_attention_args, 256)
