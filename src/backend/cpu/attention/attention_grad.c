/* Gradient of attention: key/value heads of sequences are shared among the threads (attention_grad_body.c). dk and dv
 * of one are summed over queries, dq over keys, each in a fixed order by one thread. Heads that are left over, where
 * there are fewer than threads, are cut: dk and dv of a range of keys, or dq of a range of queries. Both need the
 * scores, so of the five products of a pair of blocks four go into the one and three into the other. */
#include "cpu/attention/attention_impl.h"
#include "cpu/share.h"

#define WHOLE_COST   5
#define KEYS_COST    4
#define QUERIES_COST 3
#define CUT_COST     (KEYS_COST + QUERIES_COST)

/* Pairs of blocks that the first n query blocks of a head have; that its first n key blocks have. */
static int64_t pairs_of_queries(const mega_attention_args *a, int64_t n)
{
    return a->causal ? n * (n + 1) / 2 : n * attention_blocks(a);
}

static int64_t pairs_of_keys(const mega_attention_args *a, int64_t n)
{
    const int64_t blocks = attention_blocks(a);
    return a->causal ? n * blocks - n * (n - 1) / 2 : n * blocks;
}

/* How many blocks have no more than this many pairs before them; none for what is less than nothing, at most all. */
static int64_t blocks_before(const mega_attention_args *a, int64_t (*count)(const mega_attention_args *, int64_t),
                             int64_t pairs)
{
    int64_t n = 0;
    while (n < attention_blocks(a) && count(a, n) < pairs) n++;
    return n;
}

typedef void grad_body(const mega_attention_grad_args *g, int64_t item, const attention_part *part, float *scratch);

/* Of a cut item, what lies in [begin, end) of its cost. */
static void cut_item(grad_body *body, const mega_attention_grad_args *g, int64_t item, int64_t begin, int64_t end,
                     float *scratch)
{
    const mega_attention_args *a = &g->forward;
    const int64_t blocks = attention_blocks(a), keys = KEYS_COST * pairs_of_keys(a, blocks);
    attention_part part = {.query_end = blocks, .keys = true};
    part.key_begin = blocks_before(a, pairs_of_keys, begin / KEYS_COST);
    part.key_end = blocks_before(a, pairs_of_keys, end / KEYS_COST);
    part.query_begin = a->causal ? part.key_begin : 0;
    if (part.key_begin < part.key_end) body(g, item, &part, scratch);
    part = (attention_part){.key_end = blocks, .queries = true};
    part.query_begin = blocks_before(a, pairs_of_queries, (begin - keys) / QUERIES_COST);
    part.query_end = blocks_before(a, pairs_of_queries, (end - keys) / QUERIES_COST);
    if (part.query_begin < part.query_end) body(g, item, &part, scratch);
}

/* How many items are left over and faster cut, though a thread may have a block of keys more than its part. */
static int64_t items_to_cut(const mega_attention_args *a, int64_t items, int size)
{
    const int64_t rest = items % size, gain = size * WHOLE_COST - rest * CUT_COST;
    return attention_blocks(a) * gain > 2 * KEYS_COST * size ? rest : 0;
}

typedef struct grad_job {
    const mega_attention_grad_args *args;
    grad_body *body;
    int64_t whole;                 /* items; those after them are cut */
    int64_t whole_cost, item_cost; /* of a whole item; of a cut one */
} grad_job;

/* What lies in [begin, end) of the cost of all items: whole ones that begin there, and parts of cut ones. */
static void cpu_attention_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const grad_job *j = user;
    const mega_attention_args *a = &j->args->forward;
    float *scratch = (float *)j->args->head.scratch + thread * attention_grad_scratch_words(a);
    const int64_t blocks = attention_blocks(a), cost = j->item_cost, first_cut = j->whole * j->whole_cost;
    const attention_part whole = {.key_end = blocks, .query_end = blocks, .keys = true, .queries = true};
    for (int64_t item = (begin + j->whole_cost - 1) / j->whole_cost; item < j->whole && item * j->whole_cost < end;
         item++)
        j->body(j->args, item, &whole, scratch);
    begin = begin > first_cut ? begin - first_cut : 0;
    end -= first_cut;
    for (int64_t n = begin / cost; n * cost < end; n++)
        cut_item(j->body, j->args, j->whole + n, begin > n * cost ? begin - n * cost : 0,
                 end < (n + 1) * cost ? end - n * cost : cost, scratch);
}

static void cpu_attention_grad_run(mega_team *team, const void *args)
{
    const mega_attention_grad_args *g = args;
    const mega_attention_args *a = &g->forward;
    if (attention_is_plain(a)) {
        mega_plain_attention_grad.run(team, args);
        return;
    }
    const int64_t items = a->batch * a->kv_heads;
    if (items == 0 || a->seq == 0) return;
    mega_team *const all = items * a->seq * a->seq < CPU_SMALL_JOB ? NULL : team;
    const attention_pairs *pairs = attention_pairs_get(g->head.dtype);
    const int64_t cut = items_to_cut(a, items, mega_team_size(all)), both = pairs_of_queries(a, attention_blocks(a));
    grad_job job = {.args = g,
                    .body = pairs != NULL ? pairs->attention_grad : mega_cpu_bodies_get()->attention_grad,
                    .whole = items - cut,
                    .whole_cost = WHOLE_COST * both,
                    .item_cost = CUT_COST * both};
    mega_team_for(all, job.whole * job.whole_cost + cut * job.item_cost, 1, cpu_attention_grad_work, &job);
}

static size_t cpu_attention_grad_scratch(const void *args, int threads)
{
    const mega_attention_grad_args *a = args;
    if (attention_is_plain(&a->forward)) return mega_plain_attention_grad.scratch(args, threads);
    return (size_t)(threads * attention_grad_scratch_words(&a->forward)) * sizeof(float);
}

const mega_kernel mega_cpu_attention_grad = {
    .name = "attention_grad", .run = cpu_attention_grad_run, .scratch = cpu_attention_grad_scratch};
