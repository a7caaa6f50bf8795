/* xent_max: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_xent_max.run(team, args);
}

const mega_kernel mega_cpu_xent_max = {.name = "xent_max", .run = run};
