/* schedule: moves each collective to the earliest point at which its input is ready, and finds the latest point at
 * which the program must wait for it. Nothing else moves. The instructions in between overlap with the collective. */
#include "graph_impl.h"

#include <string.h>

static bool reads(const mega_graph *g, const instruction *op, int32_t root)
{
    for (int k = 0; k < OP_MAX_IN; k++)
        if (op->in[k] != 0 && mega_graph_root(g, op->in[k]) == root) return true;
    return false;
}

static bool writes(const mega_graph *g, const instruction *op, int32_t root)
{
    for (int k = 0; k < OP_MAX_OUT; k++)
        if (op->out[k] != 0 && mega_graph_root(g, op->out[k]) == root) return true;
    return false;
}

/* Moves collective i up to just after the instruction that computes its input. Collectives keep their relative order,
 * because every rank must start them in the same order. */
static void start_early(mega_graph *g, int i)
{
    const instruction op = g->op[i];
    const int32_t input = mega_graph_root(g, op.in[0]);
    int at = i;
    while (at > 0 && g->op[at - 1].backward == op.backward && !mega_op_is_collective(g->op[at - 1].kind) &&
           !writes(g, &g->op[at - 1], input))
        at--;
    memmove(&g->op[at + 1], &g->op[at], (size_t)(i - at) * sizeof op);
    g->op[at] = op;
}

mega_status mega_pass_schedule(mega_graph *g)
{
    for (int i = 0; i < g->num_ops; i++)
        if (mega_op_is_collective(g->op[i].kind)) start_early(g, i);
    for (int i = 0; i < g->num_ops; i++) {
        if (!mega_op_is_collective(g->op[i].kind)) continue;
        const int32_t output = mega_graph_root(g, g->op[i].out[0]);
        g->op[i].first_use = -1;
        for (int k = i + 1; k < g->num_ops && g->op[i].first_use < 0; k++)
            if (reads(g, &g->op[k], output)) g->op[i].first_use = k;
    }
    return MEGA_OK;
}
