/* GEMMs with a weight [N, K] (out, in), their two gradients, and biases. */
#include "op_members.h"

/* ---- linear: in x [T, K], weight [N, K], bias [N] or none, residual [T, N] or none; out [T, N], in the acc dtype if
 *      attr.wide ---- */

mega_tensor mega_op_linear(mega_graph *g, mega_tensor x, mega_tensor weight)
{
    instruction op = {.kind = OP_LINEAR, .in = {[LINEAR_X] = x.id, [LINEAR_WEIGHT] = weight.id}};
    return mega_graph_emit(g, &op);
}

mega_tensor mega_op_wide_linear(mega_graph *g, mega_tensor x, mega_tensor weight)
{
    instruction op = {
        .kind = OP_LINEAR, .in = {[LINEAR_X] = x.id, [LINEAR_WEIGHT] = weight.id}, .attr = {.wide = true}};
    return mega_graph_emit(g, &op);
}

mega_tensor mega_op_logits(mega_graph *g, mega_tensor x, mega_tensor table)
{
    mega_graph_note_table(g, table);
    return mega_op_wide_linear(g, x, table);
}

static mega_status linear_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, LINEAR_X, "x", g->dtype, 2));
    MEGA_TRY(mega_op_check_dims(g, op, LINEAR_WEIGHT, "weight", g->dtype, 2));
    const int64_t rows = mega_op_in_dim(g, op, LINEAR_X, 0), n = mega_op_in_dim(g, op, LINEAR_WEIGHT, 0);
    MEGA_TRY(mega_op_check_operand(g, op, LINEAR_WEIGHT, "weight",
                                   mega_shape_2d(g->dtype, n, mega_op_in_dim(g, op, LINEAR_X, 1))));
    MEGA_TRY(mega_op_check_operand(g, op, LINEAR_BIAS, "bias", mega_shape_1d(g->dtype, n)));
    out[0] = mega_shape_2d(op->attr.wide ? g->acc : g->dtype, rows, n);
    return mega_op_check_operand(g, op, LINEAR_RESIDUAL, "residual", out[0]);
}

/* Emits dx first: if the weight is sharded, the all-reduce of dx can overlap with the weight gradient. */
static void linear_gradient(mega_graph *g, const instruction *op)
{
    const int32_t dy = mega_graph_output_gradient(g, op, 0);
    if (g->tensor[op->in[LINEAR_X]].needs_gradient) {
        instruction x = {.kind = OP_LINEAR_GRAD_X,
                         .in = {[LINEAR_GRAD_X_DY] = dy, [LINEAR_GRAD_X_WEIGHT] = op->in[LINEAR_WEIGHT]}};
        mega_graph_gradient_add(g, op->in[LINEAR_X], mega_graph_emit(g, &x).id);
    }
    instruction w = {.kind = OP_LINEAR_GRAD_W,
                     .in = {[LINEAR_GRAD_W_DY] = dy, [LINEAR_GRAD_W_X] = op->in[LINEAR_X]},
                     .out = {[LINEAR_GRAD_W_DWEIGHT] = mega_graph_gradient_tensor(g, op->in[LINEAR_WEIGHT])}};
    mega_graph_emit(g, &w);
}

static op_cost product_cost(const mega_graph *g, const instruction *op, int64_t m, int64_t n, int64_t k)
{
    double bytes = 0.0;
    for (int i = 0; i < OP_MAX_IN; i++)
        if (op->in[i] != 0) bytes += (double)mega_shape_bytes(mega_op_in(g, op, i));
    for (int i = 0; i < OP_MAX_OUT; i++)
        if (op->out[i] != 0) bytes += (double)mega_shape_bytes(&g->tensor[op->out[i]].shape);
    if (mega_op_table[op->kind]->accumulates & 1u) bytes += (double)mega_shape_bytes(&g->tensor[op->out[0]].shape);
    return (op_cost){2.0 * (double)m * (double)n * (double)k, bytes};
}

static op_cost linear_cost(const mega_graph *g, const instruction *op)
{
    return product_cost(g, op, mega_op_in_dim(g, op, LINEAR_X, 0), mega_op_in_dim(g, op, LINEAR_WEIGHT, 0),
                        mega_op_in_dim(g, op, LINEAR_X, 1));
}

