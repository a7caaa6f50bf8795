/* Losses and metrics for any model: weighted sums over rows, squared error, accuracy. (ops_head.c has cross-entropy
 * over a vocabulary.) */
#include "op_members.h"

/* Operands. */
enum { MASKED_SUM_GRAD_DSUM, MASKED_SUM_GRAD_MASK };
enum { SQUARED_ERROR_X, SQUARED_ERROR_TARGET };
enum { SQUARED_ERROR_GRAD_DLOSS, SQUARED_ERROR_GRAD_X, SQUARED_ERROR_GRAD_TARGET };
enum { ACCURACY_HIT, ACCURACY_COUNTS };

/* ---- masked_sum: in mask [n] f32 or none, x [n] acc or none; out [1] acc. Without mask and x, attr.rows. ---- */

static mega_status masked_sum_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, MASKED_SUM_MASK, "mask", MEGA_F32, 1));
    MEGA_TRY(mega_op_check_dims(g, op, MASKED_SUM_X, "x", g->acc, 1));
    if (op->in[MASKED_SUM_MASK] != 0)
        MEGA_TRY(mega_op_check_operand(g, op, MASKED_SUM_X, "x",
                                       mega_shape_1d(g->acc, mega_op_in_dim(g, op, MASKED_SUM_MASK, 0))));
    out[0] = mega_shape_1d(g->acc, 1);
    return MEGA_OK;
}

static void masked_sum_gradient(mega_graph *g, const instruction *op)
{
    if (!g->tensor[op->in[MASKED_SUM_X]].needs_gradient) return;
    instruction d = {.kind = OP_MASKED_SUM_GRAD,
                     .in = {[MASKED_SUM_GRAD_DSUM] = mega_graph_output_gradient(g, op, 0),
                            [MASKED_SUM_GRAD_MASK] = op->in[MASKED_SUM_MASK]}};
    d.attr.rows = mega_op_in_dim(g, op, MASKED_SUM_X, 0);
    mega_graph_gradient_add(g, op->in[MASKED_SUM_X], mega_graph_emit(g, &d).id);
}

static void masked_sum_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_masked_sum_args *a = args;
    a->out = b->address(b, op->out[0]);
    a->mask = b->address(b, op->in[MASKED_SUM_MASK]);
    a->x = b->address(b, op->in[MASKED_SUM_X]);
    a->count = op->attr.rows;
    for (int k = 0; k < 2; k++)
        if (op->in[k] != 0) a->count = mega_op_in_dim(b->g, op, k, 0);
}

const op_row mega_op_row_masked_sum = {.name = "masked_sum",
                                       .num_in = 2,
                                       .num_out = 1,
                                       .optional_in = 1u << MASKED_SUM_MASK | 1u << MASKED_SUM_X,
                                       .shape = masked_sum_shape,
                                       .gradient = masked_sum_gradient,
                                       .bind = masked_sum_bind,
                                       .kernel = MEGA_KERNEL_masked_sum};

/* ---- masked_sum_grad: in dy [1] acc, mask [n] f32 or none; out dx [n] acc, n = attr.rows ---- */

static mega_status masked_sum_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_operand(g, op, MASKED_SUM_GRAD_DSUM, "dy", mega_shape_1d(g->acc, 1)));
    MEGA_TRY(mega_op_check_operand(g, op, MASKED_SUM_GRAD_MASK, "mask", mega_shape_1d(MEGA_F32, op->attr.rows)));
    out[0] = mega_shape_1d(g->acc, op->attr.rows);
    return MEGA_OK;
}

const op_row mega_op_row_masked_sum_grad = {
    .name = "masked_sum_grad",
    .num_in = 2,
    .num_out = 1,
    .optional_in = 1u << MASKED_SUM_GRAD_MASK,
    .shape = masked_sum_grad_shape,
    .members = MEMBERS(OUT(masked_sum_grad, dx, 0), IN(masked_sum_grad, dout, MASKED_SUM_GRAD_DSUM),
                       IN(masked_sum_grad, mask, MASKED_SUM_GRAD_MASK), ATTR(masked_sum_grad, count, rows)),
    .kernel = MEGA_KERNEL_masked_sum_grad};

