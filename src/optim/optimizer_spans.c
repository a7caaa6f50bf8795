/* Cuts the flat buffers into spans: consecutive elements with the same answer to "do they decay, at what learning rate,
 * are they counted in norms". */
#include "optimizer_impl.h"

#include <stdlib.h>

/* Parameters are placed with small alignment gaps between them. A span includes gaps of up to this many elements: they
 * are zero in every buffer and stay zero under both updates. Parameters that are not trained are not gaps: they end a
 * span. */
enum { GAP_ELEMENTS = 64 };

/* A tied table counts on the stage that owns it, a replicated parameter on the first rank of the axis. */
bool optimizer_is_counted(const mega_optimizer *o, const mega_param *p)
{
    return mega_param_is_trained(p) && p->tie != MEGA_TIE_COPY && mega_params_counts(o->params, p) &&
           (p->axis == MEGA_AXIS_TP || o->layout->tp.rank == 0);
}

bool optimizer_has_first_slice(const mega_optimizer *o, int bucket)
{
    return mega_params_bucket_shards(o->params, bucket).rank == 0;
}

static int order_by_offset(const void *a, const void *b, void *user)
{
    const mega_params *params = user;
    const int64_t x = mega_params_get(params, *(const int *)a)->offset;
    const int64_t y = mega_params_get(params, *(const int *)b)->offset;
    return (x > y) - (x < y);
}

static double span_lr_scale(const mega_optimizer *o, const mega_param *p)
{
    if (optimizer_scope_of(o) != SCOPE_MATRIX) return p->lr_scale;
    const double factor = whole_tensors_is_matrix(p) ? o->options.muon_lr : o->options.adam_lr;
    return p->lr_scale * (factor == 0 ? 1 : factor);
}

/* Returns the group of the parameter, which is added where it is the first. */
static int find_group(mega_optimizer *o, const mega_param *p)
{
    const bool has_own = p->weight_decay && p->own_decay > 0;
    const mega_update_group g = {
        .lr_scale = span_lr_scale(o, p), .decay = has_own ? p->own_decay : p->weight_decay, .has_own_decay = has_own};
    for (int i = 0; i < o->groups; i++)
        if (o->group[i].lr_scale == g.lr_scale && o->group[i].decay == g.decay &&
            o->group[i].has_own_decay == g.has_own_decay)
            return i;
    o->group[o->groups] = g;
    return o->groups++;
}

/* Whether the update of the parameter needs whole tensors. */
static bool is_whole(const mega_optimizer *o, const mega_param *p)
{
    const optimizer_scope scope = optimizer_scope_of(o);
    return scope == SCOPE_NORM || (scope == SCOPE_MATRIX && whole_tensors_is_matrix(p));
}

/* Adds a span for each tensor of the parameter. */
static int spans_add_tensors(mega_optimizer *o, int param, optimizer_span *spans)
{
    const mega_param *p = mega_params_get(o->params, param);
    int n = 0;
    for (int k = 0; k < o->num_tensors; k++) {
        if (o->tensor[k].param != param) continue;
        const mega_range all = whole_tensors_range(o->params, &o->tensor[k]);
        spans[n++] = (optimizer_span){.begin = all.first,
                                      .end = all.first + all.count,
                                      .bucket = p->bucket,
                                      .group = find_group(o, p),
                                      .tensor = k};
    }
    return n;
}

/* Cuts the flat buffers into spans. */
static int cut_spans(mega_optimizer *o, const int *order, bool for_norm, optimizer_span *spans)
{
    int n = 0, last_bucket = -1;
    optimizer_span last = {0};
    for (int i = 0; i < mega_params_count(o->params); i++) {
        const mega_param *p = mega_params_get(o->params, order[i]);
        if (!mega_param_is_trained(p) || (for_norm && !optimizer_is_counted(o, p))) {
            last_bucket = -1;
            continue;
        }
        if (!for_norm && is_whole(o, p)) {
            n += spans_add_tensors(o, order[i], spans + n);
            last_bucket = -1;
            continue;
        }
        const int group = find_group(o, p);
        const bool joins =
            p->bucket == last_bucket && (for_norm || group == last.group) && p->offset - last.end <= GAP_ELEMENTS;
        if (!joins) {
            last = (optimizer_span){.begin = p->offset, .bucket = p->bucket, .group = group, .tensor = -1};
            n++;
        }
        last.end = p->offset + p->count;
        last_bucket = p->bucket;
        spans[n - 1] = last;
    }
    return n;
}

static void count_walked(mega_optimizer *o)
{
    for (int i = 0; i < o->num_counted; i++) {
        const optimizer_span *r = &o->counted[i];
        if (optimizer_has_first_slice(o, r->bucket)) o->walked += r->end - r->begin;
    }
}

