/* Cases of the ops of a router. Part of test_ops.c. */

/* Logits [T, C] of an input, and k choices of the C experts. */
static mega_route_options chosen_by(const sketch *k, mega_route_score score, bool normalized)
{
    return (mega_route_options){.score = score,
                                .choices = k->s.C < 3 ? k->s.C : 3,
                                .normalized = normalized,
                                .epsilon = normalized ? 1e-3 : 0,
                                .scale = normalized ? 2.5 : 0};
}

static mega_tensor sum_of(const sketch *k, mega_tensor x)
{
    return mega_op_weighted_sum(k->g, mega_op_row_sum(k->g, x), mega_none()).sum;
}

/* Weights and shares in one result; the shares by their squares, as all of a token sum to 1. */
static void route_of(sketch *k, mega_tensor logits, mega_tensor bias, const mega_route_options *o)
{
    const mega_route_result r = mega_op_route(k->g, logits, bias, o);
    mega_graph_output(k->g, r.choice, "choice");
    const mega_tensor weights = sum_of(k, mega_op_mul(k->g, r.weight, r.weight));
    result(k, mega_op_add(k->g, weights, sum_of(k, mega_op_mul(k->g, r.share, r.share))));
}

static void route_softmax(sketch *k)
{
    const mega_route_options o = chosen_by(k, MEGA_ROUTE_SOFTMAX, false);
    route_of(k, k->x, mega_none(), &o);
}

static void route_softmax_normalized(sketch *k)
{
    const mega_route_options o = chosen_by(k, MEGA_ROUTE_SOFTMAX, true);
    route_of(k, k->x, mega_none(), &o);
}

/* The logits are acc, of a linear layer. */
static void route_of_chosen(sketch *k)
{
    mega_route_options o = chosen_by(k, MEGA_ROUTE_SOFTMAX_OF_CHOSEN, false);
    if (o.choices > k->s.N) o.choices = k->s.N;
    route_of(k, mega_op_wide_linear(k->g, k->x, param(k, "weight")), mega_none(), &o);
}

/* Phi-3.5-MoE; the margin leaves some logits out. */
static void route_of_near(sketch *k)
{
    mega_route_options o = chosen_by(k, MEGA_ROUTE_SOFTMAX_OF_NEAR, false);
    o.margin = 0.8;
    route_of(k, k->x, mega_none(), &o);
}

/* DeepSeek-V3: a bias, groups by their two best experts, from which a token chooses. */
static void route_sigmoid_of_groups(sketch *k)
{
    mega_route_options o = chosen_by(k, MEGA_ROUTE_SIGMOID, true);
    if (k->s.C % 4 == 0) o.groups = 4, o.chosen_groups = 2, o.group_best = 2;
    route_of(k, k->x, input_1d(k, "biases", k->g->acc, k->s.C), &o);
}

/* The counts of the choices are not a gradient; the test compares the fast kernel with the plain one. 16 bits have no
 * such bias. */
static void route_counted(sketch *k)
{
    const mega_route_options o = chosen_by(k, MEGA_ROUTE_SIGMOID, true);
    route_of(k, k->x, k->g->dtype == k->g->acc ? param(k, "choice_bias") : mega_none(), &o);
}

static void route_weights_alone(sketch *k)
{
    const mega_route_options o = chosen_by(k, MEGA_ROUTE_SIGMOID, false);
    result(k, mega_op_route(k->g, k->x, mega_none(), &o).weight);
}

static void route_jitter(sketch *k)
{
    result(k, mega_op_route_jitter(k->g, k->x, 0.3, 7, k->sample_id, k->seq_position));
}

/* Two groups where the rows can be cut, every choice; and one group, the first choice alone. */
static void route_balance(sketch *k)
{
    const mega_route_options o = chosen_by(k, MEGA_ROUTE_SOFTMAX, false);
    const mega_route_result r = mega_op_route(k->g, k->x, mega_none(), &o);
    const int64_t group = k->s.T % 2 == 0 ? k->s.T / 2 : k->s.T;
    const mega_route_balance_result all = mega_op_route_balance(k->g, r.share, r.choice, group, o.choices);
    const mega_route_balance_result first = mega_op_route_balance(k->g, r.share, r.choice, k->s.T, 1);
    const mega_route_load_result load = mega_op_route_load(k->g, all.fraction);
    mega_graph_output(k->g, all.fraction, "fraction");
    mega_graph_output(k->g, load.fullest, "fullest");
    mega_graph_output(k->g, load.emptiest, "emptiest");
    mega_graph_output(k->g, load.entropy, "entropy");
    const mega_tensor sum = mega_op_weighted_sum(k->g, all.loss, mega_none()).sum;
    result(k, mega_op_add(k->g, sum, mega_op_weighted_sum(k->g, first.loss, mega_none()).sum));
}

