/* What the kernels of attention share: which keys a query sees, its scores, dropout, and tiles of rows in shared
 * memory. The functions of attention_rules.h are of the host. */
#ifndef MEGA_CUDA_ATTENTION_SEEN_H
#define MEGA_CUDA_ATTENTION_SEEN_H

#include "dropout.h"
#include "functions.h"

/* X(0) … for the queries (or keys) of a warp: each has variables of its own, since the compilers keep an array of their
 * sums in memory, where the index is computed. */
#define EACH_OWN(X) X(0) X(1) X(2) X(3)

/* The keys that a query sees: it sees none if begin >= end. */
typedef struct keys_seen {
    int64_t begin, end;
} keys_seen;

/* What causal mask and window leave to query i. */
BODY keys_seen seen_by_rules(const mega_attention_args *a, int64_t i)
{
    const mega_attention_rules *const r = &a->rules;
    keys_seen s = {0, a->causal ? i + 1 : a->keys};
    if (r->has_window && r->window_left >= 0 && i > r->window_left) s.begin = i - r->window_left;
    if (r->has_window && r->window_right >= 0 && i + r->window_right + 1 < s.end) s.end = i + r->window_right + 1;
    return s;
}

/* The same with the limits of its row. */
BODY keys_seen seen_by_query(const mega_attention_args *a, int64_t row, int64_t i)
{
    keys_seen s = seen_by_rules(a, i);
    if (a->key_begin != NULL && a->key_begin[row] > s.begin) s.begin = a->key_begin[row];
    if (a->key_end != NULL && a->key_end[row] < s.end) s.end = a->key_end[row];
    if (s.end > a->keys) s.end = a->keys;
    return s;
}

/* mega_alibi_slope of head h of this rank; 0 without ALiBi. */
BODY float slope_of_head(const mega_attention_args *a, int64_t h)
{
    const int64_t heads = a->rules.alibi_heads, head = a->head_begin + h;
    int64_t power = 1;
    if (heads <= 0) return 0.0f;
    while (power * 2 <= heads) power *= 2;
    const int64_t step = head < power ? 2 * (head + 1) : 2 * (head - power) + 1;
    return device_exp2(device_divide(-4.0f * (float)step, (float)power));
}

/* Returns the key/value head that query head h reads. */
BODY int64_t kv_head_of(const mega_attention_args *a, int64_t h)
{
    const int64_t group = a->rules.group > 0 ? a->rules.group : a->heads / a->kv_heads;
    return (a->rules.group_begin + h) / group;
}

/* A score, and the slope of its cap. */
BODY value_slope score_of(const mega_attention_args *a, float dot, float slope, int64_t i, int64_t j)
{
    value_slope s = {dot * (float)a->scale, 1.0f};
    if (a->rules.softcap > 0.0) {
        const float cap = (float)a->rules.softcap, bent = device_tanh(device_divide(s.value, cap));
        s.value = cap * bent;
        s.slope = 1.0f - bent * bent;
    }
    s.value += slope * (float)(j - i);
    return s;
}

/* The factor of the probability of key j, 0 or 1/(1-p). */
BODY float keep_factor(const mega_attention_args *a, const mega_step_block *step, int64_t row, int64_t h, int64_t i,
                       int64_t j)
{
    if (!(a->dropout > 0.0)) return 1.0f;
    const uint64_t block = (uint32_t)((a->head_begin + h) * a->seq + i) | (uint64_t)j >> 3 << 32;
    const device_philox r = dropout_block(step, a->site, a->sample_id[row], block);
    const uint32_t w = (uint32_t)(j & 7) >> 1;
    const uint32_t word = w == 0 ? r.v[0] : w == 1 ? r.v[1] : w == 2 ? r.v[2] : r.v[3];
    return (word >> ((j & 1) * 16) & 0xffffu) >= dropout_threshold(a->dropout) ? dropout_scale(a->dropout) : 0.0f;
}

/* A tile has ATTENTION_TILE rows of one head as floats, D + 1 apart, so that lanes that read a row each use different
 * banks. Rows that are not there are 0. */
BODY void tile_load(float *tile, const void *x, mega_dtype t, int64_t at, int64_t ld, int64_t rows, int head_dim)
{
    for (int n = (int)thread_x(); n < ATTENTION_TILE * head_dim; n += ATTENTION_THREADS) {
        const int r = n / head_dim, d = n - r * head_dim;
        tile[r * (head_dim + 1) + d] = r < rows ? get(x, t, at + r * ld + d) : 0.0f;
    }
}

/* The product of a row in memory with a row of a tile. */
BODY float tile_dot(const float *tile_row, const void *x, mega_dtype t, int64_t at, int head_dim)
{
    float sum = 0.0f;
    for (int d = 0; d < head_dim; d++) sum = device_fma(get(x, t, at + d), tile_row[d], sum);
    return sum;
}

/* out[n] += the sum over the rows of a tile, each times its factor; the lane has channels lane + 32 n. */
BODY void tile_add(float *out, int dims, const float *factor, const float *tile, int head_dim)
{
    const int lane = (int)thread_x() % 32;
    for (int j = 0; j < ATTENTION_TILE; j++) {
        UNROLL
        for (int n = 0; n < dims; n++)
            if (lane + 32 * n < head_dim)
                out[n] = device_fma(factor[j], tile[j * (head_dim + 1) + lane + 32 * n], out[n]);
    }
}

/* The kernels of a name for heads of up to `dim` channels. */
#define ATTENTION_KERNELS(name, type, dim)               \
    KERNEL(name##_##dim##_f32, type, ATTENTION_THREADS)  \
    {                                                    \
        name##_run(&a, MEGA_F32, dim / 32);              \
    }                                                    \
    KERNEL(name##_##dim##_bf16, type, ATTENTION_THREADS) \
    {                                                    \
        name##_run(&a, MEGA_BF16, dim / 32);             \
    }

#endif
