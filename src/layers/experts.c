/* Layers of experts: the router, and the linear layers of all experts as one op. */
#include "megalith/experts.h"
#include "layers_impl.h"

#include <stdio.h>

struct mega_experts {
    int64_t num_experts;   /* of all ranks of ep */
    mega_expert_places at; /* of the rows of this rank's experts */
};

/* The ranks that divide the experts of a layer. One that is alone, which every token chooses, is on every rank. */
static mega_axis experts_axis(const mega_builder *b, int64_t num_experts)
{
    return num_experts > 1 ? b->layout->ep : (mega_axis){.size = 1};
}

/* ---- the linear layers of the experts ---- */

/* The biases of a stack "…" are the stack "…_bias", with the parts of the rows of the weight. */
static void stack_bias(const mega_param_options *weight, int64_t out, mega_param_options *bias,
                       char file[MEGA_PARAM_PARTS][MEGA_PATH])
{
    bias->is_stacked = true;
    bias->num_parts = weight->shard_columns ? 1 : weight->num_parts;
    for (int i = 0; i < bias->num_parts && i < MEGA_PARAM_PARTS; i++) {
        snprintf(file[i], MEGA_PATH, "%s_bias", weight->part[i].file != NULL ? weight->part[i].file : "");
        bias->part[i] = weight->shard_columns ? (mega_param_part){.rows = out} : weight->part[i];
        bias->part[i].file = file[i];
    }
}

/* Requests weights and biases of the experts; a part of a weight in the tensor "….weight" has its bias in "….bias". */
static layer_linear experts_request(const mega_builder *b, const mega_experts *e, const char *name, int64_t out,
                                    int64_t in, const mega_param_options *weight, bool no_bias)
{
    char full[2 * MEGA_PATH]; /* a name that is cut here is too long in any case */
    layer_linear p = {.bias = mega_none()};
    snprintf(full, sizeof full, "%s.weight", name);
    mega_param_options cut = *weight;
    cut.shard_count = e->num_experts > 1;
    p.weight = mega_builder_params(b, full, e->num_experts, out, in, &cut);
    if (no_bias) return p;
    char file[MEGA_PARAM_PARTS][MEGA_PATH] = {""};
    mega_param_options bias = {.shard_rows = weight->shard_rows,
                               .blocks = weight->shard_rows ? weight->blocks : 0,
                               .shard_count = cut.shard_count,
                               .partial_gradients = weight->shard_columns};
    if (weight->is_stacked) stack_bias(weight, out, &bias, file);
    else if (!weight->shard_columns)
        layer_copy_parts_to_bias(b, name, weight, &bias, file);
    snprintf(full, sizeof full, "%s.bias", name);
    p.bias = mega_builder_params(b, full, e->num_experts, out, 0, &bias);
    return p;
}

static mega_tensor experts_linear(const mega_builder *b, const mega_experts *e, const char *name, mega_tensor x,
                                  int64_t out, int64_t in, const mega_linear_options *o)
{
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    if (out < 1)
        mega_builder_fail(b,
                          LAYER_FAIL(MEGA_ERR_USAGE, b, name, "out_channels %lld; expected 1 or more", (long long)out));
    const layer_linear p = experts_request(b, e, name, out, in, &o->weight, o->no_bias);
    const mega_tensor y =
        mega_op_expert_linear(b->graph, x, p.weight, p.bias, o->weight.shard_columns ? b->layout->tp.rank : 0, &e->at);
    mega_scope_leave(b->graph, s);
    return y;
}

static bool experts_have_name(const mega_builder *b, const char *name)
{
    if (name != NULL && name[0] != '\0') return true;
    mega_builder_fail(b, MEGA_MISTAKE("layer \"%s\": a linear layer of experts has no name; give it one", b->path));
    return false;
}

mega_tensor mega_experts_column_linear(const mega_builder *b, const mega_experts *experts, const char *name,
                                       mega_tensor x, int64_t out_channels, const mega_linear_options *options)
{
    mega_linear_options o = options != NULL ? *options : (mega_linear_options){.no_bias = false};
    if (!experts_have_name(b, name)) return mega_none();
    o.weight.shard_rows = true;
    return experts_linear(b, experts, name, x, out_channels, mega_tensor_channels(b, x), &o);
}

