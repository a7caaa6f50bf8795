/* Cross-entropy of whole rows of logits. The threads share the rows and compute each like the plain kernel. This is for
 * classifiers, whose rows are short; xent.c has the cross-entropy of the LM head. */
#include "cpu/share.h"

static void cross_entropy_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    mega_cross_entropy_args part = *(const mega_cross_entropy_args *)job->args;
    (void)thread;
    part.loss = element_at(part.loss, acc_of(part.head.dtype), begin);
    part.logits = const_element_at(part.logits, part.logits_dtype, begin * part.classes);
    part.labels += begin;
    part.rows = end - begin;
    mega_plain_cross_entropy.run(NULL, &part);
}

static void cpu_cross_entropy_run(mega_team *team, const void *args)
{
    const mega_cross_entropy_args *a = args;
    cpu_job_run(team, cross_entropy_work, args, a->rows, 1, a->rows * a->classes);
}

static void cross_entropy_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    mega_cross_entropy_grad_args part = *(const mega_cross_entropy_grad_args *)job->args;
    (void)thread;
    part.dlogits = element_at(part.dlogits, part.logits_dtype, begin * part.classes);
    part.logits = const_element_at(part.logits, part.logits_dtype, begin * part.classes);
    part.dloss = const_element_at(part.dloss, acc_of(part.head.dtype), begin);
    part.labels += begin;
    part.rows = end - begin;
    mega_plain_cross_entropy_grad.run(NULL, &part);
}

static void cpu_cross_entropy_grad_run(mega_team *team, const void *args)
{
    const mega_cross_entropy_grad_args *a = args;
    cpu_job_run(team, cross_entropy_grad_work, args, a->rows, 1, a->rows * a->classes);
}

/* One number per row, summed in order in double: too little work for several threads. */
static void cpu_labelled_sum_run(mega_team *team, const void *args)
{
    mega_plain_labelled_sum.run(team, args);
}

const mega_kernel mega_cpu_cross_entropy = {.name = "cross_entropy", .run = cpu_cross_entropy_run};
const mega_kernel mega_cpu_cross_entropy_grad = {.name = "cross_entropy_grad", .run = cpu_cross_entropy_grad_run};
const mega_kernel mega_cpu_labelled_sum = {.name = "labelled_sum", .run = cpu_labelled_sum_run};
