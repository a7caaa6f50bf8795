/* Rows of tokens in the order of experts: plain kernel (ops_experts.h). */
#include "backend_impl.h"

static void plain_expert_rows_run(const mega_queue *queue, const void *args)
{
    const mega_expert_rows_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->cols; c++)
            put(a->y, t, r * a->cols + c, a->source[r] < 0 ? 0.0 : get(a->x, t, a->source[r] / a->slots * a->cols + c));
}

const mega_kernel mega_plain_expert_rows = {.name = "expert_rows", .run = plain_expert_rows_run};