mega_tensor mega_experts_row_linear(const mega_builder *b, const mega_experts *experts, const char *name, mega_tensor x,
                                    int64_t out_channels, const mega_linear_options *options)
{
    mega_linear_options o = options != NULL ? *options : (mega_linear_options){.no_bias = false};
    if (!experts_have_name(b, name)) return mega_none();
    o.weight.shard_columns = true;
    return experts_linear(b, experts, name, x, out_channels, mega_tensor_channels(b, x) * b->layout->tp.size, &o);
}

/* ---- the router ---- */

/* The choices and weights of all rows that this rank computes. With sequence parallelism the logits of the rows of all
 * ranks of tp are gathered; the router's gradients are partial sums, like those of a norm. */
static mega_router_result moe_route(const mega_builder *b, const char *name, mega_tensor x, const mega_moe_options *o)
{
    if (!layer_has_slab(b)) return mega_router(b, name, x, o->num_experts, &o->router);
    mega_router_result r = {.logits = layer_router_logits(b, name, x, o->num_experts, &o->router), .is_gathered = true};
    r.logits = mega_op_gather_from_sequence(b->graph, r.logits, &b->layout->tp);
    layer_route(b, name, &o->router, &r);
    return r;
}

/* What a layer computes, over ranks in rounds: rows x of the tokens, by experts, whose results y are added with these
 * weights. */
typedef struct moe_layer {
    mega_tensor x, choice, weight, firsts;
    mega_expert_places order; /* of all experts */
    int64_t most;             /* rows of an expert; 0: there may be one of each token */
    mega_expert_rounds rounds;
    mega_expert_function *expert;
    const void *self;
} moe_layer;

/* How many choices each expert keeps, of a group of so many tokens, as Megatron-core and DeepSpeed count them. */
static int64_t moe_capacity(const mega_moe_options *o, int64_t tokens, int64_t choices)
{
    const mega_expert_capacity *c = &o->capacity;
    const double wanted = ceil((double)(tokens * choices) / (double)o->num_experts * c->factor);
    const double capacity = wanted < (double)c->least ? (double)c->least : wanted;
    return capacity < (double)tokens ? (int64_t)capacity : tokens; /* no more can choose an expert */
}

/* Sets the choices that the experts compute, and which part is dropped. */
static void moe_drop(const mega_builder *b, const char *name, const mega_moe_options *o, moe_layer *l,
                     mega_router_result *r)
{
    const mega_expert_capacity *c = &o->capacity;
    if (c->factor == 0.0 || b->mode != MEGA_TRAIN || mega_graph_status(b->graph) != MEGA_OK) return;
    const int64_t tokens = mega_tensor_rows(b, r->choice), choices = mega_tensor_channels(b, r->choice);
    const int64_t group = layer_group_tokens(b, name, c->group > 0 ? c->group : b->samples, tokens);
    if (group == 0) return;
    const mega_route_capacity rule = {.rows = group,
                                      .experts = o->num_experts,
                                      .capacity = moe_capacity(o, group, choices),
                                      .by_position = c->by_position};
    const mega_route_capacity_result kept = mega_op_route_capacity(b->graph, r->choice, r->weight, &rule);
    l->choice = kept.kept;
    l->most = tokens / group * rule.capacity;
    r->dropped = kept.dropped;
}

static bool moe_is_described(const mega_builder *b, const char *name, const mega_moe_options *o,
                             mega_expert_function *expert)
{
    if (mega_graph_status(b->graph) != MEGA_OK) return false;
    if (name != NULL && name[0] != '\0' && o != NULL && o->num_experts > 0 && expert != NULL) return true;
    mega_builder_fail(
        b, MEGA_MISTAKE("layer \"%s\": a layer of experts called \"%s\", of %lld experts%s; expected a name, "
                        "options, 1 expert or more and a function that describes them",
                        b->path, name == NULL ? "" : name, o == NULL ? 0LL : (long long)o->num_experts,
                        expert == NULL ? ", without a function" : ""));
    return false;
}

/* ---- experts of other ranks ---- */

/* The rows of a round are a multiple of this, so that they begin at whole vectors. */
enum { ROUND_ROWS = 8 };

/* Plans rounds for the worst case, that all tokens choose the experts of one rank, and as many of them as they can and
 * as these have room for. */
