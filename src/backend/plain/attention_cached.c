/* Attention of new rows over a key/value cache: plain kernel (ops_attention.h). Scratch: scores [capacity] double, of
 * the keys that a query sees, from the first. */
#include "attention_rules.h"
#include "backend_impl.h"
#include <math.h>

static void attention_cached_query(const mega_attention_cached_args *a, double *p, int64_t b, int64_t i, int64_t h,
                                   int64_t keys)
{
    const mega_dtype t = a->head.dtype;
    const mega_attention_rules *r = &a->rules;
    const int64_t D = a->head_dim, row = b * a->rows + i, g = rules_kv_head(r, a->heads, a->kv_heads, h);
    const int64_t first = rules_first_key(r, keys - 1);
    const double slope = rules_slope(r, a->head_begin + h);
    const int64_t ld = a->kv_heads * D, at = b * a->capacity * ld + g * D, C = a->capacity;
    const double sink = a->sinks != NULL ? get(a->sinks, t, h) : -INFINITY;
    double max = sink, sum = 0.0;
    for (int64_t j = first; j < keys; j++) {
        double dot = 0.0;
        for (int64_t d = 0; d < D; d++)
            dot += get(a->q, t, row * a->ld_q + h * D + d) * get(a->k_cache, t, at + j % C * ld + d);
        double *const score = &p[j - first];
        *score = dot * a->scale;
        if (r->softcap > 0.0) *score = r->softcap * tanh(*score / r->softcap);
        *score += slope * (double)(j - (keys - 1));
        if (a->bias != NULL) *score += get(a->bias, t, rules_bucket(r, keys - 1, j) * a->heads + h);
        max = fmax(max, *score);
    }
    for (int64_t j = first; j < keys; j++) {
        p[j - first] = exp(p[j - first] - max);
        sum += p[j - first];
    }
    if (a->sinks != NULL) sum += exp(sink - max);
    for (int64_t d = 0; d < D; d++) {
        double out = 0.0;
        for (int64_t j = first; j < keys; j++) out += p[j - first] / sum * get(a->v_cache, t, at + j % C * ld + d);
        put(a->out, t, row * a->ld_out + h * D + d, out);
    }
}

static void plain_attention_cached_run(const mega_queue *queue, const void *args)
{
    const mega_attention_cached_args *a = args;
    const mega_dtype t = a->head.dtype;
    const int64_t ld = a->kv_heads * a->head_dim;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t i = 0; i < a->rows; i++) {
            const int64_t row = b * a->rows + i, position = a->head.step->kv_length[b] + i;
            if (!a->is_ring && position >= a->capacity) { /* a padding row of the last chunk */
                for (int64_t c = 0; c < a->heads * a->head_dim; c++) put(a->out, t, row * a->ld_out + c, 0.0);
                continue;
            }
            const int64_t at = b * a->capacity + position % a->capacity;
            for (int64_t c = 0; c < ld; c++) {
                put(a->k_cache, t, at * ld + c, get(a->k, t, row * a->ld_kv + c));
                put(a->v_cache, t, at * ld + c, get(a->v, t, row * a->ld_kv + c));
            }
            for (int64_t h = 0; h < a->heads; h++) attention_cached_query(a, a->head.scratch, b, i, h, position + 1);
        }
}

static size_t plain_attention_cached_scratch(const void *args, int threads)
{
    const mega_attention_cached_args *a = args;
    return (size_t)a->capacity * sizeof(double);
}

const mega_kernel mega_plain_attention_cached = {
    .name = "attention_cached", .run = plain_attention_cached_run, .scratch = plain_attention_cached_scratch};
