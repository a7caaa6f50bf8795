/* Batch norm with statistics over groups of rows, its gradient, its form for evaluation, and the update of running
 * statistics by a micro-batch. */
#include "op_members.h"

/* Operands. */
enum { BATCH_NORM_X, BATCH_NORM_GAIN, BATCH_NORM_BIAS, BATCH_NORM_RUNNING_MEAN, BATCH_NORM_RUNNING_VAR };
enum { BATCH_NORM_Y, BATCH_NORM_MEAN, BATCH_NORM_VAR };
enum { BATCH_NORM_GRAD_DY, BATCH_NORM_GRAD_X, BATCH_NORM_GRAD_MEAN, BATCH_NORM_GRAD_VAR, BATCH_NORM_GRAD_GAIN };
enum { BATCH_NORM_GRAD_DX, BATCH_NORM_GRAD_DGAIN, BATCH_NORM_GRAD_DBIAS };
enum { BATCH_NORM_UPDATE_MEAN, BATCH_NORM_UPDATE_VAR };
enum { BATCH_NORM_UPDATE_SUM_MEAN, BATCH_NORM_UPDATE_SUM_VAR };
enum { BATCH_NORM_FIXED_X, BATCH_NORM_FIXED_GAIN, BATCH_NORM_FIXED_BIAS, BATCH_NORM_FIXED_MEAN, BATCH_NORM_FIXED_VAR };

/* ---- batch_norm: in x [T, C], gain [C], bias [C], running mean and var [C] (or neither), which are not read; out y
 *      [T, C], mean [T / group, C] acc, var [T / group, C] acc ---- */

mega_batch_norm_result mega_op_batch_norm(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias,
                                          int64_t group, double eps)
{
    return mega_op_batch_norm_running(g, x, gain, bias, &(mega_batch_norm_running){{0}, {0}, 0}, group, eps);
}

/* Rejects running statistics that two norms share: each group would update them twice, in an order that depends on the
 * pipeline stages. */
static void check_running(mega_graph *g, const mega_batch_norm_running *running)
{
    for (int i = 0; i < g->num_ops && running->mean.id != 0; i++)
        if (g->op[i].kind == OP_BATCH_NORM && (g->op[i].in[BATCH_NORM_RUNNING_MEAN] == running->mean.id ||
                                               g->op[i].in[BATCH_NORM_RUNNING_VAR] == running->var.id))
            mega_graph_fail(g, MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                                         "op batch_norm in \"%s\": the running statistics %s and %s are those of the "
                                         "batch norm in \"%s\" too; give each its own",
                                         g->scope.path, g->tensor[running->mean.id].name,
                                         g->tensor[running->var.id].name, g->op[i].scope));
}

mega_batch_norm_result mega_op_batch_norm_running(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias,
                                                  const mega_batch_norm_running *running, int64_t group, double eps)
{
    instruction op = {.kind = OP_BATCH_NORM,
                      .in = {[BATCH_NORM_X] = x.id,
                             [BATCH_NORM_GAIN] = gain.id,
                             [BATCH_NORM_BIAS] = bias.id,
                             [BATCH_NORM_RUNNING_MEAN] = running->mean.id,
                             [BATCH_NORM_RUNNING_VAR] = running->var.id},
                      .attr = {.group = group, .eps = eps, .p = running->momentum}};
    check_running(g, running);
    const mega_tensor y = mega_graph_emit(g, &op);
    if (g->status != MEGA_OK) return (mega_batch_norm_result){{0}, {0}, {0}};
    return (mega_batch_norm_result){.y = y, .mean = {op.out[BATCH_NORM_MEAN]}, .var = {op.out[BATCH_NORM_VAR]}};
}

/* Checks x, gain and bias, which have the same operand numbers in batch_norm and batch_norm_fixed. */
static mega_status batch_norm_expect(const mega_graph *g, const instruction *op)
{
    MEGA_TRY(mega_op_check_dims(g, op, BATCH_NORM_X, "x", g->dtype, 2));
    const int64_t cols = mega_op_in_dim(g, op, BATCH_NORM_X, 1);
    MEGA_TRY(mega_op_check_epsilon(op));
    MEGA_TRY(mega_op_check_operand(g, op, BATCH_NORM_GAIN, "gain", mega_shape_1d(g->dtype, cols)));
    return mega_op_check_operand(g, op, BATCH_NORM_BIAS, "bias", mega_shape_1d(g->dtype, cols));
}