static mega_expert_rounds moe_rounds(const mega_builder *b, const moe_layer *l, const mega_moe_options *o)
{
    const mega_axis *ep = &b->layout->ep;
    const int64_t tokens = mega_tensor_rows(b, l->choice), slots = mega_tensor_channels(b, l->choice);
    const int64_t own = o->num_experts / ep->size, chosen = tokens * (slots < own ? slots : own);
    const int64_t most = l->most > 0 && l->most * own < chosen ? l->most * own : chosen;
    const double factor = o->buffer_factor == 0.0 ? 1.5 : o->buffer_factor;
    mega_expert_rounds r = {.ranks = ep->size, .rank = ep->rank, .experts = o->num_experts, .rows = most};
    const double wanted = factor * (double)tokens * (double)slots / ep->size;
    if (wanted < (double)most) r.rows = ((int64_t)ceil(wanted) + ROUND_ROWS - 1) / ROUND_ROWS * ROUND_ROWS;
    if (r.rows > most) r.rows = most;
    r.count = r.rows > 0 ? (most + r.rows - 1) / r.rows : 0;
    return r;
}

/* Returns the sums of the results of the rows that one round sends. */
static mega_tensor moe_round(const mega_builder *b, const moe_layer *l, const mega_experts *e, int64_t round)
{
    mega_graph *g = b->graph;
    const mega_axis *ep = &b->layout->ep;
    const mega_expert_places sent = mega_op_expert_send(g, l->choice, &l->order, &l->rounds, round);
    const mega_expert_received_result got = mega_op_expert_received(g, l->firsts, &l->rounds, round);
    mega_expert_places here = mega_op_expert_order(g, got.choice, 0, e->num_experts / ep->size);
    here.counted = round == 0 ? l->order.counted : 0; /* as in a plan, where all experts are chosen alike */
    const mega_experts experts = {e->num_experts, here};
    const mega_tensor needed = round > 0 ? got.needed : mega_none();
    const mega_tensor received = mega_op_all_to_all(g, mega_op_expert_rows(g, l->x, &sent), needed, ep);
    const mega_tensor y = l->expert(b, &experts, mega_op_expert_rows(g, received, &here), l->self);
    const mega_tensor back = mega_op_expert_combine(g, y, mega_none(), &here);
    return mega_op_expert_combine(g, mega_op_all_to_all(g, back, needed, ep), l->weight, &sent);
}

/* Of rounds after the first, which are seldom needed, nothing is kept: their backward computes them again. */
static mega_tensor moe_over_ranks(const mega_builder *b, const moe_layer *l, const mega_experts *e)
{
    mega_tensor sum = moe_round(b, l, e, 0);
    for (int64_t round = 1; round < l->rounds.count; round++) {
        mega_recompute_begin(b);
        const mega_tensor part = moe_round(b, l, e, round);
        mega_recompute_end(b);
        sum = mega_op_add(b->graph, sum, part);
    }
    return sum;
}

/* ---- ranks that generate the same texts ---- */

static bool moe_has_same_tokens(const mega_builder *b, const mega_moe_options *o)
{
    const mega_axis ep = experts_axis(b, o->num_experts);
    return b->mode == MEGA_GENERATE && mega_axis_has_others(&ep);
}

/* The ranks of ep have the same tokens: each computes the rows of its own experts, and the results are added over ep.
 * Thus no row is sent, and none is computed twice. */
static mega_tensor moe_of_own_experts(const mega_builder *b, const mega_moe_options *o, moe_layer *l)
{
    mega_graph *g = b->graph;
    const mega_axis *ep = &b->layout->ep;
    const int64_t own = o->num_experts / ep->size;
    l->order = mega_op_expert_order(g, l->choice, ep->rank * own, own);
    l->order.counted /= ep->size; /* as in a plan, where all experts are chosen alike */
    const mega_experts experts = {o->num_experts, l->order};
    const mega_tensor y = l->expert(b, &experts, mega_op_expert_rows(g, l->x, &l->order), l->self);
    return mega_op_reduce_from_group(g, mega_op_expert_combine(g, y, l->weight, &l->order), ep);
}

static bool moe_fits(const mega_builder *b, const char *name, const mega_moe_options *o)
{
    const int ep = experts_axis(b, o->num_experts).size;
    if (!(o->buffer_factor >= 0.0 && isfinite(o->buffer_factor)))
        mega_builder_fail(b, LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                                        "buffer_factor %g; expected a number above 0, or 0 for 1.5",
                                        layer_shown(o->buffer_factor)));
    else if (o->num_experts % ep != 0)
        mega_builder_fail(b, LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                                        "%lld experts over %d ranks of ep; expected a multiple of the ranks "
                                        "(--expert-model-parallel-size)",
                                        (long long)o->num_experts, ep));
    const mega_expert_capacity *c = &o->capacity;
    if (!(c->factor >= 0.0 && isfinite(c->factor)) || c->least < 0 || c->least > INT32_MAX || c->group < 0)
        mega_builder_fail(b, LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                                        "capacity of factor %g, at least %lld, of groups of %lld samples; expected "
                                        "numbers of 0 or more, and a factor of 0 for no capacity",
                                        layer_shown(c->factor), (long long)c->least, (long long)c->group));
    return mega_graph_status(b->graph) == MEGA_OK;
}

