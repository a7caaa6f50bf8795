/* Sums of gradients over the ranks. Programs sum buckets over dp while the backward pass runs; the rest is summed after
 * it, in the order of engine_sum_gradients. All these sums are in this file. */
#include "engine_impl.h"
#include "megalith/memory.h"

#include <string.h>

/* ---- tied parameters: each stage that holds one computes a part of its gradient; the gradient is their sum ---- */

/* Returns whether this stage and another one hold parameter `index` of the whole model. */
static bool is_tied_here(const mega_engine *e, int index)
{
    const int own = mega_params_find(e->params, mega_params_get(mega_model_parts_params(e->parts), index)->name);
    return own >= 0 && mega_params_get(e->params, own)->tie != MEGA_TIE_NONE;
}

mega_status engine_find_ties(mega_engine *e)
{
    const mega_params *whole = mega_model_parts_params(e->parts);
    const mega_axis *pp = &e->layout->pp;
    const int count = mega_params_count(whole);
    int ties = 0;
    for (int i = 0; i < count; i++) ties += is_tied_here(e, i);
    if (ties == 0) return MEGA_OK;
    e->tie = mega_calloc((size_t)ties, sizeof *e->tie);
    e->tied_stages = mega_calloc((size_t)ties * (size_t)pp->size, sizeof *e->tied_stages);
    if (e->tie == NULL || e->tied_stages == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "engine: no memory for %d tied parameters", ties);
    int *stage = e->tied_stages;
    for (int i = 0; i < count; i++) {
        if (!is_tied_here(e, i)) continue;
        engine_tie *t = &e->tie[e->ties++];
        *t = (engine_tie){.param = mega_params_find(e->params, mega_params_get(whole, i)->name),
                          .stages = {.comm = pp->comm, .rank = stage}};
        for (int s = 0; s < pp->size; s++) {
            if (!mega_model_parts_holds(e->parts, i, s)) continue;
            if (s == pp->rank) t->stages.own = t->stages.count;
            stage[t->stages.count++] = s;
        }
        stage += t->stages.count;
    }
    return MEGA_OK;
}

static size_t ties_bytes(const mega_engine *e)
{
    size_t most = 0;
    for (int i = 0; i < e->ties && e->train != NULL; i++) {
        const size_t bytes = mega_comm_members_scratch(
            &e->tie[i].stages, mega_params_get(e->params, e->tie[i].param)->count, mega_params_acc_dtype(e->params));
        most = bytes > most ? bytes : most;
    }
    return most;
}

static mega_status sum_ties(mega_engine *e)
{
    /* with ZeRO 2 and 3 the program has summed it over dp, and this rank holds only its shard */
    const bool is_cut = mega_params_are_cut(e->params, MEGA_PARAMS_GRADS);
    for (int i = 0; i < e->ties; i++) {
        const engine_tie *t = &e->tie[i];
        const mega_param *p = mega_params_get(e->params, t->param);
        const mega_range part = is_cut ? mega_params_owned(e->params, t->param) : (mega_range){0, p->count};
        if (part.count == 0) continue;
        MEGA_TRY(mega_comm_members_sum(&t->stages, "gradient of a tied parameter",
                                       mega_params_grad_at(e->params, p->bucket, p->offset + part.first), part.count,
                                       mega_params_acc_dtype(e->params), e->gradient_scratch));
    }
    return MEGA_OK;
}

/* ---- over dp ---- */

bool engine_reduces(const mega_engine *e, int bucket)
{
    for (int c = 0; c < e->chunks; c++)
        if (mega_program_reduces(e->chunk[c].train, bucket)) return true;
    return false;
}

mega_status engine_wait_reductions(mega_engine *e)
{
    for (int c = 0; c < e->chunks; c++) MEGA_TRY(mega_program_wait_reductions(e->chunk[c].train));
    return MEGA_OK;
}

