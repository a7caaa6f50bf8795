/* Cross-entropy of logits over the whole vocabulary: a loss per row, which a model may weight, and the weight of the
 * rows that count. (ops_head.c handles a vocabulary that is sharded over tp, in chunks of rows.) */
#include "op_members.h"

/* Operands. */
enum { CROSS_ENTROPY_GRAD_DLOSS, CROSS_ENTROPY_GRAD_LOGITS, CROSS_ENTROPY_GRAD_LABELS };

/* ---- cross_entropy: in logits [T, classes] dtype or acc, labels [T] i32; out loss [T] acc ---- */

mega_tensor mega_op_cross_entropy(mega_graph *g, mega_tensor logits, mega_tensor labels)
{
    instruction op = {.kind = OP_CROSS_ENTROPY,
                      .in = {[CROSS_ENTROPY_LOGITS] = logits.id, [CROSS_ENTROPY_LABELS] = labels.id},
                      .attr = {.ignored = MEGA_IGNORED_LABEL}};
    return mega_graph_emit(g, &op);
}

static mega_status cross_entropy_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(
        mega_op_check_dims(g, op, CROSS_ENTROPY_LOGITS, "logits", mega_op_in_float(g, op, CROSS_ENTROPY_LOGITS), 2));
    const int64_t rows = mega_op_in_dim(g, op, CROSS_ENTROPY_LOGITS, 0);
    MEGA_TRY(mega_op_check_operand(g, op, CROSS_ENTROPY_LABELS, "labels", mega_shape_1d(MEGA_I32, rows)));
    out[0] = mega_shape_1d(g->acc, rows);
    return MEGA_OK;
}

static void cross_entropy_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_CROSS_ENTROPY_GRAD,
                     .in = {[CROSS_ENTROPY_GRAD_DLOSS] = mega_graph_output_gradient(g, op, 0),
                            [CROSS_ENTROPY_GRAD_LOGITS] = op->in[CROSS_ENTROPY_LOGITS],
                            [CROSS_ENTROPY_GRAD_LABELS] = op->in[CROSS_ENTROPY_LABELS]},
                     .attr = {.ignored = op->attr.ignored}};
    mega_graph_gradient_add(g, op->in[CROSS_ENTROPY_LOGITS], mega_graph_emit(g, &d).id);
}

const op_row mega_op_row_cross_entropy = {
    .name = "cross_entropy",
    .num_in = 2,
    .num_out = 1,
    .shape = cross_entropy_shape,
    .gradient = cross_entropy_gradient,
    .members =
        MEMBERS(OUT(cross_entropy, loss, 0), IN(cross_entropy, logits, CROSS_ENTROPY_LOGITS),
                IN(cross_entropy, labels, CROSS_ENTROPY_LABELS), DIM(cross_entropy, rows, CROSS_ENTROPY_LOGITS, 0),
                DIM(cross_entropy, classes, CROSS_ENTROPY_LOGITS, 1),
                DTYPE(cross_entropy, logits_dtype, CROSS_ENTROPY_LOGITS), ATTR(cross_entropy, ignored, ignored)),
    .kernel = MEGA_KERNEL_cross_entropy};

/* ---- cross_entropy_grad: in dloss [T] acc, logits, labels; out dlogits, in the dtype of the logits ---- */

static mega_status cross_entropy_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, CROSS_ENTROPY_GRAD_LOGITS, "logits",
                                mega_op_in_float(g, op, CROSS_ENTROPY_GRAD_LOGITS), 2));
    const int64_t rows = mega_op_in_dim(g, op, CROSS_ENTROPY_GRAD_LOGITS, 0);
    MEGA_TRY(mega_op_check_operand(g, op, CROSS_ENTROPY_GRAD_DLOSS, "dloss", mega_shape_1d(g->acc, rows)));
    MEGA_TRY(mega_op_check_operand(g, op, CROSS_ENTROPY_GRAD_LABELS, "labels", mega_shape_1d(MEGA_I32, rows)));
    out[0] = *mega_op_in(g, op, CROSS_ENTROPY_GRAD_LOGITS);
    return MEGA_OK;
}

const op_row mega_op_row_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .num_in = 3,
    .num_out = 1,
    .overlays = 1u << CROSS_ENTROPY_GRAD_LOGITS,
    .shape = cross_entropy_grad_shape,
    .members = MEMBERS(OUT(cross_entropy_grad, dlogits, 0), IN(cross_entropy_grad, dloss, CROSS_ENTROPY_GRAD_DLOSS),
                       IN(cross_entropy_grad, logits, CROSS_ENTROPY_GRAD_LOGITS),
                       IN(cross_entropy_grad, labels, CROSS_ENTROPY_GRAD_LABELS),
                       DIM(cross_entropy_grad, rows, CROSS_ENTROPY_GRAD_LOGITS, 0),
                       DIM(cross_entropy_grad, classes, CROSS_ENTROPY_GRAD_LOGITS, 1),
                       DTYPE(cross_entropy_grad, logits_dtype, CROSS_ENTROPY_GRAD_LOGITS),
                       ATTR(cross_entropy_grad, ignored, ignored)),
    .kernel = MEGA_KERNEL_cross_entropy_grad};

