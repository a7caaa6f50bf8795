/* Running statistics: few numbers, so the caller's thread computes them as the plain kernel does. */
#include "megalith/kernels.h"

static void cpu_running_run(const mega_queue *queue, const void *args)
{
    mega_plain_running.run(queue, args);
}

const mega_kernel mega_cpu_running = {.name = "running", .run = cpu_running_run};
