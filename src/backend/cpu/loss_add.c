/* Adds a loss of a micro-batch to the sums of a step: two numbers, computed by the plain kernel. */
#include "megalith/kernels.h"

static void cpu_loss_add_run(const mega_queue *queue, const void *args)
{
    mega_plain_loss_add.run(queue, args);
}

const mega_kernel mega_cpu_loss_add = {.name = "loss_add", .run = cpu_loss_add_run};
