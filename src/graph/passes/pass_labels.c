/* labels: decides who looks for labels that are no classes. The host does, before the step, where labels are an input
 * and rows count by one weight, which is an input too or none (data/batch.c). Everywhere else an instruction
 * label_weights does, and mega_program_wrong_labels reports what it found. */
#include "edit_impl.h"
#include "uses_impl.h"

/* The factors of the weight of a row; 0: none. */
typedef struct row_weights {
    int32_t given, mask;
} row_weights;

typedef struct label_use {
    int op;
    int32_t labels;
    row_weights weights;
    int64_t classes;
} label_use;

static int64_t labels_count(const mega_graph *g, int32_t tensor)
{
    return mega_shape_count(&g->tensor[tensor].shape);
}

static bool labels_are_whole(const mega_graph *g, int32_t tensor)
{
    return labels_count(g, tensor) == labels_count(g, mega_graph_root(g, tensor));
}

/* ---- by what losses of rows are multiplied ---- */

typedef struct label_graph {
    const mega_graph *g;
    graph_uses uses;
    bool *is_made_of_labels; /* by tensor: zeros in it may be those of rows whose label is no class */
} label_graph;

static bool reads_marked(const label_graph *l, const instruction *op)
{
    for (int k = 0; k < OP_MAX_IN; k++)
        if (l->is_made_of_labels[mega_graph_root(l->g, op->in[k])]) return true;
    return false;
}

static void mark_made_of_labels(const label_graph *l)
{
    for (int i = 0; i < l->g->num_forward; i++) {
        const instruction *op = &l->g->op[i];
        const bool is_made = op->kind == OP_CROSS_ENTROPY || op->kind == OP_ACCURACY || op->kind == OP_LABEL_WEIGHTS;
        if (!is_made && !reads_marked(l, op)) continue;
        for (int k = 0; k < OP_MAX_OUT; k++)
            if (op->out[k] != 0) l->is_made_of_labels[mega_graph_root(l->g, op->out[k])] = true;
    }
}

static row_weights weights_of_losses(const label_graph *l, int32_t losses);

static row_weights weights_of_read(const label_graph *l, const tensor_use *u)
{
    const instruction *op = &l->g->op[u->op];
    row_weights found = {0};
    if (!labels_are_whole(l->g, op->in[u->operand])) return found;
    if (op->kind == OP_SCALE || op->kind == OP_ADD || op->kind == OP_ROW_SUM) return weights_of_losses(l, op->out[0]);
    if (op->kind == OP_MASKED_SUM && u->operand == MASKED_SUM_X) found.mask = op->in[MASKED_SUM_MASK];
    else if (op->kind == OP_MUL)
        found = (row_weights){op->in[1 - u->operand], weights_of_losses(l, op->out[0]).mask};
    if (l->is_made_of_labels[mega_graph_root(l->g, found.given)]) found.given = 0;
    if (l->is_made_of_labels[mega_graph_root(l->g, found.mask)]) found.mask = 0;
    return found;
}

/* None, where losses of rows are used in several ways: a row counts if it does in any of them. */
static row_weights weights_of_losses(const label_graph *l, int32_t losses)
{
    const use_list reads = mega_uses_reads(&l->uses, mega_graph_root(l->g, losses));
    row_weights all = {0};
    int found = 0;
    for (int i = 0; i < reads.count; i++) {
        if (l->g->op[reads.use[i].op].backward) continue;
        const row_weights one = weights_of_read(l, &reads.use[i]);
        if (found++ > 0 && (one.given != all.given || one.mask != all.mask)) return (row_weights){0};
        all = one;
    }
    return l->g->tensor[losses].is_output ? (row_weights){0} : all;
}

/* ---- uses of labels ---- */

/* Returns false if an instruction reads no labels. */
static bool find_use(const label_graph *l, int i, label_use *out)
{
    const mega_graph *g = l->g;
    const instruction *op = &g->op[i];
    const label_use of = {.op = i};
    *out = of;
    if (op->kind == OP_CROSS_ENTROPY) {
        out->labels = op->in[CROSS_ENTROPY_LABELS];
        out->weights = weights_of_losses(l, op->out[0]);
        out->classes = g->tensor[op->in[CROSS_ENTROPY_LOGITS]].shape.dim[1];
    } else if (op->kind == OP_ACCURACY) {
        out->labels = op->in[ACCURACY_LABELS];
        out->classes = g->tensor[op->in[ACCURACY_LOGITS]].shape.dim[1];
    } else if (op->kind == OP_LABELLED_SUM) {
        out->labels = op->in[LABELLED_SUM_LABELS];
        out->weights.mask = op->in[LABELLED_SUM_WEIGHTS];
        out->classes = op->attr.valid;
    } else if (op->kind == OP_LABEL_WEIGHTS) {
        out->labels = op->in[LABEL_WEIGHTS_LABELS];
        out->weights.mask = op->in[LABEL_WEIGHTS_MASK];
        out->classes = op->attr.valid;
    }
    return out->labels != 0;
}

