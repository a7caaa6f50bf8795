/* Named losses and metrics: their declaration in a model, and the gradients with which differentiation starts. */
#include "edit_impl.h"
#include "megalith/builder.h"
#include "program_impl.h"

#include <math.h>
#include <string.h>

/* ---- describe ---- */

static mega_status check_scalar(const mega_graph *g, const char *name, const char *what, mega_tensor t)
{
    const tensor_shape expected = mega_shape_1d(g->acc, 1);
    char a[96], b[96];
    if (t.id <= 0 || t.id >= g->num_tensors || g->tensor[t.id].role != ROLE_VALUE)
        return MEGA_MISTAKE("loss \"%s\" in \"%s\": its %s is not a value that the program computes; pass what "
                            "mega_sum or another loss of layers.h returns",
                            name, g->scope.path, what);
    if (mega_shape_equal(&g->tensor[t.id].shape, &expected)) return MEGA_OK;
    return MEGA_MISTAKE("loss \"%s\" in \"%s\": its %s is %s; expected %s, a sum over the micro-batch such as "
                        "mega_sum returns",
                        name, g->scope.path, what, mega_shape_text(a, sizeof a, &g->tensor[t.id].shape),
                        mega_shape_text(b, sizeof b, &expected));
}

static graph_loss *loss_named(mega_graph *g, const char *name)
{
    for (int i = 0; i < g->results.num_losses; i++)
        if (strcmp(g->results.loss[i].name, name) == 0) return &g->results.loss[i];
    return NULL;
}

static mega_status check_loss(mega_graph *g, const char *name, mega_loss loss, double coefficient, bool is_of_layers)
{
    if (name == NULL || name[0] == '\0' || strlen(name) >= MEGA_LOSS_NAME)
        return MEGA_MISTAKE("loss \"%.20s\" in \"%s\": its name has %zu characters; expected 1 to %d",
                            name == NULL ? "" : name, g->scope.path, name == NULL ? 0 : strlen(name),
                            MEGA_LOSS_NAME - 1);
    MEGA_TRY(mega_graph_check_name(g->scope.path, "a loss", name));
    const graph_loss *same = loss_named(g, name);
    if (same != NULL && !(same->is_of_layers && is_of_layers))
        return MEGA_MISTAKE("loss \"%s\" in \"%s\": the name is declared twice, first in \"%s\"; give each loss and "
                            "metric a name of its own",
                            name, g->scope.path, same->scope);
    if (same != NULL && (same->coefficient < coefficient || same->coefficient > coefficient))
        return MEGA_MISTAKE("loss \"%s\" in \"%s\": its coefficient is %g, in \"%s\" it is %g; a loss of several "
                            "layers has one",
                            name, g->scope.path, coefficient, same->scope, same->coefficient);
    if (same == NULL && g->results.num_losses == MEGA_METRICS)
        return MEGA_MISTAKE("loss \"%s\" in \"%s\": the model has more than %d losses and metrics", name, g->scope.path,
                            MEGA_METRICS);
    if (!isfinite(coefficient))
        return MEGA_MISTAKE("loss \"%s\" in \"%s\": its coefficient is %g; expected a finite number, 0 for a metric",
                            name, g->scope.path, isnan(coefficient) ? fabs(coefficient) : coefficient);
    MEGA_TRY(check_scalar(g, name, "sum", loss.sum));
    return check_scalar(g, name, "weight", loss.weight);
}

static void declare_loss(mega_graph *g, const char *name, mega_loss loss, double coefficient, bool is_of_layers)
{
    if (g->status != MEGA_OK) return;
    mega_graph_fail(g, check_loss(g, name, loss, coefficient, is_of_layers));
    if (g->status != MEGA_OK) return;
    graph_loss *same = loss_named(g, name);
    if (same != NULL) {
        g->tensor[same->sum].is_output = false;
        same->sum = mega_op_add(g, (mega_tensor){same->sum}, loss.sum).id;
        g->tensor[same->sum].is_output = true;
        return;
    }
    const graph_loss l = {.name = mega_arena_strdup(&g->arena, name),
                          .scope = mega_arena_strdup(&g->arena, g->scope.path),
                          .coefficient = coefficient,
                          .sum = loss.sum.id,
                          .weight = loss.weight.id,
                          .is_of_layers = is_of_layers};
    if (l.name == NULL || l.scope == NULL) {
        mega_graph_fail(g, MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory for the name of loss \"%s\"", name));
        return;
    }
    g->tensor[l.sum].is_output = g->tensor[l.weight].is_output = true;
    g->results.loss[g->results.num_losses++] = l;
}

void mega_graph_loss(mega_graph *g, const char *name, mega_loss loss, double coefficient)
{
    declare_loss(g, name, loss, coefficient, false);
}

void mega_loss_add(const mega_builder *b, const char *name, mega_loss loss, double coefficient)
{
    declare_loss(b->graph, name, loss, coefficient, false);
}

void mega_layer_loss_add(const mega_builder *b, const char *name, mega_loss loss, double coefficient)
{
    declare_loss(b->graph, name, loss, coefficient, true);
}

/* ---- differentiate ---- */

