/* Layer norm and RMS norm, and their gradients. Both norms have the same kernels and operands; RMS norm has no mean. */
#include "op_members.h"

/* Operands. */
enum { LAYER_NORM_X, LAYER_NORM_GAIN, LAYER_NORM_BIAS };
enum { LAYER_NORM_Y, LAYER_NORM_MEAN, LAYER_NORM_RSTD };

/* ---- layer_norm: in x [T, C], gain [C] or none, bias [C] or none; out y [T, C], mean [T] acc, rstd [T] acc ---- */

static mega_tensor norm_emit(mega_graph *g, op_kind kind, mega_tensor x, mega_tensor gain, mega_tensor bias,
                             op_attr attr)
{
    instruction op = {.kind = kind,
                      .in = {[LAYER_NORM_X] = x.id, [LAYER_NORM_GAIN] = gain.id, [LAYER_NORM_BIAS] = bias.id},
                      .attr = attr};
    return mega_graph_emit(g, &op);
}

mega_tensor mega_op_layer_norm(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias, double eps)
{
    return norm_emit(g, OP_LAYER_NORM, x, gain, bias, (op_attr){.eps = eps});
}

mega_tensor mega_op_layer_norm_plus_one(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias, double eps)
{
    return norm_emit(g, OP_LAYER_NORM, x, gain, bias, (op_attr){.eps = eps, .plus_one = true});
}

static mega_status layer_norm_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, LAYER_NORM_X, "x", g->dtype, 2));
    MEGA_TRY(mega_op_check_epsilon(op));
    const int64_t rows = mega_op_in_dim(g, op, LAYER_NORM_X, 0), cols = mega_op_in_dim(g, op, LAYER_NORM_X, 1);
    MEGA_TRY(mega_op_check_operand(g, op, LAYER_NORM_GAIN, "gain", mega_shape_1d(g->dtype, cols)));
    MEGA_TRY(mega_op_check_operand(g, op, LAYER_NORM_BIAS, "bias", mega_shape_1d(g->dtype, cols)));
    out[LAYER_NORM_Y] = mega_shape_2d(g->dtype, rows, cols);
    out[LAYER_NORM_MEAN] = out[LAYER_NORM_RSTD] = mega_shape_1d(g->acc, rows);
    return MEGA_OK;
}

static int32_t norm_parameter_gradient(mega_graph *g, int32_t parameter)
{
    return parameter != 0 ? mega_graph_gradient_tensor(g, parameter) : 0;
}

static void norm_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = op->kind == OP_RMS_NORM ? OP_RMS_NORM_GRAD : OP_LAYER_NORM_GRAD,
                     .in = {[LAYER_NORM_GRAD_DY] = mega_graph_output_gradient(g, op, LAYER_NORM_Y),
                            [LAYER_NORM_GRAD_X] = op->in[LAYER_NORM_X],
                            [LAYER_NORM_GRAD_MEAN] = op->out[LAYER_NORM_MEAN],
                            [LAYER_NORM_GRAD_RSTD] = op->out[LAYER_NORM_RSTD],
                            [LAYER_NORM_GRAD_GAIN] = op->in[LAYER_NORM_GAIN]},
                     .out = {[LAYER_NORM_GRAD_DGAIN] = norm_parameter_gradient(g, op->in[LAYER_NORM_GAIN]),
                             [LAYER_NORM_GRAD_DBIAS] = norm_parameter_gradient(g, op->in[LAYER_NORM_BIAS])},
                     .attr = {.plus_one = op->attr.plus_one}};
    const mega_tensor dx = mega_graph_emit(g, &d);
    mega_graph_gradient_add(g, op->in[LAYER_NORM_X], dx.id);
}

#define LAYER_NORM_MEMBERS                                                                  \
    MEMBERS(OUT(layer_norm, y, LAYER_NORM_Y), OUT(layer_norm, mean, LAYER_NORM_MEAN),       \
            OUT(layer_norm, rstd, LAYER_NORM_RSTD), IN(layer_norm, x, LAYER_NORM_X),        \
            IN(layer_norm, gain, LAYER_NORM_GAIN), IN(layer_norm, bias, LAYER_NORM_BIAS),   \
            DIM(layer_norm, rows, LAYER_NORM_X, 0), DIM(layer_norm, cols, LAYER_NORM_X, 1), \
            ATTR(layer_norm, eps, eps), ATTR(layer_norm, plus_one, plus_one))

static void layer_norm_bind(const op_binder *b, const instruction *op, void *args)
{
    (void)b;
    ((mega_layer_norm_args *)args)->rms = op->kind == OP_RMS_NORM;
}

const op_row mega_op_row_layer_norm = {OP_ROW(layer_norm, 3, 3, layer_norm),
                                       .optional_in = 1u << LAYER_NORM_GAIN | 1u << LAYER_NORM_BIAS,
                                       .shape = layer_norm_shape,
                                       .gradient = norm_gradient,
                                       .members = LAYER_NORM_MEMBERS,
                                       .bind = layer_norm_bind};

/* ---- layer_norm_grad: in dy, x, mean, rstd, gain or none, addend or none; out dx, dgain += or none, dbias += or none
 * ---- */

