/* The check of a step: a few numbers, computed by the plain kernel. */
#include "megalith/kernels.h"

static void cpu_check_run(const mega_queue *queue, const void *args)
{
    mega_plain_check.run(queue, args);
}

const mega_kernel mega_cpu_check = {.name = "check", .run = cpu_check_run};
