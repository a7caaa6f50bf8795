/* Experts: the order of their rows, and the way of rows to them and back. The letters are those of ops_experts.h. */
#include "op_members.h"

/* Operands. */
enum { EXPERT_ORDER_PLACE, EXPERT_ORDER_SOURCE, EXPERT_ORDER_FIRST };
enum { EXPERT_ROWS_X, EXPERT_ROWS_PLACE, EXPERT_ROWS_SOURCE };
enum { EXPERT_ROWS_GRAD_DY, EXPERT_ROWS_GRAD_PLACE };
enum { EXPERT_COMBINE_Y, EXPERT_COMBINE_WEIGHT, EXPERT_COMBINE_PLACE, EXPERT_COMBINE_SOURCE };
enum {
    EXPERT_COMBINE_GRAD_DOUT,
    EXPERT_COMBINE_GRAD_Y,
    EXPERT_COMBINE_GRAD_WEIGHT,
    EXPERT_COMBINE_GRAD_PLACE,
    EXPERT_COMBINE_GRAD_SOURCE
};
enum { EXPERT_COMBINE_GRAD_DY, EXPERT_COMBINE_GRAD_DWEIGHT };

/* ---- expert_order: in choice [T, k] i32; out place [T, k], source [T * k], first [E + 1], all i32 ---- */

mega_expert_places mega_op_expert_order(mega_graph *g, mega_tensor choice, int64_t begin, int64_t experts)
{
    instruction op = {.kind = OP_EXPERT_ORDER, .in = {choice.id}, .attr = {.experts = experts, .begin = begin}};
    if (mega_graph_emit(g, &op).id == 0) return (mega_expert_places){.counted = 0};
    return (mega_expert_places){.place = {op.out[EXPERT_ORDER_PLACE]},
                                .source = {op.out[EXPERT_ORDER_SOURCE]},
                                .first = {op.out[EXPERT_ORDER_FIRST]},
                                .counted = g->tensor[op.out[EXPERT_ORDER_SOURCE]].shape.dim[0]};
}

/* Rows of experts, and where they begin, are counted in 32 bits. */
static mega_status expert_order_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, 0, "choice", MEGA_I32, 2));
    const int64_t tokens = mega_op_in_dim(g, op, 0, 0), slots = mega_op_in_dim(g, op, 0, 1);
    const int64_t rows = mega_extent_mul(tokens, slots);
    if (op->attr.experts < 1 || op->attr.begin < 0 || op->attr.begin >= INT32_MAX - op->attr.experts)
        return MEGA_MISTAKE("op expert_order in \"%s\": %lld experts from number %lld on; expected 1 or more, whose "
                            "numbers are from 0 to 2^31 - 2",
                            op->scope, (long long)op->attr.experts, (long long)op->attr.begin);
    if (rows > INT32_MAX)
        return MEGA_MISTAKE("op expert_order in \"%s\": %lld choices of each of %lld tokens (%s); expected fewer than "
                            "2^31 in all, use smaller micro-batches",
                            op->scope, (long long)slots, (long long)tokens, g->tensor[op->in[0]].name);
    out[EXPERT_ORDER_PLACE] = mega_shape_2d(MEGA_I32, tokens, slots);
    out[EXPERT_ORDER_SOURCE] = mega_shape_1d(MEGA_I32, rows);
    out[EXPERT_ORDER_FIRST] = mega_shape_1d(MEGA_I32, op->attr.experts + 1);
    return MEGA_OK;
}

const op_row mega_op_row_expert_order = {
    OP_ROW(expert_order, 1, 3, expert_order), .shape = expert_order_shape,
    .members = MEMBERS(OUT(expert_order, place, EXPERT_ORDER_PLACE), OUT(expert_order, source, EXPERT_ORDER_SOURCE),
                       OUT(expert_order, first, EXPERT_ORDER_FIRST), IN(expert_order, choice, 0),
                       COUNT(expert_order, choices, 0), ATTR(expert_order, experts, experts),
                       ATTR(expert_order, begin, begin))};

