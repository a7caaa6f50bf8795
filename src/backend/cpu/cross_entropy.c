/* Cross-entropy of whole rows of logits. The threads share the rows and compute each like the plain kernel. This is for
 * classifiers, whose rows are short; xent.c has the cross-entropy of the LM head. */
#include "cpu/share.h"

static void cross_entropy_part(mega_cross_entropy_args *part, int64_t begin)
{
    part->loss = element_at(part->loss, acc_of(part->head.dtype), begin);
    part->logits = const_element_at(part->logits, part->logits_dtype, begin * part->classes);
    part->labels += begin;
}

CPU_ROWS_KERNEL(mega_cpu_cross_entropy, cross_entropy, cross_entropy_part, a, a->rows * a->classes);

static void cross_entropy_grad_part(mega_cross_entropy_grad_args *part, int64_t begin)
{
    part->dlogits = element_at(part->dlogits, part->logits_dtype, begin * part->classes);
    part->logits = const_element_at(part->logits, part->logits_dtype, begin * part->classes);
    part->dloss = const_element_at(part->dloss, acc_of(part->head.dtype), begin);
    part->labels += begin;
}

CPU_ROWS_KERNEL(mega_cpu_cross_entropy_grad, cross_entropy_grad, cross_entropy_grad_part, a, a->rows * a->classes);

/* One number per row, summed in order in double: too little work for several threads. */
static void cpu_labelled_sum_run(const mega_queue *queue, const void *args)
{
    mega_plain_labelled_sum.run(queue, args);
}

const mega_kernel mega_cpu_labelled_sum = {.name = "labelled_sum", .run = cpu_labelled_sum_run};

/* The same: two numbers per row. */
static void cpu_label_weights_run(const mega_queue *queue, const void *args)
{
    mega_plain_label_weights.run(queue, args);
}

const mega_kernel mega_cpu_label_weights = {.name = "label_weights", .run = cpu_label_weights_run};
