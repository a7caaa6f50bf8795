/* Attention of new rows over a cache (ops_attention.h), in two kernels: the new keys and values are appended, a thread
 * has eight elements; then a block has a query of a head. Its warps take turns with tiles of 32 keys, of which a lane
 * has one, and then some channels of the values; at last their sums are put together. By multiply-adds: one query
 * reads each key once. */
#include "attention_seen.h"

enum { CACHED_WARPS = ATTENTION_THREADS / 32 };
typedef struct cached_shared {
    float query[ATTENTION_MOST_DIM];
    float share[CACHED_WARPS][32];
    int64_t at[CACHED_WARPS][32]; /* of values */
    float max[CACHED_WARPS], sum[CACHED_WARPS], out[CACHED_WARPS][ATTENTION_MOST_DIM];
} cached_shared;

BODY void attention_cached_append_run(const mega_attention_cached_args *a, mega_dtype t)
{
    const int64_t cols = a->kv_heads * a->head_dim;
    for (place p = place_first(a->batch * a->rows, cols); place_goes_on(&p); place_next(&p)) {
        const int64_t b = p.row / a->rows, position = a->head.step->kv_length[b] + p.row % a->rows;
        if (p.left <= 0 || (!a->is_ring && position >= a->capacity)) continue;
        const int64_t to = (b * a->capacity + position % a->capacity) * cols + p.col, from = p.row * a->ld_kv + p.col;
        store_eight(a->k_cache, t, to, p.left, load_eight(a->k, t, from, p.left));
        store_eight(a->v_cache, t, to, p.left, load_eight(a->v, t, from, p.left));
    }
}
KERNELS_BY_TYPE(attention_cached_append, mega_attention_cached_args, EIGHT_THREADS)

/* Of a warp: the sum of values of its keys, a lane has channels lane + 32 n, and the maximum and the sum of the
 * exponentials, of the lane's keys. */
typedef struct cached_state {
    float out[ATTENTION_MOST_DIM / 32];
    float max, sum;
} cached_state;

/* The product of the query with a key in the cache. */
BODY float cached_dot(const mega_attention_cached_args *a, mega_dtype t, const float *query, int64_t at)
{
    float sum = 0.0f;
    for (int64_t d = 0; d < a->head_dim; d += 8) {
        const eight k = load_eight(a->k_cache, t, at + d, a->head_dim - d);
        UNROLL
        for (int e = 0; e < 8; e++) sum = device_fma(query[d + e], k.v[e], sum);
    }
    return sum;
}

/* Adds keys j0 to j0 + 31 of those up to `last`, which is the query's own. `base`: of the head in the cache. */
BODY void cached_add(const mega_attention_cached_args *a, mega_dtype t, cached_state *q, cached_shared *s, int64_t base,
                     int64_t h, int64_t j0, int64_t last, float slope)
{
    const int lane = (int)thread_x() % 32, warp = (int)thread_x() / 32;
    const int64_t j = j0 + lane, at = base + j % a->capacity * a->kv_heads * a->head_dim;
    const bool is_seen = j <= last;
    float score = minus_infinity(), bias = 0.0f;
    if (is_seen) {
        if (a->bias != NULL) bias = get(a->bias, t, bucket_of_distance(&a->rules, j - last) * a->heads + h);
        score = score_of(a->scale, &a->rules, cached_dot(a, t, s->query, at), slope, bias, last, j).value;
    }
    const float max = device_max(warp_max(score == score ? score : minus_infinity()), q->max); /* as attention does */
    const float fade = q->max == max ? 1.0f : exp_of(q->max - max), p = is_seen ? exp_of(score - max) : 0.0f;
    q->max = max;
    q->sum = q->sum * fade + p;
    warp_barrier(); /* the keys before have been used */
    s->share[warp][lane] = p;
    s->at[warp][lane] = at;
    warp_barrier();
    UNROLL
    for (int n = 0; n < ATTENTION_MOST_DIM / 32; n++) q->out[n] *= fade;
    for (int k = 0; k < 32 && j0 + k <= last; k++) {
        UNROLL
        for (int n = 0; n < ATTENTION_MOST_DIM / 32; n++)
            if (lane + 32 * n < a->head_dim)
                q->out[n] =
                    device_fma(s->share[warp][k], get(a->v_cache, t, s->at[warp][k] + lane + 32 * n), q->out[n]);
    }
}

