/* Attention: key/value heads of sequences are shared among the threads (attention_body.c). */
#include "cpu/share.h"

static int64_t padded(int64_t n)
{
    return (n + MEGA_TILE_COLS - 1) / MEGA_TILE_COLS * MEGA_TILE_COLS;
}

/* Floats that one thread needs, as attention_body.c lays them out; a multiple of 16. */
static int64_t thread_scratch(const mega_attention_args *a)
{
    const int64_t S = padded(a->seq), D = padded(a->head_dim), block = MEGA_QUERY_BLOCK * D;
    return S * a->head_dim + S * D + 2 * block + (int64_t)MEGA_QUERY_BLOCK * MEGA_KEY_BLOCK;
}

static void work(void *user, int thread, int size)
{
    const cpu_job *job = user;
    const mega_attention_args *a = job->args;
    int64_t begin, end;
    if (!cpu_job_share(job, thread, size, &begin, &end)) return;
    job->bodies->attention(a, begin, end, (float *)a->head.scratch + thread * thread_scratch(a));
}

static void run(mega_team *team, const void *args)
{
    const mega_attention_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_attention.run(team, args);
        return;
    }
    const int64_t items = a->batch * a->kv_heads;
    cpu_job_run(team, work, args, items, 1, items * a->seq * a->seq);
}

static size_t scratch(const void *args, int threads)
{
    const mega_attention_args *a = args;
    if (a->head.dtype == MEGA_F64) return mega_plain_attention.scratch(args, threads);
    return (size_t)(threads * thread_scratch(a)) * sizeof(float);
}

const mega_kernel mega_cpu_attention = {.name = "attention", .run = run, .scratch = scratch};
