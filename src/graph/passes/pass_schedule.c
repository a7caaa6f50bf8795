/* schedule: moves each collective to the earliest point at which its input is ready, and finds the latest point at
 * which the program must wait for it. The instructions in between overlap with the collective. Instructions that have
 * nothing to do with an exchange of rows of experts, such as those of the MLP beside the experts or the gradients of
 * weights, move between its start and its end. No other instruction moves. */
#include "edit_impl.h"
#include "uses_impl.h"

#include <math.h>
#include <string.h>

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

/* ---- what is computed during an exchange ---- */

/* How many instructions on each side of an exchange are looked at: those of a layer are fewer. */
enum { OVERLAP_WINDOW = 256 };

static bool reads_root(const mega_graph *g, const instruction *op, int32_t root)
{
    for (int k = 0; k < OP_MAX_IN; k++)
        if (op->in[k] != 0 && mega_graph_root(g, op->in[k]) == root) return true;
    return false;
}

static bool changes_root(const mega_graph *g, const instruction *op, int32_t root)
{
    const unsigned mutates = mega_op_table[op->kind]->mutates;
    for (int k = 0; k < OP_MAX_IN; k++)
        if ((mutates >> k & 1) != 0 && op->in[k] != 0 && mega_graph_root(g, op->in[k]) == root) return true;
    return writes(g, op, root);
}

/* Whether b uses or changes what a changes. */
static bool reaches(const mega_graph *g, const instruction *a, const instruction *b)
{
    const unsigned mutates = mega_op_table[a->kind]->mutates;
    for (int k = 0; k < OP_MAX_OUT + OP_MAX_IN; k++) {
        const bool is_out = k < OP_MAX_OUT;
        const int32_t t = is_out ? a->out[k] : a->in[k - OP_MAX_OUT];
        if (t == 0 || (!is_out && (mutates >> (k - OP_MAX_OUT) & 1) == 0)) continue;
        const int32_t root = mega_graph_root(g, t);
        if (reads_root(g, b, root) || changes_root(g, b, root)) return true;
    }
    return false;
}

/* Whether two instructions must keep their order. */
static bool are_ordered(const mega_graph *g, const instruction *a, const instruction *b)
{
    return reaches(g, a, b) || reaches(g, b, a);
}

static bool is_movable(const instruction *op)
{
    return op->kind != OP_NONE && op->kind != OP_CUSTOM && !mega_op_is_collective(op->kind);
}

/* An exchange that takes place in every step, unlike those of later rounds. */
static bool is_first_round(const instruction *op)
{
    return op->kind == OP_ALL_TO_ALL && op->in[1] == 0;
}

/* One of a later round, which seldom takes place: it may come after that of the first. */
static bool is_later_round(const instruction *op)
{
    return op->kind == OP_ALL_TO_ALL && op->in[1] != 0;
}

/* Moves what the exchange i does not need, and what comes before it, behind its start. Returns its new place. */
static int move_rest_behind(mega_graph *g, int i)
{
    int from = i, to;
    while (from > 0 && i - from < OVERLAP_WINDOW && g->op[from - 1].backward == g->op[i].backward &&
           (is_movable(&g->op[from - 1]) || is_later_round(&g->op[from - 1])))
        from--;
    /* what is computed during the collective before stays there */
    if (from > 0 && mega_op_is_collective(g->op[from - 1].kind))
        for (const int before = from - 1; from < i && !are_ordered(g, &g->op[before], &g->op[from]);) from++;
    bool is_needed[OVERLAP_WINDOW];
    for (int k = i - 1; k >= from; k--) {
        is_needed[k - from] = are_ordered(g, &g->op[k], &g->op[i]);
        for (int j = k + 1; j < i && !is_needed[k - from]; j++)
            is_needed[k - from] = is_needed[j - from] && are_ordered(g, &g->op[k], &g->op[j]);
    }
    to = from;
    for (int k = from; k < i; k++)
        if (is_needed[k - from]) mega_edit_move_up(g, k, to++);
    mega_edit_move_up(g, i, to);
    return to;
}

/* Time, in the bytes that are read and written meanwhile: a core computes some eight operations while it reads one. */
static double time_of(const mega_graph *g, const instruction *op)
{
    const op_cost c = mega_op_cost(g, op);
    return c.bytes + c.flops / 8.0;
}

/* Returns the first instruction after the exchange i that must come after it. */
static int first_bound(const mega_graph *g, int i)
{
    int at = i + 1;
    while (at < g->num_ops && !are_ordered(g, &g->op[i], &g->op[at])) at++;
    return at;
}

/* Marks the instructions from `first` on that depend neither on the exchange i nor on one of these that does. */
static double find_free(const mega_graph *g, int i, int first, bool is_free[OVERLAP_WINDOW])
{
    double time = 0.0;
    for (int k = first; k < g->num_ops && k - first < OVERLAP_WINDOW; k++) {
        const instruction *op = &g->op[k];
        if (op->backward != g->op[i].backward) break;
        is_free[k - first] = is_movable(op) && op->region == g->op[i].region && !are_ordered(g, &g->op[i], op);
        for (int j = first; j < k && is_free[k - first]; j++)
            is_free[k - first] = is_free[j - first] || !are_ordered(g, &g->op[j], op);
        if (is_free[k - first]) time += time_of(g, op);
    }
    return time;
}

/* Whether the same layer exchanges again after i. */
static bool has_next_exchange(const mega_graph *g, int i)
{
    for (int k = i + 1; k < g->num_ops && k < i + OVERLAP_WINDOW && g->op[k].backward == g->op[i].backward; k++)
        if (is_first_round(&g->op[k])) return strcmp(g->op[k].scope, g->op[i].scope) == 0;
    return false;
}

/* What can be computed during both exchanges of a layer is divided between them: as near to half as it goes. */
static void overlap_exchange(mega_graph *g, int i)
{
    i = move_rest_behind(g, i);
    const int first = first_bound(g, i);
    bool is_free[OVERLAP_WINDOW] = {false};
    const double all = find_free(g, i, first, is_free), most = has_next_exchange(g, i) ? all / 2.0 : INFINITY;
    double time = 0.0;
    for (int k = first, at = first; k < g->num_ops && k - first < OVERLAP_WINDOW; k++) {
        if (!is_free[k - first]) continue;
        const double more = time_of(g, &g->op[k]);
        if (time + more / 2.0 > most) return;
        time += more;
        mega_edit_move_up(g, k, at++);
    }
}

/* ---- the pass ---- */

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
    for (int i = 0; i < g->num_ops; i++)
        if (is_first_round(&g->op[i])) overlap_exchange(g, i);
    graph_uses uses;
    const mega_status st = mega_uses_find(g, &uses);
    for (int i = 0; i < g->num_ops && st == MEGA_OK; i++)
        if (mega_op_is_collective(g->op[i].kind)) g->op[i].first_use = first_read_after(g, &uses, i);
    mega_uses_fini(&uses);
    return st;
}
