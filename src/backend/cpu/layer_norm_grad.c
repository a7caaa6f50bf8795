/* layer_norm_grad: runs the definition. */
#include "megalith/kernels.h"

static void run(mega_team *team, const void *args)
{
    mega_plain_layer_norm_grad.run(team, args);
}

const mega_kernel mega_cpu_layer_norm_grad = {.name = "layer_norm_grad", .run = run};