/* Returns whether the sum of a loss is that of mega_accuracy, the number of rows whose prediction is right. */
static bool is_accuracy(const mega_graph *g, const graph_loss *l)
{
    int32_t t = l->sum;
    for (int i = g->num_ops - 1; i >= 0; i--) {
        const instruction *op = &g->op[i];
        if (op->out[0] != t) continue;
        if (op->kind != OP_MASKED_SUM) return op->kind == OP_ACCURACY;
        t = op->in[MASKED_SUM_X];
    }
    return false;
}

static mega_status check_trained(const mega_graph *g, const graph_loss *l)
{
    if (l->coefficient == 0) return MEGA_OK;
    if (is_accuracy(g, l))
        return MEGA_MISTAKE(
            "loss \"%s\" in \"%s\": accuracy has no gradient, so that it cannot be trained; declare it with "
            "coefficient 0, as a metric",
            l->name, l->scope);
    if (!g->tensor[l->sum].needs_gradient)
        return MEGA_MISTAKE(
            "loss \"%s\" in \"%s\" depends on no parameter, so that it cannot be trained; declare it with "
            "coefficient 0, as a metric",
            l->name, l->scope);
    if (g->tensor[l->weight].needs_gradient)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "loss \"%s\" in \"%s\": its weight depends on a parameter, and no gradient passes through a "
                         "weight; pass a weight that depends on inputs alone",
                         l->name, l->scope);
    return MEGA_OK;
}

/* Checks that a weight which the head does not compute itself is computed before the first chunk of the head. */
static mega_status check_weight(const mega_graph *g, const graph_head *h, const graph_loss *l)
{
    for (int i = 0; i < h->end_op; i++)
        for (int k = 0; k < OP_MAX_OUT; k++)
            if (g->op[i].out[k] == l->weight && i <= h->first_op) return MEGA_OK;
    return MEGA_MISTAKE(
        "loss \"%s\" in \"%s\": its weight is computed after the head, which divides its gradient by it; "
        "describe the weight before the head",
        l->name, l->scope);
}

/* Gives a head the sum of the coefficients of all losses that use it, or removes its gradient if that is 0. */
static mega_status settle_head(mega_graph *g, graph_head *h)
{
    const graph_loss *found = NULL;
    double coefficient = 0;
    for (int i = 0; i < g->results.num_losses; i++) {
        const graph_loss *l = &g->results.loss[i];
        if (l->sum != h->loss_sum) continue;
        if (found != NULL && found->weight != l->weight)
            return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                             "losses \"%s\" and \"%s\" divide the sum of one head by two weights; give each a head of "
                             "its own",
                             found->name, l->name);
        found = l;
        coefficient += l->coefficient;
    }
    if (found == NULL)
        return MEGA_MISTAKE("head in \"%s\": it makes a gradient, but its loss has no name; declare the loss with "
                            "mega_loss_add, with coefficient 0 if it is a metric",
                            h->scope);
    if (coefficient == 0) {
        mega_head_drop_gradient(g, h);
        h->dx = 0;
        return MEGA_OK;
    }
    MEGA_TRY(check_weight(g, h, found));
    mega_head_set_loss(g, h, coefficient, g->results.per_token_loss ? 0 : found->weight);
    return MEGA_OK;
}

static bool is_of_head(const mega_graph *g, const graph_loss *l)
{
    for (int i = 0; i < g->results.num_heads; i++)
        if (g->results.head[i].loss_sum == l->sum) return true;
    return false;
}

mega_status mega_losses_settle(mega_graph *g)
{
    for (int i = 0; i < g->results.num_losses; i++) MEGA_TRY(check_trained(g, &g->results.loss[i]));
    for (int i = 0; i < g->results.num_heads; i++) MEGA_TRY(settle_head(g, &g->results.head[i]));
    if (g->results.num_heads > 0) mega_edit_compact(g); /* this invalidates first_op and end_op of the heads */
    return MEGA_OK;
}

mega_status mega_losses_seed(mega_graph *g)
{
    for (int i = 0; i < g->results.num_heads; i++)
        mega_graph_gradient_add(g, g->results.head[i].x, g->results.head[i].dx);
    for (int i = 0; i < g->results.num_losses; i++) {
        const graph_loss *l = &g->results.loss[i];
        if (l->coefficient == 0 || is_of_head(g, l)) continue;
        instruction op = {.kind = OP_LOSS_SEED, .in = {g->results.per_token_loss ? 0 : l->weight}};
        op.attr.factor = l->coefficient;
        op.attr.what = l->name;
        mega_graph_gradient_add(g, l->sum, mega_graph_emit(g, &op).id);
    }
    return mega_graph_status(g);
}

/* ---- program ---- */

bool mega_program_loss_get(const mega_program *p, int number, int slot, mega_program_loss *out)
{
    if (number < 0 || number >= p->g->results.num_losses || mega_program_check_slot(p, slot) != MEGA_OK) return false;
    const graph_loss *l = &p->g->results.loss[number];
    *out = (mega_program_loss){.name = l->name, .coefficient = l->coefficient, .is_of_layers = l->is_of_layers};
    if (p->call == NULL) return true;
    out->sum = mega_program_address(p, l->sum, slot);
    out->weight = mega_program_address(p, l->weight, slot);
    return true;
}
