/* The router of a mixture of experts: choices and weights and how often they are made, the jitter of its input, its
 * losses and metrics. */
#include "op_members.h"

#include <math.h>

/* Operands. */
enum { ROUTE_LOGITS, ROUTE_BIAS, ROUTE_KEYS };
enum { ROUTE_CHOICE, ROUTE_WEIGHT, ROUTE_SHARE };
enum { ROUTE_GRAD_DWEIGHT, ROUTE_GRAD_DSHARE, ROUTE_GRAD_LOGITS, ROUTE_GRAD_CHOICE };
enum { ROUTE_JITTER_X, ROUTE_JITTER_SAMPLE_ID, ROUTE_JITTER_SEQ_POSITION };
enum { ROUTE_BALANCE_SHARE, ROUTE_BALANCE_CHOICE };
enum { ROUTE_BALANCE_LOSS, ROUTE_BALANCE_FRACTION };
enum { ROUTE_BALANCE_GRAD_DLOSS, ROUTE_BALANCE_GRAD_FRACTION };
enum { ROUTE_Z_GRAD_DLOSS, ROUTE_Z_GRAD_LOGITS };
enum { ROUTE_LOAD_FULLEST, ROUTE_LOAD_EMPTIEST, ROUTE_LOAD_ENTROPY };
enum { ROUTE_COUNT_CHOICE };
enum { ROUTE_CAPACITY_CHOICE, ROUTE_CAPACITY_WEIGHT };
enum { ROUTE_CAPACITY_KEPT, ROUTE_CAPACITY_DROPPED };

/* ---- route: in logits [T, E] dtype or acc, bias [E] acc or none, keys [T, E] acc or none; out choice [T, k] i32,
 *      weight [T, k] acc, share [T, E] acc ---- */

/* Returns the record of a bias that the choices of a step update, or NULL. */
static const mega_param *updated_bias(const mega_graph *g, int32_t bias)
{
    if (bias == 0 || g->tensor[bias].role != ROLE_WEIGHT) return NULL;
    const mega_param *p = mega_params_get(g->params, g->tensor[bias].param);
    return p->buffer_rate > 0 ? p : NULL;
}

/* Rejects a bias that is updated by the choices of two routers: the mean is that of one. */
static void check_updated_bias(mega_graph *g, mega_tensor bias, int64_t choices)
{
    const mega_param *p = g->status == MEGA_OK ? updated_bias(g, bias.id) : NULL;
    for (int i = 0; i < g->num_ops && p != NULL; i++)
        if (g->op[i].kind == OP_ROUTE && g->op[i].in[ROUTE_BIAS] == bias.id)
            mega_graph_fail(g, MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                                         "op route in \"%s\": the bias %s, which choices update, is that of the router "
                                         "in \"%s\" too; give each its own",
                                         g->scope.path, g->tensor[bias.id].name, g->op[i].scope));
    if (p != NULL && p->buffer_choices != choices)
        mega_graph_fail(
            g, MEGA_MISTAKE("op route in \"%s\": %lld choices of a token, and its bias %s has a buffer_rate "
                            "for %lld; give both the same number",
                            g->scope.path, (long long)choices, g->tensor[bias.id].name, (long long)p->buffer_choices));
}

static mega_route_result route_emit(mega_graph *g, mega_tensor logits, mega_tensor bias, mega_tensor keys,
                                    const mega_route_options *options)
{
    instruction op = {.kind = OP_ROUTE,
                      .in = {[ROUTE_LOGITS] = logits.id, [ROUTE_BIAS] = bias.id, [ROUTE_KEYS] = keys.id},
                      .attr = {.route = *options, .what = "choice"}};
    check_updated_bias(g, bias, options->choices);
    mega_graph_emit(g, &op);
    if (g->status != MEGA_OK) return (mega_route_result){{0}, {0}, {0}};
    return (mega_route_result){{op.out[ROUTE_CHOICE]}, {op.out[ROUTE_WEIGHT]}, {op.out[ROUTE_SHARE]}};
}

mega_route_result mega_op_route(mega_graph *g, mega_tensor logits, mega_tensor bias, const mega_route_options *options)
{
    return route_emit(g, logits, bias, (mega_tensor){0}, options);
}