static void linear_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_gemm_args *a = args;
    a->c = b->address(b, op->out[0]);
    a->a = b->address(b, op->in[LINEAR_X]);
    a->b = b->address(b, op->in[LINEAR_WEIGHT]);
    a->bias = b->address(b, op->in[LINEAR_BIAS]);
    a->residual = b->address(b, op->in[LINEAR_RESIDUAL]);
    a->m = mega_op_in_dim(b->g, op, LINEAR_X, 0);
    a->k = a->lda = a->ldb = mega_op_in_dim(b->g, op, LINEAR_X, 1);
    a->n = a->ldc = mega_op_in_dim(b->g, op, LINEAR_WEIGHT, 0);
    a->trans_b = true;
    a->c_dtype = b->g->tensor[op->out[0]].shape.dtype;
}

const op_row mega_op_row_linear = {OP_ROW(linear, 4, 1, gemm),
                                   .optional_in = 1u << LINEAR_BIAS | 1u << LINEAR_RESIDUAL,
                                   .overlays = 1u << LINEAR_RESIDUAL,
                                   .shape = linear_shape,
                                   .gradient = linear_gradient,
                                   .cost = linear_cost,
                                   .bind = linear_bind};

/* ---- linear_grad_x: in dy [T, N], weight [N, K]; out dx [T, K] ---- */

static mega_status linear_grad_x_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, LINEAR_GRAD_X_DY, "dy", g->dtype, 2));
    MEGA_TRY(mega_op_check_dims(g, op, LINEAR_GRAD_X_WEIGHT, "weight", g->dtype, 2));
    const int64_t k = mega_op_in_dim(g, op, LINEAR_GRAD_X_WEIGHT, 1);
    MEGA_TRY(mega_op_check_operand(g, op, LINEAR_GRAD_X_WEIGHT, "weight",
                                   mega_shape_2d(g->dtype, mega_op_in_dim(g, op, LINEAR_GRAD_X_DY, 1), k)));
    out[0] = mega_shape_2d(g->dtype, mega_op_in_dim(g, op, LINEAR_GRAD_X_DY, 0), k);
    return MEGA_OK;
}

static op_cost linear_grad_x_cost(const mega_graph *g, const instruction *op)
{
    return product_cost(g, op, mega_op_in_dim(g, op, LINEAR_GRAD_X_DY, 0),
                        mega_op_in_dim(g, op, LINEAR_GRAD_X_WEIGHT, 1), mega_op_in_dim(g, op, LINEAR_GRAD_X_WEIGHT, 0));
}

static void linear_grad_x_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_gemm_args *a = args;
    a->c = b->address(b, op->out[0]);
    a->a = b->address(b, op->in[LINEAR_GRAD_X_DY]);
    a->b = b->address(b, op->in[LINEAR_GRAD_X_WEIGHT]);
    a->m = mega_op_in_dim(b->g, op, LINEAR_GRAD_X_DY, 0);
    a->k = a->lda = mega_op_in_dim(b->g, op, LINEAR_GRAD_X_DY, 1);
    a->n = a->ldb = a->ldc = mega_op_in_dim(b->g, op, LINEAR_GRAD_X_WEIGHT, 1);
    a->c_dtype = b->g->dtype;
}

const op_row mega_op_row_linear_grad_x = {OP_ROW(linear_grad_x, 2, 1, gemm), .shape = linear_grad_x_shape,
                                          .cost = linear_grad_x_cost, .bind = linear_grad_x_bind};

/* ---- linear_grad_w: in dy [T, N], x [T, K]; out dweight [N, K] acc, dbias [N] acc or none; the GEMM itself
 *      accumulates ---- */

static mega_status linear_grad_w_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, LINEAR_GRAD_W_DY, "dy", g->dtype, 2));
    MEGA_TRY(mega_op_check_dims(g, op, LINEAR_GRAD_W_X, "x", g->dtype, 2));
    const int64_t k = mega_op_in_dim(g, op, LINEAR_GRAD_W_X, 1);
    MEGA_TRY(mega_op_check_operand(g, op, LINEAR_GRAD_W_X, "x",
                                   mega_shape_2d(g->dtype, mega_op_in_dim(g, op, LINEAR_GRAD_W_DY, 0), k)));
    out[LINEAR_GRAD_W_DWEIGHT] = mega_shape_2d(g->acc, mega_op_in_dim(g, op, LINEAR_GRAD_W_DY, 1), k);
    out[LINEAR_GRAD_W_DBIAS] = mega_shape_1d(g->acc, mega_op_in_dim(g, op, LINEAR_GRAD_W_DY, 1));
    return MEGA_OK;
}

