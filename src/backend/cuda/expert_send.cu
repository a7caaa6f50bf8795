/* The rows that a round of an exchange between ranks of expert parallelism sends, those that it brings, and how many
 * rounds are needed; a thread has a choice or a row (ops_experts.h). */
#include "kernel.h"

KERNEL(expert_send, mega_expert_send_args, ROW_THREADS)
{
    const int64_t own = a.experts / a.ranks, begin = a.round * a.rows, sent = a.ranks * a.rows;
    const int64_t end = a.choices > sent ? a.choices : sent;
    for (int64_t i = (int64_t)block_x() * ROW_THREADS + thread_x(); i < end; i += blocks_x() * ROW_THREADS) {
        if (i < sent) { /* row i */
            const int64_t rank = i / a.rows, at = a.first[rank * own] + begin + i % a.rows;
            a.source[i] = at < a.first[(rank + 1) * own] ? a.order_source[at] : -1;
        }
        if (i < a.choices) { /* choice i */
            const int64_t rank = a.order_place[i] < 0 ? 0 : a.choice[i] / own;
            const int64_t at = a.order_place[i] - a.first[rank * own] - begin;
            a.place[i] = a.order_place[i] < 0 || at < 0 || at >= a.rows ? -1 : (int32_t)(rank * a.rows + at);
        }
    }
}

/* The expert that has row `at`, of those whose rows begin at `here`; -1: none. */
BODY int32_t expert_of(const int32_t *here, int64_t own, int64_t at)
{
    int64_t low = 0, high = own; /* the first with here[low + 1] > at */
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (here[middle + 1] > at) high = middle;
        else
            low = middle + 1;
    }
    return low < own ? (int32_t)low : -1;
}

KERNEL(expert_received, mega_expert_received_args, ROW_THREADS)
{
    SHARED(row_shared, s);
    const int64_t own = a.experts / a.ranks, begin = a.round * a.rows, got = a.ranks * a.rows;
    for (int64_t i = (int64_t)block_x() * ROW_THREADS + thread_x(); i < got; i += blocks_x() * ROW_THREADS) {
        const int32_t *here = a.first + i / a.rows * (a.experts + 1) + a.rank * own;
        a.choice[i] = expert_of(here, own, here[0] + begin + i % a.rows);
    }
    if (block_x() != 0) return;
    float pairs = 0.0f;
    for (int64_t i = thread_x(); i < a.ranks * a.ranks; i += ROW_THREADS) {
        const int32_t *there = a.first + i / a.ranks * (a.experts + 1) + i % a.ranks * own;
        pairs += there[own] - there[0] > begin ? 1.0f : 0.0f;
    }
    pairs = row_fold(pairs, s);
    if (thread_x() == 0) *a.needed = pairs > 0.0f;
}

/* A round that some pair of ranks needs is needed by all, and so are those before it: the pair with the most rows
 * tells. */
KERNEL(expert_later, mega_expert_later_args, ROW_THREADS)
{
    const int64_t own = a.experts / a.ranks;
    int64_t most = 0;
    if (block_x() != 0 || thread_x() != 0) return;
    for (int64_t i = 0; i < a.ranks * a.ranks; i++) {
        const int32_t *there = a.first + i / a.ranks * (a.experts + 1) + i % a.ranks * own;
        if (there[own] - there[0] > most) most = there[own] - there[0];
    }
    *(float *)a.later = most > 0 ? (float)((most - 1) / a.rows) : 0.0f;
}
