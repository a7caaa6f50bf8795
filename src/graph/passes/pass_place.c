/* place: inserts the exchanges of whole parameter buckets over dp. The gradients of a bucket are summed after the last
 * instruction that adds to one of them. With ZeRO 2 and 3 the bucket is alive from its first gradient until then, and
 * only this rank's slice of the sum is kept. Weights that ZeRO 3 shards are gathered (pass_place_weights.c). The memory
 * plan of the program covers these buckets. Whole gradients that are held in 16 bits, and those of frozen parameters,
 * are values of the program, one by one (pass_place_held.c). The pass runs after all passes that move instructions. */
#include "place_impl.h"
#include "uses_impl.h"

#include <stdlib.h>

/* ---- insertions ---- */

mega_status mega_place_insert(place *p, int before, bool backward, instruction op)
{
    op.backward = backward;
    op.scope = "";
    op.first_use = -1;
    op.attr.axis = mega_params_group(p->g->params, op.attr.bucket);
    return mega_edit_insert(&p->edit, before, &op);
}

/* ---- uses ---- */

static int by_first_use(const void *a, const void *b, void *user)
{
    const place *p = user;
    const int x = *(const int *)a, y = *(const int *)b;
    return p->first[x] != p->first[y] ? p->first[x] - p->first[y] : p->result[x] - p->result[y];
}

/* Finds the first and last instruction that adds to gradients of each bucket; orders the buckets by the first. */
static mega_status find_uses(place *p)
{
    const mega_graph *g = p->g;
    graph_uses uses;
    const mega_status st = mega_uses_find(g, &uses);
    p->num_sequence = 0;
    for (int b = 0; b < mega_params_num_buckets(g->params); b++) p->first[b] = p->last[b] = -1;
    for (int32_t t = 1; t < g->num_tensors && st == MEGA_OK; t++) {
        const use_list writes = mega_uses_writes(&uses, t);
        if (g->tensor[t].role != ROLE_GRADIENT || writes.count == 0) continue;
        const int b = mega_params_get(g->params, g->tensor[t].param)->bucket;
        if (!mega_params_bucket(g->params, b)->has_grads) continue;
        const tensor_use first = writes.use[0], last = writes.use[writes.count - 1];
        if (p->first[b] < 0) p->sequence[p->num_sequence++] = b;
        if (p->first[b] < 0 || first.op < p->first[b] || (first.op == p->first[b] && first.operand < p->result[b])) {
            p->first[b] = first.op;
            p->result[b] = first.operand;
        }
        if (last.op > p->last[b]) p->last[b] = last.op;
    }
    mega_uses_fini(&uses);
    qsort_r(p->sequence, (size_t)p->num_sequence, sizeof *p->sequence, by_first_use, p);
    return st;
}

int32_t mega_place_bucket_tensor(place *p, int bucket, bool gradients)
{
    mega_graph *g = p->g;
    const char *kind = gradients ? "gradients" : "weights";
    const graph_tensor t = {
        .role = ROLE_VALUE,
        .name = mega_arena_format(&g->arena, "%s %d", kind, bucket),
        .shape = mega_shape_1d(gradients ? g->acc : g->dtype, mega_params_bucket(g->params, bucket)->count),
        .holds = gradients ? HOLDS_GRADIENTS : HOLDS_WEIGHTS};
    return mega_graph_tensor_add(g, &t);
}

int64_t mega_place_param_offset(const mega_graph *g, int param)
{
    const mega_param *r = mega_params_get(g->params, param);
    return r->offset - mega_params_bucket(g->params, r->bucket)->offset;
}

/* ---- gradients ---- */

static mega_status reduce_in_place(place *p)
{
    mega_graph *g = p->g;
    for (int s = 0; s < p->num_sequence; s++) {
        const int b = p->sequence[s], last = p->last[b];
        const mega_param *r = mega_params_get(g->params, mega_params_bucket(g->params, b)->first_param);
        if (r->tie != MEGA_TIE_NONE) continue; /* it is summed over its stages first */
        MEGA_TRY(mega_place_insert(p, last + 1, g->op[last].backward,
                                   (instruction){.kind = OP_REDUCE_START, .attr = {.bucket = b}}));
        g->buckets.reduces[b] = true;
    }
    return MEGA_OK;
}

