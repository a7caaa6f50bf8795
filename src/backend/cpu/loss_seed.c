/* The gradient of a sum whose quotient by a weight is a loss: one number, by the definition. */
#include "megalith/kernels.h"

static void cpu_loss_seed_run(mega_team *team, const void *args)
{
    mega_plain_loss_seed.run(team, args);
}

const mega_kernel mega_cpu_loss_seed = {.name = "loss_seed", .run = cpu_loss_seed_run};
