/* Attention of new rows over a key/value cache. The cache is read from memory only once; this read bounds the speed of
 * a decode step. */

ALWAYS float dot_typed(mega_dtype type, const void *x, int64_t x_at, const void *y, int64_t y_at, int64_t n)
{
    vf sum = vset(0.0f);
    for (int64_t d = 0; d < n; d += VL) sum += vget_n(type, x, x_at + d, n - d) * vget_n(type, y, y_at + d, n - d);
    return vsum(sum);
}

/* Applies soft-cap and ALiBi to the scores of `keys` consecutive keys, the last of which is the position of the
 * query. */
LONG void bend_scores(const mega_attention_cached_args *a, float *p, int64_t h, int64_t keys)
{
    const float cap = (float)a->rules.softcap, slope = (float)rules_slope(&a->rules, a->head_begin + h);
    for (int64_t j = 0; j < keys; j += VL) {
        float behind[VL];
        for (int64_t l = 0; l < VL; l++) behind[l] = (float)(keys - 1 - (j + l));
        vf x = vload(p + j);
        if (cap > 0.0f) x = vtanh(x / cap) * cap;
        vstore(p + j, x - slope * vload(behind));
    }
}

/* The keys that a query sees: `keys` of them. The first `straight` are in the rows of the cache from `at` on, the
 * others from `again` on, where a ring continues after its end. */
typedef struct cached_keys {
    int64_t at, again, straight, keys;
} cached_keys;

/* Adds the biases of head h, by their distance from the last key, to the scores of `keys` consecutive keys. */
ALWAYS void add_biases_typed(mega_dtype type, const mega_attention_cached_args *a, float *p, int64_t h, int64_t keys)
{
    const int32_t *bucket = a->head.scratch;
    for (int64_t j = 0; j < keys; j++) p[j] += vget_n(type, a->bias, bucket[keys - 1 - j] * a->heads + h, 1)[0];
}

/* One query over the keys of s. p is a buffer for `capacity` scores, rounded up to VL. */
ALWAYS void cached_query(mega_dtype type, const mega_attention_cached_args *a, float *p, int64_t row, int64_t h,
                         const cached_keys *s)
{
    const int64_t D = a->head_dim, ld = a->kv_heads * D, keys = s->keys, padded = (keys + VL - 1) / VL * VL;
    const int64_t end[2] = {s->straight, keys}, at[2] = {s->at, s->again - s->straight * ld};
    for (int64_t part = 0, j = 0; part < 2; part++)
        for (; j < end[part]; j++)
            p[j] = dot_typed(type, a->q, row * a->ld_q + h * D, a->k_cache, at[part] + j * ld, D) * (float)a->scale;
    if (a->rules.softcap > 0.0 || a->rules.alibi_heads > 0) {
        for (int64_t j = keys; j < padded; j++) p[j] = 0.0f;
        bend_scores(a, p, h, keys);
    }
    if (a->bias != NULL) add_biases_typed(type, a, p, h, keys);
    for (int64_t j = keys; j < padded; j++) p[j] = -INFINITY;
    vf max = vload(p), sum = vset(0.0f);
    for (int64_t j = VL; j < padded; j += VL) max = vmax(max, vload(p + j));
    float m = vmax_lane(max);
    const float sink = a->sinks != NULL ? vget_n(type, a->sinks, h, 1)[0] : -INFINITY;
    if (sink > m) m = sink;
    const float of_sink = a->sinks != NULL ? vexp(vset(sink - m))[0] : 0.0f;
    for (int64_t j = 0; j < padded; j += VL) {
        const vf e = vexp(vload(p + j) - m);
        vstore(p + j, e);
        sum += e;
    }
    const float inverse = 1.0f / (vsum(sum) + of_sink);
    for (int64_t d = 0; d < D; d += VL) {
        vf out = vset(0.0f);
        for (int64_t part = 0, j = 0; part < 2; part++)
            for (; j < end[part]; j++) out += p[j] * vget_n(type, a->v_cache, at[part] + j * ld + d, D - d);
        vput_n(type, a->out, row * a->ld_out + h * D + d, D - d, out * inverse);
    }
}

/* Returns the keys that the query at `position` sees; row 0 of its head is at `at`. */
ALWAYS cached_keys cached_keys_of(const mega_attention_cached_args *a, int64_t at, int64_t position)
{
    const int64_t first = rules_first_key(&a->rules, position), keys = position + 1 - first, row = first % a->capacity;
    const int64_t left = a->capacity - row;
    return (cached_keys){at + row * a->kv_heads * a->head_dim, at, left < keys ? left : keys, keys};
}

ALWAYS void cached_items_typed(mega_dtype type, const mega_attention_cached_args *a, int64_t begin, int64_t end,
                               float *p)
{
    const int64_t D = a->head_dim, G = a->kv_heads, group = rules_group(&a->rules, a->heads, G);
    const int64_t begin_head = a->rules.group_begin;
    const size_t element = (size_t)vsize(type), width = (size_t)D * element;
    for (int64_t item = begin; item < end; item++) {
        const int64_t b = item / G, g = item % G, at = (b * a->capacity * G + g) * D;
        for (int64_t i = 0; i < a->rows; i++) {
            const int64_t row = b * a->rows + i, position = a->head.step->kv_length[b] + i;
            const size_t from = (size_t)(row * a->ld_kv + g * D) * element;
            const size_t to = (size_t)(at + position % a->capacity * G * D) * element;
            const bool is_stored = a->is_ring || position < a->capacity; /* else padding of a last chunk */
            if (is_stored) {
                memcpy((char *)a->k_cache + to, (const char *)a->k + from, width);
                memcpy((char *)a->v_cache + to, (const char *)a->v + from, width);
            }
            const cached_keys seen = cached_keys_of(a, at, position);
            for (int64_t h = g * group > begin_head ? g * group - begin_head : 0;
                 h < a->heads && h + begin_head < (g + 1) * group; h++) {
                if (is_stored) cached_query(type, a, p, row, h, &seen);
                else
                    memset((char *)a->out + (size_t)(row * a->ld_out + h * D) * element, 0, width);
            }
        }
    }
}

static void attention_cached_items(const mega_attention_cached_args *a, int64_t begin, int64_t end, float *scratch)
{
    BY_TYPE(a->head.dtype, cached_items_typed(type, a, begin, end, scratch));
}