mega_route_result mega_op_route_by(mega_graph *g, mega_tensor logits, mega_tensor keys,
                                   const mega_route_options *options)
{
    return route_emit(g, logits, (mega_tensor){0}, keys, options);
}

static mega_status route_check_logits(const mega_graph *g, const instruction *op, int in)
{
    MEGA_TRY(mega_op_check_dims(g, op, in, "logits", mega_op_in_float(g, op, in), 2));
    const int64_t experts = mega_op_in_dim(g, op, in, 1);
    if (experts > MEGA_ROUTE_EXPERTS)
        return MEGA_MISTAKE("op %s in \"%s\": %lld experts; expected 1 to %d", mega_op_table[op->kind]->name, op->scope,
                            (long long)experts, MEGA_ROUTE_EXPERTS);
    return MEGA_OK;
}

static mega_status route_check_groups(const instruction *op, int64_t experts)
{
    const mega_route_options *o = &op->attr.route;
    if (o->groups == 0 && (o->chosen_groups != 0 || o->group_best != 0))
        return MEGA_MISTAKE("op route in \"%s\": %lld chosen groups by their best %lld experts, but no groups; give "
                            "their number, or 0 for the others too",
                            op->scope, (long long)o->chosen_groups, (long long)o->group_best);
    if (o->groups == 0) return MEGA_OK;
    if (o->groups < 0 || experts % o->groups != 0)
        return MEGA_MISTAKE("op route in \"%s\": %lld groups of %lld experts; expected a divisor of them", op->scope,
                            (long long)o->groups, (long long)experts);
    const int64_t size = experts / o->groups;
    if (o->group_best < 1 || o->group_best > size)
        return MEGA_MISTAKE("op route in \"%s\": the best %lld experts of groups of %lld; expected 1 to %lld",
                            op->scope, (long long)o->group_best, (long long)size, (long long)size);
    if (o->chosen_groups < 1 || o->chosen_groups > o->groups || o->chosen_groups * size < o->choices)
        return MEGA_MISTAKE("op route in \"%s\": %lld experts from %lld of %lld groups of %lld; expected as many "
                            "experts in the chosen groups at least, and no more groups than there are",
                            op->scope, (long long)o->choices, (long long)o->chosen_groups, (long long)o->groups,
                            (long long)size);
    return MEGA_OK;
}

static mega_status route_check_options(const instruction *op, int64_t experts)
{
    const mega_route_options *o = &op->attr.route;
    if ((unsigned)o->score >= MEGA_ROUTE_SCORE_COUNT)
        return MEGA_MISTAKE("op route in \"%s\": score %d; expected one of mega_route_score", op->scope, (int)o->score);
    if (o->choices < 1 || o->choices > experts)
        return MEGA_MISTAKE("op route in \"%s\": %lld choices of %lld experts; expected 1 to %lld", op->scope,
                            (long long)o->choices, (long long)experts, (long long)experts);
    if (o->normalized && o->score == MEGA_ROUTE_SOFTMAX_OF_CHOSEN)
        return MEGA_MISTAKE("op route in \"%s\": the weights of a softmax over the chosen experts sum to 1; do not "
                            "normalize them",
                            op->scope);
    if (o->normalized && o->score == MEGA_ROUTE_SOFTMAX_OF_NEAR)
        return MEGA_MISTAKE(
            "op route in \"%s\": weights that are shares of softmaxes over near logits; do not normalize "
            "them",
            op->scope);
    if (!(o->margin >= 0.0) || !isfinite(o->margin) || (o->margin > 0.0 && o->score != MEGA_ROUTE_SOFTMAX_OF_NEAR))
        return MEGA_MISTAKE("op route in \"%s\": margin %g; expected 0 or more, and 0 unless the weights are those of "
                            "near logits",
                            op->scope, o->margin);
    if (o->score == MEGA_ROUTE_SOFTMAX_OF_NEAR && (o->groups != 0 || op->in[ROUTE_BIAS] != 0))
        return MEGA_MISTAKE("op route in \"%s\": %s beside weights of near logits, which are near the largest logit; "
                            "leave it out",
                            op->scope, o->groups != 0 ? "groups" : "a bias");
    if (!(o->epsilon >= 0.0) || !isfinite(o->epsilon) || (o->epsilon > 0.0 && !o->normalized))
        return MEGA_MISTAKE("op route in \"%s\": epsilon %g; expected 0 or more, and 0 if the weights are not "
                            "normalized",
                            op->scope, o->epsilon);
    if (!isfinite(o->scale))
        return MEGA_MISTAKE("op route in \"%s\": scale %g; expected a finite number, 0 for 1", op->scope, o->scale);
    return route_check_groups(op, experts);
}

