/* schedule: moves each collective to the earliest point at which its input is ready, and finds the latest point at
 * which the program must wait for it. Nothing else moves. The instructions in between overlap with the collective. */
#include "edit_impl.h"
#include "uses_impl.h"

static bool writes(const mega_graph *g, const instruction *op, int32_t root)
{
    for (int k = 0; k < OP_MAX_OUT; k++)
        if (op->out[k] != 0 && mega_graph_root(g, op->out[k]) == root) return true;
    return false;
}

/* Moves collective i up to just after the instruction that computes its inputs. Collectives keep their relative order,
 * because every rank must start them in the same order. */
static void start_early(mega_graph *g, int i)
{
    const int32_t input = mega_graph_root(g, g->op[i].in[0]), other = mega_graph_root(g, g->op[i].in[1]);
    int at = i;
    while (at > 0 && g->op[at - 1].backward == g->op[i].backward && !mega_op_is_collective(g->op[at - 1].kind) &&
           !writes(g, &g->op[at - 1], input) && (other == 0 || !writes(g, &g->op[at - 1], other)))
        at--;
    mega_edit_move_up(g, i, at);
}

/* Returns the first instruction after i that reads its result; -1: none. */
static int first_read_after(const mega_graph *g, const graph_uses *u, int i)
{
    const use_list reads = mega_uses_reads(u, mega_graph_root(g, g->op[i].out[0]));
    for (int k = 0; k < reads.count; k++)
        if (reads.use[k].op > i) return reads.use[k].op;
    return -1;
}

mega_status mega_pass_schedule(mega_graph *g)
{
    for (int i = 0; i < g->num_ops; i++)
        if (mega_op_is_collective(g->op[i].kind)) start_early(g, i);
    graph_uses uses;
    const mega_status st = mega_uses_find(g, &uses);
    for (int i = 0; i < g->num_ops && st == MEGA_OK; i++)
        if (mega_op_is_collective(g->op[i].kind)) g->op[i].first_use = first_read_after(g, &uses, i);
    mega_uses_fini(&uses);
    return st;
}
