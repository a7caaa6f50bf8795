/* fuse: merges an instruction and the one that reads its result into one if a kernel does both. Each kind of fusion is
 * a row of a table. Chains (bias, dropout, residual: four ops) form because rows also apply to fused instructions. The
 * pass walks the list once; each instruction only looks back at those that computed its operands. */
#include "edit_impl.h"
#include "uses_impl.h"

#include <string.h>

typedef struct fuse {
    mega_graph *g;
    int *maker;   /* by tensor: instruction that writes it; -1: none, or several (rows of a head) */
    int *readers; /* by tensor: number of operands that read it or a view of it */
} fuse;

typedef struct fusion {
    op_kind first, second;
    enum {
        ALONE,    /* only second reads the result of first, which disappears */
        REPLACED, /* `make` redirects the other readers of the result to another tensor */
        KEPT,     /* the result is kept, and the operands of second exist by then: the fused instruction replaces
                     first */
        SIBLINGS  /* both read one tensor: operand `via` of second and operand 0 of first */
    } relation;
    /* `via` is the operand of second that first computes. The fused instruction replaces second, where all its operands
     * exist, unless the result of first is kept. Returns false if the two cannot be fused. */
    bool (*make)(const fuse *f, const instruction *first, const instruction *second, int via, instruction *fused);
} fusion;

static bool fuse_linear_bias(const fuse *f, const instruction *first, const instruction *second, int via,
                             instruction *fused)
{
    (void)f;
    if (via != BIAS_ADD_X || first->in[LINEAR_BIAS] != 0 || first->attr.wide) return false;
    *fused = *first;
    fused->in[LINEAR_BIAS] = second->in[BIAS_ADD_BIAS];
    fused->out[0] = second->out[0];
    return true;
}

/* Fuses an addition into first: second adds a tensor to the result of first, and that tensor becomes operand `slot` of
 * first. */
static bool fuse_addend(const instruction *first, const instruction *second, int via, int slot, instruction *fused)
{
    if (first->in[slot] != 0) return false;
    *fused = *first;
    fused->in[slot] = second->in[1 - via];
    fused->out[0] = second->out[0];
    return true;
}

/* The result may then overwrite the residual (overlays), so the residual must not be x, which is read until the end. */
static bool fuse_linear_residual(const fuse *f, const instruction *first, const instruction *second, int via,
                                 instruction *fused)
{
    const int32_t residual = mega_graph_root(f->g, second->in[1 - via]);
    if (first->attr.wide || residual == mega_graph_root(f->g, first->in[LINEAR_X])) return false;
    return fuse_addend(first, second, via, LINEAR_RESIDUAL, fused);
}

/* Computes the gradient of the bias together with that of the weight, because both read dy. */
static bool fuse_grad_w_column_sum(const fuse *f, const instruction *first, const instruction *second, int via,
                                   instruction *fused)
{
    (void)f;
    if (via != LINEAR_GRAD_W_DY || second->out[LINEAR_GRAD_W_DBIAS] != 0) return false;
    *fused = *second;
    fused->out[LINEAR_GRAD_W_DBIAS] = first->out[0];
    return true;
}

static bool fuse_embedding_addend(const fuse *f, const instruction *first, const instruction *second, int via,
                                  instruction *fused)
{
    (void)f;
    return fuse_addend(first, second, via, EMBEDDING_ADDEND, fused);
}

static bool fuse_bias_dropout(const fuse *f, const instruction *first, const instruction *second, int via,
                              instruction *fused)
{
    (void)f;
    if (via != DROPOUT_X || second->in[DROPOUT_BIAS] != 0) return false;
    *fused = *second;
    fused->in[DROPOUT_X] = first->in[BIAS_ADD_X];
    fused->in[DROPOUT_BIAS] = first->in[BIAS_ADD_BIAS];
    return true;
}

/* Without dropout, the dropout kernel still adds bias and residual. */
static bool fuse_bias_residual(const fuse *f, const instruction *first, const instruction *second, int via,
                               instruction *fused)
{
    (void)f;
    *fused = *second;
    fused->kind = OP_DROPOUT;
    memset(fused->in, 0, sizeof fused->in);
    fused->in[DROPOUT_X] = first->in[BIAS_ADD_X];
    fused->in[DROPOUT_BIAS] = first->in[BIAS_ADD_BIAS];
    fused->in[DROPOUT_RESIDUAL] = second->in[1 - via];
    return true;
}

static bool fuse_dropout_residual(const fuse *f, const instruction *first, const instruction *second, int via,
                                  instruction *fused)
{
    (void)f;
    return fuse_addend(first, second, via, DROPOUT_RESIDUAL, fused);
}