static mega_status route_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(route_check_logits(g, op, ROUTE_LOGITS));
    const int64_t rows = mega_op_in_dim(g, op, ROUTE_LOGITS, 0), experts = mega_op_in_dim(g, op, ROUTE_LOGITS, 1);
    MEGA_TRY(route_check_options(op, experts));
    MEGA_TRY(mega_op_check_operand(g, op, ROUTE_BIAS, "bias", mega_shape_1d(g->acc, experts)));
    MEGA_TRY(mega_op_check_operand(g, op, ROUTE_KEYS, "keys", mega_shape_2d(g->acc, rows, experts)));
    if (op->in[ROUTE_KEYS] != 0 && op->attr.route.groups != 0)
        return MEGA_MISTAKE("op route in \"%s\": a choice by keys from %lld groups; expected 0 groups, as keys say "
                            "which experts are chosen",
                            op->scope, (long long)op->attr.route.groups);
    out[ROUTE_CHOICE] = mega_shape_2d(MEGA_I32, rows, op->attr.route.choices);
    out[ROUTE_WEIGHT] = mega_shape_2d(g->acc, rows, op->attr.route.choices);
    out[ROUTE_SHARE] = mega_shape_2d(g->acc, rows, experts);
    return MEGA_OK;
}

static void route_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_ROUTE_GRAD,
                     .in = {[ROUTE_GRAD_DWEIGHT] = mega_graph_output_gradient(g, op, ROUTE_WEIGHT),
                            [ROUTE_GRAD_DSHARE] = mega_graph_output_gradient(g, op, ROUTE_SHARE),
                            [ROUTE_GRAD_LOGITS] = op->in[ROUTE_LOGITS],
                            [ROUTE_GRAD_CHOICE] = op->out[ROUTE_CHOICE]},
                     .attr = {.route = op->attr.route}};
    mega_graph_gradient_add(g, op->in[ROUTE_LOGITS], mega_graph_emit(g, &d).id);
}

/* Counts in the backward program, because recomputation repeats ops of the forward and each choice counts once. */
static void route_always(mega_graph *g, const instruction *op)
{
    if (updated_bias(g, op->in[ROUTE_BIAS]) == NULL) return;
    instruction c = {.kind = OP_ROUTE_COUNT,
                     .in = {[ROUTE_COUNT_CHOICE] = op->out[ROUTE_CHOICE]},
                     .out = {mega_graph_gradient_tensor(g, op->in[ROUTE_BIAS])},
                     .attr = {.group = g->tensor[op->in[ROUTE_BIAS]].shape.dim[0]}};
    mega_graph_emit(g, &c);
}

const op_row mega_op_row_route = {OP_ROW(route, 3, 3, route),
                                  .optional_in = 1u << ROUTE_BIAS | 1u << ROUTE_KEYS,
                                  .shape = route_shape,
                                  .gradient = route_gradient,
                                  .always = route_always,
                                  .members =
                                      MEMBERS(OUT(route, choice, ROUTE_CHOICE), OUT(route, weight, ROUTE_WEIGHT),
                                              OUT(route, share, ROUTE_SHARE), IN(route, logits, ROUTE_LOGITS),
                                              IN(route, bias, ROUTE_BIAS), IN(route, keys, ROUTE_KEYS),
                                              DIM(route, rows, ROUTE_LOGITS, 0), DIM(route, experts, ROUTE_LOGITS, 1),
                                              DTYPE(route, logits_dtype, ROUTE_LOGITS), ATTR(route, options, route))};

/* ---- route_grad: in dweight [T, k] acc or none, dshare [T, E] acc or none, logits [T, E], choice [T, k]; out dlogits
 *      [T, E] dtype ---- */