static op_cost linear_grad_w_cost(const mega_graph *g, const instruction *op)
{
    return product_cost(g, op, mega_op_in_dim(g, op, LINEAR_GRAD_W_DY, 1), mega_op_in_dim(g, op, LINEAR_GRAD_W_X, 1),
                        mega_op_in_dim(g, op, LINEAR_GRAD_W_DY, 0));
}

static void linear_grad_w_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_gemm_args *a = args;
    a->c = b->address(b, op->out[LINEAR_GRAD_W_DWEIGHT]);
    a->a = b->address(b, op->in[LINEAR_GRAD_W_DY]);
    a->b = b->address(b, op->in[LINEAR_GRAD_W_X]);
    a->k = mega_op_in_dim(b->g, op, LINEAR_GRAD_W_DY, 0);
    a->m = a->lda = mega_op_in_dim(b->g, op, LINEAR_GRAD_W_DY, 1);
    a->n = a->ldb = a->ldc = mega_op_in_dim(b->g, op, LINEAR_GRAD_W_X, 1);
    a->trans_a = true;
    a->accumulate = !op->attr.overwrites;
    a->first_in_step = op->attr.first_in_step;
    a->row_sum = b->address(b, op->out[LINEAR_GRAD_W_DBIAS]);
    a->c_dtype = b->g->acc;
}

const op_row mega_op_row_linear_grad_w = {OP_ROW(linear_grad_w, 2, 2, gemm),
                                          .optional_out = 1u << LINEAR_GRAD_W_DBIAS,
                                          .accumulates = 1u << LINEAR_GRAD_W_DWEIGHT | 1u << LINEAR_GRAD_W_DBIAS,
                                          .overwrites = 1u << LINEAR_GRAD_W_DWEIGHT,
                                          .shape = linear_grad_w_shape,
                                          .cost = linear_grad_w_cost,
                                          .bind = linear_grad_w_bind};

/* ---- bias_add: in x [T, C], bias [C]; out [T, C] ---- */

mega_tensor mega_op_bias_add(mega_graph *g, mega_tensor x, mega_tensor bias)
{
    instruction op = {.kind = OP_BIAS_ADD, .in = {[BIAS_ADD_X] = x.id, [BIAS_ADD_BIAS] = bias.id}};
    return mega_graph_emit(g, &op);
}

static mega_status bias_add_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, BIAS_ADD_X, "x", g->dtype, 2));
    MEGA_TRY(mega_op_check_operand(g, op, BIAS_ADD_BIAS, "bias",
                                   mega_shape_1d(g->dtype, mega_op_in_dim(g, op, BIAS_ADD_X, 1))));
    out[0] = *mega_op_in(g, op, BIAS_ADD_X);
    return MEGA_OK;
}

static void bias_add_gradient(mega_graph *g, const instruction *op)
{
    const int32_t dy = mega_graph_output_gradient(g, op, 0);
    instruction d = {.kind = OP_COLUMN_SUM, .in = {dy}, .out = {mega_graph_gradient_tensor(g, op->in[BIAS_ADD_BIAS])}};
    mega_graph_emit(g, &d);
    mega_graph_gradient_add(g, op->in[BIAS_ADD_X], dy);
}

/* Uses the dropout kernel, dropping nothing and adding only the bias. */
const op_row mega_op_row_bias_add = {
    OP_ROW(bias_add, 2, 1, dropout_add), .overlays = 1u << BIAS_ADD_X, .shape = bias_add_shape,
    .gradient = bias_add_gradient,
    .members = MEMBERS(OUT(dropout_add, y, 0), IN(dropout_add, x, BIAS_ADD_X), IN(dropout_add, bias, BIAS_ADD_BIAS),
                       DIM(dropout_add, rows, BIAS_ADD_X, 0), DIM(dropout_add, cols, BIAS_ADD_X, 1))};

/* ---- column_sum: in x [T, C]; out [C] acc, accumulated ---- */

static mega_status column_sum_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, 0, "x", g->dtype, 2));
    out[0] = mega_shape_1d(g->acc, mega_op_in_dim(g, op, 0, 1));
    return MEGA_OK;
}

const op_row mega_op_row_column_sum = {OP_ROW(column_sum, 1, 1, column_sum), .accumulates = 1u,
                                       .shape = column_sum_shape,
                                       .members = MEMBERS(OUT(column_sum, sum, 0), IN(column_sum, x, 0),
                                                          DIM(column_sum, rows, 0, 0), DIM(column_sum, cols, 0, 1))};