/* Restricts the spans to this rank's slices. */
static int keep_own(const mega_optimizer *o, optimizer_span *spans, int count)
{
    int n = 0;
    for (int i = 0; i < count; i++) {
        const mega_range slice = mega_params_slice(o->params, spans[i].bucket);
        optimizer_span r = spans[i];
        if (r.begin < slice.first) r.begin = slice.first;
        if (r.end > slice.first + slice.count) r.end = slice.first + slice.count;
        if (r.begin < r.end) spans[n++] = r;
    }
    return n;
}

/* Where tp does not divide the heads of keys and values, every rank has all of these and a slice of Q, as parameters of
 * their own. Taken for one matrix they would be two there, and the update another one than in other layouts. */
static mega_status check_together(const mega_optimizer *o)
{
    for (int i = 0; i < o->num_tensors; i++) {
        const whole_tensor *t = &o->tensor[i], *first = &o->tensor[t->stored];
        if (t->stored == i || !t->is_matrix || first->rows == first->whole[0]) continue;
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "mega_optimizer_create: Muon with Q, K and V as one matrix (--muon-no-split-qkv; so it is "
                         "where a DeepSpeed "
                         "JSON chooses Muon): %d ranks of tp each hold a slice of the rows of Q and all of K and V of "
                         "%s, because they "
                         "do not divide its heads of keys and values; give --muon-no-split-qkv False, or a "
                         "--tensor-model-parallel-size that divides these heads",
                         o->layout->tp.size, whole_tensors_name(o->params, t));
    }
    return MEGA_OK;
}

/* Lists the tensors, and deals the matrices to the ranks that hold them. */
static mega_status list_tensors(mega_optimizer *o)
{
    if (optimizer_scope_of(o) == SCOPE_ELEMENT) return MEGA_OK;
    const bool splits = optimizer_scope_of(o) == SCOPE_MATRIX && o->options.muon_split;
    int first_expert;
    o->num_tensors = whole_tensors_list(o->params, splits, NULL, &first_expert);
    o->tensor = mega_calloc((size_t)o->num_tensors + 1, sizeof *o->tensor);
    if (o->tensor == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "optimizer: no memory for %d tensors", o->num_tensors);
    whole_tensors_list(o->params, splits, o->tensor, NULL);
    if (optimizer_scope_of(o) == SCOPE_MATRIX && !splits) MEGA_TRY(check_together(o));
    tensor_group *all = &o->tensors_of[0], *experts = &o->tensors_of[1];
    *all = (tensor_group){.axis = &o->layout->dp, .end = first_expert};
    MEGA_TRY(whole_tensors_deal(o->tensor, all));
    *experts = (tensor_group){.axis = &o->layout->edp,
                              .first = first_expert,
                              .end = o->num_tensors,
                              .first_round = all->end_round,
                              .end_round = all->end_round};
    return first_expert < o->num_tensors ? whole_tensors_deal(o->tensor, experts) : MEGA_OK;
}

/* Where the states of each span begin: a span has either the states of matrices or those of the rest. */
static void place_states(mega_optimizer *o)
{
    for (int i = 0; i < o->num_update; i++) {
        optimizer_span *r = &o->update[i];
        int64_t *used = r->tensor >= 0 ? &o->of_matrices : &o->rest;
        r->state_at = *used;
        *used += r->end - r->begin;
    }
}

mega_status optimizer_cut_spans(mega_optimizer *o)
{
    const size_t count = (size_t)mega_params_count(o->params);
    MEGA_TRY(list_tensors(o));
    int *order = mega_calloc(count + 1, sizeof *order); /* indices of parameters, ordered by offset */
    /* at most one span for each parameter and tensor */
    o->update = mega_calloc(count + (size_t)o->num_tensors + 1, sizeof *o->update);
    o->counted = mega_calloc(count + 1, sizeof *o->counted);
    o->group = mega_calloc(count + 1, sizeof *o->group); /* at most one for each parameter */
    if (order == NULL || o->update == NULL || o->counted == NULL || o->group == NULL) {
        mega_free(order);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "optimizer: no memory for the spans of %zu parameters", count);
    }
    for (int i = 0; i < (int)count; i++) order[i] = i;
    qsort_r(order, count, sizeof *order, order_by_offset, o->params);
    o->num_update = cut_spans(o, order, false, o->update);
    o->num_counted = cut_spans(o, order, true, o->counted);
    mega_free(order);
    count_walked(o);
    o->num_update = keep_own(o, o->update, o->num_update);
    o->num_counted = keep_own(o, o->counted, o->num_counted);
    place_states(o);
    return MEGA_OK;
}
