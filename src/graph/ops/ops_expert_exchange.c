/* The way of rows to the experts of other ranks and back, in rounds. The letters are those of ops_experts.h. */
#include "op_members.h"

/* Operands. */
enum { EXPERT_SEND_CHOICE, EXPERT_SEND_ORDER_PLACE, EXPERT_SEND_ORDER_SOURCE, EXPERT_SEND_FIRST };
enum { EXPERT_SEND_PLACE, EXPERT_SEND_SOURCE };
enum { EXPERT_RECEIVED_FIRST };
enum { EXPERT_RECEIVED_CHOICE, EXPERT_RECEIVED_NEEDED };

mega_tensor mega_op_gather_firsts(mega_graph *g, mega_tensor first, const mega_axis *axis)
{
    instruction op = {
        .kind = OP_ALL_GATHER, .in = {first.id}, .attr = {.axis = *axis, .what = "first rows of experts"}};
    return axis->size == 1 ? first : mega_graph_emit(g, &op);
}

static op_attr rounds_attr(const mega_expert_rounds *r, int64_t round)
{
    return (op_attr){.experts = r->experts, .ranks = r->ranks, .rank = r->rank, .rows = r->rows, .round = round};
}

/* Checks the attributes of a round, whose `*rows` rows are counted in 32 bits. */
static mega_status check_round(const instruction *op, int64_t *rows)
{
    const op_attr *a = &op->attr;
    const char *const name = mega_op_table[op->kind]->name;
    if (a->ranks < 1 || a->experts < 1 || a->experts % a->ranks != 0)
        return MEGA_MISTAKE("op %s in \"%s\": %lld experts on %lld ranks; expected a multiple of the ranks", name,
                            op->scope, (long long)a->experts, (long long)a->ranks);
    *rows = mega_extent_mul(a->ranks, a->rows);
    if (a->rows >= 1 && *rows <= INT32_MAX) return MEGA_OK;
    return MEGA_MISTAKE("op %s in \"%s\": %lld rows for each of %lld ranks; expected 1 or more, fewer than 2^31 in all",
                        name, op->scope, (long long)a->rows, (long long)a->ranks);
}

/* ---- expert_send: in choice [T, k], place [T, k], source [T * k], first [E + 1]; out place [T, k], source
 *      [ranks * rows] ---- */

mega_expert_places mega_op_expert_send(mega_graph *g, mega_tensor choice, const mega_expert_places *order,
                                       const mega_expert_rounds *rounds, int64_t round)
{
    instruction op = {.kind = OP_EXPERT_SEND,
                      .in = {[EXPERT_SEND_CHOICE] = choice.id,
                             [EXPERT_SEND_ORDER_PLACE] = order->place.id,
                             [EXPERT_SEND_ORDER_SOURCE] = order->source.id,
                             [EXPERT_SEND_FIRST] = order->first.id},
                      .attr = rounds_attr(rounds, round)};
    if (mega_graph_emit(g, &op).id == 0) return (mega_expert_places){.counted = 0};
    return (mega_expert_places){.place = {op.out[EXPERT_SEND_PLACE]}, .source = {op.out[EXPERT_SEND_SOURCE]}};
}

static mega_status expert_send_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    int64_t rows;
    MEGA_TRY(check_round(op, &rows));
    MEGA_TRY(mega_op_check_dims(g, op, EXPERT_SEND_CHOICE, "choice", MEGA_I32, 2));
    const int64_t tokens = mega_op_in_dim(g, op, EXPERT_SEND_CHOICE, 0);
    const int64_t slots = mega_op_in_dim(g, op, EXPERT_SEND_CHOICE, 1);
    out[EXPERT_SEND_PLACE] = mega_shape_2d(MEGA_I32, tokens, slots);
    out[EXPERT_SEND_SOURCE] = mega_shape_1d(MEGA_I32, rows);
    MEGA_TRY(mega_op_check_operand(g, op, EXPERT_SEND_ORDER_PLACE, "place", out[EXPERT_SEND_PLACE]));
    MEGA_TRY(mega_op_check_operand(g, op, EXPERT_SEND_ORDER_SOURCE, "source",
                                   mega_shape_1d(MEGA_I32, mega_extent_mul(tokens, slots))));
    return mega_op_check_operand(g, op, EXPERT_SEND_FIRST, "first", mega_shape_1d(MEGA_I32, op->attr.experts + 1));
}

