/* Masked sum: a value for each token, in double, in order. Too small to share; the definition is as fast as it needs.
 */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_masked_sum.run(team, args);
}

const mega_kernel mega_cpu_masked_sum = {.name = "masked_sum", .run = run};
