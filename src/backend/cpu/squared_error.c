/* Squared error of rows, and its gradient. The threads share the rows and compute each like the plain kernel. */
#include "cpu/share.h"

static void squared_error_part(mega_squared_error_args *part, int64_t begin)
{
    const mega_dtype t = part->head.dtype;
    part->loss = element_at(part->loss, acc_of(t), begin);
    part->x = const_element_at(part->x, t, begin * part->cols);
    part->target = const_element_at(part->target, t, begin * part->cols);
}

CPU_ROWS_KERNEL(mega_cpu_squared_error, squared_error, squared_error_part, a, a->rows * a->cols);

static void squared_error_grad_part(mega_squared_error_grad_args *part, int64_t begin)
{
    const mega_dtype t = part->head.dtype;
    part->dx = element_at(part->dx, t, begin * part->cols);
    part->dloss = const_element_at(part->dloss, acc_of(t), begin);
    part->x = const_element_at(part->x, t, begin * part->cols);
    part->target = const_element_at(part->target, t, begin * part->cols);
}

CPU_ROWS_KERNEL(mega_cpu_squared_error_grad, squared_error_grad, squared_error_grad_part, a, a->rows * a->cols);
