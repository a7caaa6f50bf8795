/* begin: lets the first instruction of a step that contributes to a gradient overwrite it, which saves zeroing and one
 * read. If the gradient is in a bucket that is alive for one micro-batch only (ZeRO 2, 3), this holds for every
 * micro-batch. Only matrix products can overwrite (op_row.overwrites); if another op comes first, the gradient must be
 * zeroed. */
#include "uses_impl.h"

mega_status mega_pass_begin(mega_graph *g)
{
    graph_uses uses;
    const mega_status st = mega_uses_find(g, &uses);
    for (int32_t t = 1; t < g->num_tensors && st == MEGA_OK; t++) {
        const use_list writes = mega_uses_writes(&uses, t);
        if (g->tensor[t].role != ROLE_GRADIENT || writes.count == 0) continue;
        instruction *first = &g->op[writes.use[0].op];
        if (!(mega_op_table[first->kind]->overwrites >> writes.use[0].operand & 1)) continue;
        g->tensor[t].is_overwritten = g->tensor[t].base == 0;
        *(g->tensor[t].is_overwritten ? &first->attr.first_in_step : &first->attr.overwrites) = true;
    }
    mega_uses_fini(&uses);
    return st;
}
