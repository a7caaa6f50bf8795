/* Rows of tokens in the order of experts: the threads share the rows, which are copied whole. */
#include "cpu/share.h"
#include <string.h>

static void expert_rows_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_expert_rows_args *a = ((const cpu_job *)user)->args;
    const size_t bytes = (size_t)a->cols * mega_dtype_size(a->head.dtype);
    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        char *to = (char *)a->y + (size_t)r * bytes;
        if (a->source[r] < 0) memset(to, 0, bytes);
        else
            memcpy(to, (const char *)a->x + (size_t)(a->source[r] / a->slots) * bytes, bytes);
    }
}

static void cpu_expert_rows_run(const mega_queue *queue, const void *args)
{
    const mega_expert_rows_args *a = args;
    cpu_job_run(mega_queue_team(queue), expert_rows_work, args, a->rows, 1, a->rows * a->cols);
}

const mega_kernel mega_cpu_expert_rows = {.name = "expert_rows", .run = cpu_expert_rows_run};
