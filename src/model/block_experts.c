/* A layer of experts in the place of an MLP, the MLP beside them that computes every token, and the losses of the
 * router (Fedus et al. 2021, Zoph et al. 2022). */
#include "block.h"

/* One tensor holds the weights of all experts, gate and up one after the other or row by row, and another those that
 * lead back. */
static void place_stacks(const mega_family_names *n, int64_t width, mega_param_options *up, mega_param_options *down)
{
    up->is_stacked = down->is_stacked = true;
    up->transposed_in_file = down->transposed_in_file = n->turned_stacks;
    up->num_parts = 2;
    for (int i = 0; i < 2; i++) {
        up->part[i] = (mega_param_part){.file = n->expert_up_stack, .rows = width, .first = i * width};
        if (n->turned_stacks) up->part[i].first = i, up->part[i].block = 1, up->part[i].stride = 2;
    }
    down->num_parts = 1;
    down->part[0] = (mega_param_part){.file = n->expert_down_stack, .rows = width};
}

/* An MLP of `width` inside, of each expert or of the only one; of a gated one, gate and up are one product. */
static mega_tensor describe_expert(const mega_builder *b, const mega_experts *experts, const mega_transformer *m,
                                   const block_mlp_names *n, int64_t width, mega_tensor x)
{
    const mega_experts_shape *e = &m->net.experts;
    const bool gated = m->net.gated, second = m->net.gate_second;
    mega_linear_options up = block_from_residual(m, !e->has_biases), down = block_into_residual(m, !e->has_biases);
    char file[2][MEGA_PATH];
    if (n->gate_file == NULL && block_names(m)->expert_up_stack != NULL)
        place_stacks(block_names(m), width, &up.weight, &down.weight);
    else if (gated)
        block_place_two(&up.weight, width, second ? n->up_file : n->gate_file, second ? n->gate_file : n->up_file,
                        file);
    x = mega_experts_column_linear(b, experts, n->up, x, (gated ? 2 : 1) * width, &up);
    if (e->gate_limit > 0.0)
        x = mega_op_glu_limited(b->graph, x, m->net.activation, second, e->gate_limit, e->gate_alpha);
    else
        x = gated ? mega_glu(b, x, m->net.activation, second) : mega_activation(b, x, m->net.activation);
    return mega_experts_row_linear(b, experts, n->down, x, m->hidden, &down);
}

static mega_tensor block_expert(const mega_builder *b, const mega_experts *experts, mega_tensor x, const void *self)
{
    const mega_transformer *m = self;
    const mega_family_names *n = block_names(m);
    return describe_expert(b, experts, m,
                           &(block_mlp_names){n->expert_up, n->expert_down, n->expert_gate_file, n->expert_up_file},
                           m->net.experts.hidden, x);
}

static block_mlp_names shared_names(const mega_transformer *m)
{
    const mega_family_names *n = block_names(m);
    return (block_mlp_names){n->shared_up, n->shared_down, n->shared_gate_file, n->shared_up_file};
}

static mega_tensor shared_expert(const mega_builder *b, const mega_experts *experts, mega_tensor x, const void *self)
{
    const mega_transformer *m = self;
    const block_mlp_names n = shared_names(m);
    return describe_expert(b, experts, m, &n, m->net.experts.shared, x);
}

/* With a gate it is a layer of one expert, which every token chooses: the sigmoid of the only logit is its weight. */
static mega_tensor block_shared(const mega_builder *b, const mega_transformer *m, mega_tensor x)
{
    const mega_moe_options gated = {
        .num_experts = 1,
        .router = {.route = {.score = MEGA_ROUTE_SIGMOID, .choices = 1}, .weight = block_from_residual(m, true).weight},
        .router_name = block_names(m)->shared_router};
    const block_mlp_names n = shared_names(m);
    if (m->net.experts.shared_gate) return mega_moe(b, "shared", x, &gated, shared_expert, m, NULL);
    return block_mlp(b, m, &n, m->net.experts.shared, x);
}

/* The numbers that are added to the scores for the choice: state of the model, which no gradient changes. With a rate,
 * each step changes them by what tokens have chosen (Wang et al. 2024). */