static mega_status route_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(route_check_logits(g, op, ROUTE_GRAD_LOGITS));
    const int64_t rows = mega_op_in_dim(g, op, ROUTE_GRAD_LOGITS, 0), k = op->attr.route.choices;
    const int64_t experts = mega_op_in_dim(g, op, ROUTE_GRAD_LOGITS, 1);
    MEGA_TRY(mega_op_check_operand(g, op, ROUTE_GRAD_DWEIGHT, "dweight", mega_shape_2d(g->acc, rows, k)));
    MEGA_TRY(mega_op_check_operand(g, op, ROUTE_GRAD_DSHARE, "dshare", mega_shape_2d(g->acc, rows, experts)));
    MEGA_TRY(mega_op_check_operand(g, op, ROUTE_GRAD_CHOICE, "choice", mega_shape_2d(MEGA_I32, rows, k)));
    out[0] = mega_shape_2d(g->dtype, rows, experts);
    return MEGA_OK;
}

const op_row mega_op_row_route_grad = {
    OP_ROW(route_grad, 4, 1, route_grad), .optional_in = 1u << ROUTE_GRAD_DWEIGHT | 1u << ROUTE_GRAD_DSHARE,
    .shape = route_grad_shape,
    .members = MEMBERS(OUT(route_grad, dlogits, 0), IN(route_grad, dweight, ROUTE_GRAD_DWEIGHT),
                       IN(route_grad, dshare, ROUTE_GRAD_DSHARE), IN(route_grad, logits, ROUTE_GRAD_LOGITS),
                       IN(route_grad, choice, ROUTE_GRAD_CHOICE), DIM(route_grad, rows, ROUTE_GRAD_LOGITS, 0),
                       DIM(route_grad, experts, ROUTE_GRAD_LOGITS, 1),
                       DTYPE(route_grad, logits_dtype, ROUTE_GRAD_LOGITS), ATTR(route_grad, options, route))};

/* ---- route_jitter: in x [T, C], sample_id [T], seq_position [T]; out [T, C]. The gradient is the op itself. ---- */

mega_tensor mega_op_route_jitter(mega_graph *g, mega_tensor x, double jitter, uint32_t site, mega_tensor sample_id,
                                 mega_tensor seq_position)
{
    if (jitter == 0.0) return x;
    instruction op = {.kind = OP_ROUTE_JITTER,
                      .in = {[ROUTE_JITTER_X] = x.id,
                             [ROUTE_JITTER_SAMPLE_ID] = sample_id.id,
                             [ROUTE_JITTER_SEQ_POSITION] = seq_position.id},
                      .attr = {.p = jitter, .site = site}};
    return mega_graph_emit(g, &op);
}

static mega_status route_jitter_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, ROUTE_JITTER_X, "x", g->dtype, 2));
    if (!(op->attr.p > 0.0 && op->attr.p < 1.0))
        return MEGA_MISTAKE("op route_jitter in \"%s\": jitter %g; expected 0 or more, and below 1", op->scope,
                            op->attr.p);
    out[0] = *mega_op_in(g, op, ROUTE_JITTER_X);
    const tensor_shape number = mega_shape_1d(MEGA_I32, out[0].dim[0]);
    MEGA_TRY(mega_op_check_operand(g, op, ROUTE_JITTER_SAMPLE_ID, "sample_id", number));
    return mega_op_check_operand(g, op, ROUTE_JITTER_SEQ_POSITION, "seq_position", number);
}

static void route_jitter_gradient(mega_graph *g, const instruction *op)
{
    instruction d = *op;
    d.in[ROUTE_JITTER_X] = mega_graph_output_gradient(g, op, 0);
    d.out[0] = 0;
    mega_graph_gradient_add(g, op->in[ROUTE_JITTER_X], mega_graph_emit(g, &d).id);
}

