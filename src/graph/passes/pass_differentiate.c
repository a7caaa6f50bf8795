/* differentiate: walks the forward instructions in reverse and calls the gradient rule of each op, which appends its
 * backward. If a value has several uses, an add sums their gradients. The instruction that computes the gradient of a
 * weight adds it directly to the buffer of the parameter. */
#include "edit_impl.h"

#include <stdio.h>

/* Returns the tensor whose gradient a use of `t` contributes to: for a view, the whole tensor. */
static int32_t gradient_receiver(const mega_graph *g, int32_t t)
{
    return g->tensor[t].rows_of != 0 ? g->tensor[t].rows_of : t;
}

/* Trained parameters need a gradient, and so does every value that depends on one or on an input whose gradient is
 * requested; but not integers, such as the experts that a router chooses, and not what decides that choice. */
void mega_graph_mark_needed(mega_graph *g)
{
    for (int t = 1; t < g->num_tensors; t++)
        if (g->tensor[t].role == ROLE_WEIGHT)
            g->tensor[t].needs_gradient = mega_param_is_trained(mega_params_get(g->params, g->tensor[t].param));
    for (int i = 0; i < g->num_ops; i++) {
        const instruction *op = &g->op[i];
        bool needed = false;
        if (mega_op_table[op->kind]->is_constant) continue;
        for (int k = 0; k < OP_MAX_IN; k++)
            needed = needed || g->tensor[gradient_receiver(g, op->in[k])].needs_gradient;
        for (int k = 0; k < OP_MAX_OUT && needed; k++)
            if (op->out[k] != 0 && g->tensor[op->out[k]].shape.dtype != MEGA_I32)
                g->tensor[gradient_receiver(g, op->out[k])].needs_gradient = true;
    }
    for (int t = 1; t < g->num_tensors; t++)
        if (g->tensor[t].rows_of != 0) g->tensor[t].needs_gradient = g->tensor[g->tensor[t].rows_of].needs_gradient;
}

static bool gradient_arrived(const mega_graph *g, const instruction *op)
{
    for (int k = 0; k < OP_MAX_OUT; k++)
        if (op->out[k] != 0 && g->tensor[gradient_receiver(g, op->out[k])].gradient != 0) return true;
    return false;
}

static bool adds_to(const mega_graph *g, int from, int32_t gradient)
{
    for (int i = from; i < g->num_ops; i++)
        for (int k = 0; k < OP_MAX_OUT; k++)
            if (g->op[i].out[k] != 0 && g->op[i].out[k] == gradient) return true;
    return false;
}

/* Runs the rule of one op and checks its result: a rule that omits an operand would silently cut off the backward
 * pass. */
static mega_status run_rule(mega_graph *g, const instruction *op)
{
    const op_row *row = mega_op_table[op->kind];
    const int first = g->num_ops;
    int32_t before[OP_MAX_IN];
    for (int k = 0; k < row->num_in; k++) before[k] = g->tensor[gradient_receiver(g, op->in[k])].gradient;
    row->gradient(g, op);
    MEGA_TRY(mega_graph_status(g));
    for (int k = 0; k < row->num_in; k++) {
        const graph_tensor *t = &g->tensor[gradient_receiver(g, op->in[k])];
        const bool is_given =
            t->role == ROLE_WEIGHT ? adds_to(g, first, g->weights.gradient[t->param]) : t->gradient != before[k];
        if (t->needs_gradient && !is_given)
            return MEGA_FAIL(
                MEGA_ERR_UNSUPPORTED,
                "op %s in \"%s\" gives no gradient to operand %d, %s, which needs one; pass a tensor there "
                "that depends on no parameter",
                row->name, op->scope, k, t->name);
    }
    return MEGA_OK;
}

static void differentiate_op(mega_graph *g, int i)
{
    const instruction op = g->op[i]; /* a copy, because rules append and the array may move */
    const op_row *row = mega_op_table[op.kind];
    const bool has_arrived = gradient_arrived(g, &op);
    if (!has_arrived && row->always == NULL) return;
    snprintf(g->scope.path, sizeof g->scope.path, "%s", op.scope);
    g->scope.stored = op.scope;
    g->regions.open = op.region;
    if (row->always != NULL) row->always(g, &op);
    if (!has_arrived || g->status != MEGA_OK) return;
    if (row->gradient == NULL) {
        mega_graph_fail(g, MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                                     "op %s in \"%s\" has no gradient, but the loss depends on it; use it in programs "
                                     "that are not differentiated",
                                     row->name, op.scope));
        return;
    }
    mega_graph_fail(g, run_rule(g, &op));
}

/* Fails if a mask needs a gradient. No gradient rule could check this for a head, because a head computes its gradients
 * in the forward program. */
