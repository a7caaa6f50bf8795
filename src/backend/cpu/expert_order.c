/* The order of the rows of experts: the plain kernel. A choice takes a nanosecond of one thread, while the products of
 * its row take several microseconds of all. */
#include "cpu/share.h"

static void cpu_expert_order_run(const mega_queue *queue, const void *args)
{
    mega_plain_expert_order.run(queue, args);
}

const mega_kernel mega_cpu_expert_order = {.name = "expert_order", .run = cpu_expert_order_run};