mega_loss mega_op_weighted_sum(mega_graph *g, mega_tensor x, mega_tensor weights)
{
    instruction sum = {
        .kind = OP_MASKED_SUM, .in = {[MASKED_SUM_MASK] = weights.id, [MASKED_SUM_X] = x.id}, .attr = {.what = "sum"}};
    if (g->status == MEGA_OK && x.id == 0)
        mega_graph_fail(g, MEGA_MISTAKE("weighted sum in \"%s\": there is no x; expected [T] %s", g->scope.path,
                                        mega_dtype_name(g->acc)));
    mega_loss r = {.sum = mega_graph_emit(g, &sum)};
    if (g->status != MEGA_OK) return (mega_loss){{0}, {0}};
    instruction weight = {.kind = OP_MASKED_SUM, .in = {[MASKED_SUM_MASK] = weights.id}, .attr = {.what = "weight"}};
    weight.attr.rows = g->tensor[x.id].shape.dim[0];
    r.weight = mega_graph_emit(g, &weight);
    return r;
}

/* ---- loss_seed: in weight [1] acc or none; out dy [1] acc, the gradient of the sum of a loss whose coefficient is
 *      attr.factor ---- */

static mega_status loss_seed_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_operand(g, op, 0, "weight", mega_shape_1d(g->acc, 1)));
    out[0] = mega_shape_1d(g->acc, 1);
    return MEGA_OK;
}

const op_row mega_op_row_loss_seed = {
    .name = "loss_seed",
    .num_in = 1,
    .num_out = 1,
    .optional_in = 1u << 0,
    .scaled = 1u << 0,
    .shape = loss_seed_shape,
    .members = MEMBERS(OUT(loss_seed, seed, 0), IN(loss_seed, weight, 0), ATTR(loss_seed, coefficient, factor)),
    .kernel = MEGA_KERNEL_loss_seed};

/* ---- squared_error: in x [T, C], target [T, C]; out [T] acc ---- */

mega_tensor mega_op_squared_error(mega_graph *g, mega_tensor x, mega_tensor target)
{
    instruction op = {.kind = OP_SQUARED_ERROR, .in = {[SQUARED_ERROR_X] = x.id, [SQUARED_ERROR_TARGET] = target.id}};
    return mega_graph_emit(g, &op);
}

static mega_status squared_error_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, SQUARED_ERROR_X, "x", g->dtype, 2));
    MEGA_TRY(mega_op_check_operand(g, op, SQUARED_ERROR_TARGET, "target", *mega_op_in(g, op, SQUARED_ERROR_X)));
    out[0] = mega_shape_1d(g->acc, mega_op_in_dim(g, op, SQUARED_ERROR_X, 0));
    return MEGA_OK;
}

/* The gradient of the target is the negative of that of x. */
static void squared_error_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_SQUARED_ERROR_GRAD,
                     .in = {[SQUARED_ERROR_GRAD_DLOSS] = mega_graph_output_gradient(g, op, 0),
                            [SQUARED_ERROR_GRAD_X] = op->in[SQUARED_ERROR_X],
                            [SQUARED_ERROR_GRAD_TARGET] = op->in[SQUARED_ERROR_TARGET]}};
    const mega_tensor dx = mega_graph_emit(g, &d);
    mega_graph_gradient_add(g, op->in[SQUARED_ERROR_X], dx.id);
    if (g->status == MEGA_OK && g->tensor[op->in[SQUARED_ERROR_TARGET]].needs_gradient)
        mega_graph_gradient_add(g, op->in[SQUARED_ERROR_TARGET], mega_op_scale(g, dx, -1.0).id);
}

const op_row mega_op_row_squared_error = {
    .name = "squared_error",
    .num_in = 2,
    .num_out = 1,
    .shape = squared_error_shape,
    .gradient = squared_error_gradient,
    .members = MEMBERS(OUT(squared_error, loss, 0), IN(squared_error, x, SQUARED_ERROR_X),
                       IN(squared_error, target, SQUARED_ERROR_TARGET), DIM(squared_error, rows, SQUARED_ERROR_X, 0),
                       DIM(squared_error, cols, SQUARED_ERROR_X, 1)),
    .kernel = MEGA_KERNEL_squared_error};

/* ---- squared_error_grad: in dy [T] acc, x, target; out dx [T, C] ---- */