/* Sums the buckets that programs do not sum: those of tied parameters, or all of them if communication does not overlap
 * the backward pass. */
static mega_status sum_over_dp(mega_engine *e)
{
    for (int i = 0; i < mega_params_num_buckets(e->params); i++)
        if (!engine_reduces(e, i)) MEGA_TRY(mega_params_reduce_gradients(e->params, i));
    return MEGA_OK;
}

/* ---- over tp ---- */

/* Returns the size of the buffer in elements. Small gradients are copied into it and summed together; a gradient that
 * is larger than the buffer is summed in place. */
static int64_t most_together(const mega_engine *e)
{
    return e->options.tp_sum_elements > 0 ? e->options.tp_sum_elements : 1 << 18;
}

/* Returns the number of elements of parameter i's gradient that this rank owns and that are partial sums over tp (0:
 * none), and their address in *gradient. */
static int64_t summand(const mega_engine *e, int i, void **gradient)
{
    const mega_param *p = mega_params_get(e->params, i);
    const mega_range owned = mega_params_owned(e->params, i);
    if (!p->grads_are_summands || owned.count == 0) return 0;
    if (gradient != NULL) *gradient = mega_params_grad_at(e->params, p->bucket, p->offset + owned.first);
    return owned.count;
}

static size_t summands_bytes(const mega_engine *e)
{
    const int64_t most = most_together(e);
    int64_t elements = 0;
    for (int i = 0; e->train != NULL && i < mega_params_count(e->params); i++) {
        const int64_t more = summand(e, i, NULL);
        elements += more <= most ? more : 0;
    }
    return (size_t)(elements < most ? elements : most) * mega_dtype_size(mega_params_acc_dtype(e->params));
}

/* Copies the gradients of parameters [begin, end) into the buffer, or from the buffer if `into` is false. */
static void gradients_copy(const mega_engine *e, int begin, int end, bool into)
{
    const size_t size = mega_dtype_size(mega_params_acc_dtype(e->params));
    char *at = e->gradient_scratch;
    for (int i = begin; i < end; i++) {
        void *gradient = NULL;
        const int64_t elements = summand(e, i, &gradient);
        const size_t bytes = (size_t)elements * size;
        if (elements == 0 || elements > most_together(e)) continue;
        memcpy(into ? at : gradient, into ? gradient : at, bytes);
        at += bytes;
    }
}

static mega_status gradients_sum_together(const mega_engine *e, int begin, int end, int64_t elements)
{
    const mega_dtype acc = mega_params_acc_dtype(e->params);
    if (elements == 0) return MEGA_OK;
    gradients_copy(e, begin, end, true);
    MEGA_TRY(mega_comm_all_reduce(e->layout->tp.comm, "gradients of norms and biases", e->gradient_scratch, elements,
                                  acc, MEGA_REDUCE_SUM));
    gradients_copy(e, begin, end, false);
    return MEGA_OK;
}

/* Under sequence parallelism each rank of tp holds the whole norms, biases after row-parallel weights and position
 * embedding, but computes their gradients from its slab of the tokens only: these are partial sums. After the sum over
 * dp, each rank sums the elements that it owns over tp; small gradients are summed together to send fewer messages. */
static mega_status sum_over_tp(mega_engine *e)
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
            MEGA_TRY(gradients_sum_together(e, begin, i, held));
            begin = i;
            held = 0;
        }
        held += more;
    }
    return gradients_sum_together(e, begin, count, held);
}

/* ---- all sums ---- */

size_t engine_gradient_scratch_bytes(const mega_engine *e)
{
    const size_t ties = ties_bytes(e), summands = summands_bytes(e); /* used one after the other */
    return ties > summands ? ties : summands;
}

mega_status engine_sum_gradients(mega_engine *e)
{
    MEGA_TRY(sum_ties(e)); /* a tied parameter has its own bucket */
    MEGA_TRY(sum_over_dp(e));
    return sum_over_tp(e);
}
