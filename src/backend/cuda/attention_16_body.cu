/* Attention of 16-bit numbers by tensor cores, with a running maximum and sum, as in FlashAttention-2 (Dao 2023): while
 * a block multiplies queries with keys it fetches the values of the same tile, and while it multiplies with those, the
 * next keys. Part of attention.cu. */

/* Of a lane: its two queries, one of them eight after the other. */
typedef struct lane_queries {
    int i[2], begin[2], end[2]; /* the keys that they see */
    float max[2], sum[2];       /* sum: of the keys that this lane has */
} lane_queries;

BODY lane_queries lane_begin(const mega_attention_args *a, mega_dtype t, int64_t b, int64_t h, int first)
{
    const float sink = a->sinks != NULL ? get(a->sinks, t, h) : minus_infinity();
    const bool adds_sink = a->sinks != NULL && thread_x() % 4 == 0; /* one of the lanes of a query */
    lane_queries q;
    UNROLL
    for (int r = 0; r < 2; r++) {
        q.i[r] = first + (int)thread_x() % 32 / 4 + r * 8;
        q.begin[r] = q.end[r] = 0;
        if (q.i[r] < a->seq) {
            const keys_seen s = seen_by_query(a, b * a->seq + q.i[r], q.i[r]);
            q.begin[r] = (int)s.begin, q.end[r] = (int)s.end;
        }
        q.max[r] = sink, q.sum[r] = adds_sink ? 1.0f : 0.0f;
    }
    return q;
}

/* Makes scores of the products of a tile of keys, from j0 on, with queries of a block from `first` on. */
BODY void tile_scores(const mega_attention_args *a, const lane_queries *q, float (*s)[4], int tile, int j0, float slope,
                      const float *biases, int first)
{
    const int column = (int)thread_x() % 4 * 2;
    const float scale = (float)a->scale, cap = (float)a->rules.softcap;
    EACH_8(n, ATTENTION_16_MOST_TILE, tile) EACH_NUMBER(e) s[n][e] *= scale;
    if (cap > 0.0f) {
        EACH_8(n, ATTENTION_16_MOST_TILE, tile)
        EACH_NUMBER(e) s[n][e] = cap * device_tanh(device_divide(s[n][e], cap));
    }
    if (slope != 0.0f) {
        EACH_8(n, ATTENTION_16_MOST_TILE, tile)
        EACH_NUMBER(e) s[n][e] += slope * (float)(j0 + n * 8 + column + e % 2 - q->i[e / 2]);
    }
    if (a->bias != NULL) {
        EACH_8(n, ATTENTION_16_MOST_TILE, tile)
        EACH_NUMBER(e) s[n][e] += biases[n * 8 + column + e % 2 - (q->i[e / 2] - first) + ATTENTION_16_OWN - 1];
    }
}

/* Makes probabilities of scores, as they are before they are divided by their sum, and lets the earlier ones fade. */
BODY void tile_probabilities(lane_queries *q, float (*s)[4], int tile, int j0, float fade[2])
{
    const int column = j0 + (int)thread_x() % 4 * 2;
    float max[2] = {q->max[0], q->max[1]}, sum[2] = {0.0f, 0.0f};
    EACH_8(n, ATTENTION_16_MOST_TILE, tile) EACH_NUMBER(e)
    {
        const int j = column + n * 8 + e % 2, r = e / 2;
        if (j >= q->begin[r] && j < q->end[r] && s[n][e] == s[n][e]) max[r] = device_max(s[n][e], max[r]);
    }
    UNROLL
    for (int r = 0; r < 2; r++) {
        max[r] = device_max(max[r], warp_xor(max[r], 1)); /* a NaN is no maximum, but its probability is one */
        max[r] = device_max(max[r], warp_xor(max[r], 2));
        fade[r] = q->max[r] == max[r] ? 1.0f : exp_of(q->max[r] - max[r]); /* (both may be -infinity) */
        q->max[r] = max[r];
    }
    EACH_8(n, ATTENTION_16_MOST_TILE, tile) EACH_NUMBER(e)
    {
        const int j = column + n * 8 + e % 2, r = e / 2;
        s[n][e] = j >= q->begin[r] && j < q->end[r] ? exp_of(s[n][e] - max[r]) : 0.0f;
        sum[r] += s[n][e];
    }
    UNROLL
    for (int r = 0; r < 2; r++) q->sum[r] = q->sum[r] * fade[r] + sum[r];
}

