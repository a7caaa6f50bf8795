/* Means and first rows of groups of consecutive rows, such as the positions of a sample; sums of channels by row. */
#include "op_members.h"

/* ---- mean_rows: in x [n * group, C]; out [n, C] ---- */

mega_tensor mega_op_mean_rows(mega_graph *g, mega_tensor x, int64_t group)
{
    instruction op = {.kind = OP_MEAN_ROWS, .in = {x.id}, .attr = {.group = group}};
    return mega_graph_emit(g, &op);
}

/* The functions of groups are those of both ops on them, which have the same arguments. */
static mega_status groups_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, 0, "x", g->dtype, 2));
    const int64_t rows = mega_op_in_dim(g, op, 0, 0), group = op->attr.group;
    if (group < 1 || rows % group != 0)
        return MEGA_MISTAKE("op %s in \"%s\": groups of %lld rows of %s, which has %lld; expected a divisor of them",
                            mega_op_table[op->kind]->name, op->scope, (long long)group, g->tensor[op->in[0]].name,
                            (long long)rows);
    out[0] = mega_shape_2d(g->dtype, rows / group, mega_op_in_dim(g, op, 0, 1));
    return MEGA_OK;
}

static void groups_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = op->kind == OP_MEAN_ROWS ? OP_MEAN_ROWS_GRAD : OP_FIRST_ROWS_GRAD,
                     .in = {mega_graph_output_gradient(g, op, 0)},
                     .attr = op->attr};
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

#define GROUPS_MEMBERS                                                                                            \
    MEMBERS(OUT(mean_rows, y, 0), IN(mean_rows, x, 0), ATTR(mean_rows, group, group), GROUPS(mean_rows, rows, 0), \
            DIM(mean_rows, cols, 0, 1))

const op_row mega_op_row_mean_rows = {OP_ROW(mean_rows, 1, 1, mean_rows), .shape = groups_shape,
                                      .gradient = groups_gradient, .members = GROUPS_MEMBERS};

/* ---- mean_rows_grad: in dy [n, C]; out dx [n * group, C] ---- */

static mega_status groups_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, 0, "dy", g->dtype, 2));
    out[0] = mega_shape_2d(g->dtype, mega_op_in_dim(g, op, 0, 0) * op->attr.group, mega_op_in_dim(g, op, 0, 1));
    return MEGA_OK;
}

#define GROUPS_GRAD_MEMBERS                                                                         \
    MEMBERS(OUT(mean_rows_grad, dx, 0), IN(mean_rows_grad, dy, 0), DIM(mean_rows_grad, rows, 0, 0), \
            ATTR(mean_rows_grad, group, group), DIM(mean_rows_grad, cols, 0, 1))

const op_row mega_op_row_mean_rows_grad = {OP_ROW(mean_rows_grad, 1, 1, mean_rows_grad), .shape = groups_grad_shape,
                                           .members = GROUPS_GRAD_MEMBERS};

/* ---- first_rows: in x [n * group, C]; out [n, C] ---- */

mega_tensor mega_op_first_rows(mega_graph *g, mega_tensor x, int64_t group)
{
    instruction op = {.kind = OP_FIRST_ROWS, .in = {x.id}, .attr = {.group = group}};
    return mega_graph_emit(g, &op);
}

const op_row mega_op_row_first_rows = {OP_ROW(first_rows, 1, 1, first_rows), .shape = groups_shape,
                                       .gradient = groups_gradient, .members = GROUPS_MEMBERS};

/* ---- first_rows_grad: in dy [n, C]; out dx [n * group, C] ---- */

const op_row mega_op_row_first_rows_grad = {OP_ROW(first_rows_grad, 1, 1, first_rows_grad), .shape = groups_grad_shape,
                                            .members = GROUPS_GRAD_MEMBERS};

/* ---- row_sum: in x [T, C] dtype or acc; out [T] acc ---- */

mega_tensor mega_op_row_sum(mega_graph *g, mega_tensor x)
{
    instruction op = {.kind = OP_ROW_SUM, .in = {x.id}};
    return mega_graph_emit(g, &op);
}

static mega_status row_sum_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, 0, "x", mega_op_in_float(g, op, 0), 2));
    out[0] = mega_shape_1d(g->acc, mega_op_in_dim(g, op, 0, 0));
    return MEGA_OK;
}

/* The gradient has the dtype of x, which is not an operand of the instruction: `wide` says that it is acc. */
static void row_sum_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_ROW_SUM_GRAD, .in = {mega_graph_output_gradient(g, op, 0)}};
    d.attr.valid = mega_op_in_dim(g, op, 0, 1);
    d.attr.wide = mega_op_in(g, op, 0)->dtype == g->acc;
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

const op_row mega_op_row_row_sum = {
    OP_ROW(row_sum, 1, 1, row_sum), .shape = row_sum_shape, .gradient = row_sum_gradient,
    .members = MEMBERS(OUT(row_sum, sum, 0), IN(row_sum, x, 0), DIM(row_sum, rows, 0, 0), DIM(row_sum, cols, 0, 1),
                       DTYPE(row_sum, x_dtype, 0))};

/* ---- row_sum_grad: in dsum [T] acc; out dx [T, attr.valid], acc where attr.wide ---- */

static mega_status row_sum_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, 0, "dsum", g->acc, 1));
    out[0] = mega_shape_2d(op->attr.wide ? g->acc : g->dtype, mega_op_in_dim(g, op, 0, 0), op->attr.valid);
    return MEGA_OK;
}

const op_row mega_op_row_row_sum_grad = {
    OP_ROW(row_sum_grad, 1, 1, row_sum_grad), .shape = row_sum_grad_shape,
    .members = MEMBERS(OUT(row_sum_grad, dx, 0), IN(row_sum_grad, dsum, 0), DIM(row_sum_grad, rows, 0, 0),
                       ATTR(row_sum_grad, cols, valid), OUT_DTYPE(row_sum_grad, x_dtype, 0))};
