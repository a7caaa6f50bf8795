/* Running statistics, and a bias of the choice of experts: few numbers, so the caller's thread computes them as the
 * plain kernels do. */
#include "megalith/kernels.h"

static void cpu_running_run(const mega_queue *queue, const void *args)
{
    mega_plain_running.run(queue, args);
}

static void cpu_choice_bias_run(const mega_queue *queue, const void *args)
{
    mega_plain_choice_bias.run(queue, args);
}

const mega_kernel mega_cpu_running = {.name = "running", .run = cpu_running_run};
const mega_kernel mega_cpu_choice_bias = {.name = "choice_bias", .run = cpu_choice_bias_run};
