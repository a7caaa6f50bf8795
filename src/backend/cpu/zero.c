/* Zeroing; the threads share the bytes. */
#include "megalith/kernels.h"

static void cpu_zero_run(const mega_queue *queue, const void *args)
{
    const mega_zero_args *a = args;
    mega_team_zero(mega_queue_team(queue), a->x, (size_t)a->count * mega_dtype_size(a->head.dtype));
}

const mega_kernel mega_cpu_zero = {.name = "zero", .run = cpu_zero_run};
