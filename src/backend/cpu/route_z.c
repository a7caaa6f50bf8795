/* The z-loss and its gradient: the threads share the rows and compute each like the plain kernel. */
#include "cpu/share.h"

static void route_z_part(mega_route_z_args *part, int64_t begin)
{
    part->loss = element_at(part->loss, acc_of(part->head.dtype), begin);
    part->logits = const_element_at(part->logits, part->logits_dtype, begin * part->experts);
}

CPU_ROWS_KERNEL(mega_cpu_route_z, route_z, route_z_part, a, a->rows * a->experts * 8);

static void route_z_grad_part(mega_route_z_grad_args *part, int64_t begin)
{
    part->dlogits = element_at(part->dlogits, part->head.dtype, begin * part->experts);
    part->dloss = const_element_at(part->dloss, acc_of(part->head.dtype), begin);
    part->logits = const_element_at(part->logits, part->logits_dtype, begin * part->experts);
}

CPU_ROWS_KERNEL(mega_cpu_route_z_grad, route_z_grad, route_z_grad_part, a, a->rows * a->experts * 8);
