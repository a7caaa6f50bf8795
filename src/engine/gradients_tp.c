/* What ranks of tensor parallelism still have to add of the gradients of a step. */
#include "engine_impl.h"

#include <string.h>

/* Gradients are copied into a buffer of at most this many elements and summed together; one that has more is summed in
 * its place. */
static int64_t most_together(const mega_engine *e)
{
    return e->options.tp_sum_elements > 0 ? e->options.tp_sum_elements : 1 << 18;
}

/* What this rank owns of the gradient of parameter i; nothing where it is a sum already. */
static int64_t summand(const mega_engine *e, int i, void **gradient)
{
    const mega_param *p = mega_params_get(e->params, i);
    const mega_range owned = mega_params_owned(e->params, i);
    if (!p->grads_are_summands || owned.count == 0) return 0;
    if (gradient != NULL) *gradient = mega_params_grad_at(e->params, p->bucket, p->offset + owned.first);
    return owned.count;
}

size_t engine_summands_bytes(const mega_engine *e)
{
    const int64_t most = most_together(e);
    int64_t elements = 0;
    for (int i = 0; e->train != NULL && i < mega_params_count(e->params); i++) {
        const int64_t more = summand(e, i, NULL);
        elements += more <= most ? more : 0;
    }
    return (size_t)(elements < most ? elements : most) * mega_dtype_size(mega_params_acc_dtype(e->params));
}

/* Copies the gradients of parameters [begin, end) into the buffer, or out of it. */
static void copy(const mega_engine *e, int begin, int end, bool into)
{
    const size_t size = mega_dtype_size(mega_params_acc_dtype(e->params));
    char *at = e->summands;
    for (int i = begin; i < end; i++) {
        void *gradient = NULL;
        const int64_t elements = summand(e, i, &gradient);
        const size_t bytes = (size_t)elements * size;
        if (elements == 0 || elements > most_together(e)) continue;
        memcpy(into ? at : gradient, into ? gradient : at, bytes);
        at += bytes;
    }
}

static mega_status sum_together(const mega_engine *e, int begin, int end, int64_t elements)
{
    const mega_dtype acc = mega_params_acc_dtype(e->params);
    if (elements == 0) return MEGA_OK;
    copy(e, begin, end, true);
    MEGA_TRY(mega_comm_all_reduce(e->layout->tp.comm, "gradients of norms and biases", e->summands, elements, acc,
                                  MEGA_REDUCE_SUM));
    copy(e, begin, end, false);
    return MEGA_OK;
}

/* Under sequence parallelism norms, the biases after row-cut weights and the position embedding are whole on every
 * rank of tp, but each saw its slab of the tokens alone: their gradients are summands. What this rank owns of them is
 * summed, after the sum over dp: small ones together, so that there are few messages. */
mega_status engine_sum_gradients_over_tp(mega_engine *e)
{
    const int count = mega_params_count(e->params);
    const int64_t most = most_together(e);
    int64_t held = 0;
    int begin = 0;
    for (int i = 0; i < count; i++) {
        void *gradient = NULL;
        const int64_t more = summand(e, i, &gradient);
        if (more > most) {
            MEGA_TRY(mega_comm_all_reduce(e->layout->tp.comm, mega_params_get(e->params, i)->name, gradient, more,
                                          mega_params_acc_dtype(e->params), MEGA_REDUCE_SUM));
            continue;
        }
        if (held + more > most) {
            MEGA_TRY(sum_together(e, begin, i, held));
            begin = i;
            held = 0;
        }
        held += more;
    }
    return sum_together(e, begin, count, held);
}
