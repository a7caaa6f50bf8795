/* Builds the list of tensors of a checkpoint, which is the same on every rank. */
#include "saved_tensors.h"
#include "megalith/optimizer_state.h"

/* Returns a checkpoint tensor of a parameter, or of one of its moments, with the part that this rank holds. */
static mega_state_tensor saved_tensors_tensor(const mega_engine *e, const mega_param *p, int file, int moment)
{
    const int own = mega_params_find(e->params, p->name);
    mega_state_tensor t = mega_state_tensor_of(p, file, e->params, own);
    if (own >= 0)
        t.data =
            moment >= 0 ? mega_optimizer_moment(e->optimizer, moment, own) : mega_optimizer_weight(e->optimizer, own);
    return t;
}

static bool add_tensors(saved_tensors *l, const mega_engine *e, const char *prefix, int moment)
{
    for (int i = 0; i < mega_params_count(mega_engine_whole(e)); i++) {
        const mega_param *p = mega_params_get(mega_engine_whole(e), i);
        if (moment >= 0 && !(mega_param_is_trained(p) && mega_optimizer_has_moment(e->optimizer, moment, p))) continue;
        for (int f = 0; f < mega_param_num_files(p); f++) {
            mega_state_tensor *t = &l->item[l->count++];
            *t = saved_tensors_tensor(e, p, f, moment);
            if (prefix != NULL) t->name = mega_arena_format(&l->arena, "%s.%s", prefix, t->name);
            if (t->name == NULL) return false;
        }
    }
    return true;
}

static mega_status saved_tensors_no_memory(saved_tensors *l, size_t tensors)
{
    mega_arena_fini(&l->arena);
    *l = (saved_tensors){0};
    return MEGA_FAIL(MEGA_ERR_MEMORY, "checkpoint: no memory for a list of %zu tensors", tensors);
}

mega_status saved_tensors_weights(saved_tensors *l, const mega_engine *e)
{
    const size_t n = (size_t)mega_params_num_files(mega_engine_whole(e));
    *l = (saved_tensors){0};
    l->item = mega_arena_alloc(&l->arena, (n + 1) * sizeof *l->item);
    return l->item != NULL && add_tensors(l, e, NULL, -1) ? MEGA_OK : saved_tensors_no_memory(l, n);
}

mega_status saved_tensors_moments(saved_tensors *l, const mega_engine *e)
{
    const int moments = mega_optimizer_num_moments(e->optimizer);
    const size_t n = (size_t)mega_params_num_files(mega_engine_whole(e)) * (size_t)moments;
    *l = (saved_tensors){0};
    l->item = mega_arena_alloc(&l->arena, (n + 1) * sizeof *l->item);
    bool done = l->item != NULL;
    for (int i = 0; i < moments && done; i++) done = add_tensors(l, e, mega_optimizer_moment_name(e->optimizer, i), i);
    return done ? MEGA_OK : saved_tensors_no_memory(l, n);
}

void state_leave_to_others(saved_tensors *l, const mega_engine *e)
{
    const mega_layout *at = e->layout;
    for (int i = 0; i < l->count; i++) {
        mega_state_tensor *t = &l->item[i];
        const int own = mega_params_find(e->params, t->param->name);
        const bool is_copy = own >= 0 && mega_params_get(e->params, own)->tie == MEGA_TIE_COPY;
        const bool alike_over_tp = t->param->axis != MEGA_AXIS_TP && at->tp.rank > 0;
        const bool alike_over_dp = at->dp.rank != mega_params_shards(e->params).rank;
        if (is_copy || alike_over_tp || alike_over_dp) t->count = 0;
    }
}
