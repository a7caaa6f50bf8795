/* xent_sum: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_xent_sum.run(team, args);
}

const mega_kernel mega_cpu_xent_sum = {.name = "xent_sum", .run = run};