/* Checks the accumulated update of a running statistic, which is stored in the gradient buffer of the parameter. */
static mega_status running_expect(const mega_graph *g, const instruction *op, int in, const char *what)
{
    const graph_tensor *t = &g->tensor[op->in[in]];
    if (op->in[BATCH_NORM_RUNNING_MEAN] == 0 && op->in[BATCH_NORM_RUNNING_VAR] == 0) return MEGA_OK;
    MEGA_TRY(mega_op_check_operand(g, op, in, what, mega_shape_1d(g->dtype, mega_op_in_dim(g, op, BATCH_NORM_X, 1))));
    if (t->role == ROLE_WEIGHT && mega_params_get(g->params, t->param)->is_buffer) return MEGA_OK;
    return MEGA_MISTAKE("op batch_norm in \"%s\": %s is %s, which is no buffer; request it with is_buffer", op->scope,
                        what, t->name);
}

static mega_status batch_norm_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(batch_norm_expect(g, op));
    const int64_t rows = mega_op_in_dim(g, op, BATCH_NORM_X, 0), cols = mega_op_in_dim(g, op, BATCH_NORM_X, 1),
                  group = op->attr.group;
    if (group < 2 || rows % group != 0)
        return MEGA_MISTAKE(
            "op batch_norm in \"%s\": groups of %lld rows of %s, which has %lld; expected a divisor of them, "
            "at least 2, as one row has no variance",
            op->scope, (long long)group, g->tensor[op->in[BATCH_NORM_X]].name, (long long)rows);
    MEGA_TRY(running_expect(g, op, BATCH_NORM_RUNNING_MEAN, "running mean"));
    MEGA_TRY(running_expect(g, op, BATCH_NORM_RUNNING_VAR, "running var"));
    out[BATCH_NORM_Y] = mega_shape_2d(g->dtype, rows, cols);
    out[BATCH_NORM_MEAN] = out[BATCH_NORM_VAR] = mega_shape_2d(g->acc, rows / group, cols);
    return MEGA_OK;
}

static void batch_norm_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_BATCH_NORM_GRAD,
                     .in = {[BATCH_NORM_GRAD_DY] = mega_graph_output_gradient(g, op, BATCH_NORM_Y),
                            [BATCH_NORM_GRAD_X] = op->in[BATCH_NORM_X],
                            [BATCH_NORM_GRAD_MEAN] = op->out[BATCH_NORM_MEAN],
                            [BATCH_NORM_GRAD_VAR] = op->out[BATCH_NORM_VAR],
                            [BATCH_NORM_GRAD_GAIN] = op->in[BATCH_NORM_GAIN]},
                     .out = {[BATCH_NORM_GRAD_DGAIN] = mega_graph_gradient_tensor(g, op->in[BATCH_NORM_GAIN]),
                             [BATCH_NORM_GRAD_DBIAS] = mega_graph_gradient_tensor(g, op->in[BATCH_NORM_BIAS])},
                     .attr = op->attr};
    if (g->tensor[op->out[BATCH_NORM_MEAN]].gradient != 0 || g->tensor[op->out[BATCH_NORM_VAR]].gradient != 0)
        mega_graph_fail(g,
                        MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                                  "op batch_norm in \"%s\": the loss depends on the mean or the variance of a group, "
                                  "whose gradient is not implemented; use the normalized values",
                                  op->scope));
    mega_graph_gradient_add(g, op->in[BATCH_NORM_X], mega_graph_emit(g, &d).id);
}

/* Updates the statistics in the backward program, because recomputation repeats ops of the forward and the update must
 * run once per micro-batch. */
static void batch_norm_always(mega_graph *g, const instruction *op)
{
    if (op->in[BATCH_NORM_RUNNING_MEAN] == 0) return;
    instruction u = {
        .kind = OP_BATCH_NORM_UPDATE,
        .in = {[BATCH_NORM_UPDATE_MEAN] = op->out[BATCH_NORM_MEAN], [BATCH_NORM_UPDATE_VAR] = op->out[BATCH_NORM_VAR]},
        .out = {[BATCH_NORM_UPDATE_SUM_MEAN] = mega_graph_gradient_tensor(g, op->in[BATCH_NORM_RUNNING_MEAN]),
                [BATCH_NORM_UPDATE_SUM_VAR] = mega_graph_gradient_tensor(g, op->in[BATCH_NORM_RUNNING_VAR])},
        .attr = op->attr};
    mega_graph_emit(g, &u);
}

