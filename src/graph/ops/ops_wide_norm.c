/* RMS norm of rows whose channels are divided among ranks. The sum of squares is added over the ranks, and so is its
 * gradient, because every rank scales its own channels by it. */
#include "op_members.h"

/* Operands. */
enum { SQUARE_SUM_GRAD_X, SQUARE_SUM_GRAD_DSUM };
enum { RMS_SCALE_X, RMS_SCALE_SUM, RMS_SCALE_GAIN };
enum { RMS_SCALE_GRAD_DY, RMS_SCALE_GRAD_X, RMS_SCALE_GRAD_SUM, RMS_SCALE_GRAD_GAIN };
enum { RMS_SCALE_GRAD_DX, RMS_SCALE_GRAD_DSUM, RMS_SCALE_GRAD_DGAIN };

mega_tensor mega_op_rms_norm_over(mega_graph *g, mega_tensor x, mega_tensor gain, const mega_axis *axis, double eps,
                                  bool plus_one)
{
    instruction squares = {.kind = OP_SQUARE_SUM, .in = {x.id}};
    mega_tensor sum = mega_op_reduce_from_group(g, mega_graph_emit(g, &squares), axis);
    sum = mega_op_copy_to_group(g, sum, axis);
    instruction scale = {
        .kind = OP_RMS_SCALE,
        .in = {[RMS_SCALE_X] = x.id, [RMS_SCALE_SUM] = sum.id, [RMS_SCALE_GAIN] = gain.id},
        .attr = {.eps = eps, .plus_one = plus_one, .group = mega_extent_mul(mega_graph_dim(g, x, 1), axis->size)}};
    return mega_graph_emit(g, &scale);
}

/* ---- square_sum: in x [T, C]; out [T] acc ---- */

static mega_status square_sum_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, 0, "x", g->dtype, 2));
    out[0] = mega_shape_1d(g->acc, mega_op_in_dim(g, op, 0, 0));
    return MEGA_OK;
}

static void square_sum_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {
        .kind = OP_SQUARE_SUM_GRAD,
        .in = {[SQUARE_SUM_GRAD_X] = op->in[0], [SQUARE_SUM_GRAD_DSUM] = mega_graph_output_gradient(g, op, 0)}};
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

const op_row mega_op_row_square_sum = {OP_ROW(square_sum, 1, 1, square_sum), .shape = square_sum_shape,
                                       .gradient = square_sum_gradient,
                                       .members = MEMBERS(OUT(square_sum, sum, 0), IN(square_sum, x, 0),
                                                          DIM(square_sum, rows, 0, 0), DIM(square_sum, cols, 0, 1))};

/* ---- square_sum_grad: in x [T, C], dsum [T] acc; out dx [T, C] ---- */

static mega_status square_sum_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, SQUARE_SUM_GRAD_X, "x", g->dtype, 2));
    out[0] = *mega_op_in(g, op, SQUARE_SUM_GRAD_X);
    return mega_op_check_operand(g, op, SQUARE_SUM_GRAD_DSUM, "dsum", mega_shape_1d(g->acc, out[0].dim[0]));
}

const op_row mega_op_row_square_sum_grad = {
    OP_ROW(square_sum_grad, 2, 1, square_sum_grad), .shape = square_sum_grad_shape,
    .members =
        MEMBERS(OUT(square_sum_grad, dx, 0), IN(square_sum_grad, x, SQUARE_SUM_GRAD_X),
                IN(square_sum_grad, dsum, SQUARE_SUM_GRAD_DSUM), DIM(square_sum_grad, rows, SQUARE_SUM_GRAD_X, 0),
                DIM(square_sum_grad, cols, SQUARE_SUM_GRAD_X, 1))};

/* ---- rms_scale: in x [T, C], sum [T] acc, gain [C] or none; out y [T, C] ---- */

static mega_status rms_scale_check(const mega_graph *g, const instruction *op, int x, int sum, int gain)
{
    MEGA_TRY(mega_op_check_dims(g, op, x, "x", g->dtype, 2));
    MEGA_TRY(mega_op_check_epsilon(op));
    const int64_t rows = mega_op_in_dim(g, op, x, 0), cols = mega_op_in_dim(g, op, x, 1);
    MEGA_TRY(mega_op_check_operand(g, op, sum, "sum", mega_shape_1d(g->acc, rows)));
    return mega_op_check_operand(g, op, gain, "gain", mega_shape_1d(g->dtype, cols));
}

