/* Means of groups of rows, and their gradient. The threads share the groups and compute each like the plain kernel,
 * which is fast enough for the small tensors at the end of a network. */
#include "cpu/share.h"

static void mean_rows_part(mega_mean_rows_args *part, int64_t begin)
{
    part->y = element_at(part->y, part->head.dtype, begin * part->cols);
    part->x = const_element_at(part->x, part->head.dtype, begin * part->group * part->cols);
}

CPU_ROWS_KERNEL(mega_cpu_mean_rows, mean_rows, mean_rows_part, a, a->rows * a->group * a->cols);

static void mean_rows_grad_part(mega_mean_rows_grad_args *part, int64_t begin)
{
    part->dx = element_at(part->dx, part->head.dtype, begin * part->group * part->cols);
    part->dy = const_element_at(part->dy, part->head.dtype, begin * part->cols);
}

CPU_ROWS_KERNEL(mega_cpu_mean_rows_grad, mean_rows_grad, mean_rows_grad_part, a, a->rows * a->group * a->cols);
