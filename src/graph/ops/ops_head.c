/* The language-model head with cross-entropy, in chunks of rows: only the logits of one chunk at a time are in memory.
 * The two small reductions over the ranks that share the vocabulary are separate instructions. The gradients of x and
 * of the table are computed in the forward program too, scaled by the factor in the step block. */
#include "edit_impl.h"
#include "op_members.h"

/* ---- xent_max: in logits [R, V] acc; out [R] acc ---- */

static mega_status expect_logits(const mega_graph *g, const instruction *op)
{
    MEGA_TRY(mega_op_check_dims(g, op, 0, "logits", g->acc, 2));
    const int64_t cols = mega_op_in_dim(g, op, 0, 1);
    if (op->attr.valid < 0 || op->attr.valid > cols)
        return MEGA_MISTAKE("op %s in \"%s\": %lld valid columns of %lld; expected 0 to all of them",
                            mega_op_table[op->kind]->name, op->scope, (long long)op->attr.valid, (long long)cols);
    return MEGA_OK;
}

static mega_status xent_max_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(expect_logits(g, op));
    out[0] = mega_shape_1d(g->acc, mega_op_in_dim(g, op, 0, 0));
    return MEGA_OK;
}

const op_row mega_op_row_xent_max = {.name = "xent_max",
                                     .num_in = 1,
                                     .num_out = 1,
                                     .infinite = 1u << 0, /* of a rank that holds only padding of the vocabulary */
                                     .shape = xent_max_shape,
                                     .members = MEMBERS(OUT(xent_max, row_max, 0), IN(xent_max, logits, 0),
                                                        DIM(xent_max, rows, 0, 0), DIM(xent_max, ld, 0, 1),
                                                        ATTR(xent_max, valid, valid)),
                                     .kernel = MEGA_KERNEL_xent_max};

/* ---- xent_sum: in logits, row_max [R] acc, labels [R] i32; out [R, 2] acc ---- */

static mega_status xent_sum_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(expect_logits(g, op));
    const int64_t rows = mega_op_in_dim(g, op, XENT_SUM_LOGITS, 0);
    MEGA_TRY(mega_op_check_operand(g, op, XENT_SUM_ROW_MAX, "row_max", mega_shape_1d(g->acc, rows)));
    MEGA_TRY(mega_op_check_operand(g, op, XENT_SUM_LABELS, "labels", mega_shape_1d(MEGA_I32, rows)));
    out[0] = mega_shape_2d(g->acc, rows, 2);
    return MEGA_OK;
}

const op_row mega_op_row_xent_sum = {
    .name = "xent_sum",
    .num_in = 3,
    .num_out = 1,
    .shape = xent_sum_shape,
    .members =
        MEMBERS(OUT(xent_sum, sums, 0), IN(xent_sum, logits, XENT_SUM_LOGITS), IN(xent_sum, row_max, XENT_SUM_ROW_MAX),
                IN(xent_sum, labels, XENT_SUM_LABELS), DIM(xent_sum, rows, XENT_SUM_LOGITS, 0),
                DIM(xent_sum, ld, XENT_SUM_LOGITS, 1), ATTR(xent_sum, valid, valid), ATTR(xent_sum, begin, begin)),
    .kernel = MEGA_KERNEL_xent_sum};

/* ---- xent_grad: in logits, row_max, sums, labels, loss_mask [R] f32 or none, denominator [1] acc or none; out dlogits
 *      [R, V] or none, loss [R] acc. dlogits requires loss_mask. ---- */

static mega_status xent_grad_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(expect_logits(g, op));
    const int64_t rows = mega_op_in_dim(g, op, XENT_GRAD_LOGITS, 0);
    MEGA_TRY(mega_op_check_operand(g, op, XENT_GRAD_ROW_MAX, "row_max", mega_shape_1d(g->acc, rows)));
    MEGA_TRY(mega_op_check_operand(g, op, XENT_GRAD_SUMS, "sums", mega_shape_2d(g->acc, rows, 2)));
    MEGA_TRY(mega_op_check_operand(g, op, XENT_GRAD_LABELS, "labels", mega_shape_1d(MEGA_I32, rows)));
    MEGA_TRY(mega_op_check_operand(g, op, XENT_GRAD_LOSS_MASK, "loss_mask", mega_shape_1d(MEGA_F32, rows)));
    MEGA_TRY(mega_op_check_operand(g, op, XENT_GRAD_DENOMINATOR, "denominator", mega_shape_1d(g->acc, 1)));
    out[XENT_GRAD_DLOGITS] = mega_shape_2d(g->dtype, rows, mega_op_in_dim(g, op, XENT_GRAD_LOGITS, 1));
    out[XENT_GRAD_LOSS] = mega_shape_1d(g->acc, rows);
    return MEGA_OK;
}