/* Metrics and sums of weights count the rows that the losses of these labels count, where there are any. */
static bool is_loss(const mega_graph *g, const label_use *u)
{
    return g->op[u->op].kind == OP_CROSS_ENTROPY || g->op[u->op].kind == OP_LABEL_WEIGHTS;
}

typedef struct label_uses {
    int32_t root; /* the tensor that the labels are, or are parts of */
    label_use *use;
    int count;
} label_uses;

/* Lists the uses of the same labels; *all has memory for `forward` of them. */
static void list_uses(const label_graph *l, int32_t root, int forward, label_uses *all)
{
    const mega_graph *g = l->g;
    int losses = 0, kept = 0;
    all->root = root;
    all->count = 0;
    for (int i = 0; i < forward; i++) {
        label_use *u = &all->use[all->count];
        if (!find_use(l, i, u) || mega_graph_root(g, u->labels) != root) continue;
        losses += is_loss(g, u);
        all->count++;
    }
    for (int i = 0; i < all->count; i++)
        if (losses == 0 || is_loss(g, &all->use[i])) all->use[kept++] = all->use[i];
    all->count = kept;
}

/* ---- the host's check ---- */

/* Whether an input of weights is read only as those of these labels, and in sums of the losses of a head. */
static bool is_for_labels_alone(const label_graph *l, int32_t weights, int32_t labels)
{
    const mega_graph *g = l->g;
    const use_list reads = mega_uses_reads(&l->uses, weights);
    for (int i = 0; i < reads.count; i++) {
        const instruction *op = &g->op[reads.use[i].op];
        if (op->kind == OP_LABEL_WEIGHTS && mega_graph_root(g, op->in[LABEL_WEIGHTS_LABELS]) == labels) continue;
        const int32_t x = op->kind == OP_MASKED_SUM ? op->in[MASKED_SUM_X] : -1;
        if (x < 0 || (x > 0 && !g->tensor[mega_graph_root(g, x)].is_of_head)) return false;
    }
    return true;
}

/* Returns the input that has the weights of these rows, 0 if all count alike, or -1 if the host does not know. */
static int32_t host_weights(const label_graph *l, const label_use *u)
{
    const mega_graph *g = l->g;
    const int32_t root = mega_graph_root(g, u->labels);
    const int32_t by = u->weights.given != 0 ? u->weights.given : u->weights.mask, of = mega_graph_root(g, by);
    const graph_tensor *labels = &g->tensor[root], *w = &g->tensor[of];
    if (labels->role != ROLE_INPUT || labels->is_of_engine || !labels_are_whole(g, u->labels)) return -1;
    if (u->weights.given != 0 && u->weights.mask != 0) return -1;
    if (by == 0) return 0;
    if (w->role != ROLE_INPUT || w->shape.dtype != MEGA_F32 || labels_count(g, by) != labels_count(g, root)) return -1;
    if (!labels_are_whole(g, by)) return -1;
    return g->op[u->op].kind == OP_LABEL_WEIGHTS && !is_for_labels_alone(l, of, root) ? -1 : of;
}

/* Makes the result of label_weights its input: the host sets the weights of ignored rows to 0. */
static void leave_to_host(mega_graph *g, const label_use *u)
{
    instruction *op = &g->op[u->op];
    const int32_t out = op->out[LABEL_WEIGHTS_WEIGHTS], root = mega_graph_root(g, u->weights.mask);
    const int64_t offset = g->tensor[u->weights.mask].offset;
    for (int32_t t = 1; t < g->num_tensors; t++) {
        graph_tensor *view = &g->tensor[t];
        if (t != out && (view->role != ROLE_VIEW || view->base != out)) continue;
        view->role = ROLE_VIEW;
        view->base = root;
        view->rows_of = root;
        view->offset += offset;
        view->name = g->tensor[root].name;
    }
    g->tensor[mega_graph_root(g, u->labels)].leaves_out = true;
    mega_edit_remove(g, u->op);
}

