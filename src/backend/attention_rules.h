/* What mega_attention_rules means, for the plain and the fast kernels. */
#ifndef MEGA_ATTENTION_RULES_H
#define MEGA_ATTENTION_RULES_H

#include "megalith/ops_attention.h"

/* Returns the first key that the window leaves to query i. */
static inline int64_t rules_first_key(const mega_attention_rules *r, int64_t i)
{
    return r->has_window && r->window_left >= 0 && i > r->window_left ? i - r->window_left : 0;
}

/* Returns one past the last of `keys` keys that causal mask and window leave to query i. */
static inline int64_t rules_end_key(const mega_attention_rules *r, bool causal, int64_t i, int64_t keys)
{
    const int64_t end = causal ? i + 1 : keys;
    const bool cuts = r->has_window && r->window_right >= 0 && i + r->window_right + 1 < end;
    return cuts ? i + r->window_right + 1 : end;
}

/* Return the first key that query i, in row `row`, sees, and one past the last. It sees none if the first is not before
 * the other. */
static inline int64_t rules_key_begin(const mega_attention_args *a, int64_t row, int64_t i)
{
    const int64_t first = rules_first_key(&a->rules, i), given = a->key_begin != NULL ? a->key_begin[row] : 0;
    return first > given ? first : given;
}

static inline int64_t rules_key_end(const mega_attention_args *a, int64_t row, int64_t i)
{
    const int64_t end = rules_end_key(&a->rules, a->causal, i, a->keys);
    if (a->key_end == NULL || a->key_end[row] >= end) return end;
    return a->key_end[row] > 0 ? a->key_end[row] : 0;
}

/* Returns the row of the table of biases for query i and key j. */
static inline int64_t rules_bucket(const mega_attention_rules *r, int64_t i, int64_t j)
{
    return mega_relative_bucket(j - i, r->bias_buckets, r->bias_distance, r->bias_one_side);
}

/* Returns the number of query heads that read one key/value head, in the whole model. */
static inline int64_t rules_group(const mega_attention_rules *r, int64_t heads, int64_t kv_heads)
{
    return r->group > 0 ? r->group : heads / kv_heads;
}

/* Returns the key/value head that query head h reads. */
static inline int64_t rules_kv_head(const mega_attention_rules *r, int64_t heads, int64_t kv_heads, int64_t h)
{
    return (r->group_begin + h) / rules_group(r, heads, kv_heads);
}

static inline double rules_slope(const mega_attention_rules *r, int64_t head)
{
    return r->alibi_heads > 0 ? mega_alibi_slope(head, r->alibi_heads) : 0.0;
}

#endif
