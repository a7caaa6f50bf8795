/* Finds the cheapest changes that make a run fit in memory; plans the changed run to test each. */
#include "rules/train_rules.h"
#include "train_impl.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_VARIANTS = 16, MOST_BATCHES = 64, SHOWN = 3 };

typedef struct variant {
    int64_t micro, layers; /* layers: number of layers with block recomputation */
    mega_recompute_granularity granularity;
    mega_recompute_method method;
    bool bf16;   /* bf16 is enabled, and was not before */
    bool anew;   /* packed weights are not kept, but packed again each time */
    int changes; /* number of changes among micro-batch, recomputation, precision, packing */
    size_t total;
    double cost; /* train_whole_run */
} variant;

typedef struct search {
    const trainer *t;
    size_t limit;
    int64_t batch[MOST_BATCHES]; /* the valid micro-batch sizes, ascending */
    int num_batches;
    variant found[MOST_VARIANTS];
    int num_found;
    size_t least; /* smallest total bytes of all plans so far; SIZE_MAX: none */
    int stage;    /* that which needed most in the last plan */
} search;

/* Plans a variant; returns whether it is valid and fits. */
static bool fits(search *s, variant *v)
{
    mega_train_options cfg = *s->t->cfg; /* a shallow copy: nothing in it is freed */
    train_whole_run run = {.stage = s->stage};
    cfg.engine.optim.micro_batch_size = v->micro;
    cfg.engine.graph.recompute_granularity = v->granularity;
    cfg.engine.graph.recompute_method = v->method;
    cfg.engine.graph.recompute_num_layers = v->layers;
    cfg.engine.backend.no_pack_weights = v->anew;
    if (v->bf16) cfg.engine.backend.bf16 = true, cfg.engine.backend.params_dtype = MEGA_BF16;
    if (!train_plan_all_stages(s->t, &cfg, s->least > s->limit ? s->least : s->limit, &run)) return false;
    s->stage = run.stage;
    v->total = run.bytes;
    v->cost = run.cost;
    if (v->total < s->least) s->least = v->total;
    return v->total <= s->limit;
}

static bool recomputes_as_now(const search *s, const variant *v)
{
    const mega_train_options *cfg = s->t->cfg;
    return v->granularity == cfg->engine.graph.recompute_granularity &&
           v->method == cfg->engine.graph.recompute_method && v->layers == cfg->engine.graph.recompute_num_layers;
}

/* Returns whether a makes one change less than v and is otherwise the same. */
static bool is_part_of(const search *s, const variant *a, const variant *v)
{
    const bool same_way = a->granularity == v->granularity && a->method == v->method && a->layers == v->layers;
    return a->micro >= v->micro && (!a->bf16 || v->bf16) &&
           (a->anew == s->t->cfg->engine.backend.no_pack_weights || v->anew) && (same_way || recomputes_as_now(s, a));
}

static void remedy_keep(search *s, variant v)
{
    for (int i = 0; i < s->num_found; i++)
        if (is_part_of(s, &s->found[i], &v)) return;
    v.changes = (v.micro != s->t->cfg->engine.optim.micro_batch_size) + (v.bf16 ? 1 : 0) +
                (recomputes_as_now(s, &v) ? 0 : 1) + (v.anew != s->t->cfg->engine.backend.no_pack_weights);
    if (v.changes > 0 && s->num_found < MOST_VARIANTS) s->found[s->num_found++] = v;
}

