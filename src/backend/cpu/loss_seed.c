/* The gradient at which the backward pass starts: one number, computed by the plain kernel. */
#include "megalith/kernels.h"

static void cpu_loss_seed_run(const mega_queue *queue, const void *args)
{
    mega_plain_loss_seed.run(queue, args);
}

const mega_kernel mega_cpu_loss_seed = {.name = "loss_seed", .run = cpu_loss_seed_run};
