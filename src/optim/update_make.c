/* Makes the list of instructions of the update program. */
#include "update_impl.h"

/* ---- what a parameter or a bucket needs ---- */

int64_t update_packed_elements(const mega_update *u)
{
    return u->options.packed_elements > 0 ? u->options.packed_elements : 1 << 18;
}

int64_t update_partial_elements(const mega_update *u, int i)
{
    const mega_param *p = mega_params_get(u->params, i);
    return p->grads_are_partial && mega_param_has_gradient(p) ? mega_params_owned(u->params, i).count : 0;
}

/* With ZeRO 2 and 3 the backward program has summed it over dp, and this rank holds only its slice. */
mega_range update_tied_range(const mega_update *u, int param)
{
    if (mega_params_are_cut(u->params, MEGA_PARAMS_GRADS)) return mega_params_owned(u->params, param);
    return (mega_range){0, mega_params_get(u->params, param)->count};
}

/* Returns whether a step changes weights of the bucket, so that they have to be gathered. */
static bool bucket_changes(const mega_update *u, int bucket)
{
    const mega_bucket *b = mega_params_bucket(u->params, bucket);
    for (int i = b->first_param; i < b->first_param + b->num_params; i++) {
        const mega_param *p = mega_params_get(u->params, i);
        if (mega_param_is_trained(p) || mega_param_is_updated_buffer(p)) return true;
    }
    return false;
}

static const mega_axis *update_group(const mega_update *u, int bucket)
{
    return mega_params_bucket(u->params, bucket)->is_of_experts ? &u->layout->edp : &u->layout->dp;
}

/* ---- the list ---- */

typedef struct maker {
    const mega_update *u;
    update_instruction *list; /* NULL: only count */
    int count;
} maker;

static void update_emit(maker *m, update_instruction x)
{
    if (m->list != NULL) m->list[m->count] = x;
    m->count++;
}

/* A tied parameter has its own bucket, whose sum over dp comes later. A frozen one has no gradient. */
static void make_ties(maker *m)
{
    for (int i = 0; i < m->u->options.ties; i++) {
        const int param = m->u->options.tie[i].param;
        const int64_t count = update_tied_range(m->u, param).count;
        if (count > 0 && mega_param_has_gradient(mega_params_get(m->u->params, param)))
            update_emit(m, (update_instruction){.kind = UPDATE_SUM_TIED,
                                                .axis = &m->u->layout->pp,
                                                .bucket = mega_params_get(m->u->params, param)->bucket,
                                                .number = i,
                                                .first_param = param,
                                                .end_param = param + 1,
                                                .count = count});
    }
}

/* Sums the buckets that backward programs do not sum: those of tied parameters, or all of them if communication does
 * not overlap the backward pass. */
static void make_reductions(maker *m)
{
    const mega_update *u = m->u;
    if (!mega_params_sums_gradients(u->params)) return;
    for (int b = 0; b < mega_params_num_buckets(u->params); b++) {
        if (!mega_params_bucket(u->params, b)->has_grads) continue;
        if (u->options.is_reduced != NULL && u->options.is_reduced[b]) continue;
        if (!mega_axis_has_others(update_group(u, b))) continue;
        update_emit(
            m, (update_instruction){.kind = UPDATE_REDUCE,
                                    .when = optimizer_compresses(u->optimizer) ? UPDATE_WITH_GRADIENTS : UPDATE_ALWAYS,
                                    .axis = update_group(u, b),
                                    .bucket = b,
                                    .count = mega_params_bucket(u->params, b)->count});
    }
}

static void make_packed(maker *m, int first, int end, int64_t count)
{
    if (count > 0)
        update_emit(m, (update_instruction){.kind = UPDATE_SUM_PARTIAL,
                                            .axis = &m->u->layout->tp,
                                            .bucket = -1,
                                            .first_param = first,
                                            .end_param = end,
                                            .count = count,
                                            .is_packed = true});
}

/* Under sequence parallelism each rank of tp holds the whole norms, biases after row-parallel weights and position
 * embedding, but computes their gradients from its slab of the tokens only: these are partial sums. After the sum over
 * dp, each rank sums the elements that it owns over tp. Small gradients are packed together, to send fewer messages; a
 * gradient that is larger than the buffer is summed in place. */
