/* gelu_grad: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_gelu_grad.run(team, args);
}

const mega_kernel mega_cpu_gelu_grad = {.name = "gelu_grad", .run = run};
