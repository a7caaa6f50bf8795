/* The index of writes and reads of a graph (uses_impl.h): the lists of all tensors, one after another in one array, and
 * where each begins. */
#include "uses_impl.h"

static int32_t written_at(const mega_graph *g, const instruction *op, int k)
{
    (void)g;
    return op->out[k];
}

static int32_t read_at(const mega_graph *g, const instruction *op, int k)
{
    return op->in[k] == 0 ? 0 : mega_graph_root(g, op->in[k]);
}

/* Makes the lists of one kind of use. `tensor` returns the tensor under which operand k is listed; 0: none. */
static mega_status uses_list(const mega_graph *g, int operands,
                             int32_t (*tensor)(const mega_graph *g, const instruction *op, int k), int **out_at,
                             tensor_use **out_use)
{
    int *at = *out_at = mega_calloc((size_t)g->num_tensors + 2, sizeof *at);
    if (at == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory to index %d tensors", g->num_tensors);
    int total = 0;
    for (int i = 0; i < g->num_ops; i++)
        for (int k = 0; k < operands; k++) {
            const int32_t t = tensor(g, &g->op[i], k);
            total += t != 0;
            at[t + 1] += t != 0;
        }
    tensor_use *use = *out_use = mega_malloc(((size_t)total + 1) * sizeof *use);
    if (use == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory to index %d instructions", g->num_ops);
    for (int t = 0; t < g->num_tensors; t++) at[t + 1] += at[t];
    /* at[t] now is the end of the lists before t; filling moves it to the end of t, which is where t + 1 begins. */
    for (int i = 0; i < g->num_ops; i++)
        for (int k = 0; k < operands; k++) {
            const int32_t t = tensor(g, &g->op[i], k);
            if (t != 0) use[at[t]++] = (tensor_use){i, k};
        }
    for (int t = g->num_tensors; t > 0; t--) at[t] = at[t - 1];
    at[0] = 0;
    return MEGA_OK;
}

mega_status mega_uses_find(const mega_graph *g, graph_uses *out)
{
    *out = (graph_uses){0};
    MEGA_TRY(uses_list(g, OP_MAX_OUT, written_at, &out->write_at, &out->write));
    return uses_list(g, OP_MAX_IN, read_at, &out->read_at, &out->read);
}

void mega_uses_fini(graph_uses *u)
{
    MEGA_FREE(u->write, u->read, u->write_at, u->read_at);
    *u = (graph_uses){0};
}
