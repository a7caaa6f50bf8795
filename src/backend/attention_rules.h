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
