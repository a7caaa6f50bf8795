/* Channels of heads; a block has a row (ops_heads.h). */
#include "kernel.h"

BODY void head_channels_run(const mega_head_channels_args *a, mega_dtype t)
{
    const mega_head_channels *p = &a->part;
    const int64_t cols = p->to * p->to_dim, terms = p->to == 1 ? p->from : 1;
    for (int64_t row = block_x(); row < a->rows; row += blocks_x())
        for (int64_t at = thread_x(); at < cols; at += ROW_THREADS) {
            const int64_t h = at / p->to_dim, i = at - h * p->to_dim - p->to_first;
            const int64_t head = row * p->from + (p->from == p->to ? h : 0);
            float sum = 0.0f;
            if (i >= 0 && i < p->count)
                for (int64_t k = 0; k < terms; k++)
                    sum += get(a->x, t, (head + k) * p->from_dim + p->from_first + i);
            put(a->y, t, row * cols + at, sum);
        }
}
KERNELS_BY_TYPE(head_channels, mega_head_channels_args, ROW_THREADS)