static mega_status squared_error_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, SQUARED_ERROR_GRAD_X, "x", g->dtype, 2));
    MEGA_TRY(mega_op_check_operand(g, op, SQUARED_ERROR_GRAD_DLOSS, "dy",
                                   mega_shape_1d(g->acc, mega_op_in_dim(g, op, SQUARED_ERROR_GRAD_X, 0))));
    MEGA_TRY(
        mega_op_check_operand(g, op, SQUARED_ERROR_GRAD_TARGET, "target", *mega_op_in(g, op, SQUARED_ERROR_GRAD_X)));
    out[0] = *mega_op_in(g, op, SQUARED_ERROR_GRAD_X);
    return MEGA_OK;
}

const op_row mega_op_row_squared_error_grad = {
    .name = "squared_error_grad",
    .num_in = 3,
    .num_out = 1,
    .overlays = 1u << SQUARED_ERROR_GRAD_X | 1u << SQUARED_ERROR_GRAD_TARGET,
    .shape = squared_error_grad_shape,
    .members = MEMBERS(
        OUT(squared_error_grad, dx, 0), IN(squared_error_grad, dloss, SQUARED_ERROR_GRAD_DLOSS),
        IN(squared_error_grad, x, SQUARED_ERROR_GRAD_X), IN(squared_error_grad, target, SQUARED_ERROR_GRAD_TARGET),
        DIM(squared_error_grad, rows, SQUARED_ERROR_GRAD_X, 0), DIM(squared_error_grad, cols, SQUARED_ERROR_GRAD_X, 1)),
    .kernel = MEGA_KERNEL_squared_error_grad};

/* ---- accuracy: in logits [T, classes] dtype or acc, labels [T] i32; out hit [T] acc, counts [T] acc. A metric,
 *      without a gradient. ---- */

mega_loss mega_op_accuracy(mega_graph *g, mega_tensor logits, mega_tensor labels)
{
    instruction op = {.kind = OP_ACCURACY,
                      .in = {[ACCURACY_LOGITS] = logits.id, [ACCURACY_LABELS] = labels.id},
                      .attr = {.ignored = MEGA_IGNORED_LABEL}};
    const mega_tensor hit = mega_graph_emit(g, &op);
    if (g->status != MEGA_OK) return (mega_loss){{0}, {0}};
    /* The hits are not passed as a mask, because a mask must not depend on parameters and the logits do. */
    instruction sum = {.kind = OP_MASKED_SUM, .in = {[MASKED_SUM_X] = hit.id}, .attr = {.what = "sum"}};
    instruction weight = {
        .kind = OP_MASKED_SUM, .in = {[MASKED_SUM_X] = op.out[ACCURACY_COUNTS]}, .attr = {.what = "weight"}};
    mega_loss r = {.sum = mega_graph_emit(g, &sum)};
    r.weight = mega_graph_emit(g, &weight);
    return r;
}

static mega_status accuracy_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_dtype logits = mega_op_in(g, op, ACCURACY_LOGITS)->dtype;
    MEGA_TRY(mega_op_check_dims(g, op, ACCURACY_LOGITS, "logits", logits == g->acc ? g->acc : g->dtype, 2));
    const int64_t rows = mega_op_in_dim(g, op, ACCURACY_LOGITS, 0);
    MEGA_TRY(mega_op_check_operand(g, op, ACCURACY_LABELS, "labels", mega_shape_1d(MEGA_I32, rows)));
    out[ACCURACY_HIT] = out[ACCURACY_COUNTS] = mega_shape_1d(g->acc, rows);
    return MEGA_OK;
}

const op_row mega_op_row_accuracy = {
    .name = "accuracy",
    .num_in = 2,
    .num_out = 2,
    .shape = accuracy_shape,
    .members = MEMBERS(OUT(accuracy, hit, ACCURACY_HIT), OUT(accuracy, counts, ACCURACY_COUNTS),
                       IN(accuracy, logits, ACCURACY_LOGITS), IN(accuracy, labels, ACCURACY_LABELS),
                       DIM(accuracy, rows, ACCURACY_LOGITS, 0), DIM(accuracy, classes, ACCURACY_LOGITS, 1),
                       DTYPE(accuracy, logits_dtype, ACCURACY_LOGITS), ATTR(accuracy, ignored, ignored)),
    .kernel = MEGA_KERNEL_accuracy};
