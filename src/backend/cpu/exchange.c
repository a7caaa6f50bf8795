/* Exchange of two buffers; the threads share the bytes. */
#include "cpu/share.h"

static void cpu_exchange_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_exchange_args *x = ((const cpu_job *)user)->args;
    char *a = x->a, *b = x->b;
    for (int64_t i = begin; i < end; i++) {
        const char kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

static void cpu_exchange_run(const mega_queue *queue, const void *args)
{
    const mega_exchange_args *a = args;
    const int64_t bytes = a->count * (int64_t)mega_dtype_size(a->head.dtype);
    cpu_job_run(mega_queue_team(queue), cpu_exchange_work, args, bytes, 1 << 16, a->count);
}

const mega_kernel mega_cpu_exchange = {.name = "exchange", .run = cpu_exchange_run};
