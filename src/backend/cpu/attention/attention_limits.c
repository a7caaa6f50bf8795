/* Which keys the queries of a block see. Compiled once, not for each instruction set. */
#include "cpu/attention/attention_impl.h"

void attention_limits_of(const mega_attention_args *a, int64_t b, int64_t i0, attention_limits *out)
{
    const int64_t rows = a->seq - i0 < MEGA_ATTENTION_BLOCK ? a->seq - i0 : MEGA_ATTENTION_BLOCK;
    int64_t first = a->causal ? i0 : a->keys, last = 0;
    out->is_blind = false;
    for (int64_t r = 0; r < MEGA_ATTENTION_BLOCK; r++) out->begin[r] = 0, out->end[r] = (int32_t)a->keys;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t begin = rules_key_begin(a, b * a->seq + i0 + r, i0 + r);
        const int64_t end = rules_key_end(a, b * a->seq + i0 + r, i0 + r);
        out->begin[r] = (int32_t)begin;
        out->end[r] = (int32_t)end;
        first = begin < first ? begin : first;
        last = end > last ? end : last;
        out->is_blind = out->is_blind || begin >= end;
    }
    out->first = first / MEGA_ATTENTION_BLOCK * MEGA_ATTENTION_BLOCK;
    out->last = last;
}
