/* place: puts the communication of data parallelism into the backward program, bucket by bucket. With one rank a bucket
 * needs none; the pass then only finds where each bucket is complete, which is where its reduction would start. */
#include "graph_impl.h"

mega_status mega_pass_place(mega_graph *g)
{
    if (g->params == NULL) return MEGA_OK;
    if (g->layout != NULL && g->layout->dp.size > 1)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "gradients over %d data-parallel ranks are not built yet; expected a world of one rank",
                         g->layout->dp.size);
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
