/* The rows that a round of an exchange between ranks of expert parallelism sends, those that it brings, and how many
 * rounds are needed: plain kernels (ops_experts.h). */
#include "backend_impl.h"

static void plain_expert_send_run(const mega_queue *queue, const void *args)
{
    const mega_expert_send_args *a = args;
    const int64_t own = a->experts / a->ranks, begin = a->round * a->rows;
    for (int64_t c = 0; c < a->choices; c++) a->place[c] = -1;
    for (int64_t rank = 0; rank < a->ranks; rank++)
        for (int64_t i = 0; i < a->rows; i++) {
            const int64_t at = a->first[rank * own] + begin + i, r = rank * a->rows + i;
            a->source[r] = at < a->first[(rank + 1) * own] ? a->order_source[at] : -1;
            if (a->source[r] >= 0) a->place[a->source[r]] = (int32_t)r;
        }
}

static void plain_expert_received_run(const mega_queue *queue, const void *args)
{
    const mega_expert_received_args *a = args;
    const int64_t own = a->experts / a->ranks, begin = a->round * a->rows;
    *a->needed = 0;
    for (int64_t rank = 0; rank < a->ranks; rank++) {
        const int32_t *first = a->first + rank * (a->experts + 1), *here = first + a->rank * own;
        for (int64_t to = 0; to < a->ranks; to++)
            if (first[(to + 1) * own] - first[to * own] > begin) *a->needed = 1;
        int32_t expert = 0;
        for (int64_t i = 0; i < a->rows; i++) {
            while (expert < own && here[expert + 1] <= here[0] + begin + i) expert++;
            a->choice[rank * a->rows + i] = expert < own ? expert : -1;
        }
    }
}

static void plain_expert_later_run(const mega_queue *queue, const void *args)
{
    const mega_expert_later_args *a = args;
    const int64_t own = a->experts / a->ranks;
    int64_t most = 0; /* rows of a rank for a rank */
    (void)queue;
    for (int64_t rank = 0; rank < a->ranks; rank++) {
        const int32_t *first = a->first + rank * (a->experts + 1);
        for (int64_t to = 0; to < a->ranks; to++) {
            const int64_t rows = first[(to + 1) * own] - first[to * own];
            most = rows > most ? rows : most;
        }
    }
    put(a->later, acc_of(a->head.dtype), 0, most > 0 ? (double)((most - 1) / a->rows) : 0.0);
}

const mega_kernel mega_plain_expert_send = {.name = "expert_send", .run = plain_expert_send_run};
const mega_kernel mega_plain_expert_received = {.name = "expert_received", .run = plain_expert_received_run};
const mega_kernel mega_plain_expert_later = {.name = "expert_later", .run = plain_expert_later_run};
