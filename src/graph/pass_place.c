/* place: finds where in the backward program each bucket of gradients is complete, which is where its reduction over
 * the data-parallel ranks could start. (The engine reduces buckets after the last backward so far.) */
#include "graph_impl.h"

mega_status mega_pass_place(mega_graph *g)
{
    if (g->params == NULL) return MEGA_OK;
    const int buckets = mega_params_num_buckets(g->params);
    mega_free(g->bucket_ready);
    g->bucket_ready = mega_malloc(((size_t)buckets + 1) * sizeof *g->bucket_ready);
    if (g->bucket_ready == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory for %d buckets", buckets);
    for (int b = 0; b < buckets; b++) g->bucket_ready[b] = -1;
    for (int i = 0; i < g->num_ops; i++)
        for (int k = 0; k < OP_MAX_OUT; k++) {
            const graph_tensor *t = &g->tensor[g->op[i].out[k]];
            if (g->op[i].out[k] != 0 && t->role == ROLE_GRADIENT)
                g->bucket_ready[mega_params_get(g->params, t->param)->bucket] = i;
        }
    return MEGA_OK;
}