/* Finds the largest micro-batch that fits; memory use grows with it. */
static void try_batches(search *s, variant v)
{
    int low = 0, high = s->num_batches; /* all below low fit, and none from high on */
    variant best = {0};
    while (low < high) {
        const int middle = (low + high) / 2;
        v.micro = s->batch[middle];
        if (fits(s, &v)) {
            best = v;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low > 0) remedy_keep(s, best);
}

/* Finds the smallest number of recomputed layers that fits. */
static void try_block(search *s, variant v)
{
    const mega_train_options *cfg = s->t->cfg;
    const bool is_block = cfg->engine.graph.recompute_method == MEGA_RECOMPUTE_BLOCK;
    int64_t low = is_block ? cfg->engine.graph.recompute_num_layers : 0,
            high = cfg->model.num_layers; /* low does not fit */
    variant best = {0};
    v.granularity = MEGA_RECOMPUTE_FULL;
    v.method = MEGA_RECOMPUTE_BLOCK;
    while (low + 1 < high) {
        v.layers = (low + high) / 2;
        if (fits(s, &v)) {
            best = v;
            high = v.layers;
        } else {
            low = v.layers;
        }
    }
    if (best.total > 0) remedy_keep(s, best);
}

static void try_ways(search *s, bool bf16, bool anew)
{
    const mega_train_options *cfg = s->t->cfg;
    variant v = {.micro = cfg->engine.optim.micro_batch_size,
                 .layers = cfg->engine.graph.recompute_num_layers,
                 .granularity = cfg->engine.graph.recompute_granularity,
                 .method = cfg->engine.graph.recompute_method,
                 .bf16 = bf16,
                 .anew = anew};
    try_batches(s, v);
    if (cfg->skip_train || cfg->engine.graph.activation_budget > 0) return; /* a budget decides what is recomputed */
    if (cfg->engine.graph.recompute_granularity == MEGA_RECOMPUTE_NONE) {
        v.granularity = MEGA_RECOMPUTE_SELECTIVE;
        try_batches(s, v);
    }
    if (cfg->engine.graph.recompute_granularity != MEGA_RECOMPUTE_FULL ||
        cfg->engine.graph.recompute_method == MEGA_RECOMPUTE_BLOCK)
        try_block(s, v);
    v.granularity = MEGA_RECOMPUTE_FULL;
    v.method = MEGA_RECOMPUTE_UNIFORM;
    v.layers = 1;
    try_batches(s, v);
}

static void list_batches(search *s)
{
    const mega_train_options *cfg = s->t->cfg;
    const int64_t *ramp = cfg->engine.optim.rampup_batch_size;
    for (int64_t b = 1; b <= cfg->engine.optim.micro_batch_size && s->num_batches < MOST_BATCHES; b++) {
        const bool divides_ramp = ramp[2] == 0 || (ramp[0] % b == 0 && ramp[1] % b == 0);
        if (cfg->engine.optim.global_batch_size % (b * cfg->engine.data_parallel_size) == 0 && divides_ramp)
            s->batch[s->num_batches++] = b;
    }
}

static int cheaper(const void *a, const void *b)
{
    const variant *x = a, *y = b;
    if (x->cost < y->cost || x->cost > y->cost) return x->cost < y->cost ? -1 : 1;
    if (x->changes != y->changes) return x->changes - y->changes;
    return (x->total > y->total) - (x->total < y->total);
}

/* Writes the options of a variant to text, without a space at the end. */
static void remedy_options(const search *s, const variant *v, char *text, size_t size)
{
    const mega_train_options *cfg = s->t->cfg;
    mega_buffer b = {0};
    if (v->micro != cfg->engine.optim.micro_batch_size)
        mega_buffer_printf(&b, " --micro-batch-size %lld", (long long)v->micro);
    if (v->bf16) mega_buffer_puts(&b, " --bf16");
    if (v->anew != cfg->engine.backend.no_pack_weights) mega_buffer_puts(&b, " --no-pack-weights");
    if (v->granularity != cfg->engine.graph.recompute_granularity)
        mega_buffer_printf(&b, " --recompute-granularity %s",
                           v->granularity == MEGA_RECOMPUTE_FULL ? "full" : "selective");
    if (v->method == MEGA_RECOMPUTE_BLOCK && v->method != cfg->engine.graph.recompute_method)
        mega_buffer_puts(&b, " --recompute-method block");
    if (v->method == MEGA_RECOMPUTE_UNIFORM && cfg->engine.graph.recompute_method == MEGA_RECOMPUTE_BLOCK)
        mega_buffer_puts(&b, " --recompute-method uniform");
    if (v->layers != cfg->engine.graph.recompute_num_layers)
        mega_buffer_printf(&b, " --recompute-num-layers %lld", (long long)v->layers);
    snprintf(text, size, "%s", b.data != NULL ? b.data + 1 : "");
    mega_buffer_fini(&b);
}

static void remedy_show(search *s, mega_buffer *out)
{
    char options[160], bytes[32];
    train_whole_run run = {.stage = 0};
    const double now = train_plan_all_stages(s->t, s->t->cfg, SIZE_MAX, &run) ? run.cost : 0;
    qsort(s->found, (size_t)s->num_found, sizeof *s->found, cheaper);
    mega_buffer_printf(out, "it would fit with%s (time is estimated from the operations and bytes of the programs):\n",
                       s->num_found > 1 ? " one of" : "");
    for (int i = 0; i < s->num_found && i < SHOWN; i++) {
        const variant *v = &s->found[i];
        remedy_options(s, v, options, sizeof options);
        mega_buffer_printf(out, "  %s: %s, %+.0f %% time\n", options,
                           train_bytes(bytes, sizeof bytes, (double)v->total), now > 0 ? 100 * (v->cost / now - 1) : 0);
    }
}

/* Prefers fewer changes: combinations of three are listed only if none with two fits. */
static void drop_long_ways(search *s)
{
    int few = 0, kept = 0;
    for (int i = 0; i < s->num_found; i++) few += s->found[i].changes <= 2;
    for (int i = 0; i < s->num_found && few > 0; i++)
        if (s->found[i].changes <= 2) s->found[kept++] = s->found[i];
    if (few > 0) s->num_found = kept;
}

static void try_all(search *s, const mega_engine_memory *m)
{
    const mega_backend_options *b = &s->t->cfg->engine.backend;
    list_batches(s);
    for (int anew = b->no_pack_weights; anew < 1 + (m->packed > 0 || b->no_pack_weights); anew++)
        for (int bf16 = 0; bf16 < (b->params_dtype == MEGA_F32 ? 2 : 1); bf16++) try_ways(s, bf16 == 1, anew == 1);
    drop_long_ways(s);
}

/* If what no change makes smaller is too much, no variant is planned: for a large model that takes long. */
void train_suggest(const trainer *t, size_t limit, mega_buffer *out)
{
    search s = {.t = t, .limit = limit, .least = SIZE_MAX};
    char text[32];
    mega_engine_memory m;
    mega_engine_memory_get(t->engine, &m);
    const size_t states = m.weights + m.masters + m.gradients + m.moments,
                 fixed = states + train_bytes_beside_engine(t);
    if (fixed <= limit) try_all(&s, &m);
    if (s.num_found > 0) {
        remedy_show(&s, out);
        return;
    }
    const bool has_ranks = t->cfg->engine.world_size > 1;
    if (has_ranks && train_suggest_ranks(t, limit, out) > 0) return;
    mega_buffer_printf(out, "no micro-batch, %srecomputation or precision makes it fit",
                       has_ranks ? "ZeRO stage, tensor or pipeline parallelism of these ranks, " : "");
    if (s.least < SIZE_MAX)
        mega_buffer_printf(out, " (the least is %s)", train_bytes(text, sizeof text, (double)s.least));
    else if (fixed > limit && states > fixed / 2)
        mega_buffer_printf(out, " (weights, gradients and the optimizer alone take %s)",
                           train_bytes(text, sizeof text, (double)states));
    const size_t order = train_host_memory_get(t).order;
    if (order > train_memory_total(t) / 2)
        mega_buffer_printf(out,
                           "; the order of samples alone takes %s: take fewer --train-iters or --eval-iters, a longer "
                           "--eval-interval or --seq-length, or data of fewer documents\n",
                           train_bytes(text, sizeof text, (double)order));
    else
        mega_buffer_printf(out,
                           "; divide it among %s ranks (%s) by --zero-stage 3, --tensor-model-parallel-size or "
                           "--pipeline-model-parallel-size, or take a machine with more memory, a shorter "
                           "--seq-length, or a smaller network (--num-layers, --hidden-size)\n",
                           has_ranks ? "more" : "several", train_advise_ranks(t->cfg));
}