const op_row mega_op_row_xent_grad = {
    .name = "xent_grad",
    .num_in = 6,
    .num_out = 2,
    .optional_in = 1u << XENT_GRAD_LOSS_MASK | 1u << XENT_GRAD_DENOMINATOR,
    .optional_out = 1u << XENT_GRAD_DLOGITS,
    .scaled = 1u << XENT_GRAD_DLOGITS,
    .overlays = 1u << XENT_GRAD_LOGITS,
    .shape = xent_grad_shape,
    .members = MEMBERS(OUT(xent_grad, dlogits, XENT_GRAD_DLOGITS), OUT(xent_grad, loss, XENT_GRAD_LOSS),
                       IN(xent_grad, logits, XENT_GRAD_LOGITS), IN(xent_grad, row_max, XENT_GRAD_ROW_MAX),
                       IN(xent_grad, sums, XENT_GRAD_SUMS), IN(xent_grad, labels, XENT_GRAD_LABELS),
                       IN(xent_grad, loss_mask, XENT_GRAD_LOSS_MASK), IN(xent_grad, denominator, XENT_GRAD_DENOMINATOR),
                       DIM(xent_grad, rows, XENT_GRAD_LOGITS, 0), DIM(xent_grad, cols, XENT_GRAD_LOGITS, 1),
                       DIM(xent_grad, ld, XENT_GRAD_LOGITS, 1), ATTR(xent_grad, valid, valid),
                       ATTR(xent_grad, begin, begin), ATTR(xent_grad, coefficient, factor)),
    .kernel = MEGA_KERNEL_xent_grad};

/* ---- xent: in logits, labels, loss_mask [R] f32 or none, denominator [1] acc or none; out dlogits [R, V] or none,
 *      loss [R] acc. dlogits requires loss_mask. The fuse pass builds it from the three ops above. ---- */

static mega_status xent_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(expect_logits(g, op));
    const int64_t rows = mega_op_in_dim(g, op, XENT_LOGITS, 0);
    MEGA_TRY(mega_op_check_operand(g, op, XENT_LABELS, "labels", mega_shape_1d(MEGA_I32, rows)));
    MEGA_TRY(mega_op_check_operand(g, op, XENT_LOSS_MASK, "loss_mask", mega_shape_1d(MEGA_F32, rows)));
    MEGA_TRY(mega_op_check_operand(g, op, XENT_DENOMINATOR, "denominator", mega_shape_1d(g->acc, 1)));
    out[XENT_DLOGITS] = mega_shape_2d(g->dtype, rows, mega_op_in_dim(g, op, XENT_LOGITS, 1));
    out[XENT_LOSS] = mega_shape_1d(g->acc, rows);
    return MEGA_OK;
}

const op_row mega_op_row_xent = {
    .name = "xent",
    .num_in = 4,
    .num_out = 2,
    .optional_in = 1u << XENT_LOSS_MASK | 1u << XENT_DENOMINATOR,
    .optional_out = 1u << XENT_DLOGITS,
    .scaled = 1u << XENT_DLOGITS,
    .overlays = 1u << XENT_LOGITS,
    .shape = xent_shape,
    .members = MEMBERS(OUT(xent, dlogits, XENT_DLOGITS), OUT(xent, loss, XENT_LOSS), IN(xent, logits, XENT_LOGITS),
                       IN(xent, labels, XENT_LABELS), IN(xent, loss_mask, XENT_LOSS_MASK),
                       IN(xent, denominator, XENT_DENOMINATOR), DIM(xent, rows, XENT_LOGITS, 0),
                       DIM(xent, cols, XENT_LOGITS, 1), DIM(xent, ld, XENT_LOGITS, 1), ATTR(xent, valid, valid),
                       ATTR(xent, begin, begin), ATTR(xent, coefficient, factor)),
    .kernel = MEGA_KERNEL_xent};

/* ---- the head ---- */

#define CHUNK_ROWS  1024
#define CHUNK_BYTES ((int64_t)200 << 20) /* 1,024 rows of GPT-2: the gradient of the table is read once per chunk */

