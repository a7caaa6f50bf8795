/* plan: weights that stay packed through the micro-batches of a step. GEMMs that read one weight in one orientation
 * (the chunks of a head, a forward and its recomputation) share one packed copy, which the first of them writes. */
#include "program_impl.h"

#include <assert.h>
#include <string.h>

/* Operand number of the weight in both linear and linear_grad_x. Their kernel (GEMM) is the only one that packs an
 * operand. */
enum { PACKED_OPERAND = LINEAR_WEIGHT };
static_assert((int)LINEAR_WEIGHT == (int)LINEAR_GRAD_X_WEIGHT, "one number for both");

/* Returns the first instruction before `end` that packs the same operand as instruction `end`; -1: none. */
static int packed_before(const mega_graph *g, int end)
{
    const instruction *op = &g->op[end];
    for (int i = 0; i < end; i++)
        if (g->op[i].fills_packed && g->op[i].kind == op->kind && g->op[i].in[PACKED_OPERAND] == op->in[PACKED_OPERAND])
            return i;
    return -1;
}

static int products_with(const mega_graph *g, const instruction *op)
{
    int count = 0;
    for (int i = 0; i < g->num_ops; i++)
        count +=
            !g->op[i].recomputed && g->op[i].kind == op->kind && g->op[i].in[PACKED_OPERAND] == op->in[PACKED_OPERAND];
    return count;
}

static void packed_place(mega_program *p, int i, void *args)
{
    instruction *op = &p->g->op[i];
    const mega_kernel *kernel = mega_program_kernel(p, op);
    if (kernel == NULL || kernel->packed == NULL || p->g->tensor[op->in[PACKED_OPERAND]].role != ROLE_WEIGHT) return;
    const int first = packed_before(p->g, i);
    if (first >= 0) {
        op->packed_at = p->g->op[first].packed_at;
        op->packed_bytes = p->g->op[first].packed_bytes;
        return;
    }
    if (products_with(p->g, op) < p->pack_weights) return;
    const op_binder b = {.g = p->g, .address = mega_plan_address, .table = mega_plan_table};
    memset(args, 0, PROGRAM_ARGS_BYTES);
    mega_program_bind_args(p, &b, op, args);
    op->packed_bytes = kernel->packed(args);
    op->fills_packed = op->packed_bytes > 0;
    op->packed_at = p->packed_bytes;
    p->packed_bytes += (op->packed_bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

mega_status mega_plan_packed(mega_program *p)
{
    if (p->pack_weights == 0) return MEGA_OK;
    void *args = mega_malloc(PROGRAM_ARGS_BYTES);
    if (args == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "program %s: no memory to plan it", p->name);
    for (int i = 0; i < p->g->num_ops; i++) packed_place(p, i, args);
    mega_free(args);
    return MEGA_OK;
}
