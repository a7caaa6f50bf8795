/* Ops that work element by element: gelu, add, mul, scale, dropout, and their gradients. */
#include "op_members.h"

#include <math.h>

/* ---- gelu: in x [T, F], bias [F] or none; out gelu(x + bias) ---- */

mega_tensor mega_op_gelu(mega_graph *g, mega_tensor x, bool tanh_form)
{
    instruction op = {.kind = OP_GELU, .in = {[GELU_X] = x.id}, .attr = {.tanh_form = tanh_form}};
    return mega_graph_emit(g, &op);
}

static mega_status gelu_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, GELU_X, "x", g->dtype, 2));
    MEGA_TRY(
        mega_op_check_operand(g, op, GELU_BIAS, "bias", mega_shape_1d(g->dtype, mega_op_in_dim(g, op, GELU_X, 1))));
    out[0] = *mega_op_in(g, op, GELU_X);
    return MEGA_OK;
}

static void gelu_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_GELU_GRAD,
                     .in = {[GELU_GRAD_DY] = mega_graph_output_gradient(g, op, 0), [GELU_GRAD_X] = op->in[GELU_X]},
                     .attr = op->attr};
    mega_graph_gradient_add(g, op->in[GELU_X], mega_graph_emit(g, &d).id);
}

const op_row mega_op_row_gelu = {
    OP_ROW(gelu, 2, 1, gelu), .optional_in = 1u << GELU_BIAS, .shape = gelu_shape, .gradient = gelu_gradient,
    .members = MEMBERS(OUT(gelu, y, 0), IN(gelu, x, GELU_X), IN(gelu, bias, GELU_BIAS), DIM(gelu, rows, GELU_X, 0),
                       DIM(gelu, cols, GELU_X, 1), ATTR(gelu, tanh_form, tanh_form))};

/* ---- gelu_grad: in dy, x, bias or none; out dx, dbias += or none ---- */

static mega_status gelu_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, GELU_GRAD_DY, "dy", g->dtype, 2));
    const tensor_shape dy = *mega_op_in(g, op, GELU_GRAD_DY);
    MEGA_TRY(mega_op_check_operand(g, op, GELU_GRAD_X, "x", dy));
    MEGA_TRY(mega_op_check_operand(g, op, GELU_GRAD_BIAS, "bias", mega_shape_1d(g->dtype, dy.dim[1])));
    out[GELU_GRAD_DX] = dy;
    out[GELU_GRAD_DBIAS] = mega_shape_1d(g->acc, dy.dim[1]);
    return MEGA_OK;
}

const op_row mega_op_row_gelu_grad = {
    OP_ROW(gelu_grad, 3, 2, gelu_grad),
    .optional_in = 1u << GELU_GRAD_BIAS,
    .optional_out = 1u << GELU_GRAD_DBIAS,
    .accumulates = 1u << GELU_GRAD_DBIAS,
    .overlays = 1u << GELU_GRAD_DY,
    .shape = gelu_grad_shape,
    .members = MEMBERS(OUT(gelu_grad, dx, GELU_GRAD_DX), OUT(gelu_grad, dbias, GELU_GRAD_DBIAS),
                       IN(gelu_grad, dy, GELU_GRAD_DY), IN(gelu_grad, x, GELU_GRAD_X),
                       IN(gelu_grad, bias, GELU_GRAD_BIAS), DIM(gelu_grad, rows, GELU_GRAD_DY, 0),
                       DIM(gelu_grad, cols, GELU_GRAD_DY, 1), ATTR(gelu_grad, tanh_form, tanh_form))};

/* ---- add: in a, b; out a + b. add, mul and scale also accept the acc dtype (losses of rows). ---- */

mega_tensor mega_op_add(mega_graph *g, mega_tensor a, mega_tensor b)
{
    instruction op = {.kind = OP_ADD, .in = {a.id, b.id}};
    return mega_graph_emit(g, &op);
}

static mega_status add_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, 0, "a", mega_op_in_float(g, op, 0), mega_op_in(g, op, 0)->num_dims));
    MEGA_TRY(mega_op_check_operand(g, op, 1, "b", *mega_op_in(g, op, 0)));
    out[0] = *mega_op_in(g, op, 0);
    return MEGA_OK;
}

static void add_gradient(mega_graph *g, const instruction *op)
{
    const int32_t dy = mega_graph_output_gradient(g, op, 0);
    mega_graph_gradient_add(g, op->in[0], dy);
    mega_graph_gradient_add(g, op->in[1], dy);
}

/* Also for mul, which has the same arguments. */
#define ADD_MEMBERS \
    MEMBERS(DTYPE(add, head.dtype, 0), OUT(add, y, 0), IN(add, a, 0), IN(add, b, 1), COUNT(add, count, 0))

