/* Attention over a key/value cache; the threads share the key/value heads of the sequences. */
#include "attention_rules.h"
#include "cpu/share.h"

/* Returns the floats of scratch per thread: a score for each key, rounded up to cache lines. */
static int64_t thread_scratch(const mega_attention_cached_args *a)
{
    return (a->capacity + 15) / 16 * 16;
}

/* Returns the words that all threads share: the bucket of the bias for each distance of a key before its query. */
static int64_t shared_scratch(const mega_attention_cached_args *a)
{
    return a->bias != NULL ? thread_scratch(a) : 0;
}

static void cpu_attention_cached_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    const mega_attention_cached_args *a = job->args;
    job->bodies->attention_cached(a, begin, end,
                                  (float *)a->head.scratch + shared_scratch(a) + thread * thread_scratch(a));
}

static void cpu_attention_cached_run(const mega_queue *queue, const void *args)
{
    const mega_attention_cached_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_attention_cached.run(queue, args);
        return;
    }
    int32_t *bucket = a->head.scratch;
    int64_t keys = 0, most = 0;
    for (int64_t b = 0; b < a->batch; b++) {
        const int64_t seen = a->head.step->kv_length[b] + a->rows;
        keys += seen;
        most = seen > most ? seen : most;
    }
    for (int64_t n = 0; n < shared_scratch(a) && n < most; n++) bucket[n] = (int32_t)rules_bucket(&a->rules, n, 0);
    cpu_job_run(mega_queue_team(queue), cpu_attention_cached_work, args, a->batch * a->kv_heads, 1,
                keys * a->rows * a->heads * a->head_dim);
}

static size_t cpu_attention_cached_scratch(const void *args, int threads)
{
    const mega_attention_cached_args *a = args;
    if (a->head.dtype == MEGA_F64) return mega_plain_attention_cached.scratch(args, threads);
    return (size_t)(shared_scratch(a) + threads * thread_scratch(a)) * sizeof(float);
}

const mega_kernel mega_cpu_attention_cached = {
    .name = "attention_cached", .run = cpu_attention_cached_run, .scratch = cpu_attention_cached_scratch};
