/* Layer norm and its gradient. */
#include "graph_impl.h"

/* Operands. */
enum { LAYER_NORM_X, LAYER_NORM_GAIN, LAYER_NORM_BIAS };
enum { LAYER_NORM_Y, LAYER_NORM_MEAN, LAYER_NORM_RSTD };

/* ---- layer_norm: in x [T, C], gain [C], bias [C]; out y [T, C], mean [T] acc, rstd [T] acc ---- */

mega_tensor mega_op_layer_norm(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias, double eps)
{
    instruction op = {.kind = OP_LAYER_NORM,
                      .in = {[LAYER_NORM_X] = x.id, [LAYER_NORM_GAIN] = gain.id, [LAYER_NORM_BIAS] = bias.id},
                      .attr = {.eps = eps}};
    return mega_graph_emit(g, &op);
}

static mega_status layer_norm_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_expect_dims(g, op, LAYER_NORM_X, "x", g->dtype, 2));
    MEGA_TRY(mega_op_expect_epsilon(op));
    const int64_t rows = mega_op_in_dim(g, op, LAYER_NORM_X, 0), cols = mega_op_in_dim(g, op, LAYER_NORM_X, 1);
    MEGA_TRY(mega_op_expect(g, op, LAYER_NORM_GAIN, "gain", mega_shape_1d(g->dtype, cols)));
    MEGA_TRY(mega_op_expect(g, op, LAYER_NORM_BIAS, "bias", mega_shape_1d(g->dtype, cols)));
    out[LAYER_NORM_Y] = mega_shape_2d(g->dtype, rows, cols);
    out[LAYER_NORM_MEAN] = out[LAYER_NORM_RSTD] = mega_shape_1d(g->acc, rows);
    return MEGA_OK;
}

static void layer_norm_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_LAYER_NORM_GRAD,
                     .in = {[LAYER_NORM_GRAD_DY] = mega_graph_arrived(g, op, LAYER_NORM_Y),
                            [LAYER_NORM_GRAD_X] = op->in[LAYER_NORM_X],
                            [LAYER_NORM_GRAD_MEAN] = op->out[LAYER_NORM_MEAN],
                            [LAYER_NORM_GRAD_RSTD] = op->out[LAYER_NORM_RSTD],
                            [LAYER_NORM_GRAD_GAIN] = op->in[LAYER_NORM_GAIN]},
                     .out = {[LAYER_NORM_GRAD_DGAIN] = mega_graph_gradient_tensor(g, op->in[LAYER_NORM_GAIN]),
                             [LAYER_NORM_GRAD_DBIAS] = mega_graph_gradient_tensor(g, op->in[LAYER_NORM_BIAS])}};
    const mega_tensor dx = mega_graph_emit(g, &d);
    mega_graph_gradient_add(g, op->in[LAYER_NORM_X], dx.id);
}

static void layer_norm_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_layer_norm_args *a = args;
    a->y = b->address(b, op->out[LAYER_NORM_Y]);
    a->mean = b->address(b, op->out[LAYER_NORM_MEAN]);
    a->rstd = b->address(b, op->out[LAYER_NORM_RSTD]);
    a->x = b->address(b, op->in[LAYER_NORM_X]);
    a->gain = b->address(b, op->in[LAYER_NORM_GAIN]);
    a->bias = b->address(b, op->in[LAYER_NORM_BIAS]);
    a->rows = mega_op_in_dim(b->g, op, LAYER_NORM_X, 0);
    a->cols = mega_op_in_dim(b->g, op, LAYER_NORM_X, 1);
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
    MEGA_TRY(mega_op_expect_dims(g, op, LAYER_NORM_GRAD_X, "x", g->dtype, 2));
    const tensor_shape x = *mega_op_in(g, op, LAYER_NORM_GRAD_X);
    MEGA_TRY(mega_op_expect(g, op, LAYER_NORM_GRAD_DY, "dy", x));
    MEGA_TRY(mega_op_expect(g, op, LAYER_NORM_GRAD_MEAN, "mean", mega_shape_1d(g->acc, x.dim[0])));
    MEGA_TRY(mega_op_expect(g, op, LAYER_NORM_GRAD_RSTD, "rstd", mega_shape_1d(g->acc, x.dim[0])));
    MEGA_TRY(mega_op_expect(g, op, LAYER_NORM_GRAD_GAIN, "gain", mega_shape_1d(g->dtype, x.dim[1])));
    MEGA_TRY(mega_op_expect(g, op, LAYER_NORM_GRAD_ADDEND, "addend", x));
    out[LAYER_NORM_GRAD_DX] = x;
    out[LAYER_NORM_GRAD_DGAIN] = out[LAYER_NORM_GRAD_DBIAS] = mega_shape_1d(g->acc, x.dim[1]);
    return MEGA_OK;
}

static void layer_norm_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_layer_norm_grad_args *a = args;
    a->dx = b->address(b, op->out[LAYER_NORM_GRAD_DX]);
    a->dgain = b->address(b, op->out[LAYER_NORM_GRAD_DGAIN]);
    a->dbias = b->address(b, op->out[LAYER_NORM_GRAD_DBIAS]);
    a->dy = b->address(b, op->in[LAYER_NORM_GRAD_DY]);
    a->x = b->address(b, op->in[LAYER_NORM_GRAD_X]);
    a->mean = b->address(b, op->in[LAYER_NORM_GRAD_MEAN]);
    a->rstd = b->address(b, op->in[LAYER_NORM_GRAD_RSTD]);
    a->gain = b->address(b, op->in[LAYER_NORM_GRAD_GAIN]);
    a->addend = b->address(b, op->in[LAYER_NORM_GRAD_ADDEND]);
    a->rows = mega_op_in_dim(b->g, op, LAYER_NORM_GRAD_X, 0);
    a->cols = mega_op_in_dim(b->g, op, LAYER_NORM_GRAD_X, 1);
}

const op_row mega_op_row_layer_norm_grad = {.name = "layer_norm_grad",
                                            .num_in = 6,
                                            .num_out = 3,
                                            .optional_in = 1u << LAYER_NORM_GRAD_ADDEND,
                                            .accumulates = 1u << LAYER_NORM_GRAD_DGAIN | 1u << LAYER_NORM_GRAD_DBIAS,
                                            .overlays = 1u << LAYER_NORM_GRAD_DY | 1u << LAYER_NORM_GRAD_ADDEND,
                                            .shape = layer_norm_grad_shape,
                                            .bind = layer_norm_grad_bind,
                                            .plain = &mega_plain_layer_norm_grad,
                                            .cpu = &mega_cpu_layer_norm_grad};
