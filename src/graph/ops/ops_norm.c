/* Layer norm and its gradient. */
#include "graph_impl.h"

/* ---- layer_norm: in x [T, C], gain [C], bias [C]; out y [T, C], mean [T] acc, rstd [T] acc ---- */

mega_tensor mega_op_layer_norm(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias, double eps)
{
    instruction op = {.kind = OP_LAYER_NORM, .in = {x.id, gain.id, bias.id}, .attr = {.eps = eps}};
    return mega_graph_emit(g, &op);
}

static mega_status layer_norm_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_expect_dims(g, op, 0, "x", g->dtype, 2));
    MEGA_TRY(mega_op_expect_epsilon(op));
    const int64_t rows = mega_op_in_dim(g, op, 0, 0), cols = mega_op_in_dim(g, op, 0, 1);
    MEGA_TRY(mega_op_expect(g, op, 1, "gain", mega_shape_1d(g->dtype, cols)));
    MEGA_TRY(mega_op_expect(g, op, 2, "bias", mega_shape_1d(g->dtype, cols)));
    out[0] = mega_shape_2d(g->dtype, rows, cols);
    out[1] = out[2] = mega_shape_1d(g->acc, rows);
    return MEGA_OK;
}

static void layer_norm_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_LAYER_NORM_GRAD,
                     .in = {mega_graph_arrived(g, op, 0), op->in[0], op->out[1], op->out[2], op->in[1]},
                     .out = {0, mega_graph_gradient_tensor(g, op->in[1]), mega_graph_gradient_tensor(g, op->in[2])}};
    const mega_tensor dx = mega_graph_emit(g, &d);
    mega_graph_gradient_add(g, op->in[0], dx.id);
}

static void layer_norm_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_layer_norm_args *a = args;
    a->y = b->address(b, op->out[0]);
    a->mean = b->address(b, op->out[1]);
    a->rstd = b->address(b, op->out[2]);
    a->x = b->address(b, op->in[0]);
    a->gain = b->address(b, op->in[1]);
    a->bias = b->address(b, op->in[2]);
    a->rows = mega_op_in_dim(b->g, op, 0, 0);
    a->cols = mega_op_in_dim(b->g, op, 0, 1);
    a->eps = op->attr.eps;
}

const op_row mega_op_row_layer_norm = {.name = "layer_norm",
                                       .num_in = 3,
                                       .num_out = 3,
                                       .shape = layer_norm_shape,
                                       .gradient = layer_norm_gradient,
                                       .bind = layer_norm_bind,
                                       .plain = &mega_plain_layer_norm,
                                       .cpu = &mega_cpu_layer_norm};

/* ---- layer_norm_grad: in dy, x, mean, rstd, gain, addend or none; out dx, dgain +=, dbias += ---- */

static mega_status layer_norm_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_expect_dims(g, op, 1, "x", g->dtype, 2));
    const tensor_shape x = *mega_op_in(g, op, 1);
    MEGA_TRY(mega_op_expect(g, op, 0, "dy", x));
    MEGA_TRY(mega_op_expect(g, op, 2, "mean", mega_shape_1d(g->acc, x.dim[0])));
    MEGA_TRY(mega_op_expect(g, op, 3, "rstd", mega_shape_1d(g->acc, x.dim[0])));
    MEGA_TRY(mega_op_expect(g, op, 4, "gain", mega_shape_1d(g->dtype, x.dim[1])));
    MEGA_TRY(mega_op_expect(g, op, 5, "addend", x));
    out[0] = x;
    out[1] = out[2] = mega_shape_1d(g->acc, x.dim[1]);
    return MEGA_OK;
}

static void layer_norm_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_layer_norm_grad_args *a = args;
    a->dx = b->address(b, op->out[0]);
    a->dgain = b->address(b, op->out[1]);
    a->dbias = b->address(b, op->out[2]);
    a->dy = b->address(b, op->in[0]);
    a->x = b->address(b, op->in[1]);
    a->mean = b->address(b, op->in[2]);
    a->rstd = b->address(b, op->in[3]);
    a->gain = b->address(b, op->in[4]);
    a->addend = b->address(b, op->in[5]);
    a->rows = mega_op_in_dim(b->g, op, 1, 0);
    a->cols = mega_op_in_dim(b->g, op, 1, 1);
}

const op_row mega_op_row_layer_norm_grad = {.name = "layer_norm_grad",
                                            .num_in = 6,
                                            .num_out = 3,
                                            .optional_in = 1u << 5,
                                            .accumulates = 1u << 1 | 1u << 2,
                                            .overlays = 1u << 0 | 1u << 5,
                                            .shape = layer_norm_grad_shape,
                                            .bind = layer_norm_grad_bind,
                                            .plain = &mega_plain_layer_norm_grad,
                                            .cpu = &mega_cpu_layer_norm_grad};
