/* The choices that experts with a capacity compute: plain kernel (ops_route.h). */
#include "backend_impl.h"
#include <math.h>

static double capacity_key(const mega_route_capacity_args *a, int64_t c)
{
    const double weight = get(a->weight, acc_of(a->head.dtype), c);
    return a->by_position ? 0.0 : isnan(weight) ? -INFINITY : weight;
}

/* Whether fewer choices of the same expert go before choice c of this group than the expert keeps. */
static bool stays(const mega_route_capacity_args *a, int64_t begin, int64_t end, int64_t c)
{
    const double key = capacity_key(a, c);
    int64_t before = 0;
    for (int64_t d = begin; d < end && before < a->capacity; d++) {
        if (a->choice[d] != a->choice[c]) continue;
        const double other = capacity_key(a, d);
        before += other > key || (other == key && d < c) ? 1 : 0;
    }
    return before < a->capacity;
}

static void plain_route_capacity_run(const mega_queue *queue, const void *args)
{
    const mega_route_capacity_args *a = args;
    const int64_t count = a->rows * a->choices;
    (void)queue;
    for (int64_t g = 0; g < a->groups; g++) {
        const int64_t begin = g * count, end = begin + count;
        int64_t dropped = 0;
        for (int64_t c = begin; c < end; c++) {
            const bool is_kept = stays(a, begin, end, c);
            a->kept[c] = is_kept ? a->choice[c] : -1;
            dropped += is_kept ? 0 : 1;
        }
        put(a->dropped, acc_of(a->head.dtype), g, (double)dropped / (double)count);
    }
}

const mega_kernel mega_plain_route_capacity = {.name = "route_capacity", .run = plain_route_capacity_run};
