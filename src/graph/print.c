/* Writes the program as a table for people to read and to compare with diff. */
#include "program_impl.h"

#include <stdio.h>
#include <string.h>

/* Returns the number of the first result that is present; it represents the instruction. */
static int first_result(const instruction *op)
{
    int k = 0;
    while (op->out[k] == 0 && k + 1 < OP_MAX_OUT) k++;
    return k;
}

/* Returns that result as a tensor, or operand 0 of an instruction that has no result because it works in place. */
static int32_t result_of(const instruction *op)
{
    const int32_t out = op->out[first_result(op)];
    return out != 0 ? out : op->in[0];
}

typedef struct widths {
    int result, shape;
} widths;

static const char *shape_of(const mega_graph *g, int32_t t, char *out, int size)
{
    return mega_graph_shape_text(out, size, g, t);
}

static widths print_measure(const mega_graph *g)
{
    widths w = {6, 5};
    char text[96];
    for (int i = 0; i < g->num_ops; i++) {
        const int name = (int)strlen(g->tensor[result_of(&g->op[i])].name);
        const int shape = (int)strlen(shape_of(g, result_of(&g->op[i]), text, sizeof text));
        if (name > w.result) w.result = name;
        if (shape > w.shape) w.shape = shape;
    }
    return w;
}

/* Writes the area and the offset in it in MB, such as "saved+12.6". */
static void print_place(const mega_program *p, int32_t t, mega_buffer *out)
{
    static const char *const area[] = {[AREA_NONE] = "–", [AREA_SCRATCH] = "scratch", [AREA_SAVED] = "saved",
                                       [AREA_IO] = "io",  [AREA_PASS] = "passing",    [AREA_STATE] = "state"};
    _Static_assert(sizeof area / sizeof *area == NUM_AREAS, "every area has a name");
    const mega_graph *g = p->g;
    char text[32];
    const graph_tensor *x = &g->tensor[mega_graph_root(g, t)];
    if (x->role == ROLE_GRADIENT || t == 0) {
        snprintf(text, sizeof text, "gradients");
    } else {
        size_t at = x->at;
        if (g->tensor[t].base != 0) at += (size_t)g->tensor[t].offset * mega_dtype_size(x->shape.dtype);
        snprintf(text, sizeof text, "%s+%.2f", area[x->area], (double)at * 1e-6);
    }
    mega_buffer_printf(out, "  %-16s", text);
}

static void print_overlap(const instruction *op, int i, mega_buffer *out)
{
    if (mega_op_is_collective(op->kind) && op->first_use > i)
        mega_buffer_printf(out, "  start %d, wait %d", i, op->first_use);
    if (mega_op_is_bucket(op->kind)) mega_buffer_printf(out, "  bucket %d", op->attr.bucket);
    if (op->recomputed) mega_buffer_puts(out, "  again");
}

static void print_instruction(const mega_program *p, int i, const widths *w, mega_buffer *out)
{
    const mega_graph *g = p->g;
    const instruction *op = &g->op[i];
    const op_cost c = mega_op_cost(g, op);
    const int main_result = first_result(op);
    const int32_t result = result_of(op);
    char name[48], shape[96], flops[24];
    const bool named = mega_op_is_collective(op->kind) && op->attr.axis.comm != NULL;
    snprintf(name, sizeof name, "%s%s%s", mega_op_table[op->kind]->name, named ? " " : "",
             named ? mega_comm_name(op->attr.axis.comm) : "");
    if (c.flops > 0.0) snprintf(flops, sizeof flops, "%8.3f", c.flops * 1e-9);
    else
        snprintf(flops, sizeof flops, "       –");
    mega_buffer_printf(out, "%4d  %-17s %-*s  %-*s  %s  %8.2f", i, name, w->result, g->tensor[result].name, w->shape,
                       shape_of(g, result, shape, sizeof shape), flops, c.bytes * 1e-6);
    print_place(p, result, out);
    for (int k = 0; k < OP_MAX_IN; k++)
        if (op->in[k] != 0 && op->in[k] != result) mega_buffer_printf(out, " %s", g->tensor[op->in[k]].name);
    for (int k = main_result + 1; k < OP_MAX_OUT; k++)
        if (op->out[k] != 0) mega_buffer_printf(out, " → %s", g->tensor[op->out[k]].name);
    print_overlap(op, i, out);
    mega_buffer_puts(out, "\n");
}

static void print_phase(const mega_program *p, bool backward, mega_buffer *out)
{
    const mega_graph *g = p->g;
    const int begin = backward ? g->num_forward : 0, end = backward ? g->num_ops : g->num_forward;
    const widths w = print_measure(g);
    mega_program_memory m;
    if (begin == end) return;
    mega_program_memory_get(p, &m);
    mega_buffer_printf(
        out, "%s · %s · %s · saved %.2f MB a micro-batch · scratch %.2f MB · %d micro-batch%s in flight\n",
        backward ? "backward" : "forward", p->name, mega_dtype_name(g->dtype), (double)m.saved_bytes * 1e-6,
        (double)m.scratch_bytes * 1e-6, p->slots, p->slots == 1 ? "" : "es");
    mega_buffer_printf(out, "%4s  %-17s %-*s  %-*s  %8s  %8s  %-16s %s\n", "#", "op", w.result, "result", w.shape,
                       "shape", "GFLOP", "MB", "where", "reads → other results");
    for (int i = begin; i < end; i++) print_instruction(p, i, &w, out);
}

mega_status mega_program_print(const mega_program *p, mega_buffer *out)
{
    if (p == NULL || out == NULL)
        return MEGA_MISTAKE("mega_program_print: %s is NULL; give it", p == NULL ? "the program" : "out");
    mega_graph_find_cuts(p->g);
    print_phase(p, false, out);
    print_phase(p, true, out);
    mega_program_cost c;
    mega_program_cost_get(p, &c);
    mega_buffer_printf(out, "forward %.3f GFLOP, backward %.3f, recomputed %.3f; %.1f MB read and written\n",
                       c.forward_flops * 1e-9, c.backward_flops * 1e-9, c.recompute_flops * 1e-9, c.bytes * 1e-6);
    return mega_buffer_check(out, "the printed program");
}
