/* Changes of the list of instructions (edit_impl.h). */
#include "edit_impl.h"

#include <stdlib.h>
#include <string.h>

mega_status mega_edit_insert(graph_edit *e, int before, const instruction *op)
{
    if (!mega_array_reserve(&e->list, &e->capacity, e->count + 1, sizeof *e->list))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory for %d instructions", e->count + 1);
    e->list[e->count] = (insertion){before, e->count, *op};
    e->count++;
    return MEGA_OK;
}

/* Between the last instruction of the forward and the first of the backward, those of the forward come first. */
static int by_place(const void *a, const void *b)
{
    const insertion *x = a, *y = b;
    if (x->before != y->before) return x->before < y->before ? -1 : 1;
    if (x->op.backward != y->op.backward) return x->op.backward ? 1 : -1;
    return (x->order > y->order) - (x->order < y->order);
}

/* moved: by old number of an instruction, its new one. */
static void edit_renumber(mega_graph *g, const int *moved)
{
    g->num_forward = 0;
    for (int i = 0; i < g->num_ops; i++) {
        g->num_forward += !g->op[i].backward;
        if (g->op[i].first_use >= 0) g->op[i].first_use = moved[g->op[i].first_use];
    }
    for (int b = 0; g->buckets.ready != NULL && b < mega_params_num_buckets(g->params); b++)
        if (g->buckets.ready[b] >= 0) g->buckets.ready[b] = moved[g->buckets.ready[b]];
}

mega_status mega_edit_apply(graph_edit *e, mega_graph *g)
{
    const int old = g->num_ops, all = old + e->count;
    if (e->count == 0) return MEGA_OK;
    instruction *op = mega_malloc(((size_t)all + 1) * sizeof *op);
    int *moved = mega_malloc(((size_t)old + 1) * sizeof *moved);
    if (op == NULL || moved == NULL) {
        MEGA_FREE(op, moved);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory for %d instructions", all);
    }
    qsort(e->list, (size_t)e->count, sizeof *e->list, by_place);
    int to = 0, next = 0;
    for (int i = 0; i <= old; i++) {
        for (; next < e->count && e->list[next].before == i; next++) op[to++] = e->list[next].op;
        moved[i] = to;
        if (i < old) op[to++] = g->op[i];
    }
    mega_free(g->op);
    g->op = op;
    g->num_ops = all;
    g->cap_ops = all + 1;
    edit_renumber(g, moved);
    mega_free(moved);
    e->count = 0;
    return MEGA_OK;
}

void mega_edit_fini(graph_edit *e)
{
    mega_free(e->list);
    *e = (graph_edit){0};
}

void mega_edit_move_up(mega_graph *g, int from, int to)
{
    const instruction op = g->op[from];
    memmove(&g->op[to + 1], &g->op[to], (size_t)(from - to) * sizeof op);
    g->op[to] = op;
}

void mega_edit_remove(mega_graph *g, int i)
{
    g->op[i] = (instruction){.kind = OP_NONE, .backward = g->op[i].backward, .first_use = -1};
}

void mega_edit_compact(mega_graph *g)
{
    int kept = 0, forward = 0;
    for (int i = 0; i < g->num_ops; i++) {
        if (g->op[i].kind == OP_NONE) continue;
        forward += i < g->num_forward;
        g->op[kept++] = g->op[i];
    }
    g->num_ops = kept;
    g->num_forward = forward;
}
