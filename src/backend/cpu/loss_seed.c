/* The gradient at which the backward pass starts: one number, computed by the plain kernel. */
#include "megalith/kernels.h"

static void cpu_loss_seed_run(mega_team *team, const void *args)
{
    mega_plain_loss_seed.run(team, args);
}

const mega_kernel mega_cpu_loss_seed = {.name = "loss_seed", .run = cpu_loss_seed_run};
