/* The choices that experts with a capacity compute (ops_route.h): a block has an expert of a group, and each thread
 * consecutive choices. It finds bit by bit the largest key that as many choices have at least as the expert keeps; of
 * the choices that have this key the first ones stay. */
#include "functions.h"
#include "order.h"

/* The choices of a group, of which this thread has begin to end - 1. */
typedef struct capacity_share {
    int64_t begin, end;
} capacity_share;

BODY capacity_share capacity_share_of(const mega_route_capacity_args *a, int64_t group)
{
    const int64_t count = a->rows * a->choices, share = (count + ROW_THREADS - 1) / ROW_THREADS;
    const int64_t begin = thread_x() * share < count ? thread_x() * share : count;
    capacity_share s;
    s.begin = group * count + begin;
    s.end = group * count + (begin + share < count ? begin + share : count);
    return s;
}

/* A number that is larger for larger weights, also negative ones; equal zeros have one number. */
BODY uint32_t capacity_key(const mega_route_capacity_args *a, int64_t c)
{
    if (a->by_position) return 0;
    float weight = ((const float *)a->weight)[c];
    weight = weight == weight ? weight + 0.0f : minus_infinity();
    const uint32_t bits = float_bits(weight);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/* How many choices of this expert have at least this key; *before: of the threads before this one. */
BODY uint32_t capacity_count(const mega_route_capacity_args *a, capacity_share own, int64_t expert, uint32_t key,
                             order_shared *s, uint32_t *before)
{
    uint32_t count = 0, all;
    for (int64_t c = own.begin; c < own.end; c++) count += a->choice[c] == expert && capacity_key(a, c) >= key;
    *before = order_before(s, count, &all);
    return all;
}

/* Scratch: how many choices each expert of each group drops. */
KERNEL(route_capacity, mega_route_capacity_args, ROW_THREADS)
{
    SHARED(order_shared, s);
    for (int64_t i = block_x(); i < a.groups * a.experts; i += blocks_x()) {
        const int64_t g = i / a.experts, e = i - g * a.experts;
        const capacity_share own = capacity_share_of(&a, g);
        uint32_t key = 0, before = 0, above = 0, above_before = 0;
        const uint32_t all = capacity_count(&a, own, e, 0, s, &before), most = (uint32_t)a.capacity;
        if (thread_x() == 0) ((uint32_t *)a.head.scratch)[i] = all > most ? all - most : 0;
        if (all > most && !a.by_position) {
            for (int bit = 31; bit >= 0; bit--) {
                const uint32_t trial = key | 1u << bit;
                if (capacity_count(&a, own, e, trial, s, &before) >= most) key = trial;
            }
            above = capacity_count(&a, own, e, key + 1, s, &above_before);
            capacity_count(&a, own, e, key, s, &before);
        }
        uint32_t equal = before - above_before; /* of this key, before the next choice */
        for (int64_t c = own.begin; c < own.end; c++) {
            if (a.choice[c] != e) continue;
            const uint32_t k = capacity_key(&a, c);
            bool stays = all <= most || k > key;
            if (k == key) stays = equal++ < most - above || stays;
            a.kept[c] = stays ? (int32_t)e : -1;
        }
    }
}

KERNEL(route_capacity_total, mega_route_capacity_args, ROW_THREADS)
{
    for (int64_t g = (int64_t)block_x() * ROW_THREADS + thread_x(); g < a.groups; g += blocks_x() * ROW_THREADS) {
        int64_t dropped = 0;
        for (int64_t e = 0; e < a.experts; e++) dropped += ((const uint32_t *)a.head.scratch)[g * a.experts + e];
        ((float *)a.dropped)[g] = device_divide((float)dropped, (float)(a.rows * a.choices));
    }
}