/* Puts together what the warps have, in their order. */
BODY void cached_store(const mega_attention_cached_args *a, mega_dtype t, const cached_state *q, cached_shared *s,
                       int64_t to)
{
    const int lane = (int)thread_x() % 32, warp = (int)thread_x() / 32;
    const float own = warp_sum(q->sum);
    float max = minus_infinity(), sum = 0.0f, factor[CACHED_WARPS];
    if (lane == 0) s->max[warp] = q->max, s->sum[warp] = own;
    UNROLL
    for (int n = 0; n < ATTENTION_MOST_DIM / 32; n++) s->out[warp][lane + 32 * n] = q->out[n];
    block_barrier();
    UNROLL
    for (int w = 0; w < CACHED_WARPS; w++) max = device_max(s->max[w], max);
    UNROLL
    for (int w = 0; w < CACHED_WARPS; w++) {
        factor[w] = s->sum[w] == 0.0f ? 0.0f : exp_of(s->max[w] - max); /* 0: the warp had no key */
        sum += s->sum[w] * factor[w];
    }
    for (int64_t d = thread_x(); d < a->head_dim; d += ATTENTION_THREADS) {
        float out = 0.0f;
        UNROLL
        for (int w = 0; w < CACHED_WARPS; w++) out = device_fma(s->out[w][d], factor[w], out);
        put(a->out, t, to + d, device_divide(out, sum));
    }
}

BODY void attention_cached_run(const mega_attention_cached_args *a, mega_dtype t)
{
    SHARED(cached_shared, s);
    const int64_t D = a->head_dim, h = block_y(), b = block_z(), row = b * a->rows + block_x();
    const int64_t last = a->head.step->kv_length[b] + (int64_t)block_x(), to = row * a->ld_out + h * D;
    const mega_attention_rules *const r = &a->rules;
    if (!a->is_ring && last >= a->capacity) { /* a padding row of the last chunk */
        for (int64_t d = thread_x(); d < D; d += ATTENTION_THREADS) put(a->out, t, to + d, 0.0f);
        return;
    }
    const int64_t first = r->has_window && r->window_left >= 0 && last > r->window_left ? last - r->window_left : 0;
    const int64_t base = (b * a->capacity * a->kv_heads + kv_head_of(r, a->heads, a->kv_heads, h)) * D;
    const float slope = slope_of_head(r, a->head_begin + h);
    cached_state q;
    UNROLL
    for (int n = 0; n < ATTENTION_MOST_DIM / 32; n++) q.out[n] = 0.0f;
    q.max = minus_infinity(), q.sum = 0.0f;
    if (a->sinks != NULL && thread_x() < 32) { /* the first warp has it beside its keys, as a key without a value */
        q.max = get(a->sinks, t, h);
        q.sum = thread_x() == 0 ? 1.0f : 0.0f;
    }
    for (int64_t d = thread_x(); d < (D + 7) / 8 * 8; d += ATTENTION_THREADS)
        s->query[d] = d < D ? get(a->q, t, row * a->ld_q + h * D + d) : 0.0f;
    block_barrier();
    for (int64_t j = first + thread_x() / 32 * 32; j <= last; j += ATTENTION_THREADS)
        cached_add(a, t, &q, s, base, h, j, last, slope);
    cached_store(a, t, &q, s, to);
}
KERNELS_BY_TYPE(attention_cached, mega_attention_cached_args, ATTENTION_THREADS)
