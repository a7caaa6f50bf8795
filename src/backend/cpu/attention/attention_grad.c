/* Gradient of attention (attention_grad_body.c). The threads share the key/value heads of the sequences. One thread
 * computes dk and dv of a head, summed over queries, and dq, summed over keys, each in a fixed order. If fewer heads
 * than threads are left at the end, these are cut into parts: dk and dv of a range of keys, or dq of a range of
 * queries. Both kinds of part need the scores, so that of the five products per pair of blocks, the former takes four
 * and the latter three. */
#include "cpu/attention/attention_impl.h"
#include "cpu/share.h"

/* Products per pair of blocks: of the whole item, of a part of its keys, of a part of its queries. */
#define WHOLE_COST   5
#define KEYS_COST    4
#define QUERIES_COST 3
#define CUT_COST     (KEYS_COST + QUERIES_COST)

/* pairs_of_queries returns the pairs of blocks of query block n of a head, pairs_of_keys those of key block n. */
static int64_t pairs_of_queries(const mega_attention_args *a, int64_t n)
{
    return attention_end_keys(a, n) - attention_first_keys(a, n);
}

static int64_t pairs_of_keys(const mega_attention_args *a, int64_t n)
{
    return attention_end_queries(a, n) - attention_first_queries(a, n);
}

static int64_t attention_grad_pairs(const mega_attention_args *a)
{
    int64_t pairs = 0;
    for (int64_t n = 0; n < attention_query_blocks(a); n++) pairs += pairs_of_queries(a, n);
    return pairs;
}

/* Returns the smallest number of blocks that together have at least `pairs` pairs: 0 if `pairs` is not positive, at
 * most all `blocks`. */
static int64_t blocks_before(const mega_attention_args *a, int64_t (*count)(const mega_attention_args *, int64_t),
                             int64_t blocks, int64_t pairs)
{
    int64_t n = 0;
    for (int64_t before = 0; n < blocks && before < pairs; n++) before += count(a, n);
    return n;
}

typedef void grad_body(const mega_attention_grad_args *g, int64_t item, const attention_part *part, float *scratch);

/* Computes the part of a cut item that corresponds to [begin, end) of its cost. */
static void cut_item(grad_body *body, const mega_attention_grad_args *g, int64_t item, int64_t begin, int64_t end,
                     float *scratch)
{
    const mega_attention_args *a = &g->forward;
    const int64_t blocks = attention_key_blocks(a), queries = attention_query_blocks(a);
    const int64_t keys = KEYS_COST * attention_grad_pairs(a);
    attention_part part = {.keys = true};
    part.key_begin = blocks_before(a, pairs_of_keys, blocks, begin / KEYS_COST);
    part.key_end = blocks_before(a, pairs_of_keys, blocks, end / KEYS_COST);
    if (part.key_begin < part.key_end) {
        part.query_begin = attention_first_queries(a, part.key_begin);
        part.query_end = attention_end_queries(a, part.key_end - 1);
        body(g, item, &part, scratch);
    }
    part = (attention_part){.key_end = blocks, .queries = true};
    part.query_begin = blocks_before(a, pairs_of_queries, queries, (begin - keys) / QUERIES_COST);
    part.query_end = blocks_before(a, pairs_of_queries, queries, (end - keys) / QUERIES_COST);
    if (part.query_begin < part.query_end) body(g, item, &part, scratch);
}

/* Returns how many of the last items to cut: those left over, if cutting them is faster although a thread may get a
 * block of keys more than its share; else 0. */
static int64_t items_to_cut(const mega_attention_args *a, int64_t items, int size)
{
    const int64_t rest = items % size, gain = size * WHOLE_COST - rest * CUT_COST;
    return attention_key_blocks(a) * gain > 2 * KEYS_COST * size ? rest : 0;
}