const op_row mega_op_row_add = {OP_ROW(add, 2, 1, add), .overlays = 1u << 0 | 1u << 1, .shape = add_shape,
                                .gradient = add_gradient, .members = ADD_MEMBERS};

/* ---- mul: in a, b; out a * b ---- */

mega_tensor mega_op_mul(mega_graph *g, mega_tensor a, mega_tensor b)
{
    instruction op = {.kind = OP_MUL, .in = {a.id, b.id}};
    return mega_graph_emit(g, &op);
}

static void mul_gradient(mega_graph *g, const instruction *op)
{
    const mega_tensor dy = {mega_graph_output_gradient(g, op, 0)};
    for (int k = 0; k < 2; k++)
        if (g->tensor[op->in[k]].needs_gradient)
            mega_graph_gradient_add(g, op->in[k], mega_op_mul(g, dy, (mega_tensor){op->in[1 - k]}).id);
}

const op_row mega_op_row_mul = {OP_ROW(mul, 2, 1, mul), .overlays = 1u << 0 | 1u << 1, .shape = add_shape,
                                .gradient = mul_gradient, .members = ADD_MEMBERS};

/* ---- scale: in x; out x * factor ---- */

mega_tensor mega_op_scale(mega_graph *g, mega_tensor x, double factor)
{
    instruction op = {.kind = OP_SCALE, .in = {x.id}, .attr = {.factor = factor}};
    return mega_graph_emit(g, &op);
}

static mega_status scale_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, 0, "x", mega_op_in_float(g, op, 0), mega_op_in(g, op, 0)->num_dims));
    if (!isfinite(op->attr.factor))
        return MEGA_MISTAKE("op scale in \"%s\": factor %g; expected a finite number", op->scope, op->attr.factor);
    out[0] = *mega_op_in(g, op, 0);
    return MEGA_OK;
}

static void scale_gradient(mega_graph *g, const instruction *op)
{
    if (!g->tensor[op->in[0]].needs_gradient) return;
    const mega_tensor dy = {mega_graph_output_gradient(g, op, 0)};
    mega_graph_gradient_add(g, op->in[0], mega_op_scale(g, dy, op->attr.factor).id);
}

/* Uses the kernel that converts types, here with equal types. */
const op_row mega_op_row_scale = {
    OP_ROW(scale, 1, 1, convert), .overlays = 1u << 0, .shape = scale_shape, .gradient = scale_gradient,
    .members = MEMBERS(OUT(convert, dst, 0), IN(convert, src, 0), COUNT(convert, count, 0),
                       DTYPE(convert, dst_dtype, 0), DTYPE(convert, src_dtype, 0), ATTR(convert, scale, factor))};

/* ---- keep: in x, state (written); for generation: no gradient ---- */

void mega_op_keep(mega_graph *g, mega_tensor x, mega_tensor state)
{
    instruction op = {.kind = OP_KEEP, .in = {x.id, state.id}};
    mega_graph_emit(g, &op);
}

static mega_status keep_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    out[0] = *mega_op_in(g, op, 0);
    return mega_op_check_operand(g, op, 1, "state", out[0]);
}

static void keep_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_convert_args *a = args;
    a->dst = b->address(b, op->in[1]);
    a->src = b->address(b, op->in[0]);
    a->count = mega_shape_count(mega_op_in(b->g, op, 0));
    a->dst_dtype = a->src_dtype = mega_op_in(b->g, op, 0)->dtype;
    a->scale = 1.0;
}

const op_row mega_op_row_keep = {OP_ROW(keep, 2, 1, convert), .optional_out = 1u << 0, /* never there */
                                 .mutates = 1u << 1, .shape = keep_shape, .bind = keep_bind};

/* ---- dropout: in x [T, C], sample_id [T], seq_position [T], bias [C] or none, residual [T, C] or none; out residual +
 *      dropout(x + bias) ---- */

mega_tensor mega_op_dropout(mega_graph *g, mega_tensor x, double p, uint32_t site, mega_tensor sample_id,
                            mega_tensor seq_position)
{
    if (p == 0.0) return x;
    instruction op = {
        .kind = OP_DROPOUT,
        .in = {[DROPOUT_X] = x.id, [DROPOUT_SAMPLE_ID] = sample_id.id, [DROPOUT_SEQ_POSITION] = seq_position.id},
        .attr = {.p = p, .site = site}};
    return mega_graph_emit(g, &op);
}

