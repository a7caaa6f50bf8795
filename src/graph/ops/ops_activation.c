/* Activations of all kinds but gelu, whose two forms are the op gelu (ops_elementwise.c), into which a bias can be
 * fused. */
#include "op_members.h"

/* Operands. */
enum { ACTIVATION_GRAD_DY, ACTIVATION_GRAD_X };

/* ---- activation: in x [T, C]; out activation(x) ---- */

mega_tensor mega_op_activation(mega_graph *g, mega_tensor x, mega_activation_kind kind)
{
    if (kind == MEGA_ACT_GELU_TANH || kind == MEGA_ACT_GELU) return mega_op_gelu(g, x, kind == MEGA_ACT_GELU_TANH);
    instruction op = {.kind = OP_ACTIVATION, .in = {x.id}, .attr = {.activation = kind}};
    return mega_graph_emit(g, &op);
}

static mega_status activation_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    if (op->attr.activation <= MEGA_ACT_GELU || op->attr.activation > MEGA_ACT_SIGMOID)
        return MEGA_MISTAKE("op activation in \"%s\": kind %d; expected one of mega_activation_kind, 0 to %d",
                            op->scope, (int)op->attr.activation, (int)MEGA_ACT_SIGMOID);
    MEGA_TRY(mega_op_check_dims(g, op, 0, "x", g->dtype, 2));
    out[0] = *mega_op_in(g, op, 0);
    return MEGA_OK;
}

static void activation_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {
        .kind = OP_ACTIVATION_GRAD,
        .in = {[ACTIVATION_GRAD_DY] = mega_graph_output_gradient(g, op, 0), [ACTIVATION_GRAD_X] = op->in[0]},
        .attr = op->attr};
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

const op_row mega_op_row_activation = {OP_ROW(activation, 1, 1, activation), .overlays = 1u << 0,
                                       .shape = activation_shape, .gradient = activation_gradient,
                                       .members =
                                           MEMBERS(OUT(activation, y, 0), IN(activation, x, 0),
                                                   COUNT(activation, count, 0), ATTR(activation, kind, activation))};

/* ---- activation_grad: in dy, x; out dx ---- */

static mega_status activation_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, ACTIVATION_GRAD_DY, "dy", g->dtype, 2));
    MEGA_TRY(mega_op_check_operand(g, op, ACTIVATION_GRAD_X, "x", *mega_op_in(g, op, ACTIVATION_GRAD_DY)));
    out[0] = *mega_op_in(g, op, ACTIVATION_GRAD_DY);
    return MEGA_OK;
}

const op_row mega_op_row_activation_grad = {
    OP_ROW(activation_grad, 2, 1, activation_grad), .overlays = 1u << ACTIVATION_GRAD_DY | 1u << ACTIVATION_GRAD_X,
    .shape = activation_grad_shape,
    .members = MEMBERS(OUT(activation_grad, dx, 0), IN(activation_grad, dy, ACTIVATION_GRAD_DY),
                       IN(activation_grad, x, ACTIVATION_GRAD_X), COUNT(activation_grad, count, ACTIVATION_GRAD_DY),
                       ATTR(activation_grad, kind, activation))};
