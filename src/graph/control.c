/* What kernels read besides tensors: the step block, the lengths of the caches, and the tables of numbers of some ops.
 * The caller and the graph have them in host memory; a program keeps copies in device memory, which kernels are given.
 * The tables are written once, the others before each run. */
#include "megalith/device_memory.h"
#include "program_impl.h"

#include <string.h>

static size_t control_round_up(size_t n)
{
    return (n + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

/* ---- tables: rope has its frequencies ---- */

static size_t table_bytes(const instruction *op)
{
    return op->kind == OP_ROPE ? (size_t)(op->attr.rope.rotated / 2) * sizeof(float) : 0;
}

/* Returns the first instruction with the table of instruction i: itself, if there is none before. */
static int owner_of_table(const mega_graph *g, int i)
{
    const float *table = g->op[i].attr.rope.frequency;
    for (int k = 0; k < i; k++) {
        const instruction *op = &g->op[k];
        if (table_bytes(op) == table_bytes(&g->op[i]) && op->kind == OP_ROPE &&
            memcmp(op->attr.rope.frequency, table, table_bytes(op)) == 0)
            return k;
    }
    return i;
}

void mega_control_plan(mega_program *p)
{
    mega_graph *g = p->g;
    p->control_bytes = control_round_up(sizeof p->step);
    for (int i = 0; i < g->num_ops; i++)
        if (g->op[i].kind == OP_ATTENTION_CACHED && g->op[i].attr.attention.batch > p->num_lengths)
            p->num_lengths = g->op[i].attr.attention.batch;
    p->control_bytes += control_round_up((size_t)p->num_lengths * sizeof(int32_t));
    for (int i = 0; i < g->num_ops; i++) {
        instruction *op = &g->op[i];
        if (table_bytes(op) == 0) continue;
        const int owner = owner_of_table(g, i);
        op->table_at = owner == i ? p->control_bytes : g->op[owner].table_at;
        if (owner == i) p->control_bytes += control_round_up(table_bytes(op));
    }
}

const void *mega_control_table(const op_binder *b, const instruction *op)
{
    const mega_program *p = b->user;
    return p->control + op->table_at;
}

void mega_program_write_tables(mega_program *p)
{
    for (int i = 0; i < p->g->num_ops; i++) {
        const instruction *op = &p->g->op[i];
        if (table_bytes(op) > 0) mega_device_write(p->control + op->table_at, op->attr.rope.frequency, table_bytes(op));
    }
}

/* ---- the step block ---- */

const mega_step_block *mega_control_step(const mega_program *p)
{
    return (const mega_step_block *)(const void *)p->control;
}

void mega_control_write(mega_program *p)
{
    mega_step_block step = p->step;
    p->queue.first_micro_batch = step.first_micro_batch;
    step.kv_length = NULL;
    if (p->num_lengths > 0 && p->step.kv_length != NULL) {
        char *lengths = p->control + control_round_up(sizeof step);
        mega_device_write(lengths, p->step.kv_length, (size_t)p->num_lengths * sizeof *step.kv_length);
        step.kv_length = (const int32_t *)(const void *)lengths;
    }
    mega_device_write(p->control, &step, sizeof step);
}