/* Checks sample_id and seq_position, which have the same operand numbers in dropout and dropout_grad. */
static mega_status dropout_coordinates(const mega_graph *g, const instruction *op, int64_t rows)
{
    if (!(op->attr.p >= 0.0 && op->attr.p < 1.0))
        return MEGA_MISTAKE("op %s in \"%s\": probability %g; expected 0 <= p < 1", mega_op_table[op->kind]->name,
                            op->scope, op->attr.p);
    if (op->attr.p > 0.0 && (op->in[DROPOUT_SAMPLE_ID] == 0 || op->in[DROPOUT_SEQ_POSITION] == 0))
        return MEGA_MISTAKE("op %s in \"%s\": sample ids and positions are missing; the mask is "
                            "addressed by them",
                            mega_op_table[op->kind]->name, op->scope);
    MEGA_TRY(mega_op_check_operand(g, op, DROPOUT_SAMPLE_ID, "sample_id", mega_shape_1d(MEGA_I32, rows)));
    return mega_op_check_operand(g, op, DROPOUT_SEQ_POSITION, "seq_position", mega_shape_1d(MEGA_I32, rows));
}

static mega_status dropout_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, DROPOUT_X, "x", g->dtype, 2));
    out[0] = *mega_op_in(g, op, DROPOUT_X);
    MEGA_TRY(dropout_coordinates(g, op, out[0].dim[0]));
    MEGA_TRY(mega_op_check_operand(g, op, DROPOUT_BIAS, "bias", mega_shape_1d(g->dtype, out[0].dim[1])));
    return mega_op_check_operand(g, op, DROPOUT_RESIDUAL, "residual", out[0]);
}

static void dropout_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_DROPOUT_GRAD,
                     .in = {[DROPOUT_GRAD_DY] = mega_graph_output_gradient(g, op, 0),
                            [DROPOUT_GRAD_SAMPLE_ID] = op->in[DROPOUT_SAMPLE_ID],
                            [DROPOUT_GRAD_SEQ_POSITION] = op->in[DROPOUT_SEQ_POSITION]},
                     .attr = op->attr};
    mega_graph_gradient_add(g, op->in[DROPOUT_X], mega_graph_emit(g, &d).id);
}

const op_row mega_op_row_dropout = {
    OP_ROW(dropout, 5, 1, dropout_add),
    .optional_in = 1u << DROPOUT_SAMPLE_ID | 1u << DROPOUT_SEQ_POSITION | 1u << DROPOUT_BIAS | 1u << DROPOUT_RESIDUAL,
    .overlays = 1u << DROPOUT_X | 1u << DROPOUT_RESIDUAL,
    .shape = dropout_shape,
    .gradient = dropout_gradient,
    .members =
        MEMBERS(OUT(dropout_add, y, 0), IN(dropout_add, x, DROPOUT_X), IN(dropout_add, sample_id, DROPOUT_SAMPLE_ID),
                IN(dropout_add, seq_position, DROPOUT_SEQ_POSITION), IN(dropout_add, bias, DROPOUT_BIAS),
                IN(dropout_add, residual, DROPOUT_RESIDUAL), DIM(dropout_add, rows, DROPOUT_X, 0),
                DIM(dropout_add, cols, DROPOUT_X, 1), ATTR(dropout_add, dropout, p), ATTR(dropout_add, site, site))};

/* ---- dropout_grad: in dy [T, C], sample_id, seq_position; out dx, dbias += or none ---- */

static mega_status dropout_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, DROPOUT_GRAD_DY, "dy", g->dtype, 2));
    out[DROPOUT_GRAD_DX] = *mega_op_in(g, op, DROPOUT_GRAD_DY);
    out[DROPOUT_GRAD_DBIAS] = mega_shape_1d(g->acc, out[DROPOUT_GRAD_DX].dim[1]);
    return dropout_coordinates(g, op, out[DROPOUT_GRAD_DX].dim[0]);
}

const op_row mega_op_row_dropout_grad = {
    OP_ROW(dropout_grad, 3, 2, dropout_grad),
    .optional_in = 1u << DROPOUT_GRAD_SAMPLE_ID | 1u << DROPOUT_GRAD_SEQ_POSITION,
    .optional_out = 1u << DROPOUT_GRAD_DBIAS,
    .accumulates = 1u << DROPOUT_GRAD_DBIAS,
    .overlays = 1u << DROPOUT_GRAD_DY,
    .shape = dropout_grad_shape,
    .members = MEMBERS(OUT(dropout_grad, dx, DROPOUT_GRAD_DX), OUT(dropout_grad, dbias, DROPOUT_GRAD_DBIAS),
                       IN(dropout_grad, dy, DROPOUT_GRAD_DY), IN(dropout_grad, sample_id, DROPOUT_GRAD_SAMPLE_ID),
                       IN(dropout_grad, seq_position, DROPOUT_GRAD_SEQ_POSITION),
                       DIM(dropout_grad, rows, DROPOUT_GRAD_DY, 0), DIM(dropout_grad, cols, DROPOUT_GRAD_DY, 1),
                       ATTR(dropout_grad, dropout, p), ATTR(dropout_grad, site, site))};