const op_row mega_op_row_route_jitter = {
    OP_ROW(route_jitter, 3, 1, route_jitter), .overlays = 1u << ROUTE_JITTER_X, .shape = route_jitter_shape,
    .gradient = route_jitter_gradient,
    .members = MEMBERS(OUT(route_jitter, y, 0), IN(route_jitter, x, ROUTE_JITTER_X),
                       IN(route_jitter, sample_id, ROUTE_JITTER_SAMPLE_ID),
                       IN(route_jitter, seq_position, ROUTE_JITTER_SEQ_POSITION),
                       DIM(route_jitter, rows, ROUTE_JITTER_X, 0), DIM(route_jitter, cols, ROUTE_JITTER_X, 1),
                       ATTR(route_jitter, jitter, p), ATTR(route_jitter, site, site))};

/* ---- route_balance: in share [T, E] acc, choice [T, k] i32; out loss [G] acc, fraction [G, E] acc, with G groups of
 *      attr.group tokens ---- */

mega_route_balance_result mega_op_route_balance(mega_graph *g, mega_tensor share, mega_tensor choice, int64_t group,
                                                int64_t counted)
{
    instruction op = {.kind = OP_ROUTE_BALANCE,
                      .in = {[ROUTE_BALANCE_SHARE] = share.id, [ROUTE_BALANCE_CHOICE] = choice.id},
                      .attr = {.group = group, .route = {.choices = counted}}};
    const mega_tensor loss = mega_graph_emit(g, &op);
    if (g->status != MEGA_OK) return (mega_route_balance_result){{0}, {0}};
    return (mega_route_balance_result){loss, {op.out[ROUTE_BALANCE_FRACTION]}};
}

static mega_status route_balance_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, ROUTE_BALANCE_SHARE, "share", g->acc, 2));
    MEGA_TRY(mega_op_check_dims(g, op, ROUTE_BALANCE_CHOICE, "choice", MEGA_I32, 2));
    const int64_t rows = mega_op_in_dim(g, op, ROUTE_BALANCE_SHARE, 0), group = op->attr.group;
    const int64_t k = mega_op_in_dim(g, op, ROUTE_BALANCE_CHOICE, 1);
    MEGA_TRY(mega_op_check_operand(g, op, ROUTE_BALANCE_CHOICE, "choice", mega_shape_2d(MEGA_I32, rows, k)));
    if (group < 1 || rows % group != 0)
        return MEGA_MISTAKE("op route_balance in \"%s\": groups of %lld rows of %s, which has %lld; expected a divisor "
                            "of them",
                            op->scope, (long long)group, g->tensor[op->in[ROUTE_BALANCE_SHARE]].name, (long long)rows);
    if (op->attr.route.choices < 1 || op->attr.route.choices > k)
        return MEGA_MISTAKE("op route_balance in \"%s\": the first %lld of %lld choices are counted; expected 1 to "
                            "%lld",
                            op->scope, (long long)op->attr.route.choices, (long long)k, (long long)k);
    out[ROUTE_BALANCE_LOSS] = mega_shape_1d(g->acc, rows / group);
    out[ROUTE_BALANCE_FRACTION] = mega_shape_2d(g->acc, rows / group, mega_op_in_dim(g, op, ROUTE_BALANCE_SHARE, 1));
    return MEGA_OK;
}

static void route_balance_gradient(mega_graph *g, const instruction *op)
{
    if (g->tensor[op->out[ROUTE_BALANCE_FRACTION]].gradient != 0)
        mega_graph_fail(g, MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                                     "op route_balance in \"%s\": the loss depends on the fractions of the choices, "
                                     "which have no gradient; use its loss",
                                     op->scope));
    instruction d = {.kind = OP_ROUTE_BALANCE_GRAD,
                     .in = {[ROUTE_BALANCE_GRAD_DLOSS] = mega_graph_output_gradient(g, op, ROUTE_BALANCE_LOSS),
                            [ROUTE_BALANCE_GRAD_FRACTION] = op->out[ROUTE_BALANCE_FRACTION]},
                     .attr = {.group = op->attr.group}};
    mega_graph_gradient_add(g, op->in[ROUTE_BALANCE_SHARE], mega_graph_emit(g, &d).id);
}