/* ---- expert_rows: in x [T, C], place [T, k], source [R]; out [R, C]. (The gradient reads place.) ---- */

mega_tensor mega_op_expert_rows(mega_graph *g, mega_tensor x, const mega_expert_places *at)
{
    instruction op = {
        .kind = OP_EXPERT_ROWS,
        .in = {[EXPERT_ROWS_X] = x.id, [EXPERT_ROWS_PLACE] = at->place.id, [EXPERT_ROWS_SOURCE] = at->source.id}};
    return mega_graph_emit(g, &op);
}

/* Checks the places of the choices of these tokens, and returns the number of rows in *rows. */
static mega_status check_places(const mega_graph *g, const instruction *op, int place, int source, int64_t tokens,
                                int64_t *rows)
{
    MEGA_TRY(mega_op_check_dims(g, op, place, "place", MEGA_I32, 2));
    MEGA_TRY(
        mega_op_check_operand(g, op, place, "place", mega_shape_2d(MEGA_I32, tokens, mega_op_in_dim(g, op, place, 1))));
    MEGA_TRY(mega_op_check_dims(g, op, source, "source", MEGA_I32, 1));
    *rows = mega_op_in_dim(g, op, source, 0);
    return MEGA_OK;
}

static mega_status expert_rows_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    int64_t rows;
    MEGA_TRY(mega_op_check_dims(g, op, EXPERT_ROWS_X, "x", g->dtype, 2));
    MEGA_TRY(
        check_places(g, op, EXPERT_ROWS_PLACE, EXPERT_ROWS_SOURCE, mega_op_in_dim(g, op, EXPERT_ROWS_X, 0), &rows));
    out[0] = mega_shape_2d(g->dtype, rows, mega_op_in_dim(g, op, EXPERT_ROWS_X, 1));
    return MEGA_OK;
}

static void expert_rows_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_EXPERT_ROWS_GRAD,
                     .in = {[EXPERT_ROWS_GRAD_DY] = mega_graph_output_gradient(g, op, 0),
                            [EXPERT_ROWS_GRAD_PLACE] = op->in[EXPERT_ROWS_PLACE]}};
    mega_graph_gradient_add(g, op->in[EXPERT_ROWS_X], mega_graph_emit(g, &d).id);
}

const op_row mega_op_row_expert_rows = {
    OP_ROW(expert_rows, 3, 1, expert_rows), .shape = expert_rows_shape, .gradient = expert_rows_gradient,
    .members = MEMBERS(OUT(expert_rows, y, 0), IN(expert_rows, x, EXPERT_ROWS_X),
                       IN(expert_rows, source, EXPERT_ROWS_SOURCE), DIM(expert_rows, rows, EXPERT_ROWS_SOURCE, 0),
                       DIM(expert_rows, cols, EXPERT_ROWS_X, 1), DIM(expert_rows, slots, EXPERT_ROWS_PLACE, 1))};

/* ---- expert_rows_grad: in dy [R, C], place [T, k]; out dx [T, C]: the rows of each token's choices, added ---- */

static mega_status expert_rows_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, EXPERT_ROWS_GRAD_PLACE, "place", MEGA_I32, 2));
    MEGA_TRY(mega_op_check_dims(g, op, EXPERT_ROWS_GRAD_DY, "dy", g->dtype, 2));
    out[0] = mega_shape_2d(g->dtype, mega_op_in_dim(g, op, EXPERT_ROWS_GRAD_PLACE, 0),
                           mega_op_in_dim(g, op, EXPERT_ROWS_GRAD_DY, 1));
    return MEGA_OK;
}

