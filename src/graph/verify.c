/* Checks the invariants of a graph between passes. A violation is a bug of megalith or of a model function; the message
 * names the pass after which it was found. */
#include "graph_impl.h"

#include <string.h>

typedef struct verify {
    const mega_graph *g;
    const char *after;
    int64_t *written; /* by tensor: elements written so far, also through views */
} verify;

static mega_status broken(const verify *v, int i, const char *rule, int32_t tensor)
{
    const instruction *op = &v->g->op[i];
    return MEGA_MISTAKE("program after pass %s: instruction %d, %s in \"%s\": %s (tensor %s)", v->after, i,
                        mega_op_table[op->kind]->name, op->scope, rule, v->g->tensor[tensor].name);
}

static mega_status verify_reads(const verify *v, int i)
{
    const mega_graph *g = v->g;
    const instruction *op = &g->op[i];
    const op_row *row = mega_op_table[op->kind];
    for (int k = 0; k < OP_MAX_IN; k++) {
        const int32_t t = op->in[k];
        if (t < 0 || t >= g->num_tensors) return broken(v, i, "reads a tensor that does not exist", 0);
        if (t == 0 && k < row->num_in && !(row->optional_in >> k & 1)) return broken(v, i, "lacks an operand", 0);
        if (t != 0 && k >= row->num_in) return broken(v, i, "reads more operands than its row has", t);
        if (t == 0) continue;
        const int32_t root = mega_graph_root(g, t);
        const tensor_role role = g->tensor[root].role;
        if (role == ROLE_VALUE && v->written[root] == 0) return broken(v, i, "reads what is not written yet", t);
        if (role == ROLE_VALUE && t == root && v->written[root] < mega_shape_count(&g->tensor[root].shape))
            return broken(v, i, "reads what is written in part", t);
        if (g->tensor[t].role == ROLE_GRADIENT) return broken(v, i, "reads the gradient of a parameter", t);
        if ((row->mutates >> k & 1) && role != ROLE_STATE) return broken(v, i, "changes what is no state", t);
    }
    return MEGA_OK;
}

static mega_status verify_writes(const verify *v, int i)
{
    const mega_graph *g = v->g;
    const instruction *op = &g->op[i];
    const op_row *row = mega_op_table[op->kind];
    for (int k = 0; k < OP_MAX_OUT; k++) {
        const int32_t t = op->out[k];
        if (t < 0 || t >= g->num_tensors) return broken(v, i, "writes a tensor that does not exist", 0);
        if (t == 0 && k < row->num_out && !(row->optional_out >> k & 1)) return broken(v, i, "lacks a result", 0);
        if (t != 0 && k >= row->num_out) return broken(v, i, "writes more results than its row has", t);
        if (t == 0 || op->kind == OP_COPY_TO_GROUP) continue; /* only a mark: its result is its operand */
        const int32_t root = mega_graph_root(g, t);
        const tensor_role role = g->tensor[t].role == ROLE_GRADIENT ? ROLE_GRADIENT : g->tensor[root].role;
        if ((row->accumulates >> k & 1) != (role == ROLE_GRADIENT))
            return broken(v, i, "adds to a value, or overwrites a gradient", t);
        if (role == ROLE_GRADIENT) continue;
        if (role != ROLE_VALUE) return broken(v, i, "writes an input, a weight or a state", t);
        v->written[root] += mega_shape_count(&g->tensor[t].shape);
        if (v->written[root] > mega_shape_count(&g->tensor[root].shape))
            return broken(v, i, "writes what is written already", t);
    }
    return MEGA_OK;
}

static mega_status verify_shapes(const verify *v, int i)
{
    const mega_graph *g = v->g;
    const instruction *op = &g->op[i];
    const op_row *row = mega_op_table[op->kind];
    tensor_shape shape[OP_MAX_OUT];
    memset(shape, 0, sizeof shape);
    if (row->shape(g, op, shape) != MEGA_OK) {
        MEGA_CONTEXT("program after pass %s, instruction %d", v->after, i);
        return MEGA_ERR_USAGE;
    }
    for (int k = 0; k < row->num_out; k++)
        if (op->out[k] != 0 && !mega_shape_equal(&shape[k], &g->tensor[op->out[k]].shape))
            return broken(v, i, "a result has another shape than the op's rule gives", op->out[k]);
    return MEGA_OK;
}

static mega_status verify_tensors(const verify *v)
{
    const mega_graph *g = v->g;
    for (int t = 1; t < g->num_tensors; t++) {
        const graph_tensor *x = &g->tensor[t];
        if (x->role != ROLE_VIEW) continue;
        const bool inside = x->base > 0 && g->tensor[x->base].role != ROLE_VIEW && x->offset >= 0 &&
                            x->shape.dtype == g->tensor[x->base].shape.dtype &&
                            x->offset + mega_shape_count(&x->shape) <= mega_shape_count(&g->tensor[x->base].shape);
        if (!inside) return MEGA_MISTAKE("program after pass %s: view of %s reaches outside of it", v->after, x->name);
    }
    for (int i = 0; i < g->names.num_named; i++) {
        const graph_tensor *x = &g->tensor[g->names.named[i].tensor];
        if (x->role == ROLE_VALUE && v->written[g->names.named[i].tensor] != mega_shape_count(&x->shape))
            return MEGA_MISTAKE("program after pass %s: output \"%s\" is not written, or only in part", v->after,
                                g->names.named[i].name);
    }
    for (int i = 0; i < g->results.num_losses; i++)
        if (v->written[g->results.loss[i].sum] != 1 || v->written[g->results.loss[i].weight] != 1)
            return MEGA_MISTAKE("program after pass %s: loss \"%s\" is not written", v->after, g->results.loss[i].name);
    return MEGA_OK;
}

mega_status mega_graph_verify(const mega_graph *g, const char *after)
{
    verify v = {.g = g, .after = after};
    v.written = mega_calloc((size_t)g->num_tensors, sizeof *v.written);
    if (v.written == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory to verify %d tensors", g->num_tensors);
    mega_status st = MEGA_OK;
    for (int i = 0; i < g->num_ops && st == MEGA_OK; i++) {
        if (g->op[i].kind <= OP_NONE || g->op[i].kind >= OP_COUNT)
            st = MEGA_MISTAKE("program after pass %s: instruction %d has no op", after, i);
        else if (g->op[i].backward != (i >= g->num_forward))
            st = broken(&v, i, "a forward instruction is in the backward program, or the other way round", 0);
        if (st == MEGA_OK) st = verify_shapes(&v, i);
        if (st == MEGA_OK) st = verify_reads(&v, i);
        if (st == MEGA_OK) st = verify_writes(&v, i);
    }
    if (st == MEGA_OK) st = verify_tensors(&v);
    mega_free(v.written);
    return st;
}
