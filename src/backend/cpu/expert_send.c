/* The rows that a round sends and brings, and how many are needed: the plain kernels, which take a nanosecond a row, as
 * the order of rows does. */
#include "cpu/share.h"

static void cpu_expert_send_run(const mega_queue *queue, const void *args)
{
    mega_plain_expert_send.run(queue, args);
}

static void cpu_expert_received_run(const mega_queue *queue, const void *args)
{
    mega_plain_expert_received.run(queue, args);
}

static void cpu_expert_later_run(const mega_queue *queue, const void *args)
{
    mega_plain_expert_later.run(queue, args);
}

const mega_kernel mega_cpu_expert_send = {.name = "expert_send", .run = cpu_expert_send_run};
const mega_kernel mega_cpu_expert_received = {.name = "expert_received", .run = cpu_expert_received_run};
const mega_kernel mega_cpu_expert_later = {.name = "expert_later", .run = cpu_expert_later_run};