static mega_tensor choice_bias(const mega_builder *b, const mega_transformer *m)
{
    const double rate = m->router.bias_rate;
    const mega_param_options o = {.init = MEGA_INIT_ZERO,
                                  .is_buffer = true,
                                  .in_acc = true, /* rounded to 16 bits it would choose other experts */
                                  .buffer_rate = rate,
                                  .buffer_choices = rate > 0.0 ? m->net.experts.choices : 0};
    if (!m->net.experts.choice_bias) return mega_none();
    return mega_builder_param(b, block_names(m)->choice_bias, mega_shape_experts(&m->net.experts, b->index), 0, &o);
}

/* ---- losses of the router ---- */

static int64_t layers_with_experts(const mega_transformer *m)
{
    int64_t count = 0;
    for (int64_t i = 0; i < m->num_layers; i++) count += mega_shape_experts(&m->net.experts, i) > 0;
    return count;
}

/* Adds a loss whose value is the mean over layers, and which trains each of them with the coefficient. */
static void experts_add_mean(const mega_builder *b, const mega_transformer *m, const char *name, mega_loss loss,
                             double coefficient)
{
    const double layers = (double)layers_with_experts(m);
    loss.sum = mega_scale(b, loss.sum, 1.0 / layers);
    mega_layer_loss_add(b, name, loss, coefficient * layers);
}

static void experts_add_losses(const mega_builder *b, const mega_transformer *m, const mega_router_result *router)
{
    const mega_router_training *t = &m->router;
    const mega_router_balance_result r = mega_router_balance(b, router, t->group > 0 ? t->group : b->samples, 0);
    if (t->balance > 0.0) experts_add_mean(b, m, "load_balancing_loss", r.loss, t->balance);
    if (t->z > 0.0) experts_add_mean(b, m, "z_loss", mega_router_z_loss(b, router, mega_none()), t->z);
    experts_add_mean(b, m, "fullest expert", r.fullest, 0.0);
    experts_add_mean(b, m, "emptiest expert", r.emptiest, 0.0);
    if (router->dropped.id != 0)
        experts_add_mean(b, m, "dropped choices", mega_op_weighted_sum(b->graph, router->dropped, mega_none()), 0.0);
    if (mega_shape_experts(&m->net.experts, b->index) > 1) /* that of one expert is 0 over 0 */
        experts_add_mean(b, m, "entropy of experts", r.entropy, 0.0);
    if (router->later.id != 0)
        experts_add_mean(b, m, "later rounds", mega_op_weighted_sum(b->graph, router->later, mega_none()), 0.0);
}

static mega_route_options route_of(const mega_experts_shape *e)
{
    mega_route_options o = {.score = e->score,
                            .choices = e->choices,
                            .normalized = e->normalized,
                            .epsilon = e->normalized ? e->epsilon : 0.0,
                            .scale = e->scale,
                            .margin = e->score == MEGA_ROUTE_SOFTMAX_OF_NEAR ? 2.0 * e->margin : 0.0};
    if (e->groups < 2) return o;
    o.groups = e->groups;
    o.chosen_groups = e->chosen_groups;
    o.group_best = e->group_best > 0 ? e->group_best : e->choices / e->chosen_groups;
    return o;
}

mega_tensor block_experts(const mega_builder *b, const mega_transformer *m, mega_tensor x)
{
    const mega_experts_shape *e = &m->net.experts;
    const mega_moe_options o = {.num_experts = mega_shape_experts(e, b->index),
                                .router = {.route = route_of(e),
                                           .has_bias = e->has_biases,
                                           .choice_bias = choice_bias(b, m),
                                           .jitter = m->router.jitter,
                                           .sinkhorn = m->router.sinkhorn,
                                           .sinkhorn_group = m->router.group,
                                           .weight = block_from_residual(m, true).weight},
                                .router_name = block_names(m)->router,
                                .buffer_factor = m->expert_buffer,
                                .capacity = m->capacity};
    mega_router_result router;
    if (e->jitter > 0.0) x = mega_router_jitter(b, "experts.jitter", x, e->jitter);
    const mega_tensor routed = mega_moe(b, "experts", x, &o, block_expert, m, &router);
    if (b->mode == MEGA_TRAIN) experts_add_losses(b, m, &router);
    if (e->shared == 0) return routed;
    const mega_linear_options blend = block_from_residual(m, false);
    const mega_tensor shared = block_shared(b, m, x);
    return e->blended ? mega_blend(b, block_names(m)->blend, x, routed, shared, &blend) : mega_add(b, routed, shared);
}
