/* Logits bounded by cap * tanh(logits / cap). The head (ops_head.c), which computes its gradient in the forward, emits
 * the gradient itself. */
#include "op_members.h"

#include <math.h>

/* ---- softcap: in x [T, C] acc; out cap * tanh(x / cap) ---- */

mega_tensor mega_op_softcap(mega_graph *g, mega_tensor x, double cap)
{
    instruction op = {.kind = OP_SOFTCAP, .in = {x.id}, .attr = {.factor = cap, .what = "capped"}};
    return mega_graph_emit(g, &op);
}

static mega_status softcap_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    if (!(op->attr.factor > 0.0) || !isfinite(op->attr.factor))
        return MEGA_MISTAKE("op softcap in \"%s\": cap %g; expected a number above 0", op->scope, op->attr.factor);
    MEGA_TRY(mega_op_check_dims(g, op, 0, "x", g->acc, 2));
    out[0] = *mega_op_in(g, op, 0);
    return MEGA_OK;
}

const op_row mega_op_row_softcap = {
    OP_ROW(softcap, 1, 1, softcap), .overlays = 1u << 0, .shape = softcap_shape,
    .members = MEMBERS(OUT(softcap, y, 0), IN(softcap, x, 0), COUNT(softcap, count, 0), ATTR(softcap, cap, factor))};

/* ---- softcap_grad: in dy [T, C], y [T, C] acc; out dx [T, C] ---- */

static mega_status softcap_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, SOFTCAP_GRAD_DY, "dy", g->dtype, 2));
    const tensor_shape *dy = mega_op_in(g, op, SOFTCAP_GRAD_DY);
    MEGA_TRY(mega_op_check_operand(g, op, SOFTCAP_GRAD_Y, "y", mega_shape_2d(g->acc, dy->dim[0], dy->dim[1])));
    out[0] = *dy;
    return MEGA_OK;
}

const op_row mega_op_row_softcap_grad = {
    OP_ROW(softcap_grad, 2, 1, softcap_grad), .overlays = 1u << SOFTCAP_GRAD_DY, .shape = softcap_grad_shape,
    .members =
        MEMBERS(OUT(softcap_grad, dx, 0), IN(softcap_grad, dy, SOFTCAP_GRAD_DY), IN(softcap_grad, y, SOFTCAP_GRAD_Y),
                COUNT(softcap_grad, count, SOFTCAP_GRAD_DY), ATTR(softcap_grad, cap, factor))};
