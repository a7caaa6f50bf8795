/* What the formulas of the optimizers take in an update: computed by the plain kernel. */
#include "megalith/kernels.h"

static void cpu_numbers_run(const mega_queue *queue, const void *args)
{
    mega_plain_numbers.run(queue, args);
}

const mega_kernel mega_cpu_numbers = {.name = "numbers", .run = cpu_numbers_run};
