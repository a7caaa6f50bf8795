/* Finds which dimensions of a tensor are sharded over tp, for the printed program: [2048/2, 768] is a shard of 1024 of
 * 2048 rows. It follows from the records of the weights and from the collectives, instruction by instruction. */
#include "program_impl.h"

#include <stdio.h>

static void print_cut_set(mega_graph *g, int32_t t, int dim, int by)
{
    if (t != 0 && by > 1 && dim < g->tensor[t].shape.num_dims) g->tensor[t].cut[dim] = by;
}

/* Returns how many ranks shard dimension `dim` of a tensor. A view of rows has the columns of its base. */
static int print_cut_of(const mega_graph *g, int32_t t, int dim)
{
    const graph_tensor *x = &g->tensor[t], *base = &g->tensor[x->base];
    return x->role == ROLE_VIEW && dim == 1 && x->shape.dim[1] == base->shape.dim[1] ? base->cut[1] : x->cut[dim];
}

/* Copies the sharding of an operand that is not a weight to each dimension of the result that has the same size. */
static void inherit(mega_graph *g, const instruction *op, int32_t out)
{
    for (int k = 0; k < OP_MAX_IN; k++) {
        const int32_t in = op->in[k];
        if (in == 0 || g->tensor[in].role == ROLE_WEIGHT || g->tensor[in].shape.num_dims > 2) continue;
        for (int d = 0; d < 2; d++)
            if (g->tensor[in].shape.dim[d] == g->tensor[out].shape.dim[d])
                print_cut_set(g, out, d, print_cut_of(g, in, d));
    }
}

static void cut_results(mega_graph *g, const instruction *op)
{
    const int32_t out = op->out[0];
    for (int k = 0; k < OP_MAX_OUT; k++)
        if (op->out[k] != 0 && g->tensor[op->out[k]].role != ROLE_GRADIENT) inherit(g, op, op->out[k]);
    if (op->kind == OP_REDUCE_SCATTER || op->kind == OP_OWN_ROWS) print_cut_set(g, out, 0, op->attr.axis.size);
    else if (op->kind == OP_LINEAR)
        print_cut_set(g, out, 1, print_cut_of(g, op->in[LINEAR_WEIGHT], 0));
    else if (op->kind == OP_LINEAR_GRAD_X)
        print_cut_set(g, out, 1, print_cut_of(g, op->in[LINEAR_GRAD_X_WEIGHT], 1));
    else if (op->kind == OP_ATTENTION || op->kind == OP_ATTENTION_CACHED)
        print_cut_set(g, out, 1, print_cut_of(g, op->in[ATTENTION_QKV], 1));
}

void mega_graph_find_cuts(mega_graph *g)
{
    if (g->layout == NULL || g->layout->tp.size == 1) return;
    for (int32_t t = 1; t < g->num_tensors; t++) {
        if (g->tensor[t].role != ROLE_WEIGHT && g->tensor[t].role != ROLE_GRADIENT) continue;
        const mega_param *p = mega_params_get(g->params, g->tensor[t].param);
        if (p->axis == MEGA_AXIS_TP)
            print_cut_set(g, t, p->cut_dim + (g->tensor[t].is_joined && p->num_dims == 1 ? 1 : 0), g->layout->tp.size);
    }
    for (int i = 0; i < g->num_ops; i++) cut_results(g, &g->op[i]);
}

const char *mega_graph_shape_text(char *out, int size, const mega_graph *g, int32_t t)
{
    const tensor_shape *s = &g->tensor[t].shape;
    int n = snprintf(out, (size_t)size, "[");
    for (int d = 0; d < s->num_dims && n < size; d++) {
        const int by = d < 2 ? print_cut_of(g, t, d) : 0;
        n += snprintf(out + n, (size_t)(size - n), "%s%lld", d == 0 ? "" : ", ",
                      (long long)s->dim[d] * (by > 1 ? by : 1));
        if (by > 1 && n < size) n += snprintf(out + n, (size_t)(size - n), "/%d", by);
    }
    if (n < size) snprintf(out + n, (size_t)(size - n), "] %s", mega_dtype_name(s->dtype));
    return out;
}