/* Makes the bucket a value of the program, and its gradients parts of that value. Returns the value, or 0 on error. */
static int32_t hold_gradients(place *p, int bucket)
{
    mega_graph *g = p->g;
    const mega_bucket *b = mega_params_bucket(g->params, bucket);
    const int32_t whole = mega_place_bucket_tensor(p, bucket, true);
    for (int i = b->first_param; i < b->first_param + b->num_params && whole != 0; i++) {
        const int32_t t = g->weights.gradient[i];
        if (t == 0 || g->tensor[t].param != i) continue; /* one of several that are one tensor */
        g->tensor[t].base = whole;
        g->tensor[t].offset = mega_place_param_offset(g, i);
    }
    return whole;
}

static int by_last_use(const void *a, const void *b, void *user)
{
    const place *p = user;
    return p->last[*(const int *)a] - p->last[*(const int *)b];
}

/* Inserts the reductions of all buckets. The program waits for each at once, or with overlap_reduce after it has
 * started the next. */
static mega_status reduce_to_slices(place *p)
{
    mega_graph *g = p->g;
    qsort_r(p->sequence, (size_t)p->num_sequence, sizeof *p->sequence, by_last_use, p);
    for (int s = 0; s < p->num_sequence; s++) {
        const int b = p->sequence[s], first = p->first[b], last = p->last[b];
        const int32_t whole = hold_gradients(p, b);
        if (whole == 0) return g->status;
        instruction op = {.kind = OP_GRADS_ZERO, .out = {whole}, .attr = {.bucket = b}};
        MEGA_TRY(mega_place_insert(p, first, g->op[first].backward, op));
        op = (instruction){.kind = OP_REDUCE_START, .in = {whole}, .attr = {.bucket = b}};
        MEGA_TRY(mega_place_insert(p, last + 1, g->op[last].backward, op));
        g->buckets.reduces[b] = true;
        op.kind = OP_REDUCE_WAIT;
        if (!g->buckets.place.overlap_reduce) MEGA_TRY(mega_place_insert(p, last + 1, g->op[last].backward, op));
        p->whole[b] = whole;
    }
    for (int s = 0; s < p->num_sequence && g->buckets.place.overlap_reduce; s++) {
        const int b = p->sequence[s];
        const int end = s + 1 < p->num_sequence ? p->last[p->sequence[s + 1]] : g->num_ops - 1;
        const instruction op = {.kind = OP_REDUCE_WAIT, .in = {p->whole[b]}, .attr = {.bucket = b}};
        MEGA_TRY(mega_place_insert(p, end + 1, g->op[end].backward, op));
    }
    return MEGA_OK;
}

static mega_status place_buckets(place *p)
{
    mega_graph *g = p->g;
    const int stage = mega_params_zero_stage(g->params);
    MEGA_TRY(find_uses(p));
    for (int b = 0; b < mega_params_num_buckets(g->params); b++) g->buckets.ready[b] = p->last[b];
    MEGA_TRY(mega_place_held_gradients(p)); /* before the sums, which read what is kept */
    if (g->layout->dp.size == 1) return mega_edit_apply(&p->edit, g);
    if (stage >= 2) MEGA_TRY(reduce_to_slices(p));
    else if (g->buckets.place.overlap_reduce)
        MEGA_TRY(reduce_in_place(p));
    if (stage >= 3) MEGA_TRY(mega_place_weight_gathers(p));
    return mega_edit_apply(&p->edit, g);
}

mega_status mega_pass_place(mega_graph *g)
{
    if (g->params == NULL) return MEGA_OK;
    const size_t buckets = (size_t)mega_params_num_buckets(g->params) + 1;
    place p = {.g = g};
    MEGA_FREE(g->buckets.ready, g->buckets.reduces);
    g->buckets.ready = mega_malloc(buckets * sizeof *g->buckets.ready);
    g->buckets.reduces = mega_calloc(buckets, sizeof *g->buckets.reduces);
    p.first = mega_malloc(5 * buckets * sizeof *p.first);
    mega_status st = MEGA_OK;
    if (g->buckets.ready == NULL || g->buckets.reduces == NULL || p.first == NULL) {
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory for %zu buckets", buckets);
    } else {
        p.last = p.first + buckets;
        p.sequence = p.last + buckets;
        p.result = p.sequence + buckets;
        p.whole = p.result + buckets;
        st = place_buckets(&p);
    }
    mega_free(p.first);
    mega_edit_fini(&p.edit);
    return st;
}