static void route_balance_of_sigmoids(sketch *k)
{
    const mega_route_options o = chosen_by(k, MEGA_ROUTE_SIGMOID, true);
    const mega_route_result r = mega_op_route(k->g, k->x, mega_none(), &o);
    result(k, mega_op_route_balance(k->g, r.share, r.choice, k->s.T, o.choices).loss);
}

/* Dropped choices give neither a row nor a gradient: the weights and rows of the choices that stay, by weight in two
 * groups where the rows can be cut, and by position in one. */
static void route_capacity(sketch *k)
{
    mega_route_options o = chosen_by(k, MEGA_ROUTE_SIGMOID, true);
    const mega_route_result r = mega_op_route(k->g, k->x, mega_none(), &o);
    const mega_route_capacity two = {.rows = k->s.T % 2 == 0 ? k->s.T / 2 : k->s.T, .experts = k->s.C, .capacity = 1};
    const mega_route_capacity one = {.rows = k->s.T, .experts = k->s.C, .capacity = 2, .by_position = true};
    const mega_route_capacity_result by_weight = mega_op_route_capacity(k->g, r.choice, r.weight, &two);
    const mega_route_capacity_result first = mega_op_route_capacity(k->g, r.choice, r.weight, &one);
    mega_graph_output(k->g, by_weight.kept, "kept");
    mega_graph_output(k->g, by_weight.dropped, "dropped");
    mega_graph_output(k->g, first.kept, "first");
    const mega_expert_places at[2] = {mega_op_expert_order(k->g, by_weight.kept, 0, k->s.C),
                                      mega_op_expert_order(k->g, first.kept, 0, k->s.C)};
    const mega_tensor a = mega_op_expert_combine(k->g, mega_op_expert_rows(k->g, k->x, &at[0]), r.weight, &at[0]);
    const mega_tensor b = mega_op_expert_combine(k->g, mega_op_expert_rows(k->g, k->x, &at[1]), r.weight, &at[1]);
    result(k, mega_op_add(k->g, a, b));
}

/* Keys of two groups where the rows can be cut, which have no gradient. */
static void route_by_sinkhorn(sketch *k)
{
    const mega_route_options o = chosen_by(k, MEGA_ROUTE_SOFTMAX, false);
    const mega_tensor logits = mega_op_wide_linear(k->g, k->x, param(k, "weight"));
    const mega_tensor keys = mega_op_route_sinkhorn(k->g, logits, k->s.T % 2 == 0 ? k->s.T / 2 : k->s.T);
    mega_route_options of_logits = o;
    if (of_logits.choices > k->s.N) of_logits.choices = k->s.N;
    const mega_route_result r = mega_op_route_by(k->g, logits, keys, &of_logits);
    mega_graph_output(k->g, keys, "keys");
    mega_graph_output(k->g, r.choice, "choice");
    result(k, r.weight);
}

/* The router's logits have three uses: weights, shares and the z-loss. */
static void route_z(sketch *k)
{
    const mega_tensor logits = mega_op_wide_linear(k->g, k->x, param(k, "weight"));
    const mega_route_options o = {.score = MEGA_ROUTE_SOFTMAX, .choices = 1};
    const mega_route_result r = mega_op_route(k->g, logits, mega_none(), &o);
    const mega_tensor balance = mega_op_route_balance(k->g, r.share, r.choice, k->s.T, 1).loss;
    const mega_tensor z = mega_op_weighted_sum(k->g, mega_op_route_z(k->g, logits), mega_none()).sum;
    result(k, mega_op_add(k->g, mega_op_add(k->g, z, balance), sum_of(k, r.weight)));
}
