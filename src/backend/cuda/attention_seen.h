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

/* The keys that some of `rows` queries from `first` on may see by the rules, in whole tiles. */
BODY keys_seen seen_by_block(const mega_attention_args *a, int64_t first, int rows, int tile)
{
    const int64_t last = first + rows < a->seq ? first + rows - 1 : a->seq - 1, end = seen_by_rules(a, last).end;
    const keys_seen s = {seen_by_rules(a, first).begin / tile * tile, end < a->keys ? end : a->keys};
    return s;
}

/* The same for one query, with the limits of its row. */
BODY keys_seen seen_by_query(const mega_attention_args *a, int64_t row, int64_t i)
{
    keys_seen s = seen_by_rules(a, i);
    if (a->key_begin != NULL && a->key_begin[row] > s.begin) s.begin = a->key_begin[row];
    if (a->key_end != NULL && a->key_end[row] < s.end) s.end = a->key_end[row];
    if (s.end > a->keys) s.end = a->keys;
    return s;
}

/* mega_alibi_slope of a head of the whole model; 0 without ALiBi. */
BODY float slope_of_head(const mega_attention_rules *r, int64_t head)
{
    const int64_t heads = r->alibi_heads;
    int64_t power = 1;
    if (heads <= 0) return 0.0f;
    while (power * 2 <= heads) power *= 2;
    const int64_t step = head < power ? 2 * (head + 1) : 2 * (head - power) + 1;
    return device_exp2(device_divide(-4.0f * (float)step, (float)power));
}

/* Returns the key/value head that query head h reads. */
BODY int64_t kv_head_of(const mega_attention_rules *r, int64_t heads, int64_t kv_heads, int64_t h)
{
    return (r->group_begin + h) / (r->group > 0 ? r->group : heads / kv_heads);
}

/* x / y within a rounding or two, for y that a float can hold. (The division of doubles is a call, around which the
 * compiler keeps registers in memory.) */
BODY double divide_double(double x, double y)
{
    double r = (double)device_divide(1.0f, (float)y);
    r = r * (2.0 - y * r);
    r = r * (2.0 - y * r);
    return x * r;
}

/* The natural logarithm of a number above 0, within a few roundings: one of float would put a distance at the edge of
 * two buckets into the wrong one. */
BODY double log_of_double(double x)
{
    union {
        double d;
        uint64_t bits;
    } m;
    m.d = x;
    int exponent = (int)(m.bits >> 52) - 1023;
    m.bits = (m.bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
    if (m.d > 1.4142135623730951) m.d *= 0.5, exponent++;
    const double z = divide_double(m.d - 1.0, m.d + 1.0), zz = z * z;
    double sum = 0.0;
    UNROLL
    for (int k = 10; k >= 0; k--) sum = sum * zz + 1.0 / (2 * k + 1);
    return 0.6931471805599453 * exponent + 2.0 * z * sum;
}

/* mega_relative_bucket of the rules. */
BODY int64_t bucket_of_distance(const mega_attention_rules *r, int64_t distance)
{
    const int64_t buckets = r->bias_buckets, most = r->bias_distance;
    const int64_t side = r->bias_one_side ? buckets : buckets / 2, exact = side / 2;
    const int64_t begin = !r->bias_one_side && distance > 0 ? side : 0;
    const int64_t away = distance <= 0 ? -distance : r->bias_one_side ? 0 : distance;
    if (away < exact) return begin + away;
    if (away >= most) return begin + side - 1;
    const double steps = divide_double(log_of_double(divide_double((double)away, (double)exact)),
                                       log_of_double(divide_double((double)most, (double)exact)));
    const int64_t bucket = exact + (int64_t)(steps * (double)(side - exact) + 1e-9);
    return begin + (bucket < side ? bucket : side - 1);
}

/* biases[n]: that of head h and distance `lowest` + n of a key from its query. Nothing without a table. */
BODY void biases_load(float *biases, int count, const void *table, mega_dtype t, const mega_attention_rules *r,
                      int64_t heads, int64_t h, int64_t lowest)
{
    if (table == NULL) return;
    for (int n = (int)thread_x(); n < count; n += ATTENTION_THREADS)
        biases[n] = get(table, t, bucket_of_distance(r, lowest + n) * heads + h);
}

BODY int64_t key_head(const mega_attention_args *a, int64_t h)
{
    return kv_head_of(&a->rules, a->heads, a->kv_heads, h);
}

/* A score, and the slope of its cap. */
BODY value_slope score_of(double scale, const mega_attention_rules *r, float dot, float slope, float bias, int64_t i,
                          int64_t j)
{
    value_slope s = {dot * (float)scale, 1.0f};
    if (r->softcap > 0.0) {
        const float cap = (float)r->softcap, bent = device_tanh(device_divide(s.value, cap));
        s.value = cap * bent;
        s.slope = 1.0f - bent * bent;
    }
    s.value += slope * (float)(j - i) + bias;
    return s;
}

/* Of one query and key: P M, dS, and dS before the slope of the cap. */
typedef struct pair_grad {
    float pm, ds, before_cap;
} pair_grad;

/* `keep`: the factor of dropout; dp: the product of dout and the value. */
BODY pair_grad pair_grad_of(const mega_attention_args *a, float dot, float dp, float slope, float bias, float keep,
                            float lse, float delta, int64_t i, int64_t j)
{
    const value_slope score = score_of(a->scale, &a->rules, dot, slope, bias, i, j);
    const float p = exp_of(score.value - lse), ds = p * (keep * dp - delta);
    const pair_grad r = {p * keep, ds * score.slope, ds};
    return r;
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
        for (int n = 0; n < ATTENTION_MOST_DIM / 32; n++) /* (clang unrolls it for each head size only in this form) */
            if (n < dims && lane + 32 * n < head_dim)
                out[n] = device_fma(factor[j], tile[j * (head_dim + 1) + lane + 32 * n], out[n]);
    }
}

/* The kernel of a name for heads of up to `dim` channels. */
#define ATTENTION_F32_KERNEL(name, type, dim)           \
    KERNEL(name##_##dim##_f32, type, ATTENTION_THREADS) \
    {                                                   \
        name##_f32_run(&a, dim / 32);                   \
    }

#endif
