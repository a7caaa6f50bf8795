/* Masked sum and its gradient: a value for each token, in double, in order. Too small to share; the definition is as
 * fast as it needs. */
#include "megalith/kernels.h"

static void cpu_masked_sum_run(mega_team *team, const void *args)
{
    mega_plain_masked_sum.run(team, args);
}

static void cpu_masked_sum_grad_run(mega_team *team, const void *args)
{
    mega_plain_masked_sum_grad.run(team, args);
}

const mega_kernel mega_cpu_masked_sum = {.name = "masked_sum", .run = cpu_masked_sum_run};
const mega_kernel mega_cpu_masked_sum_grad = {.name = "masked_sum_grad", .run = cpu_masked_sum_grad_run};
