/* Channels of heads: plain kernel (ops_heads.h). */
#include "backend_impl.h"

static void plain_head_channels_run(const mega_queue *queue, const void *args)
{
    const mega_head_channels_args *a = args;
    const mega_head_channels *p = &a->part;
    const mega_dtype t = a->head.dtype;
    const int64_t terms = p->to == 1 ? p->from : 1;
    for (int64_t row = 0; row < a->rows; row++)
        for (int64_t h = 0; h < p->to; h++)
            for (int64_t c = 0; c < p->to_dim; c++) {
                const int64_t i = c - p->to_first, head = row * p->from + (p->from == p->to ? h : 0);
                double sum = 0.0;
                for (int64_t k = 0; k < terms && i >= 0 && i < p->count; k++)
                    sum += get(a->x, t, (head + k) * p->from_dim + p->from_first + i);
                put(a->y, t, (row * p->to + h) * p->to_dim + c, sum);
            }
}

const mega_kernel mega_plain_head_channels = {.name = "head_channels", .run = plain_head_channels_run};
