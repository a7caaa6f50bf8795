/* The order of the rows of experts (ops_experts.h), without atomics: a block counts the choices of an expert, then it
 * gives each of them its place, in their order. Each thread has consecutive choices. */
#include "order.h"

/* The choices of this thread: begin to end - 1. */
typedef struct order_share {
    int64_t begin, end;
} order_share;

BODY order_share order_share_of(const mega_expert_order_args *a)
{
    const int64_t share = (a->choices + ROW_THREADS - 1) / ROW_THREADS;
    order_share s;
    s.begin = thread_x() * share;
    s.end = s.begin + share < a->choices ? s.begin + share : a->choices;
    return s;
}

BODY uint32_t order_count(const mega_expert_order_args *a, order_share own, int64_t expert)
{
    uint32_t count = 0;
    for (int64_t c = own.begin; c < own.end; c++) count += a->choice[c] - a->begin == expert;
    return count;
}

/* Scratch: the number of choices of each expert. */
KERNEL(expert_order_count, mega_expert_order_args, ROW_THREADS)
{
    SHARED(order_shared, s);
    const order_share own = order_share_of(&a);
    for (int64_t e = block_x(); e < a.experts; e += blocks_x()) {
        uint32_t all;
        order_before(s, order_count(&a, own, e), &all);
        if (thread_x() == 0) ((uint32_t *)a.head.scratch)[e] = all;
    }
}

/* Number `experts` is of the choices that are no expert, and of the rows without a choice. */
KERNEL(expert_order_place, mega_expert_order_args, ROW_THREADS)
{
    SHARED(order_shared, s);
    const order_share own = order_share_of(&a);
    for (int64_t e = block_x(); e <= a.experts; e += blocks_x()) {
        uint32_t part = 0, first, count;
        for (int64_t i = thread_x(); i < e; i += ROW_THREADS) part += ((const uint32_t *)a.head.scratch)[i];
        order_before(s, part, &first);
        if (thread_x() == 0) a.first[e] = (int32_t)first;
        if (e == a.experts) {
            for (int64_t c = own.begin; c < own.end; c++) {
                if (a.choice[c] < a.begin || a.choice[c] >= a.begin + a.experts) a.place[c] = -1;
                if (c >= first) a.source[c] = -1;
            }
            continue;
        }
        int32_t row = (int32_t)(first + order_before(s, order_count(&a, own, e), &count));
        for (int64_t c = own.begin; c < own.end; c++) {
            if (a.choice[c] - a.begin != e) continue;
            a.source[row] = (int32_t)c;
            a.place[c] = row++;
        }
    }
}
