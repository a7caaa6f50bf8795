/* Collectives as instructions. For a group of one rank no instruction is emitted, so that it costs nothing (law 4). */
#include "graph_impl.h"

/* ---- all_reduce: in x, out the reduction over the axis ---- */

static mega_status all_reduce_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    out[0] = *mega_op_in(g, op, 0);
    return MEGA_OK;
}

/* The adjoint of "reduce from the group": the partial sum of every rank receives the whole gradient. */
static void all_reduce_gradient(mega_graph *g, const instruction *op)
{
    mega_graph_gradient_add(g, op->in[0], mega_graph_output_gradient(g, op, 0));
}

const op_row mega_op_row_all_reduce = {OP_ROW(all_reduce, 1, 1, NONE), .overlays = 1u << 0, .shape = all_reduce_shape,
                                       .gradient = all_reduce_gradient};

mega_tensor mega_op_reduce_from_group(mega_graph *g, mega_tensor x, const mega_axis *axis)
{
    if (axis->size == 1) return x;
    instruction op = {
        .kind = OP_ALL_REDUCE, .in = {x.id}, .attr = {.axis = *axis, .reduce = MEGA_REDUCE_SUM, .what = "activation"}};
    return mega_graph_emit(g, &op);
}

mega_tensor mega_op_mean_over_group(mega_graph *g, mega_tensor x, const mega_axis *axis)
{
    if (axis->size == 1) return x;
    return mega_op_reduce_from_group(g, mega_op_scale(g, x, 1.0 / axis->size), axis);
}

/* ---- copy_to_group: in x, out a view of x. Only a mark that the differentiate pass reads and then removes. ---- */

static mega_status copy_to_group_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    out[0] = *mega_op_in(g, op, 0);
    return MEGA_OK;
}

static void copy_to_group_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_ALL_REDUCE, .in = {mega_graph_output_gradient(g, op, 0)}, .attr = op->attr};
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

const op_row mega_op_row_copy_to_group = {OP_ROW(copy_to_group, 1, 1, NONE), .shape = copy_to_group_shape,
                                          .gradient = copy_to_group_gradient};

mega_tensor mega_op_copy_to_group(mega_graph *g, mega_tensor x, const mega_axis *axis)
{
    if (axis->size == 1 || g->status != MEGA_OK) return x;
    const graph_tensor view = {.role = ROLE_VIEW,
                               .base = mega_graph_root(g, x.id),
                               .offset = g->tensor[x.id].offset,
                               .shape = g->tensor[x.id].shape,
                               .name = g->tensor[x.id].name};
    instruction op = {.kind = OP_COPY_TO_GROUP,
                      .in = {x.id},
                      .out = {mega_graph_tensor_add(g, &view)},
                      .attr = {.axis = *axis, .reduce = MEGA_REDUCE_SUM, .what = "activation gradient"}};
    return mega_graph_emit(g, &op);
}

/* ---- all_gather: in the rows of this rank, out the rows of all ranks; reduce_scatter: in partial sums of all rows,
 *      out this rank's rows of the sum. Each is the adjoint of the other (Korthikanti et al. 2022). ---- */

static mega_status all_gather_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    out[0] = *mega_op_in(g, op, 0);
    out[0].dim[0] = mega_extent_mul(out[0].dim[0], op->attr.axis.size);
    return MEGA_OK;
}

static mega_status reduce_scatter_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    out[0] = *mega_op_in(g, op, 0);
    if (out[0].dim[0] % op->attr.axis.size != 0)
        return MEGA_MISTAKE(
            "op %s in \"%s\": %lld tokens of a micro-batch over %d ranks of tensor parallelism; expected "
            "a multiple",
            mega_op_table[op->kind]->name, op->scope, (long long)out[0].dim[0], op->attr.axis.size);
    out[0].dim[0] /= op->attr.axis.size;
    return MEGA_OK;
}

static instruction sequence_op(op_kind kind, int32_t x, const mega_axis *axis)
{
    return (instruction){.kind = kind,
                         .in = {x},
                         .attr = {.axis = *axis, .reduce = MEGA_REDUCE_SUM, .what = "sequence-parallel activation"}};
}

static void all_gather_gradient(mega_graph *g, const instruction *op)
{
    instruction d = sequence_op(OP_REDUCE_SCATTER, mega_graph_output_gradient(g, op, 0), &op->attr.axis);
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

static void reduce_scatter_gradient(mega_graph *g, const instruction *op)
{
    instruction d = sequence_op(OP_ALL_GATHER, mega_graph_output_gradient(g, op, 0), &op->attr.axis);
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

const op_row mega_op_row_all_gather = {OP_ROW(all_gather, 1, 1, NONE), .shape = all_gather_shape,
                                       .gradient = all_gather_gradient};

const op_row mega_op_row_reduce_scatter = {OP_ROW(reduce_scatter, 1, 1, NONE), .shape = reduce_scatter_shape,
                                           .gradient = reduce_scatter_gradient};

mega_tensor mega_op_gather_from_sequence(mega_graph *g, mega_tensor x, const mega_axis *axis)
{
    if (axis->size == 1) return x;
    instruction op = sequence_op(OP_ALL_GATHER, x.id, axis);
    return mega_graph_emit(g, &op);
}

mega_tensor mega_op_scatter_to_sequence(mega_graph *g, mega_tensor x, const mega_axis *axis)
{
    if (axis->size == 1) return x;
    instruction op = sequence_op(OP_REDUCE_SCATTER, x.id, axis);
    return mega_graph_emit(g, &op);
}

/* ---- all_to_all: in a block of rows for each rank of the axis, needed [1] i32 or none; out the blocks of all ranks
 *      for this one, or zeros where `needed` is 0. Its own adjoint. ---- */

static mega_status all_to_all_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const int size = op->attr.axis.size;
    out[0] = *mega_op_in(g, op, 0);
    MEGA_TRY(mega_op_check_operand(g, op, 1, "needed", mega_shape_1d(MEGA_I32, 1)));
    if (out[0].dim[0] % size == 0) return MEGA_OK;
    return MEGA_MISTAKE("op all_to_all in \"%s\": %s has %lld rows for %d ranks; expected a multiple of them",
                        op->scope, g->tensor[op->in[0]].name, (long long)out[0].dim[0], size);
}

static void all_to_all_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_ALL_TO_ALL, .in = {mega_graph_output_gradient(g, op, 0), op->in[1]}, .attr = op->attr};
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

const op_row mega_op_row_all_to_all = {OP_ROW(all_to_all, 2, 1, NONE), .optional_in = 1u << 1,
                                       .shape = all_to_all_shape, .gradient = all_to_all_gradient};

mega_tensor mega_op_all_to_all(mega_graph *g, mega_tensor x, mega_tensor needed, const mega_axis *axis)
{
    if (axis->size == 1) return x;
    instruction op = {
        .kind = OP_ALL_TO_ALL, .in = {x.id, needed.id}, .attr = {.axis = *axis, .what = "rows of experts"}};
    return mega_graph_emit(g, &op);
}

/* ---- own_rows: in rows that are replicated on every rank, out a copy of this rank's share. No communication. Emitted
 *      by the recompute pass, after differentiation, so it has no gradient. ---- */

const op_row mega_op_row_own_rows = {OP_ROW(own_rows, 1, 1, NONE), .shape = reduce_scatter_shape};
