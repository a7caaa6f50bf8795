/* recompute: values that a marked region computes and only its own backward reads are not saved. The instructions that
 * compute them are cloned into the backward program, before the first backward instruction of the region. Values that
 * leave the region, or that other ops read in the backward, are saved, and so are the inputs of a region, either whole
 * or as this rank's share. Clones run the same kernels on the same inputs, and dropout masks depend on coordinates
 * only, so that losses and gradients keep their bits. */
#include "edit_impl.h"
#include "uses_impl.h"

#include <string.h>

typedef struct recompute {
    mega_graph *g;
    int32_t *maker;  /* by tensor: the forward instruction that computes it; -1: none */
    int32_t *clone;  /* by tensor: its clone in the backward; 0: none */
    bool *keep;      /* by tensor: ops outside its region read it in the backward */
    bool *needed;    /* by forward instruction: it will be cloned */
    int *reader;     /* by tensor: the only region that reads it in the backward, as an input; 0: no op reads it; -1:
                         others read it too, or it cannot be sharded */
    int32_t *slice;  /* by tensor: its saved shard; 0: saved whole or not at all */
    graph_edit edit; /* the instructions to insert */
} recompute;

static int region_of(const recompute *r, int32_t tensor)
{
    const int maker = r->maker[mega_graph_root(r->g, tensor)];
    return maker < 0 ? 0 : r->g->op[maker].region;
}

/* Marks for cloning the forward instruction that computes `tensor`, and those inside the region that it depends on. */
static void recompute_need(recompute *r, int32_t tensor, int region)
{
    const int32_t root = mega_graph_root(r->g, tensor);
    const int maker = r->maker[root];
    if (tensor == 0 || maker < 0 || r->keep[root] || r->g->op[maker].region != region || r->needed[maker]) return;
    r->needed[maker] = true;
    for (int k = 0; k < OP_MAX_IN; k++) recompute_need(r, r->g->op[maker].in[k], region);
}

/* Keeps, instead of recomputing, every tensor of a region that an op outside the region reads. It is called again after
 * the clones of a later region add readers. */
static void keep_reads(recompute *r, const instruction *op)
{
    for (int k = 0; k < OP_MAX_IN; k++) {
        const int region = op->in[k] == 0 ? 0 : region_of(r, op->in[k]);
        if (region != 0 && region != op->region) r->keep[mega_graph_root(r->g, op->in[k])] = true;
    }
}

static void find_needed(recompute *r)
{
    mega_graph *g = r->g;
    for (int i = g->num_forward; i < g->num_ops; i++) keep_reads(r, &g->op[i]);
    for (int t = 1; t < g->num_tensors; t++)
        if (g->tensor[t].is_output) r->keep[t] = true;
    for (int region = g->regions.count; region >= 1; region--) { /* clones read only earlier regions */
        for (int i = g->num_forward; i < g->num_ops; i++)
            for (int k = 0; k < OP_MAX_IN && g->op[i].region == region; k++)
                if (g->op[i].in[k] != 0) recompute_need(r, g->op[i].in[k], region);
        for (int i = 0; i < g->num_forward; i++)
            if (r->needed[i] && g->op[i].region == region) keep_reads(r, &g->op[i]);
    }
}

/* ---- inputs of regions that are saved as shards (mega_recompute_distribute) ---- */

static bool is_cuttable(const mega_graph *g, int32_t t)
{
    const graph_tensor *x = &g->tensor[t];
    return x->role == ROLE_VALUE && !x->is_output && x->shape.num_dims == 2 && x->shape.dtype == g->dtype &&
           x->shape.dim[0] % g->regions.saved_axis.size == 0;
}

static void note_read(recompute *r, int32_t t, int region)
{
    const int32_t root = mega_graph_root(r->g, t);
    if (t == 0) return;
    const bool is_input = region != 0 && root == t && region_of(r, t) != region && is_cuttable(r->g, t);
    const int reader = is_input ? region : -1;
    r->reader[root] = r->reader[root] == 0 || r->reader[root] == reader ? reader : -1;
}

/* Finds the tensors that are saved as shards; these are no longer saved whole. */
static void find_slices(recompute *r)
{
    mega_graph *g = r->g;
    if (g->regions.saved_axis.size <= 1) return;
    for (int i = 0; i < g->num_ops; i++)
        for (int k = 0; k < OP_MAX_IN && (i >= g->num_forward || r->needed[i]); k++)
            note_read(r, g->op[i].in[k], g->op[i].region);
    for (int i = 0; i < g->num_forward; i++)
        if (r->reader[g->op[i].out[0]] > 0) r->keep[g->op[i].out[0]] = false;
}

static int32_t add_rows(mega_graph *g, int32_t of, const char *suffix, int64_t rows)
{
    graph_tensor t = {.role = ROLE_VALUE, .shape = g->tensor[of].shape};
    t.shape.dim[0] = rows;
    t.name = mega_arena_format(&g->arena, "%s%s", g->tensor[of].name, suffix);
    return mega_graph_tensor_add(g, &t);
}

/* Inserts, after forward instruction i, the instruction that copies this rank's share of its result. */
static mega_status insert_slice(recompute *r, int i)
{
    mega_graph *g = r->g;
    const int32_t t = g->op[i].out[0];
    if (t == 0 || r->reader[t] <= 0) return MEGA_OK;
    r->slice[t] = add_rows(g, t, ".share", g->tensor[t].shape.dim[0] / g->regions.saved_axis.size);
    const instruction op = {.kind = OP_OWN_ROWS,
                            .in = {t},
                            .out = {r->slice[t]},
                            .attr = {.axis = g->regions.saved_axis},
                            .scope = g->op[i].scope,
                            .first_use = -1};
    return mega_edit_insert(&r->edit, i + 1, &op);
}