const op_row mega_op_row_route_balance = {
    OP_ROW(route_balance, 2, 2, route_balance), .shape = route_balance_shape, .gradient = route_balance_gradient,
    .members =
        MEMBERS(OUT(route_balance, loss, ROUTE_BALANCE_LOSS), OUT(route_balance, fraction, ROUTE_BALANCE_FRACTION),
                IN(route_balance, share, ROUTE_BALANCE_SHARE), IN(route_balance, choice, ROUTE_BALANCE_CHOICE),
                GROUPS(route_balance, groups, ROUTE_BALANCE_SHARE), ATTR(route_balance, rows, group),
                DIM(route_balance, experts, ROUTE_BALANCE_SHARE, 1),
                DIM(route_balance, choices, ROUTE_BALANCE_CHOICE, 1), ATTR(route_balance, counted, route.choices))};

/* ---- route_balance_grad: in dloss [G] acc, fraction [G, E] acc; out dshare [G * group, E] acc ---- */

static mega_status route_balance_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, ROUTE_BALANCE_GRAD_FRACTION, "fraction", g->acc, 2));
    const tensor_shape *fraction = mega_op_in(g, op, ROUTE_BALANCE_GRAD_FRACTION);
    MEGA_TRY(mega_op_check_operand(g, op, ROUTE_BALANCE_GRAD_DLOSS, "dloss", mega_shape_1d(g->acc, fraction->dim[0])));
    out[0] = mega_shape_2d(g->acc, fraction->dim[0] * op->attr.group, fraction->dim[1]);
    return MEGA_OK;
}

const op_row mega_op_row_route_balance_grad = {
    OP_ROW(route_balance_grad, 2, 1, route_balance_grad), .shape = route_balance_grad_shape,
    .members =
        MEMBERS(OUT(route_balance_grad, dshare, 0), IN(route_balance_grad, dloss, ROUTE_BALANCE_GRAD_DLOSS),
                IN(route_balance_grad, fraction, ROUTE_BALANCE_GRAD_FRACTION),
                DIM(route_balance_grad, groups, ROUTE_BALANCE_GRAD_FRACTION, 0), ATTR(route_balance_grad, rows, group),
                DIM(route_balance_grad, experts, ROUTE_BALANCE_GRAD_FRACTION, 1))};

/* ---- route_load: in fraction [G, E] acc; out fullest, emptiest, entropy [G] acc. Metrics, without a gradient. ---- */

mega_route_load_result mega_op_route_load(mega_graph *g, mega_tensor fraction)
{
    instruction op = {.kind = OP_ROUTE_LOAD, .in = {fraction.id}};
    mega_graph_emit(g, &op);
    if (g->status != MEGA_OK) return (mega_route_load_result){{0}, {0}, {0}};
    return (mega_route_load_result){
        {op.out[ROUTE_LOAD_FULLEST]}, {op.out[ROUTE_LOAD_EMPTIEST]}, {op.out[ROUTE_LOAD_ENTROPY]}};
}

static mega_status route_load_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, 0, "fraction", g->acc, 2));
    out[ROUTE_LOAD_FULLEST] = out[ROUTE_LOAD_EMPTIEST] = out[ROUTE_LOAD_ENTROPY] =
        mega_shape_1d(g->acc, mega_op_in_dim(g, op, 0, 0));
    return MEGA_OK;
}

const op_row mega_op_row_route_load = {
    OP_ROW(route_load, 1, 3, route_load), .shape = route_load_shape,
    .members = MEMBERS(OUT(route_load, fullest, ROUTE_LOAD_FULLEST), OUT(route_load, emptiest, ROUTE_LOAD_EMPTIEST),
                       OUT(route_load, entropy, ROUTE_LOAD_ENTROPY), IN(route_load, fraction, 0),
                       DIM(route_load, groups, 0, 0), DIM(route_load, experts, 0, 1))};

/* ---- route_capacity: in choice [T, k] i32, weight [T, k] acc; out kept [T, k] i32, dropped [G] acc, with G groups of
 *      attr.group tokens. Without a gradient. ---- */

