/* What ranks of tensor parallelism still have to add of the gradients of a step. */
#include "engine_impl.h"

#include <string.h>

/* Gradients go through a room of at most so many elements; one alone that has more is summed where it lies. */
enum { ROOM_ELEMENTS = 1 << 18 };

/* What this rank owns of the gradient of parameter i; nothing where it is a sum already. */
static int64_t summand(const mega_engine *e, int i, void **gradient)
{
    const mega_param *p = mega_params_get(e->params, i);
    const mega_range owned = mega_params_owned(e->params, i);
    if (!p->grads_are_summands || owned.count == 0 || e->layout->tp.size == 1) return 0;
    if (gradient != NULL) *gradient = mega_params_grad_at(e->params, p->bucket, p->offset + owned.first);
    return owned.count;
}

size_t engine_summands_bytes(const mega_engine *e)
{
    int64_t elements = 0;
    for (int i = 0; e->train != NULL && i < mega_params_count(e->params); i++) {
        const int64_t more = summand(e, i, NULL);
        elements += more <= ROOM_ELEMENTS ? more : 0;
    }
    return (size_t)(elements < ROOM_ELEMENTS ? elements : ROOM_ELEMENTS) *
           mega_dtype_size(mega_params_acc_dtype(e->params));
}

/* Copies the gradients of parameters [begin, end) into the room, or out of it. */
static void copy(const mega_engine *e, int begin, int end, bool into)
{
    const size_t size = mega_dtype_size(mega_params_acc_dtype(e->params));
    char *room = e->summands;
    for (int i = begin; i < end; i++) {
        void *gradient = NULL;
        const size_t bytes = (size_t)summand(e, i, &gradient) * size;
        if (bytes == 0 || bytes > ROOM_ELEMENTS * size) continue;
        memcpy(into ? room : gradient, into ? gradient : room, bytes);
        room += bytes;
    }
}

static mega_status sum_through_room(const mega_engine *e, int begin, int end, int64_t elements)
{
    const mega_dtype acc = mega_params_acc_dtype(e->params);
    if (elements == 0) return MEGA_OK;
    copy(e, begin, end, true);
    MEGA_TRY(mega_comm_all_reduce(e->layout->tp.comm, "gradients of norms and biases", e->summands, elements, acc,
                                  MEGA_REDUCE_SUM));
    copy(e, begin, end, false);
    return MEGA_OK;
}

/* Under sequence parallelism norms, the biases behind row-cut weights and the position embedding are whole on every
 * rank of tp, but each saw its slab of the tokens alone: their gradients are summands. What this rank owns of them is
 * summed, after the sum over dp: small ones together, so that there are few messages. */
mega_status engine_sum_gradients_over_tp(mega_engine *e)
{
    const int count = mega_params_count(e->params);
    int64_t held = 0;
    int begin = 0;
    for (int i = 0; i < count; i++) {
        void *gradient = NULL;
        const int64_t more = summand(e, i, &gradient);
        if (more > ROOM_ELEMENTS) {
            MEGA_TRY(mega_comm_all_reduce(e->layout->tp.comm, mega_params_get(e->params, i)->name, gradient, more,
                                          mega_params_acc_dtype(e->params), MEGA_REDUCE_SUM));
            continue;
        }
        if (held + more > ROOM_ELEMENTS) {
            MEGA_TRY(sum_through_room(e, begin, i, held));
            begin = i;
            held = 0;
        }
        held += more;
    }
    return sum_through_room(e, begin, count, held);
}