/* Returns the rows of a chunk, so that its logits stay under CHUNK_BYTES and the chunks have about equal sizes. */
static int64_t choose_chunk(int64_t rows, int64_t vocab, size_t element_bytes)
{
    int64_t limit = CHUNK_BYTES / (vocab * (int64_t)element_bytes);
    limit = limit > CHUNK_ROWS ? CHUNK_ROWS : limit < 16 ? 16 : limit;
    const int64_t chunks = (rows + limit - 1) / limit;
    const int64_t even = ((rows + chunks - 1) / chunks + 15) / 16 * 16;
    return even > limit ? limit : even;
}

static int32_t rows_of(mega_graph *g, int32_t t, int64_t begin, int64_t count)
{
    return mega_op_rows(g, (mega_tensor){t}, begin, count).id;
}

static int32_t empty_tensor(mega_graph *g, const char *name, tensor_shape shape)
{
    const graph_tensor t = {
        .role = ROLE_VALUE, .shape = shape, .name = mega_arena_format(&g->arena, "%s.%s", g->scope.path, name)};
    return mega_graph_tensor_add(g, &t);
}

static int32_t all_reduced(mega_graph *g, int32_t t, mega_reduce reduce, const char *what)
{
    if (g->layout == NULL || g->layout->tp.size == 1) return t; /* one rank: no instruction is needed */
    instruction op = {
        .kind = OP_ALL_REDUCE, .in = {t}, .attr = {.axis = g->layout->tp, .reduce = reduce, .what = what}};
    return mega_graph_emit(g, &op).id;
}

typedef struct head_tensors {
    int32_t x, table, bias, labels, mask, denominator, dx, dtable, dbias, token_loss;
} head_tensors;

/* The logits of a chunk, before and after the cap (one of them if there is no cap). */
static int32_t head_logits(mega_graph *g, const head_tensors *h, const mega_head_shape *s, int32_t x)
{
    instruction product = {.kind = OP_LINEAR,
                           .in = {[LINEAR_X] = x, [LINEAR_WEIGHT] = h->table, [LINEAR_BIAS] = h->bias},
                           .attr = {.wide = true, .what = "logits"}};
    const mega_tensor logits = mega_graph_emit(g, &product);
    return s->softcap > 0.0 ? mega_op_softcap(g, logits, s->softcap).id : logits.id;
}

/* Emits the gradients of x, of the table and of the bias from those of the logits. */
static void head_gradients(mega_graph *g, const head_tensors *h, const mega_head_shape *s, int32_t dlogits,
                           int32_t logits, int32_t x, int32_t out_dx)
{
    if (s->softcap > 0.0) {
        instruction uncap = {.kind = OP_SOFTCAP_GRAD,
                             .in = {[SOFTCAP_GRAD_DY] = dlogits, [SOFTCAP_GRAD_Y] = logits},
                             .attr = {.factor = s->softcap}};
        dlogits = mega_graph_emit(g, &uncap).id;
    }
    instruction dx = {.kind = OP_LINEAR_GRAD_X,
                      .in = {[LINEAR_GRAD_X_DY] = dlogits, [LINEAR_GRAD_X_WEIGHT] = h->table},
                      .out = {out_dx}};
    mega_graph_emit(g, &dx);
    instruction dw = {.kind = OP_LINEAR_GRAD_W,
                      .in = {[LINEAR_GRAD_W_DY] = dlogits, [LINEAR_GRAD_W_X] = x},
                      .out = {[LINEAR_GRAD_W_DWEIGHT] = h->dtable, [LINEAR_GRAD_W_DBIAS] = h->dbias}};
    mega_graph_emit(g, &dw);
}

