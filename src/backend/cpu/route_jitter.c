/* The jitter of a router's input: the threads share the rows and compute each like the plain kernel. */
#include "cpu/share.h"

static void route_jitter_part(mega_route_jitter_args *part, int64_t begin)
{
    part->y = element_at(part->y, part->head.dtype, begin * part->cols);
    part->x = const_element_at(part->x, part->head.dtype, begin * part->cols);
    part->sample_id += begin;
    part->seq_position += begin;
}

CPU_ROWS_KERNEL(mega_cpu_route_jitter, route_jitter, route_jitter_part, a, a->rows * a->cols * 8);