const op_row mega_op_row_batch_norm = {
    OP_ROW(batch_norm, 5, 3, batch_norm),
    .optional_in = 1u << BATCH_NORM_RUNNING_MEAN | 1u << BATCH_NORM_RUNNING_VAR,
    .shape = batch_norm_shape,
    .gradient = batch_norm_gradient,
    .always = batch_norm_always,
    .members = MEMBERS(OUT(batch_norm, y, BATCH_NORM_Y), OUT(batch_norm, mean, BATCH_NORM_MEAN),
                       OUT(batch_norm, var, BATCH_NORM_VAR), IN(batch_norm, x, BATCH_NORM_X),
                       IN(batch_norm, gain, BATCH_NORM_GAIN), IN(batch_norm, bias, BATCH_NORM_BIAS),
                       ATTR(batch_norm, rows, group), GROUPS(batch_norm, groups, BATCH_NORM_X),
                       DIM(batch_norm, cols, BATCH_NORM_X, 1), ATTR(batch_norm, eps, eps))};

/* ---- batch_norm_grad: in dy, x, mean, var, gain; out dx, dgain +=, dbias += ---- */

static mega_status batch_norm_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, BATCH_NORM_GRAD_X, "x", g->dtype, 2));
    const tensor_shape x = *mega_op_in(g, op, BATCH_NORM_GRAD_X);
    const tensor_shape statistics = mega_shape_2d(g->acc, x.dim[0] / op->attr.group, x.dim[1]);
    MEGA_TRY(mega_op_check_operand(g, op, BATCH_NORM_GRAD_DY, "dy", x));
    MEGA_TRY(mega_op_check_operand(g, op, BATCH_NORM_GRAD_MEAN, "mean", statistics));
    MEGA_TRY(mega_op_check_operand(g, op, BATCH_NORM_GRAD_VAR, "var", statistics));
    MEGA_TRY(mega_op_check_operand(g, op, BATCH_NORM_GRAD_GAIN, "gain", mega_shape_1d(g->dtype, x.dim[1])));
    out[BATCH_NORM_GRAD_DX] = x;
    out[BATCH_NORM_GRAD_DGAIN] = out[BATCH_NORM_GRAD_DBIAS] = mega_shape_1d(g->acc, x.dim[1]);
    return MEGA_OK;
}

const op_row mega_op_row_batch_norm_grad = {
    OP_ROW(batch_norm_grad, 5, 3, batch_norm_grad),
    .accumulates = 1u << BATCH_NORM_GRAD_DGAIN | 1u << BATCH_NORM_GRAD_DBIAS, .overlays = 1u << BATCH_NORM_GRAD_DY,
    .shape = batch_norm_grad_shape,
    .members = MEMBERS(OUT(batch_norm_grad, dx, BATCH_NORM_GRAD_DX), OUT(batch_norm_grad, dgain, BATCH_NORM_GRAD_DGAIN),
                       OUT(batch_norm_grad, dbias, BATCH_NORM_GRAD_DBIAS), IN(batch_norm_grad, dy, BATCH_NORM_GRAD_DY),
                       IN(batch_norm_grad, x, BATCH_NORM_GRAD_X), IN(batch_norm_grad, mean, BATCH_NORM_GRAD_MEAN),
                       IN(batch_norm_grad, var, BATCH_NORM_GRAD_VAR), IN(batch_norm_grad, gain, BATCH_NORM_GRAD_GAIN),
                       ATTR(batch_norm_grad, rows, group), GROUPS(batch_norm_grad, groups, BATCH_NORM_GRAD_X),
                       DIM(batch_norm_grad, cols, BATCH_NORM_GRAD_X, 1), ATTR(batch_norm_grad, eps, eps))};

/* ---- batch_norm_update: in mean, var [groups, C] acc; out their contributions to the running mean and var [C]
 *      acc ---- */

