/* Channels of heads; the threads share the rows and compute each like the plain kernel, as memory is the limit. */
#include "cpu/share.h"

static void head_channels_part(mega_head_channels_args *part, int64_t begin)
{
    const mega_head_channels *p = &part->part;
    part->y = element_at(part->y, part->head.dtype, begin * p->to * p->to_dim);
    part->x = const_element_at(part->x, part->head.dtype, begin * p->from * p->from_dim);
}

CPU_ROWS_KERNEL(mega_cpu_head_channels, head_channels, head_channels_part, a,
                a->rows *(a->part.from * a->part.from_dim + a->part.to * a->part.to_dim));
