/* Plans memory: live ranges, and from them offsets. With several micro-batches in flight, values that the backward
 * reads from the forward are in a saved arena per slot, and all others in one scratch arena that forward and backward
 * share. With one micro-batch, all are in the scratch arena. memory_offsets.c chooses the offsets. */
#include "megalith/assert.h"
#include "program_impl.h"
#include "uses_impl.h"

#include <stdlib.h>
#include <string.h>

static size_t plan_round_up(size_t n)
{
    return (n + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

typedef struct plan {
    mega_program *p;
    int *block_of; /* by tensor: its block; -1: none */
    int *busy;     /* by tensor: the last instruction that a collective on it may overlap; -1: none */
} plan;

static int add_block(plan *pl, int32_t tensor, size_t bytes, int at)
{
    mega_program *p = pl->p;
    p->block[p->num_blocks] = (plan_block){.used = bytes,
                                           .bytes = plan_round_up(bytes) + (p->check > 0 ? PLAN_ALIGN : 0),
                                           .first = at,
                                           .last = at,
                                           .tensor = tensor};
    return p->num_blocks++;
}

static int reads_of(const mega_graph *g, const instruction *op, int32_t root)
{
    int n = 0;
    for (int k = 0; k < OP_MAX_IN; k++) n += op->in[k] != 0 && mega_graph_root(g, op->in[k]) == root;
    return n;
}

/* Returns the block of an operand that dies at instruction i and that its first result may overwrite, or -1. */
static int overlay(const plan *pl, int i, const int *last_read)
{
    const mega_graph *g = pl->p->g;
    const instruction *op = &g->op[i];
    const graph_tensor *out = &g->tensor[op->out[0]];
    if (out->role != ROLE_VALUE || out->is_output) return -1;
    for (int k = 0; k < OP_MAX_IN; k++) {
        const int32_t t = op->in[k];
        if (!(mega_op_table[op->kind]->overlays >> k & 1) || t == 0) continue;
        const graph_tensor *in = &g->tensor[t];
        const bool fits = in->role == ROLE_VALUE && !in->is_output && last_read[t] == i && pl->busy[t] < i &&
                          mega_shape_bytes(&in->shape) == mega_shape_bytes(&out->shape) && reads_of(g, op, t) == 1;
        if (fits) return pl->block_of[t];
    }
    return -1;
}

/* Sets `busy`. A collective uses its result until the program waits for it, and a reduce_scatter and an all_to_all also
 * their operand. (An all_gather copies its operand before it starts, and an all_reduce works in place.) */
static void find_busy(plan *pl)
{
    const mega_graph *g = pl->p->g;
    for (int i = 0; i < g->num_ops; i++) {
        const instruction *op = &g->op[i];
        if (!mega_op_is_collective(op->kind)) continue;
        const int end = op->backward ? g->num_ops : g->num_forward;
        const int last = (op->first_use < 0 || op->first_use > end ? end : op->first_use) - 1;
        const int32_t in = mega_graph_root(g, op->in[0]);
        pl->busy[mega_graph_root(g, op->out[0])] = last;
        const bool reads_on = op->kind == OP_REDUCE_SCATTER || op->kind == OP_ALL_TO_ALL;
        if (reads_on && last > pl->busy[in]) pl->busy[in] = last;
    }
}

/* Creates one block per written value, in the order of first writes; a value that overwrites another shares its
 * block. */
static void find_lives(plan *pl, const int *last_read)
{
    const mega_graph *g = pl->p->g;
    for (int i = 0; i < g->num_ops; i++) {
        const instruction *op = &g->op[i];
        for (int k = 0; k < OP_MAX_OUT; k++) {
            const int32_t root = mega_graph_root(g, op->out[k]);
            if (op->out[k] == 0 || g->tensor[root].role != ROLE_VALUE || g->tensor[root].is_output) continue;
            if (pl->block_of[root] < 0) {
                const int shared = k == 0 && root == op->out[0] ? overlay(pl, i, last_read) : -1;
                pl->block_of[root] =
                    shared >= 0 ? shared : add_block(pl, root, mega_shape_bytes(&g->tensor[root].shape), i);
            }
            plan_block *b = &pl->p->block[pl->block_of[root]];
            const int used = last_read[root] > i ? last_read[root] : i;
            const int last = pl->busy[root] > used ? pl->busy[root] : used;
            if (last > b->last) b->last = last;
        }
    }
}

void *mega_plan_address(const op_binder *b, int32_t tensor)
{
    (void)b;
    return tensor == 0 ? NULL : (void *)(uintptr_t)PLAN_ALIGN;
}

const void *mega_plan_table(const op_binder *b, const instruction *op)
{
    (void)b, (void)op;
    return (const void *)(uintptr_t)PLAN_ALIGN;
}

static mega_status add_kernel_scratch(plan *pl)
{
    mega_program *p = pl->p;
    void *args = mega_calloc(1, PROGRAM_ARGS_BYTES);
    if (args == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "program %s: no memory to plan it", p->name);
    for (int i = 0; i < p->g->num_ops; i++) {
        instruction *op = &p->g->op[i];
        const mega_kernel *kernel = mega_program_kernel(p, op);
        if (kernel == NULL || kernel->scratch == NULL) continue;
        const op_binder b = {.g = p->g, .address = mega_plan_address, .table = mega_plan_table};
        memset(args, 0, PROGRAM_ARGS_BYTES);
        mega_program_bind_args(p, &b, op, args);
        op->scratch_bytes = kernel->scratch(args, p->threads);
        if (op->scratch_bytes > 0) add_block(pl, 0, op->scratch_bytes, i);
    }
    mega_free(args);
    return MEGA_OK;
}

static int plan_by_offset(const void *a, const void *b)
{
    const plan_block *x = *(plan_block *const *)a, *y = *(plan_block *const *)b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Checks that no two blocks of one area that are alive at the same time overlap. */
static void verify_blocks(const mega_program *p, plan_block **list, int count)
{
    qsort(list, (size_t)count, sizeof *list, plan_by_offset);
    for (int i = 0; i < count; i++)
        for (int k = i + 1; k < count && list[k]->at < list[i]->at + list[i]->bytes; k++) {
            const plan_block *a = list[i], *b = list[k];
            MEGA_ASSERT(a->last < b->first || b->last < a->first,
                        "plan of %s: tensors %s and %s overlap at %zu and %zu", p->name, p->g->tensor[a->tensor].name,
                        p->g->tensor[b->tensor].name, a->at, b->at);
        }
}

/* Assigns offsets. With one slot all blocks are in one arena, so that scratch of the backward may overwrite forward
 * values that it has read. With more slots, saved values must outlive the scratch of other micro-batches. */
static mega_status assign_blocks(mega_program *p)
{
    const int forward = p->g->num_forward;
    plan_block **list = mega_malloc(((size_t)p->num_blocks + 1) * sizeof *list);
    void *room = mega_malloc(mega_plan_offsets_bytes(p->num_blocks, p->g->num_ops) + 1);
    if (list == NULL || room == NULL) {
        MEGA_FREE(list, room);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "program %s: no memory to plan %d blocks", p->name, p->num_blocks);
    }
    for (int i = 0; i < p->num_blocks; i++) {
        plan_block *b = &p->block[i];
        const bool crosses = b->first < forward && b->last >= forward;
        b->area = crosses && p->slots > 1 ? AREA_SAVED : AREA_SCRATCH;
        if (crosses && p->slots == 1 && p->g->tensor[b->tensor].holds == HOLDS_NOTHING) p->crossing_bytes += b->bytes;
    }
    for (int saved = 0; saved < 2; saved++) {
        int count = 0;
        for (int i = 0; i < p->num_blocks; i++)
            if ((p->block[i].area == AREA_SAVED) == (saved == 1)) list[count++] = &p->block[i];
        size_t alive = 0;
        *(saved == 1 ? &p->saved_bytes : &p->scratch_bytes) =
            mega_plan_offsets(list, count, p->g->num_ops, room, &alive);
        verify_blocks(p, list, count);
        p->live_bytes += alive * (size_t)(saved == 1 ? p->slots : 1);
        if (saved == 0) p->scratch_live = alive;
    }
    MEGA_FREE(list, room);
    return MEGA_OK;
}

static bool is_seed(const mega_graph *g, int32_t tensor)
{
    for (int i = 1; i < g->names.num_seeds; i += 2)
        if (g->names.seed[i].tensor == tensor) return true;
    return false;
}

/* Returns whether only one phase reads or writes this input or output; an input counts only if the caller fills it
 * before a backward. */
static bool passes_through(const mega_program *p, int32_t tensor)
{
    const mega_graph *g = p->g;
    bool touched[2] = {false, false}; /* by the forward, by the backward */
    if (p->passes == p->slots || (g->tensor[tensor].role == ROLE_INPUT && !is_seed(g, tensor))) return false;
    for (int i = 0; i < g->num_ops; i++)
        for (int k = 0; k < OP_MAX_IN + OP_MAX_OUT; k++) {
            const int32_t t = k < OP_MAX_IN ? g->op[i].in[k] : g->op[i].out[k - OP_MAX_IN];
            if (t != 0 && mega_graph_root(g, t) == tensor) touched[i >= g->num_forward] = true;
        }
    return !(touched[0] && touched[1]);
}

/* Lays out inputs and outputs one after the other, and states likewise; then gives every value the offset of its
 * block. */
static void write_places(plan *pl)
{
    mega_program *p = pl->p;
    for (int t = 1; t < p->g->num_tensors; t++) {
        graph_tensor *x = &p->g->tensor[t];
        const size_t bytes = plan_round_up(mega_shape_bytes(&x->shape));
        if (x->role == ROLE_INPUT || (x->role == ROLE_VALUE && x->is_output)) {
            const bool passes = passes_through(p, t);
            size_t *end = passes ? &p->pass_bytes : &p->io_bytes;
            x->area = passes ? AREA_PASS : AREA_IO;
            x->at = *end;
            *end += bytes;
        } else if (x->role == ROLE_STATE) {
            x->area = AREA_STATE;
            if (x->shared_with != 0) continue;
            x->at = p->state_bytes;
            p->state_bytes += bytes;
        } else if (x->role == ROLE_VALUE && pl->block_of[t] >= 0) {
            x->area = p->block[pl->block_of[t]].area;
            x->at = p->block[pl->block_of[t]].at;
        }
    }
    for (int b = 0; b < p->num_blocks; b++)
        if (p->block[b].tensor == 0) p->g->op[p->block[b].first].scratch_at = p->block[b].at;
}

static bool is_cross_entropy(int kind)
{
    return kind == OP_XENT || kind == OP_XENT_MAX || kind == OP_XENT_SUM || kind == OP_XENT_GRAD;
}

/* Measures the memory of one chunk of the head: the blocks that a cross-entropy instruction reads or writes. */
static void measure_head(plan *pl)
{
    mega_program *p = pl->p;
    for (int i = 0; i < p->g->num_ops; i++) {
        const instruction *op = &p->g->op[i];
        int block[OP_MAX_IN + OP_MAX_OUT], count = 0;
        size_t sum = 0;
        if (!is_cross_entropy(op->kind)) continue;
        for (int k = 0; k < OP_MAX_IN + OP_MAX_OUT; k++) {
            const int32_t t = mega_graph_root(p->g, k < OP_MAX_IN ? op->in[k] : op->out[k - OP_MAX_IN]);
            bool seen = t == 0 || pl->block_of[t] < 0;
            for (int n = 0; n < count && !seen; n++) seen = block[n] == pl->block_of[t];
            if (seen) continue;
            block[count++] = pl->block_of[t];
            sum += p->block[pl->block_of[t]].bytes;
        }
        if (sum > p->head_bytes) p->head_bytes = sum;
    }
}

/* Measures the peaks of gradient buckets and of gathered weights over all instructions. */
static mega_status measure_buckets(mega_program *p)
{
    size_t(*change)[3] = mega_calloc((size_t)p->g->num_ops + 1, sizeof *change); /* change of the bytes alive, by
                                                                                    instruction, modulo 2^64 */
    size_t sum[3] = {0};
    if (change == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "program %s: no memory to plan %d instructions", p->name, p->g->num_ops);
    for (int k = 0; k < p->num_blocks; k++) {
        const plan_block *b = &p->block[k];
        change[b->first][p->g->tensor[b->tensor].holds] += b->bytes;
        change[b->last + 1][p->g->tensor[b->tensor].holds] -= b->bytes;
    }
    for (int i = 0; i < p->g->num_ops; i++)
        for (int u = 0; u < 3; u++) {
            sum[u] += change[i][u];
            if (sum[u] > p->held_bytes[u]) p->held_bytes[u] = sum[u];
        }
    mega_free(change);
    return MEGA_OK;
}

/* By tensor that is not a view: the last instruction that reads it; -1: none. */
static mega_status find_last_reads(const mega_graph *g, int *last_read)
{
    graph_uses uses;
    const mega_status st = mega_uses_find(g, &uses);
    for (int32_t t = 0; t < g->num_tensors && st == MEGA_OK; t++) {
        const use_list reads = mega_uses_reads(&uses, t);
        last_read[t] = reads.count == 0 ? -1 : reads.use[reads.count - 1].op;
    }
    mega_uses_fini(&uses);
    return st;
}

mega_status mega_program_plan(mega_program *p)
{
    const mega_graph *g = p->g;
    plan pl = {.p = p};
    int *last_read = mega_malloc((size_t)g->num_tensors * sizeof *last_read);
    pl.busy = mega_malloc((size_t)g->num_tensors * sizeof *pl.busy);
    pl.block_of = mega_malloc((size_t)g->num_tensors * sizeof *pl.block_of);
    p->block = mega_calloc((size_t)g->num_tensors + (size_t)g->num_ops, sizeof *p->block);
    mega_status st = MEGA_OK;
    if (last_read == NULL || pl.busy == NULL || pl.block_of == NULL || p->block == NULL) {
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "program %s: no memory to plan %d tensors", p->name, g->num_tensors);
    } else {
        memset(pl.block_of, -1, (size_t)g->num_tensors * sizeof *pl.block_of);
        memset(pl.busy, -1, (size_t)g->num_tensors * sizeof *pl.busy);
        st = find_last_reads(g, last_read);
        find_busy(&pl);
        if (st == MEGA_OK) find_lives(&pl, last_read);
        if (st == MEGA_OK) st = add_kernel_scratch(&pl);
        if (st == MEGA_OK) st = mega_plan_packed(p);
        if (st == MEGA_OK) st = assign_blocks(p);
        if (st == MEGA_OK) measure_head(&pl);
        if (st == MEGA_OK) st = measure_buckets(p);
        if (st == MEGA_OK) write_places(&pl);
        if (st == MEGA_OK) mega_control_plan(p);
    }
    MEGA_FREE(pl.block_of, pl.busy, last_read);
    return st;
}