const op_row mega_op_row_expert_rows_grad = {
    OP_ROW(expert_rows_grad, 2, 1, expert_combine), .shape = expert_rows_grad_shape,
    .members = MEMBERS(
        OUT(expert_combine, out, 0), IN(expert_combine, y, EXPERT_ROWS_GRAD_DY),
        IN(expert_combine, place, EXPERT_ROWS_GRAD_PLACE), DIM(expert_combine, rows, EXPERT_ROWS_GRAD_PLACE, 0),
        DIM(expert_combine, slots, EXPERT_ROWS_GRAD_PLACE, 1), DIM(expert_combine, cols, EXPERT_ROWS_GRAD_DY, 1))};

/* ---- expert_combine: in y [R, C], weight [T, k] acc or none, place [T, k], source [R]; out [T, C]. (The gradient
 *      reads source.) ---- */

mega_tensor mega_op_expert_combine(mega_graph *g, mega_tensor y, mega_tensor weight, const mega_expert_places *at)
{
    instruction op = {.kind = OP_EXPERT_COMBINE,
                      .in = {[EXPERT_COMBINE_Y] = y.id,
                             [EXPERT_COMBINE_WEIGHT] = weight.id,
                             [EXPERT_COMBINE_PLACE] = at->place.id,
                             [EXPERT_COMBINE_SOURCE] = at->source.id}};
    return mega_graph_emit(g, &op);
}

static mega_status expert_combine_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    int64_t rows;
    MEGA_TRY(mega_op_check_dims(g, op, EXPERT_COMBINE_PLACE, "place", MEGA_I32, 2));
    const int64_t tokens = mega_op_in_dim(g, op, EXPERT_COMBINE_PLACE, 0);
    MEGA_TRY(check_places(g, op, EXPERT_COMBINE_PLACE, EXPERT_COMBINE_SOURCE, tokens, &rows));
    MEGA_TRY(mega_op_check_dims(g, op, EXPERT_COMBINE_Y, "y", g->dtype, 2));
    const int64_t cols = mega_op_in_dim(g, op, EXPERT_COMBINE_Y, 1);
    MEGA_TRY(mega_op_check_operand(g, op, EXPERT_COMBINE_Y, "y", mega_shape_2d(g->dtype, rows, cols)));
    MEGA_TRY(mega_op_check_operand(g, op, EXPERT_COMBINE_WEIGHT, "weight",
                                   mega_shape_2d(g->acc, tokens, mega_op_in_dim(g, op, EXPERT_COMBINE_PLACE, 1))));
    out[0] = mega_shape_2d(g->dtype, tokens, cols);
    return MEGA_OK;
}

/* Without weights, each row has the gradient of its token. */
static void unweighted_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_EXPERT_ROWS,
                     .in = {[EXPERT_ROWS_X] = mega_graph_output_gradient(g, op, 0),
                            [EXPERT_ROWS_PLACE] = op->in[EXPERT_COMBINE_PLACE],
                            [EXPERT_ROWS_SOURCE] = op->in[EXPERT_COMBINE_SOURCE]}};
    mega_graph_gradient_add(g, op->in[EXPERT_COMBINE_Y], mega_graph_emit(g, &d).id);
}

static void expert_combine_gradient(mega_graph *g, const instruction *op)
{
    if (op->in[EXPERT_COMBINE_WEIGHT] == 0) {
        unweighted_gradient(g, op);
        return;
    }
    instruction d = {.kind = OP_EXPERT_COMBINE_GRAD,
                     .in = {[EXPERT_COMBINE_GRAD_DOUT] = mega_graph_output_gradient(g, op, 0),
                            [EXPERT_COMBINE_GRAD_Y] = op->in[EXPERT_COMBINE_Y],
                            [EXPERT_COMBINE_GRAD_WEIGHT] = op->in[EXPERT_COMBINE_WEIGHT],
                            [EXPERT_COMBINE_GRAD_PLACE] = op->in[EXPERT_COMBINE_PLACE],
                            [EXPERT_COMBINE_GRAD_SOURCE] = op->in[EXPERT_COMBINE_SOURCE]}};
    mega_graph_emit(g, &d);
    mega_graph_gradient_add(g, op->in[EXPERT_COMBINE_Y], d.out[EXPERT_COMBINE_GRAD_DY]);
    mega_graph_gradient_add(g, op->in[EXPERT_COMBINE_WEIGHT], d.out[EXPERT_COMBINE_GRAD_DWEIGHT]);
}