static void make_partial(maker *m)
{
    const int64_t most = update_packed_elements(m->u);
    const int count = mega_params_count(m->u->params);
    int64_t held = 0;
    int first = 0;
    for (int i = 0; i < count; i++) {
        const int64_t more = update_partial_elements(m->u, i);
        if (more > most) {
            update_emit(m, (update_instruction){.kind = UPDATE_SUM_PARTIAL,
                                                .axis = &m->u->layout->tp,
                                                .bucket = mega_params_get(m->u->params, i)->bucket,
                                                .first_param = i,
                                                .end_param = i + 1,
                                                .count = more});
            continue;
        }
        if (held + more > most) {
            make_packed(m, first, i, held);
            first = i;
            held = 0;
        }
        held += more;
    }
    make_packed(m, first, count, held);
}

static void make_small_sum(maker *m, update_kind kind, const mega_axis *axis, int count)
{
    if (mega_axis_has_others(axis) && count > 0)
        update_emit(m, (update_instruction){.kind = kind, .axis = axis, .bucket = -1, .count = count});
}

static void make_norm(maker *m)
{
    const mega_optimizer *o = m->u->optimizer;
    const mega_axis *const counting = mega_params_counting(m->u->params);
    for (int i = 0; i < o->num_counted; i++)
        update_emit(m, (update_instruction){.kind = UPDATE_NORM,
                                            .bucket = o->counted[i].bucket,
                                            .number = i,
                                            .count = o->counted[i].end - o->counted[i].begin});
    if (mega_axis_has_others(counting)) make_small_sum(m, UPDATE_SUM_NORM, counting, 3);
    else if (optimizer_compresses(o) && mega_axis_has_others(&m->u->layout->dp))
        update_emit(m, (update_instruction){.kind = UPDATE_SUM_NORM,
                                            .when = UPDATE_WITH_MOMENTA,
                                            .axis = &m->u->layout->dp,
                                            .bucket = -1,
                                            .count = 3});
    make_small_sum(m, UPDATE_SUM_NORM, &m->u->layout->tp, 3);
    make_small_sum(m, UPDATE_SUM_NORM, &m->u->layout->pp, 3);
    update_emit(m, (update_instruction){.kind = UPDATE_CHECK, .bucket = -1});
}

/* Lamb: the norms of all tensors, which are sums over the ranks that hold pieces of them. */
static void make_tensor_norms(maker *m)
{
    const mega_optimizer *o = m->u->optimizer;
    for (int i = 0; i < TENSOR_GROUPS; i++) {
        const tensor_group *g = &o->tensors_of[i];
        if (update_exchanges_pieces(m->u, g))
            update_emit(m, (update_instruction){.kind = UPDATE_SUM_TENSORS,
                                                .axis = g->axis,
                                                .bucket = -1,
                                                .number = g->first,
                                                .count = 2 * (g->end - g->first)});
    }
    make_small_sum(m, UPDATE_SUM_TENSORS, &m->u->layout->tp, 2 * o->num_tensors);
}

static void make_tensor(maker *m, update_kind kind, const mega_axis *axis, int tensor)
{
    const whole_tensor *t = &m->u->optimizer->tensor[tensor];
    update_emit(m, (update_instruction){.kind = kind,
                                        .axis = axis,
                                        .bucket = mega_params_get(m->u->params, t->param)->bucket,
                                        .number = tensor,
                                        .first_param = t->param,
                                        .end_param = t->param + 1,
                                        .count = t->rows * t->cols});
}

/* The matrices of the group that were dealt to this rank, of one round or (-1) of all. Under tp their Gram matrices are
 * summed. */
static void make_own_matrices(maker *m, const tensor_group *g, int round)
{
    const mega_optimizer *o = m->u->optimizer;
    for (int i = g->first; i < g->end; i++) {
        const whole_tensor *t = &o->tensor[i];
        const bool sums = t->is_cut && mega_axis_has_others(&m->u->layout->tp);
        if (t->is_matrix && t->owner == g->axis->rank && (round < 0 || t->round == round))
            make_tensor(m, UPDATE_ORTHOGONALIZE, sums ? &m->u->layout->tp : NULL, i);
    }
}

static void make_round(maker *m, const tensor_group *g, update_kind kind, int round)
{
    const mega_optimizer *o = m->u->optimizer;
    int64_t count = 0;
    for (int i = g->first; i < g->end; i++)
        if (o->tensor[i].is_matrix && o->tensor[i].round == round) count += o->tensor[i].rows * o->tensor[i].cols;
    update_emit(m, (update_instruction){.kind = kind, .axis = g->axis, .bucket = -1, .number = round, .count = count});
}

/* Muon. If each rank has whole gradients, it orthogonalizes its matrices and then all ranks exchange the results.
 * Otherwise one round after another brings the pieces of a matrix to each rank, so that it needs memory for one. */
