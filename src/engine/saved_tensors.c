/* Builds the list of tensors of a checkpoint, which is the same on every rank. */
#include "saved_tensors.h"
#include "engine_state.h"
#include "megalith/compressed.h"
#include "megalith/optimizer_state.h"
#include <stdio.h>
#include <string.h>

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

static bool has_moment(const mega_engine *e, const mega_param *p, int moment)
{
    return moment < 0 || (mega_param_is_trained(p) && mega_optimizer_has_moment(e->optimizer, moment, p));
}

static bool add_tensor(saved_tensors *l, const mega_engine *e, const mega_param *p, int file, const char *prefix,
                       int moment)
{
    mega_state_tensor *t = &l->item[l->count++];
    *t = saved_tensors_tensor(e, p, file, moment);
    if (prefix != NULL) t->name = mega_arena_format(&l->arena, "%s.%s", prefix, t->name);
    return t->name != NULL;
}

/* Adds the records of a tensor that parameter `first` and later ones share, one after the other. */
static bool add_shared(saved_tensors *l, const mega_engine *e, int first, int file, const char *prefix, int moment)
{
    const mega_params *whole = mega_engine_whole(e);
    const char *name = mega_param_file_name(mega_params_get(whole, first), file);
    int owner;
    if (mega_params_find_file(whole, name, &owner) != first) return true; /* added with the first */
    for (int i = first; i < mega_params_count(whole); i++) {
        const mega_param *p = mega_params_get(whole, i);
        for (int f = 0; f < mega_param_num_files(p) && has_moment(e, p, moment); f++)
            if (strcmp(mega_param_file_name(p, f), name) == 0 && !add_tensor(l, e, p, f, prefix, moment)) return false;
    }
    return true;
}

static bool add_tensors(saved_tensors *l, const mega_engine *e, const char *prefix, int moment)
{
    bool done = true;
    for (int i = 0; i < mega_params_count(mega_engine_whole(e)) && done; i++) {
        const mega_param *p = mega_params_get(mega_engine_whole(e), i);
        for (int f = 0; f < mega_param_num_files(p) && done && has_moment(e, p, moment); f++)
            done = mega_param_shares_file(p, f) ? add_shared(l, e, i, f, prefix, moment)
                                                : add_tensor(l, e, p, f, prefix, moment);
    }
    return done;
}

static mega_status saved_tensors_no_memory(saved_tensors *l, size_t tensors)
{
    mega_arena_fini(&l->arena);
    *l = (saved_tensors){0};
    return MEGA_FAIL(MEGA_ERR_MEMORY, "checkpoint: no memory for a list of %zu tensors", tensors);
}

/* What compression has lost, of each rank of dp, and that of the chunks. */
static bool add_residuals(saved_tensors *l, const mega_engine *e, engine_residuals residuals)
{
    const mega_axis *dp = &e->layout->dp;
    const int chunks = mega_optimizer_num_moments(e->optimizer) - 1, begin = l->count;
    bool done = true;
    for (int r = 0; r < residuals.ranks && done; r++) {
        const bool is_mine = residuals.is_own && r == dp->rank;
        const int first = l->count;
        char prefix[64];
        snprintf(prefix, sizeof prefix, "%s.%d", mega_optimizer_moment_name(e->optimizer, chunks - 1), r);
        done = add_tensors(l, e, prefix, chunks - 1);
        for (int i = first; i < l->count && !is_mine; i++) l->item[i].count = 0;
    }
    const int first = l->count;
    done = done && add_tensors(l, e, mega_optimizer_moment_name(e->optimizer, chunks), chunks);
    for (int i = first; i < l->count; i++) {
        mega_state_tensor *t = &l->item[i];
        const int own = mega_params_find(e->params, t->param->name);
        const int64_t count = own < 0 ? 0 : mega_optimizer_real_elements(e->optimizer, own);
        t->first = dp->rank * mega_compressed_chunk(count, dp->size);
        t->count = residuals.is_own ? mega_compressed_own(count, dp->size, dp->rank) : 0;
    }
    l->alike = begin;
    return done;
}

mega_status saved_tensors_weights(saved_tensors *l, const mega_engine *e)
{
    const size_t n = (size_t)mega_params_num_files(mega_engine_whole(e));
    *l = (saved_tensors){0};
    l->item = mega_arena_alloc(&l->arena, (n + 1) * sizeof *l->item);
    const bool done = l->item != NULL && add_tensors(l, e, NULL, -1);
    l->alike = l->count;
    return done ? MEGA_OK : saved_tensors_no_memory(l, n);
}

mega_status saved_tensors_moments(saved_tensors *l, const mega_engine *e, engine_residuals residuals)
{
    const int moments = mega_optimizer_num_moments(e->optimizer) - mega_optimizer_num_errors(e->optimizer);
    const int lists = moments + (residuals.ranks > 0 ? residuals.ranks + 1 : 0);
    const size_t n = (size_t)mega_params_num_files(mega_engine_whole(e)) * (size_t)lists;
    *l = (saved_tensors){0};
    l->item = mega_arena_alloc(&l->arena, (n + 1) * sizeof *l->item);
    bool done = l->item != NULL;
    for (int i = 0; i < moments && done; i++) done = add_tensors(l, e, mega_optimizer_moment_name(e->optimizer, i), i);
    l->alike = l->count;
    if (residuals.ranks > 0) done = done && add_residuals(l, e, residuals);
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
        const bool alike_over_dp = i < l->alike && mega_params_zero_stage(e->params) == 0 &&
                                   mega_params_group_of(e->params, t->param).rank > 0;
        if (is_copy || alike_over_tp || alike_over_dp) t->count = 0;
    }
}
