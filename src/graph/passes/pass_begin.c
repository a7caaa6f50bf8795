/* begin: lets the first instruction of a step that contributes to a gradient overwrite it, which saves zeroing and one
 * read. If the gradient is in a bucket that is alive for one micro-batch only (ZeRO 2, 3), this holds for every
 * micro-batch. Only GEMMs can overwrite (gemm.begins); if another op comes first, the gradient must be zeroed. */
#include "graph_impl.h"

#include <string.h>

mega_status mega_pass_begin(mega_graph *g)
{
    bool *written = mega_calloc((size_t)g->num_tensors, sizeof *written);
    if (written == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory to look at %d tensors", g->num_tensors);
    for (int i = 0; i < g->num_ops; i++) {
        instruction *op = &g->op[i];
        for (int k = 0; k < OP_MAX_OUT; k++) {
            const int32_t t = op->out[k];
            if (t == 0 || g->tensor[t].role != ROLE_GRADIENT) continue;
            if (op->kind == OP_LINEAR_GRAD_W && k == 0 && !written[t]) {
                g->tensor[t].is_begun = g->tensor[t].base == 0;
                *(g->tensor[t].is_begun ? &op->attr.begins : &op->attr.anew) = true;
            }
            written[t] = true;
        }
    }
    mega_free(written);
    return MEGA_OK;
}
