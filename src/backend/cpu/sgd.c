/* sgd: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_sgd.run(team, args);
}

const mega_kernel mega_cpu_sgd = {.name = "sgd", .run = run};
