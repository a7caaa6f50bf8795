/* Forward attention (attention_body.c). The threads share the key/value heads of the sequences; if these do not divide
 * evenly, they also share the query blocks of a head. The result of a block does not depend on the thread that computes
 * it. */
#include "cpu/attention/attention_impl.h"
#include "cpu/share.h"

/* Returns the number of pairs of query block `block` and a key block: a measure of work. */
static int64_t pairs_of(const mega_attention_args *a, int64_t block)
{
    return attention_end_keys(a, block) - attention_first_keys(a, block);
}

static int64_t pairs_of_head(const mega_attention_args *a)
{
    int64_t pairs = 0;
    for (int64_t block = 0; block < attention_query_blocks(a); block++) pairs += pairs_of(a, block);
    return pairs;
}

/* Returns the first query block of a head that has at least `pairs` before it. */
static int64_t block_at(const mega_attention_args *a, int64_t pairs, int64_t blocks)
{
    int64_t block = 0;
    for (int64_t before = 0; block < blocks && before < pairs; block++) before += pairs_of(a, block);
    return block;
}

static void cpu_attention_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    const mega_attention_args *a = job->args;
    float *scratch = (float *)a->head.scratch + attention_line_words(a) + thread * attention_scratch_words(a);
    const int64_t blocks = attention_query_blocks(a), pairs = pairs_of_head(a);
    const attention_pairs *by_pairs = attention_pairs_get(a->head.dtype);
    for (int64_t item = begin / pairs; item * pairs < end; item++) {
        const int64_t from = begin - item * pairs, to = end - item * pairs;
        const int64_t first = from > 0 ? block_at(a, from, blocks) : 0,
                      last = to < pairs ? block_at(a, to, blocks) : blocks;
        if (first >= last) continue;
        if (by_pairs != NULL) by_pairs->attention(a, item, first, last, scratch);
        else
            job->bodies->attention(a, item, first, last, scratch);
    }
}

static void cpu_attention_run(const mega_queue *queue, const void *args)
{
    const mega_attention_args *a = args;
    if (attention_is_plain(a)) {
        mega_plain_attention.run(queue, args);
        return;
    }
    const int64_t items = a->batch * a->kv_heads;
    if (items == 0 || a->seq == 0) return;
    if (a->bias != NULL) attention_fill_buckets(a, a->head.scratch);
    cpu_job_run(mega_queue_team(queue), cpu_attention_work, args, items * pairs_of_head(a), 1,
                items * a->seq * a->keys);
}

static size_t cpu_attention_scratch(const void *args, int threads)
{
    const mega_attention_args *a = args;
    if (attention_is_plain(a)) return mega_plain_attention.scratch(args, threads);
    return (size_t)(attention_line_words(a) + threads * attention_scratch_words(a)) * sizeof(float);
}

const mega_kernel mega_cpu_attention = {
    .name = "attention", .run = cpu_attention_run, .scratch = cpu_attention_scratch};