/* ---- the program's check ---- */

static int32_t ignored_of(const mega_graph *g, int32_t root)
{
    return g->tensor[root].has_ignored ? g->tensor[root].ignored : MEGA_IGNORED_LABEL;
}

static void check_in_program(mega_graph *g, const label_use *u)
{
    int at = u->op;
    if (g->op[at].kind != OP_LABEL_WEIGHTS) { /* move_to_forward moves it */
        const mega_scope s = mega_scope_enter(g, "%s", g->op[at].scope);
        instruction op = {.kind = OP_LABEL_WEIGHTS,
                          .in = {[LABEL_WEIGHTS_LABELS] = u->labels,
                                 [LABEL_WEIGHTS_GIVEN] = u->weights.given,
                                 [LABEL_WEIGHTS_MASK] = u->weights.mask},
                          .attr = {.valid = u->classes, .what = "labels"}};
        mega_graph_emit(g, &op);
        mega_scope_leave(g, s);
        if (g->status != MEGA_OK) return;
        at = g->num_ops - 1;
    }
    g->op[at].attr.ignored = ignored_of(g, mega_graph_root(g, u->labels));
    g->tensor[g->op[at].out[LABEL_WEIGHTS_WRONG]].is_output = true;
}

/* Moves what was emitted, from instruction `first` on, to the end of the forward. */
static void move_to_forward(mega_graph *g, int first)
{
    for (int i = first; i < g->num_ops; i++) mega_edit_move_up(g, i, g->num_forward++);
}

/* ---- the pass ---- */

/* Tells every instruction that reads these labels, also those of the backward, which of them counts for no row. */
static void tell_ignored(mega_graph *g, int32_t root)
{
    for (int i = 0; i < g->num_ops; i++)
        for (int k = 0; k < OP_MAX_IN; k++)
            if (mega_graph_root(g, g->op[i].in[k]) == root) g->op[i].attr.ignored = ignored_of(g, root);
}

static void settle_labels(mega_graph *g, const label_graph *l, const label_uses *all)
{
    graph_tensor *t = &g->tensor[all->root];
    const int32_t weights = host_weights(l, &all->use[0]);
    bool by_host = weights >= 0;
    for (int i = 0; i < all->count; i++) {
        by_host = by_host && host_weights(l, &all->use[i]) == weights;
        if (t->classes == 0 || all->use[i].classes < t->classes) t->classes = all->use[i].classes;
    }
    t->is_checked_by_op = !by_host;
    t->weights = by_host ? weights : 0;
    for (int i = 0; i < all->count; i++) {
        if (!by_host) check_in_program(g, &all->use[i]);
        else if (g->op[all->use[i].op].kind == OP_LABEL_WEIGHTS)
            leave_to_host(g, &all->use[i]);
    }
}

static mega_status settle_all(mega_graph *g, const label_graph *l, label_uses *all)
{
    const int forward = g->num_forward, old = g->num_ops;
    label_use of;
    mark_made_of_labels(l);
    for (int i = 0; i < forward; i++) {
        if (!find_use(l, i, &of)) continue;
        const int32_t root = mega_graph_root(g, of.labels);
        if (g->tensor[root].classes > 0) continue; /* settled with an earlier use */
        list_uses(l, root, forward, all);
        tell_ignored(g, root);
        settle_labels(g, l, all);
        MEGA_TRY(mega_graph_status(g));
    }
    move_to_forward(g, old);
    mega_edit_compact(g);
    return MEGA_OK;
}

mega_status mega_pass_labels(mega_graph *g)
{
    label_graph l = {.g = g, .is_made_of_labels = mega_calloc((size_t)g->num_tensors, sizeof *l.is_made_of_labels)};
    label_uses all = {.use = mega_calloc((size_t)g->num_forward + 1, sizeof *all.use)};
    mega_status st = mega_uses_find(g, &l.uses);
    if (st == MEGA_OK && (all.use == NULL || l.is_made_of_labels == NULL))
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory for the labels of %d instructions", g->num_forward);
    if (st == MEGA_OK) st = settle_all(g, &l, &all);
    mega_uses_fini(&l.uses);
    mega_free(l.is_made_of_labels);
    mega_free(all.use);
    return st;
}