/* ---- labelled_sum: in labels [T] i32, weights [T] f32 or none; out [1] acc. Classes: attr.valid. It does not read
 *      logits and so depends on no parameter, as the weight of a loss requires. ---- */

mega_tensor mega_op_labelled_sum(mega_graph *g, mega_tensor labels, mega_tensor weights, int64_t classes)
{
    instruction op = {.kind = OP_LABELLED_SUM,
                      .in = {[LABELLED_SUM_LABELS] = labels.id, [LABELLED_SUM_WEIGHTS] = weights.id},
                      .attr = {.valid = classes, .ignored = MEGA_IGNORED_LABEL, .what = "weight"}};
    return mega_graph_emit(g, &op);
}

static mega_status labelled_sum_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, LABELLED_SUM_LABELS, "labels", MEGA_I32, 1));
    MEGA_TRY(mega_op_check_operand(g, op, LABELLED_SUM_WEIGHTS, "weights",
                                   mega_shape_1d(MEGA_F32, mega_op_in_dim(g, op, LABELLED_SUM_LABELS, 0))));
    out[0] = mega_shape_1d(g->acc, 1);
    return MEGA_OK;
}

const op_row mega_op_row_labelled_sum = {
    .name = "labelled_sum",
    .num_in = 2,
    .num_out = 1,
    .optional_in = 1u << LABELLED_SUM_WEIGHTS,
    .shape = labelled_sum_shape,
    .members = MEMBERS(OUT(labelled_sum, sum, 0), IN(labelled_sum, labels, LABELLED_SUM_LABELS),
                       IN(labelled_sum, weights, LABELLED_SUM_WEIGHTS), DIM(labelled_sum, rows, LABELLED_SUM_LABELS, 0),
                       ATTR(labelled_sum, classes, valid), ATTR(labelled_sum, ignored, ignored)),
    .kernel = MEGA_KERNEL_labelled_sum};

/* ---- label_weights: in labels [T] i32, given [n] acc or none, mask [m] f32 or none, where n and m divide T; out
 *      weights [T] f32, wrong [3] i32. Classes: attr.valid. ---- */

mega_tensor mega_op_label_weights(mega_graph *g, mega_tensor labels, mega_tensor mask, int64_t classes)
{
    instruction op = {.kind = OP_LABEL_WEIGHTS,
                      .in = {[LABEL_WEIGHTS_LABELS] = labels.id, [LABEL_WEIGHTS_MASK] = mask.id},
                      .attr = {.valid = classes, .ignored = MEGA_IGNORED_LABEL, .what = "mask"}};
    return mega_graph_emit(g, &op);
}

static mega_status label_weights_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    static const char *const what[] = {[LABEL_WEIGHTS_GIVEN] = "weights", [LABEL_WEIGHTS_MASK] = "mask"};
    MEGA_TRY(mega_op_check_dims(g, op, LABEL_WEIGHTS_LABELS, "labels", MEGA_I32, 1));
    const int64_t rows = mega_op_in_dim(g, op, LABEL_WEIGHTS_LABELS, 0);
    for (int k = LABEL_WEIGHTS_GIVEN; k <= LABEL_WEIGHTS_MASK; k++) {
        const tensor_shape *s = mega_op_in(g, op, k);
        const mega_dtype dtype = k == LABEL_WEIGHTS_GIVEN ? g->acc : MEGA_F32;
        if (op->in[k] != 0 && (s->dtype != dtype || rows % mega_shape_count(s) != 0))
            MEGA_TRY(mega_op_check_operand(g, op, k, what[k], mega_shape_1d(dtype, rows)));
    }
    out[LABEL_WEIGHTS_WEIGHTS] = mega_shape_1d(MEGA_F32, rows);
    out[LABEL_WEIGHTS_WRONG] = mega_shape_1d(MEGA_I32, 3);
    return MEGA_OK;
}

const op_row mega_op_row_label_weights = {
    .name = "label_weights",
    .num_in = 3,
    .num_out = 2,
    .optional_in = 1u << LABEL_WEIGHTS_GIVEN | 1u << LABEL_WEIGHTS_MASK,
    .shape = label_weights_shape,
    .members = MEMBERS(
        OUT(label_weights, weights, LABEL_WEIGHTS_WEIGHTS), OUT(label_weights, wrong, LABEL_WEIGHTS_WRONG),
        IN(label_weights, labels, LABEL_WEIGHTS_LABELS), IN(label_weights, given, LABEL_WEIGHTS_GIVEN),
        IN(label_weights, mask, LABEL_WEIGHTS_MASK), DIM(label_weights, rows, LABEL_WEIGHTS_LABELS, 0),
        COUNT(label_weights, num_given, LABEL_WEIGHTS_GIVEN), COUNT(label_weights, num_masks, LABEL_WEIGHTS_MASK),
        ATTR(label_weights, classes, valid), ATTR(label_weights, ignored, ignored)),
    .kernel = MEGA_KERNEL_label_weights};
