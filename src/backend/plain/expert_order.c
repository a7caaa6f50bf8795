/* The order of the rows of experts: plain kernel (ops_experts.h). */
#include "backend_impl.h"

static bool is_expert(const mega_expert_order_args *a, int64_t c)
{
    return a->choice[c] >= a->begin && a->choice[c] < a->begin + a->experts;
}

/* first[e + 1] counts the rows of expert e, then is where the next of its rows comes, and at last where they end, which
 * is where those of expert e + 1 begin. */
static void plain_expert_order_run(const mega_queue *queue, const void *args)
{
    const mega_expert_order_args *a = args;
    int32_t rows = 0, *end = a->first + 1;
    for (int64_t e = 0; e <= a->experts; e++) a->first[e] = 0;
    for (int64_t c = 0; c < a->choices; c++)
        if (is_expert(a, c)) end[a->choice[c] - a->begin]++;
    for (int64_t e = 1; e <= a->experts; e++) {
        const int32_t count = a->first[e];
        a->first[e] = rows;
        rows += count;
    }
    for (int64_t c = 0; c < a->choices; c++) {
        a->place[c] = is_expert(a, c) ? end[a->choice[c] - a->begin]++ : -1;
        if (a->place[c] >= 0) a->source[a->place[c]] = (int32_t)c;
    }
    for (int64_t r = rows; r < a->choices; r++) a->source[r] = -1;
}

const mega_kernel mega_plain_expert_order = {.name = "expert_order", .run = plain_expert_order_run};
