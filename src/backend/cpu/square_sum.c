/* Sums of the squares of rows, and their gradient. The threads share the rows and compute each like the plain
 * kernel. */
#include "cpu/share.h"

static void square_sum_part(mega_square_sum_args *part, int64_t begin)
{
    part->sum = element_at(part->sum, acc_of(part->head.dtype), begin);
    part->x = const_element_at(part->x, part->head.dtype, begin * part->cols);
}

CPU_ROWS_KERNEL(mega_cpu_square_sum, square_sum, square_sum_part, a, a->rows * a->cols);

static void square_sum_grad_part(mega_square_sum_grad_args *part, int64_t begin)
{
    const mega_dtype t = part->head.dtype;
    part->dx = element_at(part->dx, t, begin * part->cols);
    part->x = const_element_at(part->x, t, begin * part->cols);
    part->dsum = const_element_at(part->dsum, acc_of(t), begin);
}

CPU_ROWS_KERNEL(mega_cpu_square_sum_grad, square_sum_grad, square_sum_grad_part, a, a->rows * a->cols);
