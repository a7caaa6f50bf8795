/* Rows of a table selected by ids: embedding, its gradient, and take_rows. */
#include "op_members.h"

/* Operands. */
enum { EMBEDDING_GRAD_IDS, EMBEDDING_GRAD_DY };

/* ---- embedding: in ids [T] i32, table [V, C], addend [T, C] or none; out [T, C] ---- */

mega_tensor mega_op_embedding(mega_graph *g, mega_tensor ids, mega_tensor table, mega_tensor addend, int64_t begin)
{
    instruction op = {.kind = OP_EMBEDDING,
                      .in = {[EMBEDDING_IDS] = ids.id, [EMBEDDING_TABLE] = table.id, [EMBEDDING_ADDEND] = addend.id},
                      .attr = {.begin = begin}};
    mega_graph_set_row_limit(g, ids, table);
    return mega_graph_emit(g, &op);
}

static mega_status embedding_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, EMBEDDING_IDS, "ids", MEGA_I32, 1));
    MEGA_TRY(mega_op_check_dims(g, op, EMBEDDING_TABLE, "table", g->dtype, 2));
    out[0] =
        mega_shape_2d(g->dtype, mega_op_in_dim(g, op, EMBEDDING_IDS, 0), mega_op_in_dim(g, op, EMBEDDING_TABLE, 1));
    return mega_op_check_operand(g, op, EMBEDDING_ADDEND, "addend", out[0]);
}

static void embedding_gradient(mega_graph *g, const instruction *op)
{
    const int32_t dy = mega_graph_output_gradient(g, op, 0);
    mega_graph_gradient_add(g, op->in[EMBEDDING_ADDEND], dy);
    if (g->tensor[op->in[EMBEDDING_TABLE]].role != ROLE_WEIGHT && !g->tensor[op->in[EMBEDDING_TABLE]].needs_gradient)
        return;
    instruction d = {.kind = OP_EMBEDDING_GRAD,
                     .in = {[EMBEDDING_GRAD_IDS] = op->in[EMBEDDING_IDS], [EMBEDDING_GRAD_DY] = dy},
                     .out = {mega_graph_gradient_tensor(g, op->in[EMBEDDING_TABLE])},
                     .attr = {.begin = op->attr.begin}};
    mega_graph_emit(g, &d);
}

#define EMBEDDING_MEMBERS                                                                                   \
    MEMBERS(OUT(embedding, y, 0), IN(embedding, ids, EMBEDDING_IDS), IN(embedding, table, EMBEDDING_TABLE), \
            IN(embedding, addend, EMBEDDING_ADDEND), DIM(embedding, rows, EMBEDDING_IDS, 0),                \
            DIM(embedding, table_rows, EMBEDDING_TABLE, 0), DIM(embedding, cols, EMBEDDING_TABLE, 1),       \
            ATTR(embedding, begin, begin))

/* Counts for the table only the bytes of the rows read, as many as the result has. */
static op_cost embedding_cost(const mega_graph *g, const instruction *op)
{
    const double y = (double)mega_shape_bytes(&g->tensor[op->out[0]].shape);
    return (op_cost){0.0, y * (op->in[EMBEDDING_ADDEND] != 0 ? 3.0 : 2.0)};
}

const op_row mega_op_row_embedding = {OP_ROW(embedding, 3, 1, embedding),
                                      .optional_in = 1u << EMBEDDING_ADDEND,
                                      .shape = embedding_shape,
                                      .gradient = embedding_gradient,
                                      .cost = embedding_cost,
                                      .members = EMBEDDING_MEMBERS};

/* ---- embedding_grad: in ids, dy [T, C]; out dtable [V, C] acc, accumulated ---- */

static mega_status embedding_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, EMBEDDING_GRAD_IDS, "ids", MEGA_I32, 1));
    MEGA_TRY(mega_op_check_dims(g, op, EMBEDDING_GRAD_DY, "dy", g->dtype, 2));
    out[0] = mega_shape_2d(g->acc, g->tensor[op->out[0]].shape.dim[0], mega_op_in_dim(g, op, EMBEDDING_GRAD_DY, 1));
    return MEGA_OK;
}

static op_cost embedding_grad_cost(const mega_graph *g, const instruction *op)
{
    return (op_cost){0.0, 3.0 * (double)mega_shape_bytes(mega_op_in(g, op, EMBEDDING_GRAD_DY))};
}

const op_row mega_op_row_embedding_grad = {
    OP_ROW(embedding_grad, 2, 1, embedding_grad), .accumulates = 1u, .shape = embedding_grad_shape,
    .cost = embedding_grad_cost,
    .members = MEMBERS(OUT(embedding_grad, dtable, 0), IN(embedding_grad, ids, EMBEDDING_GRAD_IDS),
                       IN(embedding_grad, dy, EMBEDDING_GRAD_DY), DIM(embedding_grad, rows, EMBEDDING_GRAD_DY, 0),
                       DIM(embedding_grad, cols, EMBEDDING_GRAD_DY, 1), ATTR(embedding_grad, begin, begin),
                       OUT_DIM(embedding_grad, table_rows, 0, 0))};

/* ---- take_rows: in rows [n] i32, x [T, C]; out [n, C]; an embedding without a gradient, for generation ---- */

mega_tensor mega_op_take_rows(mega_graph *g, mega_tensor x, mega_tensor rows)
{
    instruction op = {.kind = OP_TAKE_ROWS, .in = {[EMBEDDING_IDS] = rows.id, [EMBEDDING_TABLE] = x.id}};
    mega_graph_set_id_limit(g, rows, mega_graph_dim(g, x, 0));
    return mega_graph_emit(g, &op);
}

const op_row mega_op_row_take_rows = {OP_ROW(take_rows, 2, 1, embedding), .shape = embedding_shape,
                                      .cost = embedding_cost, .members = EMBEDDING_MEMBERS};
