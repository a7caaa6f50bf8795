/* Accuracy: the threads share the rows and compute each like the plain kernel. Only evaluation uses it. */
#include "cpu/share.h"

static void accuracy_part(mega_accuracy_args *part, int64_t begin)
{
    part->hit = element_at(part->hit, acc_of(part->head.dtype), begin);
    part->counts = element_at(part->counts, acc_of(part->head.dtype), begin);
    part->logits = const_element_at(part->logits, part->logits_dtype, begin * part->classes);
    part->labels += begin;
}

CPU_ROWS_KERNEL(mega_cpu_accuracy, accuracy, accuracy_part, a, a->rows * a->classes);