static mega_status rms_scale_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(rms_scale_check(g, op, RMS_SCALE_X, RMS_SCALE_SUM, RMS_SCALE_GAIN));
    out[0] = *mega_op_in(g, op, RMS_SCALE_X);
    return MEGA_OK;
}

static void rms_scale_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_RMS_SCALE_GRAD,
                     .in = {[RMS_SCALE_GRAD_DY] = mega_graph_output_gradient(g, op, 0),
                            [RMS_SCALE_GRAD_X] = op->in[RMS_SCALE_X],
                            [RMS_SCALE_GRAD_SUM] = op->in[RMS_SCALE_SUM],
                            [RMS_SCALE_GRAD_GAIN] = op->in[RMS_SCALE_GAIN]},
                     .attr = op->attr};
    if (op->in[RMS_SCALE_GAIN] != 0)
        d.out[RMS_SCALE_GRAD_DGAIN] = mega_graph_gradient_tensor(g, op->in[RMS_SCALE_GAIN]);
    mega_graph_gradient_add(g, op->in[RMS_SCALE_X], mega_graph_emit(g, &d).id);
    mega_graph_gradient_add(g, op->in[RMS_SCALE_SUM], d.out[RMS_SCALE_GRAD_DSUM]);
}

const op_row mega_op_row_rms_scale = {
    OP_ROW(rms_scale, 3, 1, rms_scale), .optional_in = 1u << RMS_SCALE_GAIN, .shape = rms_scale_shape,
    .gradient = rms_scale_gradient,
    .members = MEMBERS(OUT(rms_scale, y, 0), IN(rms_scale, x, RMS_SCALE_X), IN(rms_scale, sum, RMS_SCALE_SUM),
                       IN(rms_scale, gain, RMS_SCALE_GAIN), DIM(rms_scale, rows, RMS_SCALE_X, 0),
                       DIM(rms_scale, cols, RMS_SCALE_X, 1), ATTR(rms_scale, total, group), ATTR(rms_scale, eps, eps),
                       ATTR(rms_scale, plus_one, plus_one))};

/* ---- rms_scale_grad: in dy, x, sum, gain or none; out dx, dsum, dgain += or none ---- */

static mega_status rms_scale_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(rms_scale_check(g, op, RMS_SCALE_GRAD_X, RMS_SCALE_GRAD_SUM, RMS_SCALE_GRAD_GAIN));
    out[RMS_SCALE_GRAD_DX] = *mega_op_in(g, op, RMS_SCALE_GRAD_X);
    out[RMS_SCALE_GRAD_DSUM] = *mega_op_in(g, op, RMS_SCALE_GRAD_SUM);
    out[RMS_SCALE_GRAD_DGAIN] = mega_shape_1d(g->acc, out[RMS_SCALE_GRAD_DX].dim[1]);
    return mega_op_check_operand(g, op, RMS_SCALE_GRAD_DY, "dy", out[RMS_SCALE_GRAD_DX]);
}

const op_row mega_op_row_rms_scale_grad = {
    OP_ROW(rms_scale_grad, 4, 3, rms_scale_grad),
    .optional_in = 1u << RMS_SCALE_GRAD_GAIN,
    .optional_out = 1u << RMS_SCALE_GRAD_DGAIN,
    .accumulates = 1u << RMS_SCALE_GRAD_DGAIN,
    .overlays = 1u << RMS_SCALE_GRAD_DY,
    .shape = rms_scale_grad_shape,
    .members = MEMBERS(OUT(rms_scale_grad, dx, RMS_SCALE_GRAD_DX), OUT(rms_scale_grad, dsum, RMS_SCALE_GRAD_DSUM),
                       OUT(rms_scale_grad, dgain, RMS_SCALE_GRAD_DGAIN), IN(rms_scale_grad, dy, RMS_SCALE_GRAD_DY),
                       IN(rms_scale_grad, x, RMS_SCALE_GRAD_X), IN(rms_scale_grad, sum, RMS_SCALE_GRAD_SUM),
                       IN(rms_scale_grad, gain, RMS_SCALE_GRAD_GAIN), DIM(rms_scale_grad, rows, RMS_SCALE_GRAD_X, 0),
                       DIM(rms_scale_grad, cols, RMS_SCALE_GRAD_X, 1), ATTR(rms_scale_grad, total, group),
                       ATTR(rms_scale_grad, eps, eps), ATTR(rms_scale_grad, plus_one, plus_one))};