BODY void tile_drop(const uint8_t *keep, float scale, float (*s)[4], int tile, int row)
{
    if (!(scale > 0.0f)) return;
    EACH_8(n, ATTENTION_16_MOST_TILE, tile)
    {
        EACH_NUMBER(e)
            s[n][e] *= kept(keep, scale, tile, row + e / 2 * 8, n * 8 + (int)thread_x() % 4 * 2 + e % 2);
    }
}

/* Writes lse, and leaves in q->sum what the sums of values are to be multiplied by. */
BODY void lane_finish(const mega_attention_args *a, lane_queries *q, int64_t b, int64_t h)
{
    UNROLL
    for (int r = 0; r < 2; r++) {
        float sum = q->sum[r] + warp_xor(q->sum[r], 1);
        sum += warp_xor(sum, 2);
        const bool has_keys = sum != 0.0f; /* or a NaN */
        q->sum[r] = has_keys ? device_divide(1.0f, sum) : 0.0f;
        if (thread_x() % 4 == 0 && q->i[r] < a->seq)
            ((float *)a->lse)[(h * a->batch + b) * a->seq + q->i[r]] = has_keys ? q->max[r] + log_of(sum) : 0.0f;
    }
}

BODY void attention_16_run(const mega_attention_args *a, mega_dtype t, int dim, int tile)
{
    SHARED_DYNAMIC(uint16_t, queries);
    uint16_t *const keys = queries + ATTENTION_16_OWN * (dim + 8), *const values = keys + tile * (dim + 8);
    float *const biases = (float *)(values + tile * (dim + 8));
    uint8_t *const keep = (uint8_t *)(biases + ATTENTION_16_OWN + tile);
    const int first = (int)block_x() * ATTENTION_16_OWN, row = (int)thread_x() / 32 * 16, D = (int)a->head_dim;
    const int64_t h = block_y(), b = block_z(), at = b * a->keys * a->ld_kv + key_head(a, h) * D;
    const keys_seen seen = seen_by_block(a, first, ATTENTION_16_OWN, tile);
    const float slope = slope_of_head(&a->rules, a->head_begin + h), scale = keep_scale(a);
    lane_queries q = lane_begin(a, t, b, h, first + row);
    float out[ATTENTION_MOST_DIM / 8][4], s[8][4], fade[2];
    head_clear(out, dim);
    head_fetch(queries, ATTENTION_16_OWN, dim, a->q, (b * a->seq + first) * a->ld_q + h * D, a->ld_q, a->seq - first,
               D);
    head_fetch(keys, tile, dim, a->k, at + seen.begin * a->ld_kv, a->ld_kv, a->keys - seen.begin, D);
    copy_async_commit();
    for (int64_t j = seen.begin; j < seen.end; j += tile) {
        biases_load(biases, ATTENTION_16_OWN + tile - 1, a->bias, t, &a->rules, a->heads, h,
                    j - (first + ATTENTION_16_OWN - 1));
        keep_load(keep, a, a->head.step, b, h, first, ATTENTION_16_OWN, j, tile);
        copy_async_wait(0);
        block_barrier(); /* keys, biases and bits of dropout are there; the values before have been used */
        head_fetch(values, tile, dim, a->v, at + j * a->ld_kv, a->ld_kv, a->keys - j, D);
        copy_async_commit();
        head_products(t, s, tile, queries, row, keys, dim, D);
        tile_scores(a, &q, s, tile, (int)j, slope, biases, first);
        tile_probabilities(&q, s, tile, (int)j, fade);
        tile_drop(keep, scale, s, tile, row + (int)thread_x() % 32 / 4);
        copy_async_wait(0);
        block_barrier(); /* the values are there; keys, biases and bits have been used */
        if (j + tile < seen.end)
            head_fetch(keys, tile, dim, a->k, at + (j + tile) * a->ld_kv, a->ld_kv, a->keys - j - tile, D);
        copy_async_commit();
        EACH_8(n, ATTENTION_MOST_DIM, dim) EACH_NUMBER(e) out[n][e] *= fade[e / 2];
        head_sums(t, out, s, tile, values, dim, D);
    }
    lane_finish(a, &q, b, h);
    head_store(a->out, t, (b * a->seq + first + row) * a->ld_out + h * D, a->ld_out, a->seq - first - row, out, dim, D,
               q.sum[0], q.sum[1]);
}

ATTENTION_16_KERNELS(attention, mega_attention_args, 64, ATTENTION_16_TILE)
ATTENTION_16_KERNELS(attention, mega_attention_args, 128, ATTENTION_16_TILE)
ATTENTION_16_KERNELS(attention, mega_attention_args, 256, ATTENTION_16_TILE)
