/* The cost column: the result of the cost rule of a row, or without a rule no FLOPs and the bytes of every operand
 * once. */
#include "graph_impl.h"

op_cost mega_op_traffic(const mega_graph *g, const instruction *op)
{
    const unsigned accumulates = mega_op_table[op->kind]->accumulates;
    op_cost c = {0.0, 0.0};
    for (int k = 0; k < OP_MAX_IN; k++)
        if (op->in[k] != 0) c.bytes += (double)mega_shape_bytes(&g->tensor[op->in[k]].shape);
    for (int k = 0; k < OP_MAX_OUT; k++)
        if (op->out[k] != 0)
            c.bytes += (double)mega_shape_bytes(&g->tensor[op->out[k]].shape) * (accumulates >> k & 1 ? 2.0 : 1.0);
    return c;
}

op_cost mega_op_cost(const mega_graph *g, const instruction *op)
{
    const op_row *row = mega_op_table[op->kind];
    return row->cost != NULL ? row->cost(g, op) : mega_op_traffic(g, op);
}

double mega_op_masked_flops(const mega_graph *g, const instruction *op)
{
    const mega_attention_shape *s = &op->attr.attention;
    if (op->kind == OP_ATTENTION && s->rules.has_window)
        return mega_op_cost(g, op).flops * (1.0 / mega_attention_unmasked_share(s) - 1.0);
    const bool is_causal = op->kind == OP_ATTENTION && op->attr.attention.causal;
    return is_causal ? mega_op_cost(g, op).flops : 0.0;
}
