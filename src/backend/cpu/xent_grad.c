/* xent_grad: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_xent_grad.run(team, args);
}

const mega_kernel mega_cpu_xent_grad = {.name = "xent_grad", .run = run};
