/* Gated activations: one GEMM computes gate and up, this op act(gate) * up (Shazeer 2020). */
#include "op_members.h"

#include <math.h>

/* Operands. */
enum { GLU_GRAD_DY, GLU_GRAD_X };

/* ---- glu: in x [T, 2F]; out act(gate) * up [T, F] ---- */

mega_tensor mega_op_glu(mega_graph *g, mega_tensor x, mega_activation_kind kind, bool gate_second)
{
    instruction op = {.kind = OP_GLU, .in = {x.id}, .attr = {.activation = kind, .gate_second = gate_second}};
    return mega_graph_emit(g, &op);
}

mega_tensor mega_op_glu_limited(mega_graph *g, mega_tensor x, mega_activation_kind kind, bool gate_second, double limit,
                                double alpha)
{
    instruction op = {
        .kind = OP_GLU,
        .in = {x.id},
        .attr = {.activation = kind, .gate_second = gate_second, .limit = limit, .alpha = alpha, .is_limited = true}};
    return mega_graph_emit(g, &op);
}

static mega_status glu_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    if (op->attr.activation < MEGA_ACT_GELU_TANH || op->attr.activation > MEGA_ACT_IDENTITY)
        return MEGA_MISTAKE("op glu in \"%s\": kind %d; expected one of mega_activation_kind, 0 to %d", op->scope,
                            (int)op->attr.activation, (int)MEGA_ACT_IDENTITY);
    if (op->attr.is_limited &&
        !(op->attr.limit > 0.0 && op->attr.alpha > 0.0 && isfinite(op->attr.limit) && isfinite(op->attr.alpha)))
        return MEGA_MISTAKE("op glu in \"%s\": limit %g, alpha %g; expected numbers above 0", op->scope, op->attr.limit,
                            op->attr.alpha);
    MEGA_TRY(mega_op_check_dims(g, op, 0, "x", g->dtype, 2));
    const int64_t rows = mega_op_in_dim(g, op, 0, 0), cols = mega_op_in_dim(g, op, 0, 1);
    if (cols % 2 != 0)
        return MEGA_MISTAKE("op glu in \"%s\": x has %lld columns; expected an even number, gate and up of equal width",
                            op->scope, (long long)cols);
    out[0] = mega_shape_2d(g->dtype, rows, cols / 2);
    return MEGA_OK;
}

static void glu_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_GLU_GRAD,
                     .in = {[GLU_GRAD_DY] = mega_graph_output_gradient(g, op, 0), [GLU_GRAD_X] = op->in[0]},
                     .attr = op->attr};
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

static void glu_bind(const op_binder *b, const instruction *op, void *args)
{
    ((mega_glu_args *)args)->cols = mega_op_in_dim(b->g, op, 0, 1) / 2;
}

const op_row mega_op_row_glu = {OP_ROW(glu, 1, 1, glu), .shape = glu_shape, .gradient = glu_gradient,
                                .members = MEMBERS(OUT(glu, y, 0), IN(glu, x, 0), DIM(glu, rows, 0, 0),
                                                   ATTR(glu, kind, activation), ATTR(glu, gate_second, gate_second),
                                                   ATTR(glu, limit, limit), ATTR(glu, alpha, alpha)),
                                .bind = glu_bind};

/* ---- glu_grad: in dy [T, F], x [T, 2F]; out dx [T, 2F] ---- */

static mega_status glu_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, GLU_GRAD_DY, "dy", g->dtype, 2));
    const tensor_shape *dy = mega_op_in(g, op, GLU_GRAD_DY);
    MEGA_TRY(mega_op_check_operand(g, op, GLU_GRAD_X, "x", mega_shape_2d(g->dtype, dy->dim[0], 2 * dy->dim[1])));
    out[0] = *mega_op_in(g, op, GLU_GRAD_X);
    return MEGA_OK;
}

const op_row mega_op_row_glu_grad = {
    OP_ROW(glu_grad, 2, 1, glu_grad), .overlays = 1u << GLU_GRAD_X, .shape = glu_grad_shape,
    .members = MEMBERS(OUT(glu_grad, dx, 0), IN(glu_grad, dy, GLU_GRAD_DY), IN(glu_grad, x, GLU_GRAD_X),
                       DIM(glu_grad, rows, GLU_GRAD_DY, 0), DIM(glu_grad, cols, GLU_GRAD_DY, 1),
                       ATTR(glu_grad, kind, activation), ATTR(glu_grad, gate_second, gate_second),
                       ATTR(glu_grad, limit, limit), ATTR(glu_grad, alpha, alpha))};