static mega_status check_masks(const mega_graph *g)
{
    for (int i = 0; i < g->num_ops; i++) {
        const instruction *op = &g->op[i];
        const graph_tensor *mask = &g->tensor[op->in[MASKED_SUM_MASK]];
        if (op->kind == OP_MASKED_SUM && mask->needs_gradient)
            return MEGA_FAIL(
                MEGA_ERR_UNSUPPORTED,
                "loss in \"%s\": the mask %s depends on a parameter, and no gradient passes through a mask; "
                "pass a mask that depends on no parameter",
                op->scope, mask->name);
    }
    return MEGA_OK;
}

/* Checks that every gradient that the caller gives belongs to a value that needs one. (A head computes its own.) */
static mega_status check_seeds(const mega_graph *g)
{
    for (int i = 0; i < g->names.num_seeds; i += 2) {
        const graph_tensor *t = &g->tensor[gradient_receiver(g, g->names.seed[i].tensor)],
                           *d = &g->tensor[g->names.seed[i + 1].tensor];
        if (d->role == ROLE_INPUT && !t->needs_gradient)
            return MEGA_MISTAKE("gradient \"%s\" is given for %s, which depends on no parameter, and on no input whose "
                                "gradient is wanted; give it for a value that does",
                                d->name, t->name);
    }
    return MEGA_OK;
}

/* Makes the requested gradients of inputs outputs. One that is a view of a gradient (the input is read through a
 * reshape) is copied, because the memory that it shows may be reused before the caller reads it. */
static mega_status name_wanted(mega_graph *g)
{
    for (int i = 0; i < g->names.num_wanted; i++) {
        const graph_tensor input = g->tensor[g->names.wanted[i].tensor];
        int32_t d = input.gradient;
        if (d == 0)
            return MEGA_MISTAKE("gradient \"%s\": the loss does not depend on input \"%s\"", g->names.wanted[i].name,
                                input.name);
        if (g->tensor[d].role == ROLE_VIEW) d = mega_op_scale(g, (mega_tensor){d}, 1.0).id;
        MEGA_TRY(mega_graph_status(g));
        if (g->tensor[d].role == ROLE_VALUE) g->tensor[d].is_output = true;
        MEGA_TRY(mega_graph_name_add(g, &g->names.named, &g->names.num_named, g->names.wanted[i].name, d));
    }
    return MEGA_OK;
}

/* Returns whether an instruction computes nothing but gradients of frozen parameters. */
static bool is_for_frozen(const mega_graph *g, const instruction *op)
{
    int frozen = 0;
    for (int k = 0; k < OP_MAX_OUT; k++) {
        const graph_tensor *t = &g->tensor[op->out[k]];
        if (op->out[k] == 0) continue;
        if (t->role != ROLE_GRADIENT || mega_param_has_gradient(mega_params_get(g->params, t->param))) return false;
        frozen++;
    }
    return frozen > 0;
}

/* Gradient rules do not check whether a parameter is trained, so remove these instructions afterwards; also those of
 * heads, which are in the forward. (The place pass finds memory for a gradient that an instruction computes beside
 * other results.) */
static void drop_gradients_of_frozen(mega_graph *g)
{
    for (int i = 0; i < g->num_ops; i++)
        if (is_for_frozen(g, &g->op[i])) mega_edit_remove(g, i);
    mega_edit_compact(g);
}

void mega_graph_drop_marks(mega_graph *g)
{
    for (int i = 0; i < g->num_ops; i++)
        if (g->op[i].kind == OP_COPY_TO_GROUP) mega_edit_remove(g, i);
    mega_edit_compact(g);
}

static bool has_trained_loss(const mega_graph *g)
{
    for (int i = 0; i < g->results.num_losses; i++)
        if (g->results.loss[i].coefficient != 0) return true;
    return false;
}

mega_status mega_pass_differentiate(mega_graph *g)
{
    mega_graph_mark_needed(g);
    MEGA_TRY(check_masks(g));
    MEGA_TRY(mega_losses_settle(g));
    MEGA_TRY(mega_outputs_seed(g));
    if (g->names.num_seeds == 0 && !has_trained_loss(g))
        return MEGA_MISTAKE("graph: nothing to differentiate; declare a loss with mega_loss_add and a "
                            "coefficient other than 0, or an output with mega_output that depends on a "
                            "parameter");
    MEGA_TRY(check_seeds(g));
    g->in_backward = true;
    MEGA_TRY(mega_losses_seed(g));
    for (int i = 0; i < g->names.num_seeds; i += 2)
        mega_graph_gradient_add(g, g->names.seed[i].tensor, g->names.seed[i + 1].tensor);
    for (int i = g->num_forward - 1; i >= 0 && g->status == MEGA_OK; i--) differentiate_op(g, i);
    g->regions.open = 0;
    g->scope.path[0] = '\0';
    g->scope.stored = NULL;
    MEGA_TRY(mega_graph_status(g));
    const mega_status st = name_wanted(g);
    g->in_backward = false;
    drop_gradients_of_frozen(g);
    return st;
}
