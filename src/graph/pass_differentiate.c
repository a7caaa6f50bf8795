/* describe → differentiate: walks the forward instructions backwards and lets each row's gradient rule append its
 * backward. Several uses of one value meet in an add; gradients of weights are added into the parameter's buffer by the
 * instruction that makes them. */
#include "graph_impl.h"

#include <stdio.h>
#include <string.h>

/* A value needs a gradient when it depends on a parameter, or on an input whose gradient is wanted. */
static void mark_needed(mega_graph *g)
{
    for (int i = 0; i < g->num_ops; i++) {
        const instruction *op = &g->op[i];
        bool needed = false;
        for (int k = 0; k < OP_MAX_IN; k++)
            needed = needed || g->tensor[op->in[k]].needs_gradient ||
                     (op->in[k] != 0 && g->tensor[op->in[k]].role == ROLE_WEIGHT);
        for (int k = 0; k < OP_MAX_OUT; k++)
            if (op->out[k] != 0 && needed) g->tensor[op->out[k]].needs_gradient = true;
    }
    g->tensor[0].needs_gradient = false;
}

static bool gradient_arrived(const mega_graph *g, const instruction *op)
{
    for (int k = 0; k < OP_MAX_OUT; k++)
        if (op->out[k] != 0 && g->tensor[op->out[k]].gradient != 0) return true;
    return false;
}

static void differentiate_op(mega_graph *g, int i)
{
    const instruction op = g->op[i]; /* by value: rules append, and the array may move */
    if (!gradient_arrived(g, &op)) return;
    const op_row *row = mega_op_table[op.kind];
    if (row->gradient == NULL) {
        mega_graph_fail(g, MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                                     "op %s in \"%s\" has no gradient, but the loss depends on it; use it in programs "
                                     "that are not differentiated",
                                     row->name, op.scope));
        return;
    }
    snprintf(g->scope, sizeof g->scope, "%s", op.scope);
    g->scope_text = op.scope;
    g->region = op.region;
    row->gradient(g, &op);
}

/* Wanted gradients of inputs become outputs. */
static mega_status name_wanted(mega_graph *g)
{
    for (int i = 0; i < g->num_wanted; i++) {
        const graph_tensor *input = &g->tensor[g->wanted[i].tensor];
        if (input->gradient == 0)
            return MEGA_FAIL(MEGA_ERR_USAGE, "gradient \"%s\": the loss does not depend on input \"%s\"",
                             g->wanted[i].name, input->name);
        graph_tensor *d = &g->tensor[input->gradient];
        if (d->role == ROLE_VALUE) d->is_output = true;
        MEGA_TRY(mega_graph_name_add(g, &g->named, &g->num_named, g->wanted[i].name, input->gradient));
    }
    return MEGA_OK;
}

void mega_graph_drop_marks(mega_graph *g)
{
    int kept = 0, forward = 0;
    for (int i = 0; i < g->num_ops; i++) {
        if (g->op[i].kind == OP_COPY_TO_GROUP) continue;
        forward += i < g->num_forward;
        g->op[kept++] = g->op[i];
    }
    g->num_ops = kept;
    g->num_forward = forward;
}

mega_status mega_pass_differentiate(mega_graph *g)
{
    if (g->num_seeds == 0)
        return MEGA_FAIL(MEGA_ERR_USAGE, "graph: nothing to differentiate; expected a head with gradient, or "
                                         "mega_graph_seed_gradient");
    mark_needed(g);
    g->in_backward = true;
    for (int i = 0; i < g->num_seeds; i += 2) mega_graph_gradient_add(g, g->seed[i].tensor, g->seed[i + 1].tensor);
    for (int i = g->num_forward - 1; i >= 0 && g->status == MEGA_OK; i--) differentiate_op(g, i);
    g->in_backward = false;
    g->region = 0;
    g->scope[0] = '\0';
    g->scope_text = NULL;
    MEGA_TRY(mega_graph_status(g));
    return name_wanted(g);
}