static void head_chunk(mega_graph *g, const head_tensors *h, const mega_head_shape *s, int64_t begin, int64_t rows)
{
    const op_attr attr = {.begin = s->vocab_begin, .valid = s->valid, .factor = 1.0};
    const int32_t x = rows_of(g, h->x, begin, rows), labels = rows_of(g, h->labels, begin, rows);
    const int32_t logits = head_logits(g, h, s, x);
    instruction max = {.kind = OP_XENT_MAX, .in = {logits}, .attr = attr};
    max.attr.what = "max";
    const int32_t row_max = all_reduced(g, mega_graph_emit(g, &max).id, MEGA_REDUCE_MAX, "logits max");
    instruction sum = {.kind = OP_XENT_SUM,
                       .in = {[XENT_SUM_LOGITS] = logits, [XENT_SUM_ROW_MAX] = row_max, [XENT_SUM_LABELS] = labels},
                       .attr = attr};
    sum.attr.what = "sums";
    const int32_t sums = all_reduced(g, mega_graph_emit(g, &sum).id, MEGA_REDUCE_SUM, "logits sum");
    instruction grad = {.kind = OP_XENT_GRAD,
                        .in = {[XENT_GRAD_LOGITS] = logits,
                               [XENT_GRAD_ROW_MAX] = row_max,
                               [XENT_GRAD_SUMS] = sums,
                               [XENT_GRAD_LABELS] = labels},
                        .out = {[XENT_GRAD_LOSS] = rows_of(g, h->token_loss, begin, rows)},
                        .attr = attr};
    if (!s->with_gradient) {
        mega_graph_emit(g, &grad);
        return;
    }
    grad.in[XENT_GRAD_LOSS_MASK] = rows_of(g, h->mask, begin, rows);
    grad.in[XENT_GRAD_DENOMINATOR] = h->denominator;
    grad.out[XENT_GRAD_DLOGITS] =
        empty_tensor(g, "dlogits", mega_shape_2d(g->dtype, rows, g->tensor[h->table].shape.dim[0]));
    const int32_t dlogits = mega_graph_emit(g, &grad).id;
    head_gradients(g, h, s, dlogits, logits, x, rows_of(g, h->dx, begin, rows));
}

static mega_status check_rows(const mega_graph *g, const char *what, mega_tensor t, mega_dtype dtype, int64_t rows)
{
    const tensor_shape expected = mega_shape_1d(dtype, rows), *found = &g->tensor[t.id].shape;
    char a[96], b[96];
    if (mega_shape_equal(found, &expected)) return MEGA_OK;
    return MEGA_MISTAKE("head in \"%s\": %s are %s %s; expected %s", g->scope.path, what, g->tensor[t.id].name,
                        mega_shape_text(a, sizeof a, found), mega_shape_text(b, sizeof b, &expected));
}

static bool are_tensors(const mega_graph *g, mega_tensor a, mega_tensor b)
{
    return a.id >= 0 && a.id < g->num_tensors && b.id >= 0 && b.id < g->num_tensors;
}

/* The logits of all rows with bias and cap, for generation. */
mega_tensor mega_op_head_logits(mega_graph *g, mega_tensor x, mega_tensor table, const mega_head_shape *s)
{
    const head_tensors h = {.table = table.id, .bias = s->bias.id};
    mega_graph_note_table(g, table);
    return (mega_tensor){head_logits(g, &h, s, x.id)};
}

static mega_status check_head(const mega_graph *g, mega_tensor x, mega_tensor table, const mega_head_shape *s)
{
    const tensor_shape *xs = &g->tensor[x.id].shape, *ts = &g->tensor[table.id].shape;
    char a[96], b[96];
    if (x.id == 0 || table.id == 0 || xs->num_dims != 2 || ts->num_dims != 2 || xs->dim[1] != ts->dim[1])
        return MEGA_MISTAKE("head in \"%s\": x %s and table %s; expected [T, C] and [V, C]", g->scope.path,
                            mega_shape_text(a, sizeof a, xs), mega_shape_text(b, sizeof b, ts));
    if (s->valid < 0 || s->valid > ts->dim[0] || s->chunk_rows < 0)
        return MEGA_MISTAKE("head in \"%s\": %lld valid rows of a vocabulary of %lld, chunks of %lld rows; expected at "
                            "most all of them, and chunks of at least 1 (0: chosen)",
                            g->scope.path, (long long)s->valid, (long long)ts->dim[0], (long long)s->chunk_rows);
    return MEGA_OK;
}

/* ---- changes to heads before differentiation ---- */

static mega_status add_head(mega_graph *g, const graph_head *h)
{
    if (!mega_array_add(&g->results.head, g->results.num_heads, sizeof *g->results.head))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "head in \"%s\": no memory for its record", h->scope);
    g->results.head[g->results.num_heads++] = *h;
    return MEGA_OK;
}

void mega_head_set_loss(mega_graph *g, const graph_head *h, double coefficient, int32_t weight)
{
    for (int i = h->first_op; i < h->end_op; i++) {
        if (g->op[i].kind != OP_XENT_GRAD) continue;
        g->op[i].in[XENT_GRAD_DENOMINATOR] = weight;
        g->op[i].attr.factor = coefficient;
    }
}

