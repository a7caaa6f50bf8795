/* Gradient of attention: key/value heads of sequences are shared among the threads, so that dk and dv of one are summed
 * by one thread in a fixed order (attention_grad_body.c). */
#include "cpu/share.h"

static int64_t padded(int64_t n)
{
    return (n + MEGA_TILE_COLS - 1) / MEGA_TILE_COLS * MEGA_TILE_COLS;
}

/* Floats that one thread needs, as attention_grad_body.c lays them out; a multiple of 16. */
static int64_t thread_scratch(const mega_attention_args *a)
{
    const int64_t S = padded(a->seq), D = padded(a->head_dim), block = MEGA_QUERY_BLOCK * D;
    return 2 * S * a->head_dim + 3 * S * D + 3 * block + 2 * (int64_t)MEGA_QUERY_BLOCK * MEGA_KEY_BLOCK;
}

static void work(void *user, int thread, int size)
{
    const cpu_job *job = user;
    const mega_attention_grad_args *a = job->args;
    int64_t begin, end;
    if (!cpu_job_share(job, thread, size, &begin, &end)) return;
    job->bodies->attention_grad(a, begin, end, (float *)a->head.scratch + thread * thread_scratch(&a->forward));
}

static void run(mega_team *team, const void *args)
{
    const mega_attention_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_attention_grad.run(team, args);
        return;
    }
    const int64_t items = a->forward.batch * a->forward.kv_heads;
    cpu_job_run(team, work, args, items, 1, items * a->forward.seq * a->forward.seq);
}

static size_t scratch(const void *args, int threads)
{
    const mega_attention_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) return mega_plain_attention_grad.scratch(args, threads);
    return (size_t)(threads * thread_scratch(&a->forward)) * sizeof(float);
}

const mega_kernel mega_cpu_attention_grad = {.name = "attention_grad", .run = run, .scratch = scratch};
