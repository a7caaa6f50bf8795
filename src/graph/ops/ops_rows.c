/* Means of groups of consecutive rows, such as the positions of a sample. */
#include "graph_impl.h"

/* ---- mean_rows: in x [n * group, C]; out [n, C] ---- */

mega_tensor mega_op_mean_rows(mega_graph *g, mega_tensor x, int64_t group)
{
    instruction op = {.kind = OP_MEAN_ROWS, .in = {x.id}, .attr = {.group = group}};
    return mega_graph_emit(g, &op);
}

static mega_status mean_rows_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_expect_dims(g, op, 0, "x", g->dtype, 2));
    const int64_t rows = mega_op_in_dim(g, op, 0, 0), group = op->attr.group;
    if (group < 1 || rows % group != 0)
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "op mean_rows in \"%s\": groups of %lld rows of %s, which has %lld; expected a divisor of them", op->scope,
            (long long)group, g->tensor[op->in[0]].name, (long long)rows);
    out[0] = mega_shape_2d(g->dtype, rows / group, mega_op_in_dim(g, op, 0, 1));
    return MEGA_OK;
}

static void mean_rows_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_MEAN_ROWS_GRAD, .in = {mega_graph_arrived(g, op, 0)}, .attr = op->attr};
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

static void mean_rows_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_mean_rows_args *a = args;
    a->y = b->address(b, op->out[0]);
    a->x = b->address(b, op->in[0]);
    a->group = op->attr.group;
    a->rows = mega_op_in_dim(b->g, op, 0, 0) / a->group;
    a->cols = mega_op_in_dim(b->g, op, 0, 1);
}

const op_row mega_op_row_mean_rows = {.name = "mean_rows",
                                      .num_in = 1,
                                      .num_out = 1,
                                      .shape = mean_rows_shape,
                                      .gradient = mean_rows_gradient,
                                      .bind = mean_rows_bind,
                                      .plain = &mega_plain_mean_rows,
                                      .cpu = &mega_cpu_mean_rows};

/* ---- mean_rows_grad: in dy [n, C]; out dx [n * group, C] ---- */

static mega_status mean_rows_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_expect_dims(g, op, 0, "dy", g->dtype, 2));
    out[0] = mega_shape_2d(g->dtype, mega_op_in_dim(g, op, 0, 0) * op->attr.group, mega_op_in_dim(g, op, 0, 1));
    return MEGA_OK;
}

static void mean_rows_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_mean_rows_grad_args *a = args;
    a->dx = b->address(b, op->out[0]);
    a->dy = b->address(b, op->in[0]);
    a->rows = mega_op_in_dim(b->g, op, 0, 0);
    a->group = op->attr.group;
    a->cols = mega_op_in_dim(b->g, op, 0, 1);
}

const op_row mega_op_row_mean_rows_grad = {.name = "mean_rows_grad",
                                           .num_in = 1,
                                           .num_out = 1,
                                           .shape = mean_rows_grad_shape,
                                           .bind = mean_rows_grad_bind,
                                           .plain = &mega_plain_mean_rows_grad,
                                           .cpu = &mega_cpu_mean_rows_grad};
