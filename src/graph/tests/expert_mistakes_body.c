/* Wrong operands of the ops of experts, and of exchanges. Part of test_op_mistakes.c. */

/* Four choices of three tokens each, among two experts. */
static mega_expert_places places(const operands *o)
{
    return mega_op_expert_order(o->g, input(o->g, "choice", MEGA_I32, 2, 3, 4), 0, 2);
}

static void choices_of_one_row(const operands *o)
{
    mega_op_expert_order(o->g, o->labels, 0, 2);
}

static void order_of_no_experts(const operands *o)
{
    mega_op_expert_order(o->g, input(o->g, "choice", MEGA_I32, 2, 3, 4), 0, 0);
}

static void order_below_first_expert(const operands *o)
{
    mega_op_expert_order(o->g, input(o->g, "choice", MEGA_I32, 2, 3, 4), -1, 2);
}

static void too_many_choices(const operands *o)
{
    mega_op_expert_order(o->g, input(o->g, "choice", MEGA_I32, 2, 1 << 20, 1 << 12), 0, 2);
}

static void expert_rows_of_other_tokens(const operands *o)
{
    const mega_expert_places at = places(o);
    mega_op_expert_rows(o->g, o->x, &at);
}

static void combine_with_other_weights(const operands *o)
{
    const mega_expert_places at = places(o);
    mega_op_expert_combine(o->g, o->x, o->square, &at);
}

static void combine_of_other_rows(const operands *o)
{
    const mega_expert_places at = places(o);
    mega_op_expert_combine(o->g, o->square, o->square, &at);
}

static void send_to_uneven_ranks(const operands *o)
{
    const mega_expert_places at = places(o);
    mega_op_expert_send(o->g, at.place, &at, &(mega_expert_rounds){.ranks = 3, .experts = 4, .rows = 8}, 0);
}

static void send_of_no_rows(const operands *o)
{
    const mega_expert_places at = places(o);
    mega_op_expert_send(o->g, at.place, &at, &(mega_expert_rounds){.ranks = 2, .experts = 2}, 0);
}

static void send_of_other_experts(const operands *o)
{
    const mega_expert_places at = places(o);
    mega_op_expert_send(o->g, at.place, &at, &(mega_expert_rounds){.ranks = 2, .experts = 6, .rows = 8}, 0);
}

static void received_from_other_ranks(const operands *o)
{
    mega_op_expert_received(o->g, places(o).first, &(mega_expert_rounds){.ranks = 2, .experts = 2, .rows = 8}, 0);
}

static void later_rounds_of_other_ranks(const operands *o)
{
    mega_op_expert_later(o->g, places(o).first, &(mega_expert_rounds){.ranks = 2, .experts = 2, .rows = 8});
}

static void exchange_that_floats_need(const operands *o)
{
    mega_op_all_to_all(o->g, o->x, o->vector, &(mega_axis){.size = 2});
}

static void experts_of_uneven_weights(const operands *o)
{
    const mega_expert_places at = places(o);
    mega_op_expert_linear(o->g, o->x, o->square, (mega_tensor){0}, 0, &at);
}

static void experts_of_other_channels(const operands *o)
{
    const mega_expert_places at = places(o);
    mega_op_expert_linear(o->g, o->x, o->other, (mega_tensor){0}, 0, &at);
}

static void experts_of_a_flat_bias(const operands *o)
{
    const mega_expert_places at = places(o);
    mega_op_expert_linear(o->g, o->x, o->x, o->vector, 0, &at);
}

static void exchange_of_uneven_rows(const operands *o)
{
    mega_op_all_to_all(o->g, o->x, (mega_tensor){0}, &(mega_axis){.size = 5});
}