static mega_status batch_norm_update_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, BATCH_NORM_UPDATE_MEAN, "mean", g->acc, 2));
    MEGA_TRY(mega_op_check_operand(g, op, BATCH_NORM_UPDATE_VAR, "var", *mega_op_in(g, op, BATCH_NORM_UPDATE_MEAN)));
    if (!(op->attr.p > 0 && op->attr.p < 1))
        return MEGA_MISTAKE("op batch_norm_update in \"%s\": momentum %g; expected more than 0, and below 1", op->scope,
                            op->attr.p);
    out[BATCH_NORM_UPDATE_SUM_MEAN] = out[BATCH_NORM_UPDATE_SUM_VAR] =
        mega_shape_1d(g->acc, mega_op_in_dim(g, op, BATCH_NORM_UPDATE_MEAN, 1));
    return MEGA_OK;
}

const op_row mega_op_row_batch_norm_update = {
    OP_ROW(batch_norm_update, 2, 2, batch_norm_update),
    .accumulates = 1u << BATCH_NORM_UPDATE_SUM_MEAN | 1u << BATCH_NORM_UPDATE_SUM_VAR, .shape = batch_norm_update_shape,
    .members =
        MEMBERS(OUT(batch_norm_update, sum_mean, BATCH_NORM_UPDATE_SUM_MEAN),
                OUT(batch_norm_update, sum_var, BATCH_NORM_UPDATE_SUM_VAR),
                IN(batch_norm_update, mean, BATCH_NORM_UPDATE_MEAN), IN(batch_norm_update, var, BATCH_NORM_UPDATE_VAR),
                DIM(batch_norm_update, groups, BATCH_NORM_UPDATE_MEAN, 0), ATTR(batch_norm_update, rows, group),
                DIM(batch_norm_update, cols, BATCH_NORM_UPDATE_MEAN, 1), ATTR(batch_norm_update, momentum, p))};

/* ---- batch_norm_fixed: in x, gain, bias, mean [C], var [C]; out y. Evaluation only, so without a gradient. ---- */

mega_tensor mega_op_batch_norm_fixed(mega_graph *g, mega_tensor x, mega_tensor gain, mega_tensor bias, mega_tensor mean,
                                     mega_tensor var, double eps)
{
    instruction op = {.kind = OP_BATCH_NORM_FIXED,
                      .in = {[BATCH_NORM_FIXED_X] = x.id,
                             [BATCH_NORM_FIXED_GAIN] = gain.id,
                             [BATCH_NORM_FIXED_BIAS] = bias.id,
                             [BATCH_NORM_FIXED_MEAN] = mean.id,
                             [BATCH_NORM_FIXED_VAR] = var.id},
                      .attr = {.eps = eps}};
    return mega_graph_emit(g, &op);
}

static mega_status batch_norm_fixed_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(batch_norm_expect(g, op));
    out[0] = *mega_op_in(g, op, BATCH_NORM_FIXED_X);
    const tensor_shape stats = mega_shape_1d(mega_op_in_float(g, op, BATCH_NORM_FIXED_MEAN), out[0].dim[1]);
    MEGA_TRY(mega_op_check_operand(g, op, BATCH_NORM_FIXED_MEAN, "mean", stats));
    return mega_op_check_operand(g, op, BATCH_NORM_FIXED_VAR, "var", stats);
}

const op_row mega_op_row_batch_norm_fixed = {
    OP_ROW(batch_norm_fixed, 5, 1, batch_norm_fixed), .overlays = 1u << BATCH_NORM_FIXED_X,
    .shape = batch_norm_fixed_shape,
    .members =
        MEMBERS(OUT(batch_norm_fixed, y, 0), IN(batch_norm_fixed, x, BATCH_NORM_FIXED_X),
                IN(batch_norm_fixed, gain, BATCH_NORM_FIXED_GAIN), IN(batch_norm_fixed, bias, BATCH_NORM_FIXED_BIAS),
                IN(batch_norm_fixed, mean, BATCH_NORM_FIXED_MEAN), IN(batch_norm_fixed, var, BATCH_NORM_FIXED_VAR),
                DIM(batch_norm_fixed, rows, BATCH_NORM_FIXED_X, 0), DIM(batch_norm_fixed, cols, BATCH_NORM_FIXED_X, 1),
                ATTR(batch_norm_fixed, eps, eps), DTYPE(batch_norm_fixed, stats, BATCH_NORM_FIXED_MEAN))};