static void make_matrices(maker *m, const tensor_group *g)
{
    const mega_optimizer *o = m->u->optimizer;
    if (!update_exchanges_pieces(m->u, g)) {
        make_own_matrices(m, g, -1);
        for (int i = g->first; i < g->end && mega_axis_has_others(g->axis); i++)
            if (o->tensor[i].is_matrix) make_tensor(m, UPDATE_SPREAD, g->axis, i);
        return;
    }
    for (int round = g->first_round; round < g->end_round; round++) {
        make_round(m, g, UPDATE_COLLECT, round);
        make_own_matrices(m, g, round);
        make_round(m, g, UPDATE_SPREAD, round);
    }
}

static void make_whole(maker *m)
{
    const mega_optimizer *o = m->u->optimizer;
    for (int i = 0; i < o->num_update; i++)
        if (o->update[i].tensor >= 0)
            update_emit(m, (update_instruction){.kind = UPDATE_PREPARE,
                                                .bucket = o->update[i].bucket,
                                                .number = i,
                                                .count = o->update[i].end - o->update[i].begin});
    if (optimizer_scope_of(o) == SCOPE_NORM) make_tensor_norms(m);
    for (int i = 0; i < TENSOR_GROUPS && optimizer_scope_of(o) == SCOPE_MATRIX; i++)
        make_matrices(m, &o->tensors_of[i]);
}

static void make_buffers(maker *m, int bucket)
{
    const mega_bucket *b = mega_params_bucket(m->u->params, bucket);
    for (int i = b->first_param; i < b->first_param + b->num_params; i++) {
        const int64_t owned = mega_params_owned(m->u->params, i).count;
        if (mega_param_is_updated_buffer(mega_params_get(m->u->params, i)) && owned > 0)
            update_emit(
                m, (update_instruction){
                       .kind = UPDATE_BUFFER, .bucket = bucket, .first_param = i, .end_param = i + 1, .count = owned});
    }
}

/* Before the updates of a bucket: its momenta, and their mean. */
static void make_momenta(maker *m, int bucket)
{
    const mega_optimizer *o = m->u->optimizer;
    const mega_axis *dp = &m->u->layout->dp;
    int64_t elements = 0;
    if (!optimizer_compresses(o)) return;
    for (int i = 0; i < o->num_update; i++) {
        const int64_t count = o->update[i].end - o->update[i].begin;
        if (o->update[i].bucket != bucket) continue;
        update_emit(
            m,
            (update_instruction){
                .kind = UPDATE_MOMENTUM, .when = UPDATE_WITH_MOMENTA, .bucket = bucket, .number = i, .count = count});
        elements += count;
    }
    if (elements > 0 && mega_axis_has_others(dp))
        update_emit(
            m,
            (update_instruction){
                .kind = UPDATE_COMPRESS, .when = UPDATE_WITH_MOMENTA, .axis = dp, .bucket = bucket, .count = elements});
}

static void make_bucket(maker *m, int bucket)
{
    const mega_optimizer *o = m->u->optimizer;
    make_momenta(m, bucket);
    for (int i = 0; i < o->num_update; i++)
        if (o->update[i].bucket == bucket)
            update_emit(m, (update_instruction){.kind = UPDATE_SPAN,
                                                .bucket = bucket,
                                                .number = i,
                                                .count = o->update[i].end - o->update[i].begin});
    make_buffers(m, bucket);
    if (mega_params_is_gathered(m->u->params, bucket) && bucket_changes(m->u, bucket))
        update_emit(m, (update_instruction){.kind = UPDATE_PUBLISH,
                                            .axis = update_group(m->u, bucket),
                                            .bucket = bucket,
                                            .count = mega_params_bucket(m->u->params, bucket)->count});
}

int update_make(const mega_update *u, update_instruction *list, int *first_applied)
{
    maker m = {.u = u, .list = list};
    make_ties(&m);
    make_reductions(&m);
    make_partial(&m);
    make_small_sum(&m, UPDATE_SUM_LOSSES, &u->layout->dp, u->options.num_sums);
    make_small_sum(&m, UPDATE_SUM_LOSSES, &u->layout->pp, u->options.num_sums);
    *first_applied = m.count;
    make_norm(&m);
    make_whole(&m);
    /* the next forward reads the last bucket first, so its gather starts first */
    for (int b = mega_params_num_buckets(u->params) - 1; b >= 0; b--) make_bucket(&m, b);
    return m.count;
}