void mega_head_drop_gradient(mega_graph *g, const graph_head *h)
{
    for (int i = h->first_op; i < h->end_op; i++) {
        instruction *op = &g->op[i];
        if (op->kind == OP_LINEAR_GRAD_X || op->kind == OP_LINEAR_GRAD_W || op->kind == OP_SOFTCAP_GRAD)
            mega_edit_remove(g, i);
        if (op->kind == OP_XENT_GRAD)
            op->in[XENT_GRAD_LOSS_MASK] = op->in[XENT_GRAD_DENOMINATOR] = op->out[XENT_GRAD_DLOGITS] = 0;
    }
}

static mega_tensor masked_sum(mega_graph *g, mega_tensor mask, int32_t x)
{
    instruction op = {.kind = OP_MASKED_SUM,
                      .in = {[MASKED_SUM_MASK] = mask.id, [MASKED_SUM_X] = x},
                      .attr = {.what = x == 0 ? "mask_sum" : "loss_sum"}};
    return mega_graph_emit(g, &op);
}

/* Returns the mask without rows of ignored labels: the kernels look at it alone. Labels are rows of the whole table
 * without padding. (pass_labels.c drops the instruction where the host can do the same.) */
static mega_tensor mask_of_labels(mega_graph *g, mega_tensor labels, mega_tensor loss_mask, mega_tensor table)
{
    const graph_tensor *t = &g->tensor[table.id];
    mega_graph_note_table(g, table);
    if (t->role != ROLE_WEIGHT) return loss_mask;
    return mega_op_label_weights(g, labels, loss_mask, mega_params_get(g->params, t->param)->true_shape[0]);
}

mega_head_result mega_op_lm_head_loss(mega_graph *g, mega_tensor x, mega_tensor table, mega_tensor labels,
                                      mega_tensor loss_mask, const mega_head_shape *s)
{
    mega_head_result r = {{0}, {{0}, {0}}};
    if (g->status == MEGA_OK && !(are_tensors(g, x, table) && are_tensors(g, labels, loss_mask)))
        mega_graph_fail(g, MEGA_MISTAKE("head in \"%s\": an operand is no tensor of this graph", g->scope.path));
    if (g->status == MEGA_OK) mega_graph_fail(g, check_head(g, x, table, s));
    if (g->status == MEGA_OK && s->with_gradient && g->regions.open != 0)
        mega_graph_fail(g, MEGA_MISTAKE("head in \"%s\": it computes its gradient in the forward, so that it cannot be "
                                        "recomputed; call mega_recompute_end before it",
                                        g->scope.path));
    if (g->status == MEGA_OK)
        mega_graph_fail(g, check_rows(g, "labels", labels, MEGA_I32, g->tensor[x.id].shape.dim[0]));
    if (g->status == MEGA_OK)
        mega_graph_fail(g, check_rows(g, "loss masks", loss_mask, MEGA_F32, g->tensor[x.id].shape.dim[0]));
    if (g->status != MEGA_OK) return r;
    const tensor_shape xs = g->tensor[x.id].shape;
    const int64_t rows = xs.dim[0];
    const int64_t chunk = s->chunk_rows > 0
                              ? s->chunk_rows
                              : choose_chunk(rows, g->tensor[table.id].shape.dim[0], mega_dtype_size(g->acc));
    loss_mask = mask_of_labels(g, labels, loss_mask, table);
    graph_head made = {.x = x.id, .first_op = g->num_ops};
    r.loss.weight = masked_sum(g, loss_mask, 0);
    head_tensors h = {.x = x.id, .table = table.id, .bias = s->bias.id, .labels = labels.id, .mask = loss_mask.id};
    h.denominator = r.loss.weight.id;
    h.token_loss = empty_tensor(g, "token_loss", mega_shape_1d(g->acc, rows));
    g->tensor[h.token_loss].is_of_head = true;
    if (s->with_gradient) {
        made.dx = h.dx = empty_tensor(g, "dx", xs);
        h.dtable = mega_graph_gradient_tensor(g, table.id);
        h.dbias = s->bias.id != 0 ? mega_graph_gradient_tensor(g, s->bias.id) : 0;
    }
    for (int64_t begin = 0; begin < rows; begin += chunk)
        head_chunk(g, &h, s, begin, rows - begin < chunk ? rows - begin : chunk);
    r.token_loss = (mega_tensor){h.token_loss};
    r.loss.sum = masked_sum(g, loss_mask, h.token_loss);
    if (!s->with_gradient || g->status != MEGA_OK) return r;
    made.loss_sum = r.loss.sum.id;
    made.end_op = g->num_ops;
    made.scope = g->op[made.first_op].scope;
    mega_graph_fail(g, add_head(g, &made));
    return r;
}