const op_row mega_op_row_expert_combine = {
    OP_ROW(expert_combine, 4, 1, expert_combine), .shape = expert_combine_shape, .gradient = expert_combine_gradient,
    .optional_in = 1u << EXPERT_COMBINE_WEIGHT,
    .members =
        MEMBERS(OUT(expert_combine, out, 0), IN(expert_combine, y, EXPERT_COMBINE_Y),
                IN(expert_combine, weight, EXPERT_COMBINE_WEIGHT), IN(expert_combine, place, EXPERT_COMBINE_PLACE),
                DIM(expert_combine, rows, EXPERT_COMBINE_PLACE, 0), DIM(expert_combine, slots, EXPERT_COMBINE_PLACE, 1),
                DIM(expert_combine, cols, EXPERT_COMBINE_Y, 1))};

/* ---- expert_combine_grad: in dout [T, C], y [R, C], weight, place, source; out dy [R, C], dweight [T, k] acc ---- */

static mega_status expert_combine_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    int64_t rows;
    MEGA_TRY(mega_op_check_dims(g, op, EXPERT_COMBINE_GRAD_DOUT, "dout", g->dtype, 2));
    const int64_t tokens = mega_op_in_dim(g, op, EXPERT_COMBINE_GRAD_DOUT, 0);
    const int64_t cols = mega_op_in_dim(g, op, EXPERT_COMBINE_GRAD_DOUT, 1);
    MEGA_TRY(check_places(g, op, EXPERT_COMBINE_GRAD_PLACE, EXPERT_COMBINE_GRAD_SOURCE, tokens, &rows));
    out[EXPERT_COMBINE_GRAD_DY] = mega_shape_2d(g->dtype, rows, cols);
    out[EXPERT_COMBINE_GRAD_DWEIGHT] =
        mega_shape_2d(g->acc, tokens, mega_op_in_dim(g, op, EXPERT_COMBINE_GRAD_PLACE, 1));
    MEGA_TRY(mega_op_check_operand(g, op, EXPERT_COMBINE_GRAD_Y, "y", out[EXPERT_COMBINE_GRAD_DY]));
    return mega_op_check_operand(g, op, EXPERT_COMBINE_GRAD_WEIGHT, "weight", out[EXPERT_COMBINE_GRAD_DWEIGHT]);
}

const op_row mega_op_row_expert_combine_grad = {
    OP_ROW(expert_combine_grad, 5, 2, expert_combine_grad), .shape = expert_combine_grad_shape,
    .members = MEMBERS(OUT(expert_combine_grad, dy, EXPERT_COMBINE_GRAD_DY),
                       OUT(expert_combine_grad, dweight, EXPERT_COMBINE_GRAD_DWEIGHT),
                       IN(expert_combine_grad, dout, EXPERT_COMBINE_GRAD_DOUT),
                       IN(expert_combine_grad, y, EXPERT_COMBINE_GRAD_Y),
                       IN(expert_combine_grad, weight, EXPERT_COMBINE_GRAD_WEIGHT),
                       IN(expert_combine_grad, place, EXPERT_COMBINE_GRAD_PLACE),
                       IN(expert_combine_grad, source, EXPERT_COMBINE_GRAD_SOURCE),
                       COUNT(expert_combine_grad, choices, EXPERT_COMBINE_GRAD_PLACE),
                       DIM(expert_combine_grad, rows, EXPERT_COMBINE_GRAD_SOURCE, 0),
                       DIM(expert_combine_grad, slots, EXPERT_COMBINE_GRAD_PLACE, 1),
                       DIM(expert_combine_grad, cols, EXPERT_COMBINE_GRAD_DOUT, 1))};
