/* What ranks of tensor parallelism still have to add of the gradients of a step. */
#include "engine_impl.h"

/* Under sequence parallelism norms, the biases behind row-cut weights and the position embedding are whole on every
 * rank of tp, but each saw its slab of the tokens alone: their gradients are summands. What this rank owns of them is
 * summed, after the sum over dp. */
mega_status engine_sum_gradients_over_tp(mega_engine *e)
{
    const mega_dtype acc = mega_params_acc_dtype(e->params);
    for (int i = 0; i < mega_params_count(e->params); i++) {
        const mega_param *p = mega_params_get(e->params, i);
        const mega_range owned = mega_params_owned(e->params, i);
        if (!p->grads_are_summands || owned.count == 0) continue;
        void *grad = mega_params_grad_at(e->params, p->bucket, p->offset + owned.first);
        MEGA_TRY(mega_comm_all_reduce(e->layout->tp.comm, p->name, grad, owned.count, acc, MEGA_REDUCE_SUM));
    }
    return MEGA_OK;
}