static bool fuse_norm_grad_addend(const fuse *f, const instruction *first, const instruction *second, int via,
                                  instruction *fused)
{
    (void)f;
    return fuse_addend(first, second, via, LAYER_NORM_GRAD_ADDEND, fused);
}

static bool fuse_grad_column_sum(const fuse *f, const instruction *first, const instruction *second, int via,
                                 instruction *fused)
{
    (void)f;
    (void)via;
    const int dbias = first->kind == OP_GELU_GRAD ? GELU_GRAD_DBIAS : DROPOUT_GRAD_DBIAS;
    if (first->out[dbias] != 0) return false;
    *fused = *first;
    fused->out[dbias] = second->out[0];
    return true;
}

/* gelu(x + bias): the gradient of gelu also reads the sum; after the fusion it adds the bias itself. */
static bool fuse_bias_gelu(const fuse *f, const instruction *first, const instruction *second, int via,
                           instruction *fused)
{
    mega_graph *g = f->g;
    const int32_t sum = first->out[0];
    int found = 1; /* readers found so far, including `second` */
    if (via != GELU_X || second->in[GELU_BIAS] != 0) return false;
    for (int i = 0; i < g->num_ops; i++)
        found += g->op[i].kind == OP_GELU_GRAD && g->op[i].in[GELU_GRAD_X] == sum && g->op[i].in[GELU_GRAD_DY] != sum;
    if (found != f->readers[sum]) return false;
    for (int i = 0; i < g->num_ops; i++)
        if (g->op[i].kind == OP_GELU_GRAD && g->op[i].in[GELU_GRAD_X] == sum) {
            g->op[i].in[GELU_GRAD_X] = first->in[BIAS_ADD_X];
            g->op[i].in[GELU_GRAD_BIAS] = first->in[BIAS_ADD_BIAS];
            f->readers[mega_graph_root(g, first->in[BIAS_ADD_X])]++;
            f->readers[mega_graph_root(g, first->in[BIAS_ADD_BIAS])]++;
            f->readers[sum]--;
        }
    *fused = *second;
    fused->in[GELU_X] = first->in[BIAS_ADD_X];
    fused->in[GELU_BIAS] = first->in[BIAS_ADD_BIAS];
    return true;
}

/* Fuses maximum, sum and gradient if one rank holds the whole vocabulary: without a reduction in between, one op can
 * read the logits once. Only the other two ops may read the maximum. */
static bool fuse_cross_entropy(const fuse *f, const instruction *first, const instruction *second, int via,
                               instruction *fused)
{
    mega_graph *g = f->g;
    const int32_t row_max = first->in[XENT_SUM_ROW_MAX];
    const int maker = f->maker[row_max];
    if (via != XENT_GRAD_SUMS || second->in[XENT_GRAD_ROW_MAX] != row_max || maker < 0 ||
        g->op[maker].kind != OP_XENT_MAX || g->op[maker].in[0] != first->in[XENT_SUM_LOGITS] ||
        f->readers[row_max] != 2 || g->tensor[row_max].is_output)
        return false;
    f->readers[mega_graph_root(g, first->in[XENT_SUM_LOGITS])]--;
    mega_edit_remove(g, maker);
    *fused = *second;
    fused->kind = OP_XENT;
    memset(fused->in, 0, sizeof fused->in);
    fused->in[XENT_LOGITS] = second->in[XENT_GRAD_LOGITS];
    fused->in[XENT_LABELS] = second->in[XENT_GRAD_LABELS];
    fused->in[XENT_LOSS_MASK] = second->in[XENT_GRAD_LOSS_MASK];
    fused->in[XENT_DENOMINATOR] = second->in[XENT_GRAD_DENOMINATOR];
    return true;
}

/* Earlier rows take precedence: a bias is fused into the GEMM rather than into gelu. */
static const fusion fusions[] = {
    {OP_LINEAR, OP_BIAS_ADD, ALONE, fuse_linear_bias},
    {OP_LINEAR, OP_ADD, ALONE, fuse_linear_residual},
    {OP_EMBEDDING, OP_ADD, ALONE, fuse_embedding_addend},
    {OP_BIAS_ADD, OP_GELU, REPLACED, fuse_bias_gelu},
    {OP_BIAS_ADD, OP_DROPOUT, ALONE, fuse_bias_dropout},
    {OP_BIAS_ADD, OP_ADD, ALONE, fuse_bias_residual},
    {OP_DROPOUT, OP_ADD, ALONE, fuse_dropout_residual},
    {OP_XENT_SUM, OP_XENT_GRAD, ALONE, fuse_cross_entropy},
    {OP_GELU_GRAD, OP_COLUMN_SUM, KEPT, fuse_grad_column_sum},
    {OP_DROPOUT_GRAD, OP_COLUMN_SUM, KEPT, fuse_grad_column_sum},
    {OP_COLUMN_SUM, OP_LINEAR_GRAD_W, SIBLINGS, fuse_grad_w_column_sum},
    {OP_LAYER_NORM_GRAD, OP_ADD, ALONE, fuse_norm_grad_addend},
    {OP_RMS_NORM_GRAD, OP_ADD, ALONE, fuse_norm_grad_addend},
};