/* Inserts the all-gathers that restore the sharded inputs of a region. */
static mega_status insert_gathers(recompute *r, int before, int region)
{
    mega_graph *g = r->g;
    for (int i = 0; i < g->num_forward; i++) {
        const int32_t t = g->op[i].out[0];
        if (t == 0 || r->slice[t] == 0 || r->reader[t] != region) continue;
        r->clone[t] = add_rows(g, t, "'", g->tensor[t].shape.dim[0]);
        const instruction op = {.kind = OP_ALL_GATHER,
                                .in = {r->slice[t]},
                                .out = {r->clone[t]},
                                .attr = {.axis = g->regions.saved_axis, .what = "saved activation"},
                                .backward = true,
                                .recomputed = true,
                                .region = region,
                                .scope = g->op[i].scope,
                                .first_use = -1};
        MEGA_TRY(mega_edit_insert(&r->edit, before, &op));
    }
    return MEGA_OK;
}

/* ---- the new list of instructions ---- */

/* Returns the tensor that the backward reads instead of `tensor`. */
static int32_t replaced(recompute *r, int32_t tensor)
{
    mega_graph *g = r->g;
    const int32_t root = mega_graph_root(g, tensor);
    if (tensor == 0 || r->clone[root] == 0) return tensor;
    if (root == tensor) return r->clone[root];
    graph_tensor view = g->tensor[tensor];
    view.base = r->clone[root];
    return mega_graph_tensor_add(g, &view);
}

static mega_status insert_clone(recompute *r, int before, const instruction *original)
{
    mega_graph *g = r->g;
    instruction c = *original;
    c.backward = c.recomputed = true;
    for (int k = 0; k < OP_MAX_IN; k++) c.in[k] = replaced(r, c.in[k]);
    for (int k = 0; k < OP_MAX_OUT; k++) {
        if (c.out[k] == 0) continue;
        const int32_t root = mega_graph_root(g, c.out[k]);
        if (r->clone[root] == 0) {
            graph_tensor t = g->tensor[root];
            t.is_output = false;
            t.gradient = 0;
            t.name = mega_arena_format(&g->arena, "%s'", t.name);
            r->clone[root] = mega_graph_tensor_add(g, &t);
        }
        c.out[k] = replaced(r, c.out[k]);
    }
    return mega_edit_insert(&r->edit, before, &c);
}

/* Inserts what backward instruction i needs if it is the first of its region. */
static mega_status insert_region(recompute *r, int i)
{
    mega_graph *g = r->g;
    const int region = g->op[i].region;
    MEGA_TRY(insert_gathers(r, i, region));
    for (int k = 0; k < g->num_forward; k++)
        if (r->needed[k] && g->op[k].region == region) MEGA_TRY(insert_clone(r, i, &g->op[k]));
    return MEGA_OK;
}

static mega_status recompute_rewrite(recompute *r)
{
    mega_graph *g = r->g;
    int done = 0; /* the region cloned last; the backward meets regions in descending order */
    for (int i = 0; i < g->num_forward; i++) MEGA_TRY(insert_slice(r, i));
    for (int i = g->num_forward; i < g->num_ops; i++) {
        instruction *op = &g->op[i];
        if (op->region == 0) continue;
        if (op->region != done) MEGA_TRY(insert_region(r, i));
        done = op->region;
        for (int k = 0; k < OP_MAX_IN; k++)
            if (!r->keep[mega_graph_root(g, op->in[k])]) op->in[k] = replaced(r, op->in[k]);
    }
    MEGA_TRY(mega_graph_status(g));
    return mega_edit_apply(&r->edit, g);
}

/* By tensor that is not a view: the last forward instruction that writes to it. */
static mega_status find_makers(recompute *r)
{
    const mega_graph *g = r->g;
    graph_uses uses;
    const mega_status st = mega_uses_find(g, &uses);
    memset(r->maker, -1, (size_t)g->num_tensors * sizeof *r->maker);
    for (int32_t t = 1; t < g->num_tensors && st == MEGA_OK; t++) {
        const use_list writes = mega_uses_writes(&uses, t);
        const int32_t root = mega_graph_root(g, t);
        for (int k = 0; k < writes.count && writes.use[k].op < g->num_forward; k++)
            if (writes.use[k].op > r->maker[root]) r->maker[root] = writes.use[k].op;
    }
    mega_uses_fini(&uses);
    return st;
}

static mega_status recompute_allocate(recompute *r)
{
    mega_graph *g = r->g;
    const size_t tensors = (size_t)g->num_tensors;
    r->maker = mega_malloc(tensors * sizeof *r->maker);
    r->clone = mega_calloc(tensors, sizeof *r->clone);
    r->keep = mega_calloc(tensors, sizeof *r->keep);
    r->needed = mega_calloc((size_t)g->num_forward + 1, sizeof *r->needed);
    r->reader = mega_calloc(tensors, sizeof *r->reader);
    r->slice = mega_calloc(tensors, sizeof *r->slice);
    if (r->reader == NULL || r->slice == NULL || r->maker == NULL || r->clone == NULL || r->keep == NULL ||
        r->needed == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory to mark %d instructions for recomputation", g->num_ops);
    return find_makers(r);
}

mega_status mega_pass_recompute(mega_graph *g)
{
    if (g->regions.count == 0) return MEGA_OK;
    recompute r = {.g = g};
    mega_status st = recompute_allocate(&r);
    if (st == MEGA_OK) {
        find_needed(&r);
        find_slices(&r);
        st = recompute_rewrite(&r);
    }
    mega_edit_fini(&r.edit);
    MEGA_FREE(r.slice, r.reader, r.needed, r.keep, r.clone, r.maker);
    return st;
}
