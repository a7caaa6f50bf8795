/* Cross-entropy of logits that are whole: a loss for each row, which a model may weight, and the weight of the rows
 * that count. (Over a vocabulary that is cut over tp, by chunks: ops_head.c.) */
#include "graph_impl.h"

/* ---- cross_entropy: in logits [T, classes] dtype or acc, labels [T] i32; out loss [T] acc ---- */

mega_tensor mega_op_cross_entropy(mega_graph *g, mega_tensor logits, mega_tensor labels)
{
    instruction op = {.kind = OP_CROSS_ENTROPY, .in = {logits.id, labels.id}};
    return mega_graph_emit(g, &op);
}

static mega_status cross_entropy_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_expect_dims(g, op, 0, "logits", mega_op_in_float(g, op, 0), 2));
    const int64_t rows = mega_op_in_dim(g, op, 0, 0);
    MEGA_TRY(mega_op_expect(g, op, 1, "labels", mega_shape_1d(MEGA_I32, rows)));
    out[0] = mega_shape_1d(g->acc, rows);
    return MEGA_OK;
}

static void cross_entropy_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_CROSS_ENTROPY_GRAD, .in = {mega_graph_arrived(g, op, 0), op->in[0], op->in[1]}};
    mega_graph_gradient_add(g, op->in[0], mega_graph_emit(g, &d).id);
}

static void cross_entropy_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_cross_entropy_args *a = args;
    a->loss = b->address(b, op->out[0]);
    a->logits = b->address(b, op->in[0]);
    a->labels = b->address(b, op->in[1]);
    a->rows = mega_op_in_dim(b->g, op, 0, 0);
    a->classes = mega_op_in_dim(b->g, op, 0, 1);
    a->logits_dtype = mega_op_in(b->g, op, 0)->dtype;
}

const op_row mega_op_row_cross_entropy = {.name = "cross_entropy",
                                          .num_in = 2,
                                          .num_out = 1,
                                          .shape = cross_entropy_shape,
                                          .gradient = cross_entropy_gradient,
                                          .bind = cross_entropy_bind,
                                          .plain = &mega_plain_cross_entropy,
                                          .cpu = &mega_cpu_cross_entropy};

/* ---- cross_entropy_grad: in dloss [T] acc, logits, labels; out dlogits, of the logits' type ---- */

static mega_status cross_entropy_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_expect_dims(g, op, 1, "logits", mega_op_in_float(g, op, 1), 2));
    const int64_t rows = mega_op_in_dim(g, op, 1, 0);
    MEGA_TRY(mega_op_expect(g, op, 0, "dloss", mega_shape_1d(g->acc, rows)));
    MEGA_TRY(mega_op_expect(g, op, 2, "labels", mega_shape_1d(MEGA_I32, rows)));
    out[0] = *mega_op_in(g, op, 1);
    return MEGA_OK;
}

static void cross_entropy_grad_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_cross_entropy_grad_args *a = args;
    a->dlogits = b->address(b, op->out[0]);
    a->dloss = b->address(b, op->in[0]);
    a->logits = b->address(b, op->in[1]);
    a->labels = b->address(b, op->in[2]);
    a->rows = mega_op_in_dim(b->g, op, 1, 0);
    a->classes = mega_op_in_dim(b->g, op, 1, 1);
    a->logits_dtype = mega_op_in(b->g, op, 1)->dtype;
}

const op_row mega_op_row_cross_entropy_grad = {.name = "cross_entropy_grad",
                                               .num_in = 3,
                                               .num_out = 1,
                                               .overlays = 1u << 1,
                                               .shape = cross_entropy_grad_shape,
                                               .bind = cross_entropy_grad_bind,
                                               .plain = &mega_plain_cross_entropy_grad,
                                               .cpu = &mega_cpu_cross_entropy_grad};

/* ---- labelled_sum: in labels [T] i32, weights [T] f32 or none; out [1] acc. Classes: attr.valid. It reads no logits,
 *      so that it depends on no parameter, as the weight of a loss must. ---- */

mega_tensor mega_op_labelled_sum(mega_graph *g, mega_tensor labels, mega_tensor weights, int64_t classes)
{
    instruction op = {
        .kind = OP_LABELLED_SUM, .in = {labels.id, weights.id}, .attr = {.valid = classes, .what = "weight"}};
    return mega_graph_emit(g, &op);
}

static mega_status labelled_sum_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_expect_dims(g, op, 0, "labels", MEGA_I32, 1));
    MEGA_TRY(mega_op_expect(g, op, 1, "weights", mega_shape_1d(MEGA_F32, mega_op_in_dim(g, op, 0, 0))));
    out[0] = mega_shape_1d(g->acc, 1);
    return MEGA_OK;
}

static void labelled_sum_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_labelled_sum_args *a = args;
    a->sum = b->address(b, op->out[0]);
    a->labels = b->address(b, op->in[0]);
    a->weights = b->address(b, op->in[1]);
    a->rows = mega_op_in_dim(b->g, op, 0, 0);
    a->classes = op->attr.valid;
}

const op_row mega_op_row_labelled_sum = {.name = "labelled_sum",
                                         .num_in = 2,
                                         .num_out = 1,
                                         .optional_in = 1u << 1,
                                         .shape = labelled_sum_shape,
                                         .bind = labelled_sum_bind,
                                         .plain = &mega_plain_labelled_sum,
                                         .cpu = &mega_cpu_labelled_sum};