/* ---- the layer ---- */

/* Returns the sums of the results of each token's experts, which are partial sums over tp. */
static mega_tensor moe_experts(const mega_builder *b, const mega_moe_options *o, moe_layer *l)
{
    mega_graph *g = b->graph;
    if (moe_has_same_tokens(b, o)) return moe_of_own_experts(b, o, l);
    l->order = mega_op_expert_order(g, l->choice, 0, o->num_experts);
    const mega_experts experts = {o->num_experts, l->order};
    const mega_axis ep = experts_axis(b, o->num_experts);
    if (!mega_axis_has_others(&ep)) {
        const mega_tensor y = l->expert(b, &experts, mega_op_expert_rows(g, l->x, &l->order), l->self);
        return mega_op_expert_combine(g, y, l->weight, &l->order);
    }
    if (mega_graph_status(g) != MEGA_OK) return mega_none();
    l->rounds = moe_rounds(b, l, o);
    l->firsts = mega_op_gather_firsts(g, l->order.first, &b->layout->ep);
    return moe_over_ranks(b, l, &experts);
}

mega_tensor mega_moe(const mega_builder *b, const char *name, mega_tensor x, const mega_moe_options *options,
                     mega_expert_function *expert, const void *self, mega_router_result *out_router)
{
    mega_graph *g = b->graph;
    char router[2 * MEGA_PATH]; /* a name that is cut here is too long in any case */
    if (out_router != NULL) *out_router = (mega_router_result){.is_gathered = false};
    if (!moe_is_described(b, name, options, expert) || !moe_fits(b, name, options)) return mega_none();
    snprintf(router, sizeof router, "%s.gate", name);
    mega_router_result r = moe_route(b, options->router_name != NULL ? options->router_name : router, x, options);
    const mega_scope s = mega_scope_enter(g, "%s", name);
    moe_layer l = {.x = layer_to_cut_weights(b, x), .choice = r.choice, .expert = expert, .self = self};
    moe_drop(b, name, options, &l, &r);
    /* The results of experts are partial sums over tp, so that the gradient of the weights is one too. With sequence
     * parallelism the gather of the logits adds it up. */
    l.weight = layer_has_slab(b) ? r.weight : mega_op_copy_to_group(g, r.weight, &b->layout->tp);
    const mega_tensor sum = layer_from_cut_weights(b, moe_experts(b, options, &l));
    if (l.firsts.id != 0 && out_router != NULL && b->mode == MEGA_TRAIN)
        r.later = mega_op_expert_later(g, l.firsts, &l.rounds);
    mega_scope_leave(g, s);
    if (out_router != NULL) *out_router = r;
    return sum;
}

/* ---- two results, weighted by token ---- */

/* Returns the rows of y times the sigmoid of each row of logits [T, 1]: those of one expert that each token chooses. */
static mega_tensor times_sigmoid(const mega_builder *b, mega_tensor y, mega_tensor logits)
{
    static const mega_route_options one = {.score = MEGA_ROUTE_SIGMOID, .choices = 1};
    const mega_route_result r = mega_op_route(b->graph, logits, mega_none(), &one);
    const mega_expert_places at = mega_op_expert_order(b->graph, r.choice, 0, 1);
    return mega_op_expert_combine(b->graph, y, r.weight, &at);
}

mega_tensor mega_blend(const mega_builder *b, const char *name, mega_tensor x, mega_tensor first, mega_tensor second,
                       const mega_linear_options *options)
{
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    char row[2][2 * MEGA_PATH]; /* a name that is cut here is too long in any case */
    snprintf(row[0], sizeof row[0], "%s.first", name);
    snprintf(row[1], sizeof row[1], "%s.second", name);
    const mega_tensor u = mega_linear(b, row[0], x, 1, options), v = mega_linear(b, row[1], x, 1, options);
    const mega_tensor above = mega_add(b, u, mega_scale(b, v, -1.0));
    first = times_sigmoid(b, first, above);
    second = times_sigmoid(b, second, mega_scale(b, above, -1.0));
    mega_scope_leave(b->graph, s);
    return mega_add(b, first, second);
}