static void fuse_count(fuse *f, const instruction *op, int step)
{
    for (int k = 0; k < OP_MAX_IN; k++)
        if (op->in[k] != 0) f->readers[mega_graph_root(f->g, op->in[k])] += step;
}

static bool fuse_is_alone(const fuse *f, int32_t result)
{
    return f->readers[result] == 1 && !f->g->tensor[result].is_output && f->g->tensor[result].role == ROLE_VALUE;
}

/* Writes `fused` into the list and removes the instructions that it replaces. Returns its index. */
static int fuse_replace(fuse *f, int first, int second, const fusion *row, instruction *fused)
{
    mega_graph *g = f->g;
    const int at = row->relation == KEPT ? first : second, other = at == first ? second : first;
    fused->scope = g->op[first].scope;
    fused->region = g->op[at].region;
    fused->backward = g->op[at].backward;
    fused->recomputed = g->op[at].recomputed;
    fuse_count(f, &g->op[first], -1);
    fuse_count(f, &g->op[second], -1);
    mega_edit_remove(g, other);
    g->op[at] = *fused;
    fuse_count(f, fused, 1);
    for (int k = 0; k < OP_MAX_OUT; k++)
        if (fused->out[k] != 0) f->maker[fused->out[k]] = at;
    return at;
}

/* Returns the instruction that this row could fuse with instruction `second` through its operand `via`; -1: none. */
static int fuse_partner(const fuse *f, const fusion *row, int second, int via)
{
    const mega_graph *g = f->g;
    const int32_t t = g->op[second].in[via];
    int first = t == 0 ? -1 : f->maker[t];
    if (t != 0 && row->relation == SIBLINGS)
        for (first = second - 1; first >= 0 && (g->op[first].kind != row->first || g->op[first].in[0] != t);) first--;
    if (first < 0 || g->op[first].kind != row->first || g->op[first].backward != g->op[second].backward) return -1;
    if (row->relation != SIBLINGS && g->op[first].out[0] != t) return -1;
    return row->relation == ALONE && !fuse_is_alone(f, t) ? -1 : first;
}

/* Tries every row on instruction `second` and its partners. Returns true if one applied. */
static bool fuse_one(fuse *f, int second)
{
    mega_graph *g = f->g;
    const instruction *b = &g->op[second];
    for (size_t r = 0; r < sizeof fusions / sizeof *fusions; r++) {
        if (b->kind != fusions[r].second) continue;
        for (int via = 0; via < OP_MAX_IN; via++) {
            const int first = fuse_partner(f, &fusions[r], second, via);
            if (first < 0) continue;
            instruction fused;
            if (!fusions[r].make(f, &g->op[first], b, via, &fused)) continue;
            fuse_replace(f, first, second, &fusions[r], &fused);
            return true;
        }
    }
    return false;
}

/* The index of the list before the pass; from then on each fusion keeps both arrays up to date. */
static mega_status fuse_begin(fuse *f)
{
    const mega_graph *g = f->g;
    graph_uses uses;
    mega_status st = mega_uses_find(g, &uses);
    for (int32_t t = 0; t < g->num_tensors && st == MEGA_OK; t++) {
        const use_list writes = mega_uses_writes(&uses, t);
        f->maker[t] = writes.count == 0 ? -1 : writes.use[writes.count - 1].op;
        f->readers[t] = mega_uses_reads(&uses, t).count;
    }
    mega_uses_fini(&uses);
    return st;
}

mega_status mega_pass_fuse(mega_graph *g)
{
    fuse f = {.g = g};
    f.maker = mega_malloc((size_t)g->num_tensors * sizeof *f.maker);
    f.readers = mega_malloc((size_t)g->num_tensors * sizeof *f.readers);
    mega_status st = MEGA_OK;
    if (f.maker == NULL || f.readers == NULL)
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory to fuse %d instructions", g->num_ops);
    else
        st = fuse_begin(&f);
    if (st == MEGA_OK) {
        for (int i = 0; i < g->num_ops; i++)
            while (g->op[i].kind != OP_NONE && fuse_one(&f, i)) continue;
        mega_edit_compact(g);
    }
    MEGA_FREE(f.readers, f.maker);
    return st;
}
