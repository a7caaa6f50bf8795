/* Rows of a table selected by ids: embedding, its gradient, and take_rows. */
#include "graph_impl.h"

/* Operands. */
enum { EMBEDDING_GRAD_IDS, EMBEDDING_GRAD_DY };

/* ---- embedding: in ids [T] i32, table [V, C], addend [T, C] or none; out [T, C] ---- */

mega_tensor mega_op_embedding(mega_graph *g, mega_tensor ids, mega_tensor table, mega_tensor addend, int64_t begin)
{
    instruction op = {.kind = OP_EMBEDDING,
                      .in = {[EMBEDDING_IDS] = ids.id, [EMBEDDING_TABLE] = table.id, [EMBEDDING_ADDEND] = addend.id},
                      .attr = {.begin = begin}};
    mega_graph_limit_rows(g, ids, table);
    return mega_graph_emit(g, &op);
}

static mega_status embedding_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_expect_dims(g, op, EMBEDDING_IDS, "ids", MEGA_I32, 1));
    MEGA_TRY(mega_op_expect_dims(g, op, EMBEDDING_TABLE, "table", g->dtype, 2));
    out[0] =
        mega_shape_2d(g->dtype, mega_op_in_dim(g, op, EMBEDDING_IDS, 0), mega_op_in_dim(g, op, EMBEDDING_TABLE, 1));
    return mega_op_expect(g, op, EMBEDDING_ADDEND, "addend", out[0]);
}

static void embedding_gradient(mega_graph *g, const instruction *op)
{
    const int32_t dy = mega_graph_arrived(g, op, 0);
    mega_graph_gradient_add(g, op->in[EMBEDDING_ADDEND], dy);
    if (g->tensor[op->in[EMBEDDING_TABLE]].role != ROLE_WEIGHT && !g->tensor[op->in[EMBEDDING_TABLE]].needs_gradient)
        return;
    instruction d = {.kind = OP_EMBEDDING_GRAD,
                     .in = {[EMBEDDING_GRAD_IDS] = op->in[EMBEDDING_IDS], [EMBEDDING_GRAD_DY] = dy},
                     .out = {mega_graph_gradient_tensor(g, op->in[EMBEDDING_TABLE])},
                     .attr = {.begin = op->attr.begin}};
    mega_graph_emit(g, &d);
}

static void embedding_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_embedding_args *a = args;
    a->y = b->address(b, op->out[0]);
    a->ids = b->address(b, op->in[EMBEDDING_IDS]);
    a->table = b->address(b, op->in[EMBEDDING_TABLE]);
    a->addend = b->address(b, op->in[EMBEDDING_ADDEND]);
    a->rows = mega_op_in_dim(b->g, op, EMBEDDING_IDS, 0);
    a->table_rows = mega_op_in_dim(b->g, op, EMBEDDING_TABLE, 0);
    a->cols = mega_op_in_dim(b->g, op, EMBEDDING_TABLE, 1);
    a->begin = op->attr.begin;
}

/* Counts for the table only the bytes of the rows read, as many as the result has. */
static op_cost embedding_cost(const mega_graph *g, const instruction *op)
{
    const double y = (double)mega_shape_bytes(&g->tensor[op->out[0]].shape);
    return (op_cost){0.0, y * (op->in[EMBEDDING_ADDEND] != 0 ? 3.0 : 2.0)};
}

const op_row mega_op_row_embedding = {.name = "embedding",
                                      .num_in = 3,
                                      .num_out = 1,
                                      .optional_in = 1u << EMBEDDING_ADDEND,
                                      .shape = embedding_shape,
                                      .gradient = embedding_gradient,
                                      .cost = embedding_cost,
                                      .bind = embedding_bind,
                                      .kernel = MEGA_KERNEL_embedding};

/* ---- embedding_grad: in ids, dy [T, C]; out dtable [V, C] acc, accumulated ---- */

static mega_status embedding_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_expect_dims(g, op, EMBEDDING_GRAD_IDS, "ids", MEGA_I32, 1));
    MEGA_TRY(mega_op_expect_dims(g, op, EMBEDDING_GRAD_DY, "dy", g->dtype, 2));
    out[0] = mega_shape_2d(g->acc, g->tensor[op->out[0]].shape.dim[0], mega_op_in_dim(g, op, EMBEDDING_GRAD_DY, 1));
    return MEGA_OK;
}

static void embedding_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_embedding_grad_args *a = args;
    a->dtable = b->address(b, op->out[0]);
    a->ids = b->address(b, op->in[EMBEDDING_GRAD_IDS]);
    a->dy = b->address(b, op->in[EMBEDDING_GRAD_DY]);
    a->rows = mega_op_in_dim(b->g, op, EMBEDDING_GRAD_DY, 0);
    a->cols = mega_op_in_dim(b->g, op, EMBEDDING_GRAD_DY, 1);
    a->begin = op->attr.begin;
    a->table_rows = b->g->tensor[op->out[0]].shape.dim[0];
}

static op_cost embedding_grad_cost(const mega_graph *g, const instruction *op)
{
    return (op_cost){0.0, 3.0 * (double)mega_shape_bytes(mega_op_in(g, op, EMBEDDING_GRAD_DY))};
}

const op_row mega_op_row_embedding_grad = {.name = "embedding_grad",
                                           .num_in = 2,
                                           .num_out = 1,
                                           .accumulates = 1u,
                                           .shape = embedding_grad_shape,
                                           .cost = embedding_grad_cost,
                                           .bind = embedding_grad_bind,
                                           .kernel = MEGA_KERNEL_embedding_grad};

/* ---- take_rows: in rows [n] i32, x [T, C]; out [n, C]; an embedding without a gradient, for generation ---- */

mega_tensor mega_op_take_rows(mega_graph *g, mega_tensor x, mega_tensor rows)
{
    instruction op = {.kind = OP_TAKE_ROWS, .in = {[EMBEDDING_IDS] = rows.id, [EMBEDDING_TABLE] = x.id}};
    mega_graph_limit(g, rows, mega_graph_dim(g, x, 0));
    return mega_graph_emit(g, &op);
}

const op_row mega_op_row_take_rows = {.name = "take_rows",
                                      .num_in = 2,
                                      .num_out = 1,
                                      .shape = embedding_shape,
                                      .cost = embedding_cost,
                                      .bind = embedding_bind,
                                      .kernel = MEGA_KERNEL_embedding};
