/* Accuracy: the threads share the rows and compute each like the plain kernel. Only evaluation uses it. */
#include "cpu/share.h"

static void accuracy_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    mega_accuracy_args part = *(const mega_accuracy_args *)job->args;
    (void)thread;
    part.hit = element_at(part.hit, acc_of(part.head.dtype), begin);
    part.counts = element_at(part.counts, acc_of(part.head.dtype), begin);
    part.logits = const_element_at(part.logits, part.logits_dtype, begin * part.classes);
    part.labels += begin;
    part.rows = end - begin;
    mega_plain_accuracy.run(NULL, &part);
}

static void cpu_accuracy_run(mega_team *team, const void *args)
{
    const mega_accuracy_args *a = args;
    cpu_job_run(team, accuracy_work, args, a->rows, 1, a->rows * a->classes);
}

const mega_kernel mega_cpu_accuracy = {.name = "accuracy", .run = cpu_accuracy_run};
