/* Logits bounded by cap * tanh(logits / cap). The head (ops_head.c), which computes its gradient in the forward, emits
 * the gradient itself. */
#include "graph_impl.h"

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
        return MEGA_FAIL(MEGA_ERR_USAGE, "op softcap in \"%s\": cap %g; expected a number above 0", op->scope,
                         op->attr.factor);
    MEGA_TRY(mega_op_expect_dims(g, op, 0, "x", g->acc, 2));
    out[0] = *mega_op_in(g, op, 0);
    return MEGA_OK;
}

static void softcap_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_softcap_args *a = args;
    a->y = b->address(b, op->out[0]);
    a->x = b->address(b, op->in[0]);
    a->count = mega_shape_count(mega_op_in(b->g, op, 0));
    a->cap = op->attr.factor;
}

const op_row mega_op_row_softcap = {.name = "softcap",
                                    .num_in = 1,
                                    .num_out = 1,
                                    .overlays = 1u << 0,
                                    .shape = softcap_shape,
                                    .bind = softcap_bind,
                                    .kernel = MEGA_KERNEL_softcap};

/* ---- softcap_grad: in dy [T, C], y [T, C] acc; out dx [T, C] ---- */

static mega_status softcap_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_expect_dims(g, op, SOFTCAP_GRAD_DY, "dy", g->dtype, 2));
    const tensor_shape *dy = mega_op_in(g, op, SOFTCAP_GRAD_DY);
    MEGA_TRY(mega_op_expect(g, op, SOFTCAP_GRAD_Y, "y", mega_shape_2d(g->acc, dy->dim[0], dy->dim[1])));
    out[0] = *dy;
    return MEGA_OK;
}

static void softcap_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_softcap_grad_args *a = args;
    a->dx = b->address(b, op->out[0]);
    a->dy = b->address(b, op->in[SOFTCAP_GRAD_DY]);
    a->y = b->address(b, op->in[SOFTCAP_GRAD_Y]);
    a->count = mega_shape_count(mega_op_in(b->g, op, SOFTCAP_GRAD_DY));
    a->cap = op->attr.factor;
}

const op_row mega_op_row_softcap_grad = {.name = "softcap_grad",
                                         .num_in = 2,
                                         .num_out = 1,
                                         .overlays = 1u << SOFTCAP_GRAD_DY,
                                         .shape = softcap_grad_shape,
                                         .bind = softcap_grad_bind,
                                         .kernel = MEGA_KERNEL_softcap_grad};
