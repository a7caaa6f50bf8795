/* place, with ZeRO 3: a bucket of weights is a value that is gathered before its first use in a span and is alive until
 * the last. A span ends at the end of the forward, or if many other weights are used before the next use. */
#include "place_impl.h"

typedef struct span {
    int bucket, first, last; /* instructions that use it */
    int64_t clock;           /* elements of all buckets used until then */
} span;

typedef struct spans {
    span *list; /* in the order of first use */
    int count;
    int64_t capacity;
    int *current; /* by bucket: its last span; -1: none */
} spans;

static int bucket_of(const mega_graph *g, int32_t weight)
{
    return mega_params_get(g->params, g->tensor[weight].param)->bucket;
}

/* Returns the weight that a tensor is, or is a view of; 0 if there is none or every rank keeps it whole. */
static int32_t weight_behind(const mega_graph *g, int32_t t)
{
    const int32_t root = g->tensor[t].role == ROLE_VIEW ? g->tensor[t].base : t;
    if (t == 0 || g->tensor[root].role != ROLE_WEIGHT) return 0;
    return mega_params_bucket(g->params, bucket_of(g, root))->kept_at < 0 ? root : 0;
}

static int64_t weights_elements(const mega_graph *g, int bucket)
{
    return mega_params_bucket(g->params, bucket)->count;
}

/* Counts the elements of buckets used so far; a bucket counts again whenever the program switches to it. */
typedef struct walk {
    int64_t clock;
    int bucket;
} walk;

static mega_status weights_use(const mega_graph *g, spans *s, walk *w, int bucket, int i, int64_t reuse)
{
    span *now = s->current[bucket] < 0 ? NULL : &s->list[s->current[bucket]];
    const int64_t between = now == NULL ? 0 : w->clock - now->clock;
    if (bucket != w->bucket) w->clock += weights_elements(g, bucket);
    w->bucket = bucket;
    if (now != NULL && between <= reuse) {
        now->last = i;
        now->clock = w->clock;
        return MEGA_OK;
    }
    if (!mega_array_reserve(&s->list, &s->capacity, s->count + 1, sizeof *s->list))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory to place weights");
    s->current[bucket] = s->count;
    s->list[s->count++] = (span){bucket, i, i, w->clock};
    return MEGA_OK;
}

/* Finds the spans in instructions [begin, end). A bucket stays gathered until its next use if at most `reuse` elements
 * of other buckets are used in between. */
static mega_status find_spans(const mega_graph *g, spans *s, int begin, int end, int64_t reuse)
{
    walk w = {0, -1};
    s->count = 0;
    for (int b = 0; b < mega_params_num_buckets(g->params); b++) s->current[b] = -1;
    for (int i = begin; i < end; i++)
        for (int k = 0; k < OP_MAX_IN; k++) {
            const int32_t weight = weight_behind(g, g->op[i].in[k]);
            if (weight != 0) MEGA_TRY(weights_use(g, s, &w, bucket_of(g, weight), i, reuse));
        }
    return MEGA_OK;
}

/* Returns the elements of all buckets that are gathered at instruction i. */
static int64_t live_at(const mega_graph *g, const spans *s, int i)
{
    int64_t live = 0;
    for (int k = 0; k < s->count; k++)
        if (s->list[k].first <= i && i <= s->list[k].last) live += weights_elements(g, s->list[k].bucket);
    return live;
}

static int64_t most_live(const mega_graph *g, const spans *s)
{
    int64_t most = 0;
    for (int k = 0; k < s->count; k++) {
        const int64_t live = live_at(g, s, s->list[k].first);
        most = live > most ? live : most;
    }
    return most;
}

/* Returns the operand (a weight, or a view of one) as a part of the gathered bucket `whole`. */
static int32_t held_weight(place *p, int32_t t, int32_t whole)
{
    mega_graph *g = p->g;
    graph_tensor copy = g->tensor[t];
    copy.offset += mega_place_param_offset(g, g->tensor[weight_behind(g, t)].param);
    copy.base = whole;
    return mega_graph_tensor_add(g, &copy);
}

static mega_status use_held(place *p, const span *s, int32_t whole)
{
    mega_graph *g = p->g;
    for (int i = s->first; i <= s->last; i++)
        for (int k = 0; k < OP_MAX_IN; k++) {
            const int32_t t = g->op[i].in[k], weight = weight_behind(g, t);
            if (weight == 0 || bucket_of(g, weight) != s->bucket) continue;
            const int32_t held = held_weight(p, t, whole);
            if (held == 0) return g->status;
            g->op[i].in[k] = held;
        }
    return MEGA_OK;
}

/* Inserts the gathers of one phase. The gather of a bucket that may be prefetched starts at the first use of the
 * previous bucket. */
static mega_status gather_phase(place *p, spans *s, int begin, int end)
{
    mega_graph *g = p->g;
    const bool backward = begin >= g->num_forward;
    MEGA_TRY(find_spans(g, s, begin, end, g->buckets.place.reuse_elements));
    if (most_live(g, s) > g->buckets.place.live_elements) MEGA_TRY(find_spans(g, s, begin, end, 0));
    for (int k = 0; k < s->count; k++) {
        const span *now = &s->list[k];
        const int64_t elements = weights_elements(g, now->bucket);
        const bool is_early = k > 0 && elements <= g->buckets.place.prefetch_elements &&
                              live_at(g, s, now[-1].first) + elements <= g->buckets.place.live_elements;
        const int32_t whole = mega_place_bucket_tensor(p, now->bucket, false);
        if (whole == 0) return g->status;
        instruction op = {.kind = OP_GATHER_START, .out = {whole}, .attr = {.bucket = now->bucket}};
        MEGA_TRY(mega_place_insert(p, is_early ? now[-1].first : now->first, backward, op));
        op = (instruction){.kind = OP_GATHER_WAIT, .in = {whole}, .attr = {.bucket = now->bucket}};
        MEGA_TRY(mega_place_insert(p, now->first, backward, op));
        MEGA_TRY(use_held(p, now, whole));
    }
    return MEGA_OK;
}

mega_status mega_place_weight_gathers(place *p)
{
    mega_graph *g = p->g;
    spans s = {.current = mega_malloc(((size_t)mega_params_num_buckets(g->params) + 1) * sizeof *s.current)};
    if (s.current == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory to place weights");
    mega_status st = gather_phase(p, &s, 0, g->num_forward);
    if (st == MEGA_OK) st = gather_phase(p, &s, g->num_forward, g->num_ops);
    MEGA_FREE(s.list, s.current);
    return st;
}
