/* RMS norm of rows whose channels are divided among ranks. The sum of squares is added over the ranks, and so is its
 * gradient, because every rank scales its own channels by it. */
#include "graph_impl.h"

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
    MEGA_TRY(mega_op_expect_dims(g, op, 0, "x", g->dtype, 2));
    out[0] = mega_shape_1d(g->acc, mega_op_in_dim(g, op, 0, 0));
    return MEGA_OK;
}

static void square_sum_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_SQUARE_SUM_GRAD,
                     .in = {[SQUARE_SUM_GRAD_X] = op->in[0], [SQUARE_SUM_GRAD_DSUM] = mega_graph_arrived(g, op, 0)}};
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

static void square_sum_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_square_sum_args *a = args;
    a->sum = b->address(b, op->out[0]);
    a->x = b->address(b, op->in[0]);
    a->rows = mega_op_in_dim(b->g, op, 0, 0);
    a->cols = mega_op_in_dim(b->g, op, 0, 1);
}

const op_row mega_op_row_square_sum = {.name = "square_sum",
                                       .num_in = 1,
                                       .num_out = 1,
                                       .shape = square_sum_shape,
                                       .gradient = square_sum_gradient,
                                       .bind = square_sum_bind,
                                       .kernel = MEGA_KERNEL_square_sum};

/* ---- square_sum_grad: in x [T, C], dsum [T] acc; out dx [T, C] ---- */

static mega_status square_sum_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_expect_dims(g, op, SQUARE_SUM_GRAD_X, "x", g->dtype, 2));
    out[0] = *mega_op_in(g, op, SQUARE_SUM_GRAD_X);
    return mega_op_expect(g, op, SQUARE_SUM_GRAD_DSUM, "dsum", mega_shape_1d(g->acc, out[0].dim[0]));
}

static void square_sum_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_square_sum_grad_args *a = args;
    a->dx = b->address(b, op->out[0]);
    a->x = b->address(b, op->in[SQUARE_SUM_GRAD_X]);
    a->dsum = b->address(b, op->in[SQUARE_SUM_GRAD_DSUM]);
    a->rows = mega_op_in_dim(b->g, op, SQUARE_SUM_GRAD_X, 0);
    a->cols = mega_op_in_dim(b->g, op, SQUARE_SUM_GRAD_X, 1);
}

const op_row mega_op_row_square_sum_grad = {.name = "square_sum_grad",
                                            .num_in = 2,
                                            .num_out = 1,
                                            .shape = square_sum_grad_shape,
                                            .bind = square_sum_grad_bind,
                                            .kernel = MEGA_KERNEL_square_sum_grad};

/* ---- rms_scale: in x [T, C], sum [T] acc, gain [C] or none; out y [T, C] ---- */

static mega_status rms_scale_check(const mega_graph *g, const instruction *op, int x, int sum, int gain)
{
    MEGA_TRY(mega_op_expect_dims(g, op, x, "x", g->dtype, 2));
    MEGA_TRY(mega_op_expect_epsilon(op));
    const int64_t rows = mega_op_in_dim(g, op, x, 0), cols = mega_op_in_dim(g, op, x, 1);
    MEGA_TRY(mega_op_expect(g, op, sum, "sum", mega_shape_1d(g->acc, rows)));
    return mega_op_expect(g, op, gain, "gain", mega_shape_1d(g->dtype, cols));
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
                     .in = {[RMS_SCALE_GRAD_DY] = mega_graph_arrived(g, op, 0),
                            [RMS_SCALE_GRAD_X] = op->in[RMS_SCALE_X],
                            [RMS_SCALE_GRAD_SUM] = op->in[RMS_SCALE_SUM],
                            [RMS_SCALE_GRAD_GAIN] = op->in[RMS_SCALE_GAIN]},
                     .attr = op->attr};
    if (op->in[RMS_SCALE_GAIN] != 0)
        d.out[RMS_SCALE_GRAD_DGAIN] = mega_graph_gradient_tensor(g, op->in[RMS_SCALE_GAIN]);
    mega_graph_gradient_add(g, op->in[RMS_SCALE_X], mega_graph_emit(g, &d).id);
    mega_graph_gradient_add(g, op->in[RMS_SCALE_SUM], d.out[RMS_SCALE_GRAD_DSUM]);
}