mega_route_capacity_result mega_op_route_capacity(mega_graph *g, mega_tensor choice, mega_tensor weight,
                                                  const mega_route_capacity *options)
{
    instruction op = {.kind = OP_ROUTE_CAPACITY,
                      .in = {[ROUTE_CAPACITY_CHOICE] = choice.id, [ROUTE_CAPACITY_WEIGHT] = weight.id},
                      .attr = {.group = options->rows,
                               .experts = options->experts,
                               .capacity = options->capacity,
                               .by_position = options->by_position,
                               .what = "kept"}};
    mega_graph_emit(g, &op);
    if (g->status != MEGA_OK) return (mega_route_capacity_result){{0}, {0}};
    return (mega_route_capacity_result){{op.out[ROUTE_CAPACITY_KEPT]}, {op.out[ROUTE_CAPACITY_DROPPED]}};
}

static mega_status route_capacity_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, ROUTE_CAPACITY_CHOICE, "choice", MEGA_I32, 2));
    const int64_t rows = mega_op_in_dim(g, op, ROUTE_CAPACITY_CHOICE, 0), group = op->attr.group;
    const int64_t k = mega_op_in_dim(g, op, ROUTE_CAPACITY_CHOICE, 1);
    MEGA_TRY(mega_op_check_operand(g, op, ROUTE_CAPACITY_WEIGHT, "weight", mega_shape_2d(g->acc, rows, k)));
    if (op->attr.experts < k || op->attr.experts > MEGA_ROUTE_EXPERTS)
        return MEGA_MISTAKE("op route_capacity in \"%s\": %lld experts and %lld choices of a token; expected as many "
                            "experts at least, and at most %d",
                            op->scope, (long long)op->attr.experts, (long long)k, MEGA_ROUTE_EXPERTS);
    if (group < 1 || rows % group != 0)
        return MEGA_MISTAKE(
            "op route_capacity in \"%s\": groups of %lld rows of %s, which has %lld; expected a divisor "
            "of them",
            op->scope, (long long)group, g->tensor[op->in[ROUTE_CAPACITY_CHOICE]].name, (long long)rows);
    if (op->attr.capacity < 1 || mega_extent_mul(rows, k) > INT32_MAX)
        return MEGA_MISTAKE("op route_capacity in \"%s\": a capacity of %lld, of %lld choices of each of %lld tokens; "
                            "expected 1 or more, and fewer than 2^31 choices in all",
                            op->scope, (long long)op->attr.capacity, (long long)k, (long long)rows);
    out[ROUTE_CAPACITY_KEPT] = mega_shape_2d(MEGA_I32, rows, k);
    out[ROUTE_CAPACITY_DROPPED] = mega_shape_1d(g->acc, rows / group);
    return MEGA_OK;
}

const op_row mega_op_row_route_capacity = {
    OP_ROW(route_capacity, 2, 2, route_capacity), .shape = route_capacity_shape,
    .members =
        MEMBERS(OUT(route_capacity, kept, ROUTE_CAPACITY_KEPT), OUT(route_capacity, dropped, ROUTE_CAPACITY_DROPPED),
                IN(route_capacity, choice, ROUTE_CAPACITY_CHOICE), IN(route_capacity, weight, ROUTE_CAPACITY_WEIGHT),
                GROUPS(route_capacity, groups, ROUTE_CAPACITY_CHOICE), ATTR(route_capacity, rows, group),
                ATTR(route_capacity, experts, experts), DIM(route_capacity, choices, ROUTE_CAPACITY_CHOICE, 1),
                ATTR(route_capacity, capacity, capacity), ATTR(route_capacity, by_position, by_position))};

/* ---- route_sinkhorn: in logits [T, E] dtype or acc; out keys [T, E] acc, of groups of attr.group tokens. Without a
 *      gradient. ---- */

mega_tensor mega_op_route_sinkhorn(mega_graph *g, mega_tensor logits, int64_t group)
{
    instruction op = {.kind = OP_ROUTE_SINKHORN, .in = {logits.id}, .attr = {.group = group, .what = "keys"}};
    return mega_graph_emit(g, &op);
}

static mega_status route_sinkhorn_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(route_check_logits(g, op, 0));
    const int64_t rows = mega_op_in_dim(g, op, 0, 0), group = op->attr.group;
    if (group < 1 || rows % group != 0)
        return MEGA_MISTAKE(
            "op route_sinkhorn in \"%s\": groups of %lld rows of %s, which has %lld; expected a divisor "
            "of them",
            op->scope, (long long)group, g->tensor[op->in[0]].name, (long long)rows);
    out[0] = mega_shape_2d(g->acc, rows, mega_op_in_dim(g, op, 0, 1));
    return MEGA_OK;
}

