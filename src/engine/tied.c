/* Parameters that several pipeline stages hold: each stage has a gradient of its own, and their sum, in the order of
 * stages, is the gradient of all copies. */
#include "engine_impl.h"
#include "megalith/memory.h"

/* Whether another stage holds parameter `index` of the whole model, and this one. */
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

size_t engine_tied_bytes(const mega_engine *e)
{
    size_t most = 0;
    for (int i = 0; i < e->ties && e->train != NULL; i++) {
        const size_t bytes = mega_comm_members_scratch(
            &e->tie[i].stages, mega_params_get(e->params, e->tie[i].param)->count, mega_params_acc_dtype(e->params));
        most = bytes > most ? bytes : most;
    }
    return most;
}

mega_status engine_sum_ties(mega_engine *e)
{
    /* with ZeRO 2 and 3 the program has summed it over dp, and this rank's part is left */
    const bool is_cut = mega_params_are_cut(e->params, MEGA_PARAMS_GRADS);
    for (int i = 0; i < e->ties; i++) {
        const engine_tie *t = &e->tie[i];
        const mega_param *p = mega_params_get(e->params, t->param);
        const mega_range part = is_cut ? mega_params_owned(e->params, t->param) : (mega_range){0, p->count};
        if (part.count == 0) continue;
        MEGA_TRY(mega_comm_members_sum(&t->stages, "gradient of a tied parameter",
                                       mega_params_grad_at(e->params, p->bucket, p->offset + part.first), part.count,
                                       mega_params_acc_dtype(e->params), e->tied_scratch));
    }
    return MEGA_OK;
}
