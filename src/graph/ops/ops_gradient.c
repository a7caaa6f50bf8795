/* Ops that only the differentiate pass emits: the gradient of a tensor from the gradient of some of its rows, and the
 * addition of a gradient to the gradient buffer of a parameter. */
#include "graph_impl.h"

static int64_t row_elements(const tensor_shape *s)
{
    return mega_shape_count(s) / s->dim[0];
}

/* ---- rows_grad: in dy of some rows (ops_view.c); out dx, with dy in these rows and zeros in the others ---- */

static mega_status rows_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, 0, "dy", mega_op_in_float(g, op, 0), mega_op_in(g, op, 0)->num_dims));
    out[0] = *mega_op_in(g, op, 0);
    out[0].dim[0] = op->attr.rows;
    return MEGA_OK;
}

/* Uses the embedding kernel, with dy as the table and row numbers as ids. */
static void rows_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_embedding_args *a = args;
    a->head.dtype = mega_op_in_float(b->g, op, 0);
    a->y = b->address(b, op->out[0]);
    a->table = b->address(b, op->in[0]);
    a->rows = op->attr.rows;
    a->table_rows = mega_op_in_dim(b->g, op, 0, 0);
    a->cols = row_elements(mega_op_in(b->g, op, 0));
    a->begin = op->attr.begin;
}

const op_row mega_op_row_rows_grad = {OP_ROW(rows_grad, 1, 1, embedding), .shape = rows_grad_shape,
                                      .bind = rows_grad_bind};

/* ---- accumulate: in dy; out the gradient of a parameter, acc; dy is added to it from element attr.begin ---- */

void mega_graph_accumulate(mega_graph *g, int32_t weight, int64_t first_element, int32_t gradient)
{
    instruction op = {.kind = OP_ACCUMULATE,
                      .in = {gradient},
                      .out = {mega_graph_gradient_tensor(g, weight)},
                      .attr = {.begin = first_element}};
    mega_graph_emit(g, &op);
}

static mega_status accumulate_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const tensor_shape *dy = mega_op_in(g, op, 0);
    MEGA_TRY(mega_op_check_dims(g, op, 0, "dy", g->dtype, dy->num_dims));
    out[0] = g->tensor[op->out[0]].shape;
    if (op->attr.begin >= 0 && op->attr.begin + mega_shape_count(dy) <= mega_shape_count(&out[0])) return MEGA_OK;
    return MEGA_MISTAKE("op accumulate in \"%s\": elements %lld to %lld of %s, which has %lld", op->scope,
                        (long long)op->attr.begin, (long long)(op->attr.begin + mega_shape_count(dy) - 1),
                        g->tensor[op->out[0]].name, (long long)mega_shape_count(&out[0]));
}

/* Uses the kernel of a sum over rows, with all elements in one row. */
static void accumulate_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_column_sum_args *a = args;
    a->sum = (char *)b->address(b, op->out[0]) + (size_t)op->attr.begin * mega_dtype_size(b->g->acc);
    a->x = b->address(b, op->in[0]);
    a->rows = 1;
    a->cols = mega_shape_count(mega_op_in(b->g, op, 0));
}

const op_row mega_op_row_accumulate = {OP_ROW(accumulate, 1, 1, column_sum), .accumulates = 1u,
                                       .shape = accumulate_shape, .bind = accumulate_bind};
