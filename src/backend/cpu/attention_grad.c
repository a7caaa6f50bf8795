/* Gradient of attention: key/value heads of sequences are shared among the threads, so that dk and dv of one are summed
 * by one thread in a fixed order (attention_grad_body.c). */
#include "cpu/attention_impl.h"
#include "cpu/share.h"

static void work(void *user, int thread, int size)
{
    const cpu_job *job = user;
    const mega_attention_grad_args *a = job->args;
    int64_t begin, end;
    if (!cpu_job_share(job, thread, size, &begin, &end)) return;
    float *scratch = (float *)a->head.scratch + thread * attention_grad_scratch_words(&a->forward);
    const attention_pairs *pairs = attention_pairs_get(a->head.dtype);
    if (pairs != NULL) pairs->attention_grad(a, begin, end, scratch);
    else
        job->bodies->attention_grad(a, begin, end, scratch);
}

static void run(mega_team *team, const void *args)
{
    const mega_attention_grad_args *a = args;
    if (attention_is_plain(&a->forward)) {
        mega_plain_attention_grad.run(team, args);
        return;
    }
    const int64_t items = a->forward.batch * a->forward.kv_heads;
    cpu_job_run(team, work, args, items, 1, items * a->forward.seq * a->forward.seq);
}

static size_t scratch(const void *args, int threads)
{
    const mega_attention_grad_args *a = args;
    if (attention_is_plain(&a->forward)) return mega_plain_attention_grad.scratch(args, threads);
    return (size_t)(threads * attention_grad_scratch_words(&a->forward)) * sizeof(float);
}

const mega_kernel mega_cpu_attention_grad = {.name = "attention_grad", .run = run, .scratch = scratch};
