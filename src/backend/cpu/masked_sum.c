/* Masked sum and its gradient: one value per token, summed in order in double. This is too little work for several
 * threads; the plain kernel is fast enough. */
#include "megalith/kernels.h"

static void cpu_masked_sum_run(const mega_queue *queue, const void *args)
{
    mega_plain_masked_sum.run(queue, args);
}

static void cpu_masked_sum_grad_run(const mega_queue *queue, const void *args)
{
    mega_plain_masked_sum_grad.run(queue, args);
}

const mega_kernel mega_cpu_masked_sum = {.name = "masked_sum", .run = cpu_masked_sum_run};
const mega_kernel mega_cpu_masked_sum_grad = {.name = "masked_sum_grad", .run = cpu_masked_sum_grad_run};
