/* norm: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_norm.run(team, args);
}

const mega_kernel mega_cpu_norm = {.name = "norm", .run = run};
