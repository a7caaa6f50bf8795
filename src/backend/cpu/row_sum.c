/* Sums of the channels of each row, and their gradient. The threads share the rows and compute each like the plain
 * kernel, which is fast enough for the small tensors at the end of a network. */
#include "cpu/share.h"

static void row_sum_part(mega_row_sum_args *part, int64_t begin)
{
    part->sum = element_at(part->sum, acc_of(part->head.dtype), begin);
    part->x = const_element_at(part->x, part->x_dtype, begin * part->cols);
}

CPU_ROWS_KERNEL(mega_cpu_row_sum, row_sum, row_sum_part, a, a->rows * a->cols);

static void row_sum_grad_part(mega_row_sum_grad_args *part, int64_t begin)
{
    part->dx = element_at(part->dx, part->x_dtype, begin * part->cols);
    part->dsum = const_element_at(part->dsum, acc_of(part->head.dtype), begin);
}

CPU_ROWS_KERNEL(mega_cpu_row_sum_grad, row_sum_grad, row_sum_grad_part, a, a->rows * a->cols);