static void rms_scale_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_rms_scale_args *a = args;
    a->y = b->address(b, op->out[0]);
    a->x = b->address(b, op->in[RMS_SCALE_X]);
    a->sum = b->address(b, op->in[RMS_SCALE_SUM]);
    a->gain = b->address(b, op->in[RMS_SCALE_GAIN]);
    a->rows = mega_op_in_dim(b->g, op, RMS_SCALE_X, 0);
    a->cols = mega_op_in_dim(b->g, op, RMS_SCALE_X, 1);
    a->total = op->attr.group;
    a->eps = op->attr.eps;
    a->plus_one = op->attr.plus_one;
}

const op_row mega_op_row_rms_scale = {.name = "rms_scale",
                                      .num_in = 3,
                                      .num_out = 1,
                                      .optional_in = 1u << RMS_SCALE_GAIN,
                                      .shape = rms_scale_shape,
                                      .gradient = rms_scale_gradient,
                                      .bind = rms_scale_bind,
                                      .kernel = MEGA_KERNEL_rms_scale};

/* ---- rms_scale_grad: in dy, x, sum, gain or none; out dx, dsum, dgain += or none ---- */

static mega_status rms_scale_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(rms_scale_check(g, op, RMS_SCALE_GRAD_X, RMS_SCALE_GRAD_SUM, RMS_SCALE_GRAD_GAIN));
    out[RMS_SCALE_GRAD_DX] = *mega_op_in(g, op, RMS_SCALE_GRAD_X);
    out[RMS_SCALE_GRAD_DSUM] = *mega_op_in(g, op, RMS_SCALE_GRAD_SUM);
    out[RMS_SCALE_GRAD_DGAIN] = mega_shape_1d(g->acc, out[RMS_SCALE_GRAD_DX].dim[1]);
    return mega_op_expect(g, op, RMS_SCALE_GRAD_DY, "dy", out[RMS_SCALE_GRAD_DX]);
}

static void rms_scale_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_rms_scale_grad_args *a = args;
    a->dx = b->address(b, op->out[RMS_SCALE_GRAD_DX]);
    a->dsum = b->address(b, op->out[RMS_SCALE_GRAD_DSUM]);
    a->dgain = b->address(b, op->out[RMS_SCALE_GRAD_DGAIN]);
    a->dy = b->address(b, op->in[RMS_SCALE_GRAD_DY]);
    a->x = b->address(b, op->in[RMS_SCALE_GRAD_X]);
    a->sum = b->address(b, op->in[RMS_SCALE_GRAD_SUM]);
    a->gain = b->address(b, op->in[RMS_SCALE_GRAD_GAIN]);
    a->rows = mega_op_in_dim(b->g, op, RMS_SCALE_GRAD_X, 0);
    a->cols = mega_op_in_dim(b->g, op, RMS_SCALE_GRAD_X, 1);
    a->total = op->attr.group;
    a->eps = op->attr.eps;
    a->plus_one = op->attr.plus_one;
}

const op_row mega_op_row_rms_scale_grad = {.name = "rms_scale_grad",
                                           .num_in = 4,
                                           .num_out = 3,
                                           .optional_in = 1u << RMS_SCALE_GRAD_GAIN,
                                           .optional_out = 1u << RMS_SCALE_GRAD_DGAIN,
                                           .accumulates = 1u << RMS_SCALE_GRAD_DGAIN,
                                           .overlays = 1u << RMS_SCALE_GRAD_DY,
                                           .shape = rms_scale_grad_shape,
                                           .bind = rms_scale_grad_bind,
                                           .kernel = MEGA_KERNEL_rms_scale_grad};