const op_row mega_op_row_expert_send = {
    OP_ROW(expert_send, 4, 2, expert_send), .shape = expert_send_shape,
    .members =
        MEMBERS(OUT(expert_send, place, EXPERT_SEND_PLACE), OUT(expert_send, source, EXPERT_SEND_SOURCE),
                IN(expert_send, choice, EXPERT_SEND_CHOICE), IN(expert_send, order_place, EXPERT_SEND_ORDER_PLACE),
                IN(expert_send, order_source, EXPERT_SEND_ORDER_SOURCE), IN(expert_send, first, EXPERT_SEND_FIRST),
                COUNT(expert_send, choices, EXPERT_SEND_CHOICE), ATTR(expert_send, experts, experts),
                ATTR(expert_send, ranks, ranks), ATTR(expert_send, rows, rows), ATTR(expert_send, round, round))};

/* ---- expert_received: in first [ranks * (E + 1)]; out choice [ranks * rows, 1], needed [1] ---- */

mega_expert_received_result mega_op_expert_received(mega_graph *g, mega_tensor firsts, const mega_expert_rounds *rounds,
                                                    int64_t round)
{
    instruction op = {.kind = OP_EXPERT_RECEIVED, .in = {firsts.id}, .attr = rounds_attr(rounds, round)};
    if (mega_graph_emit(g, &op).id == 0) return (mega_expert_received_result){{0}, {0}};
    return (mega_expert_received_result){{op.out[EXPERT_RECEIVED_CHOICE]}, {op.out[EXPERT_RECEIVED_NEEDED]}};
}

/* Those of each rank. */
static mega_status check_firsts(const mega_graph *g, const instruction *op)
{
    return mega_op_check_operand(g, op, EXPERT_RECEIVED_FIRST, "first",
                                 mega_shape_1d(MEGA_I32, mega_extent_mul(op->attr.ranks, op->attr.experts + 1)));
}

static mega_status expert_received_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    int64_t rows;
    MEGA_TRY(check_round(op, &rows));
    MEGA_TRY(check_firsts(g, op));
    out[EXPERT_RECEIVED_CHOICE] = mega_shape_2d(MEGA_I32, rows, 1);
    out[EXPERT_RECEIVED_NEEDED] = mega_shape_1d(MEGA_I32, 1);
    return MEGA_OK;
}

const op_row mega_op_row_expert_received = {
    OP_ROW(expert_received, 1, 2, expert_received), .shape = expert_received_shape,
    .members = MEMBERS(OUT(expert_received, choice, EXPERT_RECEIVED_CHOICE),
                       OUT(expert_received, needed, EXPERT_RECEIVED_NEEDED),
                       IN(expert_received, first, EXPERT_RECEIVED_FIRST), ATTR(expert_received, experts, experts),
                       ATTR(expert_received, ranks, ranks), ATTR(expert_received, rows, rows),
                       ATTR(expert_received, round, round), ATTR(expert_received, rank, rank))};

/* ---- expert_later: in first [ranks * (E + 1)]; out later [1] acc. A metric, without a gradient. ---- */

mega_tensor mega_op_expert_later(mega_graph *g, mega_tensor firsts, const mega_expert_rounds *rounds)
{
    instruction op = {.kind = OP_EXPERT_LATER, .in = {firsts.id}, .attr = rounds_attr(rounds, 0)};
    return mega_graph_emit(g, &op);
}

static mega_status expert_later_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    int64_t rows;
    MEGA_TRY(check_round(op, &rows));
    MEGA_TRY(check_firsts(g, op));
    *out = mega_shape_1d(g->acc, 1);
    return MEGA_OK;
}

const op_row mega_op_row_expert_later = {
    OP_ROW(expert_later, 1, 1, expert_later), .shape = expert_later_shape,
    .members = MEMBERS(OUT(expert_later, later, 0), IN(expert_later, first, EXPERT_RECEIVED_FIRST),
                       ATTR(expert_later, experts, experts), ATTR(expert_later, ranks, ranks),
                       ATTR(expert_later, rows, rows))};
