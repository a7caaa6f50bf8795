/* Choices of experts and their gradient: the threads share the rows and compute each like the plain kernel, so that
 * both choose the same experts. */
#include "cpu/share.h"

static void route_part(mega_route_args *part, int64_t begin)
{
    const mega_dtype acc = acc_of(part->head.dtype);
    const int64_t k = part->options.choices;
    part->choice += begin * k;
    part->weight = element_at(part->weight, acc, begin * k);
    part->share = element_at(part->share, acc, begin * part->experts);
    part->logits = const_element_at(part->logits, part->logits_dtype, begin * part->experts);
}

CPU_ROWS_KERNEL(mega_cpu_route, route, route_part, a, a->rows * a->experts * 8);

static void route_grad_part(mega_route_grad_args *part, int64_t begin)
{
    const mega_dtype acc = acc_of(part->head.dtype);
    const int64_t k = part->options.choices;
    part->dlogits = element_at(part->dlogits, part->head.dtype, begin * part->experts);
    if (part->dweight != NULL) part->dweight = const_element_at(part->dweight, acc, begin * k);
    if (part->dshare != NULL) part->dshare = const_element_at(part->dshare, acc, begin * part->experts);
    part->logits = const_element_at(part->logits, part->logits_dtype, begin * part->experts);
    part->choice += begin * k;
}

CPU_ROWS_KERNEL(mega_cpu_route_grad, route_grad, route_grad_part, a, a->rows * a->experts * 8);
