/* A layer of experts in the place of an MLP, and the MLP beside them that computes every token. */
#include "block.h"

/* One tensor holds the weights of all experts, with gate and up one after the other, and another their way back. */
static void place_stacks(const mega_family_names *n, int64_t width, mega_param_options *up, mega_param_options *down)
{
    up->is_stacked = down->is_stacked = true;
    up->num_parts = 2;
    for (int i = 0; i < 2; i++)
        up->part[i] = (mega_param_part){.file = n->expert_up_stack, .rows = width, .first = i * width};
    down->num_parts = 1;
    down->part[0] = (mega_param_part){.file = n->expert_down_stack, .rows = width};
}

/* An MLP of `width` inside whose gate and up are one product: of each expert, or of the only one. */
static mega_tensor describe_expert(const mega_builder *b, const mega_experts *experts, const mega_transformer *m,
                                   const block_mlp_names *n, int64_t width, mega_tensor x)
{
    mega_linear_options up = block_from_residual(m, true), down = block_into_residual(m, true);
    char file[2][MEGA_PATH];
    if (n->gate_file != NULL) block_place_two(&up.weight, width, n->gate_file, n->up_file, file);
    else
        place_stacks(block_names(m), width, &up.weight, &down.weight);
    x = mega_experts_column_linear(b, experts, n->up, x, 2 * width, &up);
    x = mega_glu(b, x, m->net.activation, m->net.gate_second);
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

/* The numbers that are added to the scores for the choice: state of the model, which no gradient changes. */
static mega_tensor choice_bias(const mega_builder *b, const mega_transformer *m)
{
    const mega_param_options o = {.init = MEGA_INIT_ZERO, .is_buffer = true};
    const char *name = block_names(m)->choice_bias;
    if (!m->net.experts.choice_bias) return mega_none();
    if (mega_dtype_is_half(mega_graph_dtype(b->graph)))
        mega_builder_fail(b, MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                                       "layer \"%s\": %s in %s is not implemented yet: rounded to 16 bits it would "
                                       "choose other experts; train and run this model in fp32, without --bf16 and "
                                       "--fp16",
                                       b->path, name, mega_dtype_name(mega_graph_dtype(b->graph))));
    return mega_builder_param(b, name, m->net.experts.count, 0, &o);
}

static mega_route_options route_of(const mega_experts_shape *e)
{
    mega_route_options o = {.score = e->score,
                            .choices = e->choices,
                            .normalized = e->normalized,
                            .epsilon = e->normalized ? e->epsilon : 0.0,
                            .scale = e->scale};
    if (e->groups < 2) return o;
    o.groups = e->groups;
    o.chosen_groups = e->chosen_groups;
    o.group_best = 2;
    return o;
}

mega_tensor block_experts(const mega_builder *b, const mega_transformer *m, mega_tensor x)
{
    const mega_experts_shape *e = &m->net.experts;
    const mega_moe_options o = {.num_experts = e->count,
                                .router = {.route = route_of(e),
                                           .choice_bias = choice_bias(b, m),
                                           .weight = block_from_residual(m, true).weight},
                                .router_name = block_names(m)->router};
    const mega_tensor routed = mega_moe(b, "experts", x, &o, block_expert, m, NULL);
    return e->shared == 0 ? routed : mega_add(b, routed, block_shared(b, m, x));
}