const op_row mega_op_row_route_sinkhorn = {
    OP_ROW(route_sinkhorn, 1, 1, route_sinkhorn), .is_constant = true, .shape = route_sinkhorn_shape,
    .members = MEMBERS(OUT(route_sinkhorn, keys, 0), IN(route_sinkhorn, logits, 0), GROUPS(route_sinkhorn, groups, 0),
                       ATTR(route_sinkhorn, rows, group), DIM(route_sinkhorn, experts, 0, 1),
                       DTYPE(route_sinkhorn, logits_dtype, 0))};

/* ---- route_z: in logits [T, E] dtype or acc; out loss [T] acc ---- */

mega_tensor mega_op_route_z(mega_graph *g, mega_tensor logits)
{
    instruction op = {.kind = OP_ROUTE_Z, .in = {logits.id}};
    return mega_graph_emit(g, &op);
}

static mega_status route_z_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(route_check_logits(g, op, 0));
    out[0] = mega_shape_1d(g->acc, mega_op_in_dim(g, op, 0, 0));
    return MEGA_OK;
}

static void route_z_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {
        .kind = OP_ROUTE_Z_GRAD,
        .in = {[ROUTE_Z_GRAD_DLOSS] = mega_graph_output_gradient(g, op, 0), [ROUTE_Z_GRAD_LOGITS] = op->in[0]}};
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

const op_row mega_op_row_route_z = {
    OP_ROW(route_z, 1, 1, route_z), .shape = route_z_shape, .gradient = route_z_gradient,
    .members = MEMBERS(OUT(route_z, loss, 0), IN(route_z, logits, 0), DIM(route_z, rows, 0, 0),
                       DIM(route_z, experts, 0, 1), DTYPE(route_z, logits_dtype, 0))};

/* ---- route_z_grad: in dloss [T] acc, logits [T, E]; out dlogits [T, E] dtype ---- */

static mega_status route_z_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(route_check_logits(g, op, ROUTE_Z_GRAD_LOGITS));
    const tensor_shape *logits = mega_op_in(g, op, ROUTE_Z_GRAD_LOGITS);
    MEGA_TRY(mega_op_check_operand(g, op, ROUTE_Z_GRAD_DLOSS, "dloss", mega_shape_1d(g->acc, logits->dim[0])));
    out[0] = mega_shape_2d(g->dtype, logits->dim[0], logits->dim[1]);
    return MEGA_OK;
}

const op_row mega_op_row_route_z_grad = {
    OP_ROW(route_z_grad, 2, 1, route_z_grad), .shape = route_z_grad_shape,
    .members = MEMBERS(OUT(route_z_grad, dlogits, 0), IN(route_z_grad, dloss, ROUTE_Z_GRAD_DLOSS),
                       IN(route_z_grad, logits, ROUTE_Z_GRAD_LOGITS), DIM(route_z_grad, rows, ROUTE_Z_GRAD_LOGITS, 0),
                       DIM(route_z_grad, experts, ROUTE_Z_GRAD_LOGITS, 1),
                       DTYPE(route_z_grad, logits_dtype, ROUTE_Z_GRAD_LOGITS))};

/* ---- route_count: in choice [T, k] i32; out counts [E] acc, E of attr.group ---- */

static mega_status route_count_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, ROUTE_COUNT_CHOICE, "choice", MEGA_I32, 2));
    out[0] = mega_shape_1d(g->acc, op->attr.group);
    return MEGA_OK;
}

const op_row mega_op_row_route_count = {
    OP_ROW(route_count, 1, 1, route_count), .accumulates = 1u << 0, .shape = route_count_shape,
    .members = MEMBERS(OUT(route_count, counts, 0), IN(route_count, choice, ROUTE_COUNT_CHOICE),
                       DIM(route_count, rows, ROUTE_COUNT_CHOICE, 0), ATTR(route_count, experts, group),
                       DIM(route_count, choices, ROUTE_COUNT_CHOICE, 1))};