typedef struct grad_job {
    const mega_attention_grad_args *args;
    grad_body *body;
    int64_t whole;                 /* number of items that are not cut; they come first */
    int64_t whole_cost, item_cost; /* cost of an item that is not cut; of one that is */
} grad_job;

/* Computes the items that begin within [begin, end) of the total cost, and the parts of cut items within it. */
static void cpu_attention_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const grad_job *j = user;
    const mega_attention_args *a = &j->args->forward;
    float *scratch = (float *)j->args->head.scratch + attention_line_words(a) + attention_sums_words(j->args) +
                     thread * attention_grad_scratch_words(a);
    const int64_t cost = j->item_cost, first_cut = j->whole * j->whole_cost;
    const attention_part whole = {
        .key_end = attention_key_blocks(a), .query_end = attention_query_blocks(a), .keys = true, .queries = true};
    for (int64_t item = (begin + j->whole_cost - 1) / j->whole_cost; item < j->whole && item * j->whole_cost < end;
         item++)
        j->body(j->args, item, &whole, scratch);
    begin = begin > first_cut ? begin - first_cut : 0;
    end -= first_cut;
    for (int64_t n = begin / cost; n * cost < end; n++)
        cut_item(j->body, j->args, j->whole + n, begin > n * cost ? begin - n * cost : 0,
                 end < (n + 1) * cost ? end - n * cost : cost, scratch);
}

/* Adds the sums of all sequences and blocks of queries to the gradients of biases, in their order. */
static void add_biases(const mega_attention_grad_args *g)
{
    const mega_attention_args *a = &g->forward;
    const int64_t blocks = attention_query_blocks(a), buckets = a->rules.bias_buckets;
    const float *sums = (const float *)g->head.scratch + attention_line_words(a);
    for (int64_t h = 0; h < a->heads; h++)
        for (int64_t n = 0; n < buckets; n++) {
            double sum = 0.0;
            for (int64_t b = 0; b < a->batch; b++)
                for (int64_t i = 0; i < blocks; i++)
                    sum += (double)sums[((b * a->heads + h) * blocks + i) * buckets + n];
            ((float *)g->dbias)[n * a->heads + h] += (float)sum;
        }
}

static void cpu_attention_grad_run(const mega_queue *queue, const void *args)
{
    const mega_attention_grad_args *g = args;
    const mega_attention_args *a = &g->forward;
    if (attention_is_plain(a)) {
        mega_plain_attention_grad.run(queue, args);
        return;
    }
    const int64_t items = a->batch * a->kv_heads;
    if (items == 0 || a->seq == 0) return;
    if (a->bias != NULL) attention_fill_buckets(a, g->head.scratch);
    mega_team *const all = items * a->seq * a->keys < CPU_SMALL_JOB ? NULL : mega_queue_team(queue);
    const attention_pairs *pairs = attention_pairs_get(g->head.dtype);
    const int64_t cut = items_to_cut(a, items, mega_team_size(all)), both = attention_grad_pairs(a);
    grad_job job = {.args = g,
                    .body = pairs != NULL ? pairs->attention_grad : mega_cpu_bodies_get()->attention_grad,
                    .whole = items - cut,
                    .whole_cost = WHOLE_COST * both,
                    .item_cost = CUT_COST * both};
    mega_team_for(all, job.whole * job.whole_cost + cut * job.item_cost, 1, cpu_attention_grad_work, &job);
    if (g->dbias != NULL) add_biases(g);
}

static size_t cpu_attention_grad_scratch(const void *args, int threads)
{
    const mega_attention_grad_args *a = args;
    if (attention_is_plain(&a->forward)) return mega_plain_attention_grad.scratch(args, threads);
    return (size_t)(attention_line_words(&a->forward) + attention_sums_words(a) +
                    threads * attention_grad_scratch_words(&a->forward)) *
           sizeof(float);
}

const mega_kernel mega_cpu_attention_grad = {
    .name = "attention_grad", .run = cpu_attention_grad_run, .scratch = cpu_attention_grad_scratch};