static mega_status layer_norm_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, LAYER_NORM_GRAD_X, "x", g->dtype, 2));
    const tensor_shape x = *mega_op_in(g, op, LAYER_NORM_GRAD_X);
    MEGA_TRY(mega_op_check_operand(g, op, LAYER_NORM_GRAD_DY, "dy", x));
    MEGA_TRY(mega_op_check_operand(g, op, LAYER_NORM_GRAD_MEAN, "mean", mega_shape_1d(g->acc, x.dim[0])));
    MEGA_TRY(mega_op_check_operand(g, op, LAYER_NORM_GRAD_RSTD, "rstd", mega_shape_1d(g->acc, x.dim[0])));
    MEGA_TRY(mega_op_check_operand(g, op, LAYER_NORM_GRAD_GAIN, "gain", mega_shape_1d(g->dtype, x.dim[1])));
    MEGA_TRY(mega_op_check_operand(g, op, LAYER_NORM_GRAD_ADDEND, "addend", x));
    out[LAYER_NORM_GRAD_DX] = x;
    out[LAYER_NORM_GRAD_DGAIN] = out[LAYER_NORM_GRAD_DBIAS] = mega_shape_1d(g->acc, x.dim[1]);
    return MEGA_OK;
}

#define LAYER_NORM_GRAD_MEMBERS                                                                                    \
    MEMBERS(OUT(layer_norm_grad, dx, LAYER_NORM_GRAD_DX), OUT(layer_norm_grad, dgain, LAYER_NORM_GRAD_DGAIN),      \
            OUT(layer_norm_grad, dbias, LAYER_NORM_GRAD_DBIAS), IN(layer_norm_grad, dy, LAYER_NORM_GRAD_DY),       \
            IN(layer_norm_grad, x, LAYER_NORM_GRAD_X), IN(layer_norm_grad, mean, LAYER_NORM_GRAD_MEAN),            \
            IN(layer_norm_grad, rstd, LAYER_NORM_GRAD_RSTD), IN(layer_norm_grad, gain, LAYER_NORM_GRAD_GAIN),      \
            IN(layer_norm_grad, addend, LAYER_NORM_GRAD_ADDEND), DIM(layer_norm_grad, rows, LAYER_NORM_GRAD_X, 0), \
            DIM(layer_norm_grad, cols, LAYER_NORM_GRAD_X, 1), ATTR(layer_norm_grad, plus_one, plus_one))

static void layer_norm_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    (void)b;
    ((mega_layer_norm_grad_args *)args)->rms = op->kind == OP_RMS_NORM_GRAD;
}

const op_row mega_op_row_layer_norm_grad = {OP_ROW(layer_norm_grad, 6, 3, layer_norm_grad),
                                            .optional_in = 1u << LAYER_NORM_GRAD_GAIN | 1u << LAYER_NORM_GRAD_ADDEND,
                                            .optional_out = 1u << LAYER_NORM_GRAD_DGAIN | 1u << LAYER_NORM_GRAD_DBIAS,
                                            .accumulates = 1u << LAYER_NORM_GRAD_DGAIN | 1u << LAYER_NORM_GRAD_DBIAS,
                                            .overlays = 1u << LAYER_NORM_GRAD_DY | 1u << LAYER_NORM_GRAD_ADDEND,
                                            .shape = layer_norm_grad_shape,
                                            .members = LAYER_NORM_GRAD_MEMBERS,
                                            .bind = layer_norm_grad_bind};

/* ---- rms_norm: in x [T, C], gain [C] or none, none; out y [T, C], none, rstd [T] acc ---- */

mega_tensor mega_op_rms_norm(mega_graph *g, mega_tensor x, mega_tensor gain, double eps, bool plus_one)
{
    return norm_emit(g, OP_RMS_NORM, x, gain, (mega_tensor){0}, (op_attr){.eps = eps, .plus_one = plus_one});
}

const op_row mega_op_row_rms_norm = {OP_ROW(rms_norm, 3, 3, layer_norm),
                                     .optional_in = 1u << LAYER_NORM_GAIN | 1u << LAYER_NORM_BIAS,
                                     .optional_out = 1u << LAYER_NORM_MEAN,
                                     .shape = layer_norm_shape,
                                     .gradient = norm_gradient,
                                     .members = LAYER_NORM_MEMBERS,
                                     .bind = layer_norm_bind};

/* ---- rms_norm_grad: in dy, x, none, rstd, gain or none, addend or none; out dx, dgain += or none, none ---- */

const op_row mega_op_row_rms_norm_grad = {OP_ROW(rms_norm_grad, 6, 3, layer_norm_grad),
                                          .optional_in = 1u << LAYER_NORM_GRAD_MEAN | 1u << LAYER_NORM_GRAD_GAIN |
                                                         1u << LAYER_NORM_GRAD_ADDEND,
                                          .optional_out = 1u << LAYER_NORM_GRAD_DGAIN | 1u << LAYER_NORM_GRAD_DBIAS,
                                          .accumulates = 1u << LAYER_NORM_GRAD_DGAIN,
                                          .overlays = 1u << LAYER_NORM_GRAD_DY | 1u << LAYER_NORM_GRAD_ADDEND,
                                          .shape = layer_norm_grad_shape,
                                          .members = LAYER_NORM_GRAD_MEMBERS,
                                          .bind = layer_norm_grad_bind};
