/* The probes of the loop that runs a program (execute.c): with MEGA_CHECK=1 every output is tested for values that are
 * not finite, the memory of dead values is filled with 0xFF (NaN in every float type), and the canary after every block
 * is checked; a search watches for the first value that is not finite; an observer is shown each result; a profile has
 * the time of each instruction. */
#include "megalith/assert.h"
#include "megalith/device_memory.h"
#include "program_impl.h"

/* ---- runs with MEGA_CHECK ---- */

#define CANARY   0xCA
#define RELEASED 0xFF

static unsigned char *block_memory(const mega_program *p, const plan_block *b, int slot)
{
    return (unsigned char *)(b->area == AREA_SAVED ? p->saved[slot] : p->scratch) + b->at;
}

static void begin_blocks(mega_program *p, int i, int slot)
{
    for (int k = 0; k < p->num_blocks; k++) {
        const plan_block *b = &p->block[k];
        if (b->first == i) mega_device_fill(block_memory(p, b, slot) + b->used, CANARY, b->bytes - b->used);
    }
}

/* Returns how many bytes after the block were written to. */
static size_t written_after(const plan_block *b, const unsigned char *memory)
{
    unsigned char piece[256];
    for (size_t at = b->used; at < b->bytes; at += sizeof piece) {
        const size_t n = b->bytes - at < sizeof piece ? b->bytes - at : sizeof piece;
        mega_device_read(piece, memory + at, n);
        for (size_t k = 0; k < n; k++)
            if (piece[k] != CANARY) return at + k - b->used + 1;
    }
    return 0;
}

static void end_blocks(mega_program *p, int i, int slot)
{
    for (int k = 0; k < p->num_blocks; k++) {
        const plan_block *b = &p->block[k];
        if (i < b->first || i > b->last) continue;
        unsigned char *m = block_memory(p, b, slot);
        const size_t written = written_after(b, m);
        MEGA_ASSERT(written == 0, "program %s, instruction %d (%s in \"%s\") wrote %zu bytes past the end of %s",
                    p->name, i, mega_op_table[p->g->op[i].kind]->name, p->g->op[i].scope, written,
                    b->tensor == 0 ? "its scratch" : p->g->tensor[b->tensor].name);
        if (b->last == i) mega_device_fill(m, RELEASED, b->used);
    }
}

/* Keeps the first failure, and the run goes on: other ranks wait for messages and collectives of this one, which would
 * otherwise be said to make different calls. */
static void probes_keep_failure(mega_program *p, int i, int slot)
{
    if (p->failed.code != MEGA_OK) return;
    const mega_status st = mega_program_check_finite(p, i, slot, p->g->dtype != MEGA_F16);
    if (st != MEGA_OK) mega_error_get_of(st, &p->failed);
}

/* ---- runs that search for values that are not finite, or show each result to an observer. All instructions run even
 * after such a value, because other ranks wait for messages. ---- */

static void keep_nonfinite(mega_program *p, int i, int slot)
{
    if (p->nonfinite->instruction >= 0 || mega_program_check_finite(p, i, slot, true) == MEGA_OK) return;
    p->nonfinite->instruction = i;
    mega_error_get(&p->nonfinite->what);
}

/* Returns whether a collective sums tensor t over ranks. */
static bool is_partial(const mega_graph *g, int32_t t)
{
    for (int i = 0; i < g->num_ops; i++)
        if (g->op[i].in[0] == t && (g->op[i].kind == OP_ALL_REDUCE || g->op[i].kind == OP_REDUCE_SCATTER)) return true;
    return false;
}

/* Shows a result to the observer: as it is, or a copy where the host cannot read it in place. */
static void show_result(mega_program *p, mega_observed *made, size_t bytes)
{
    const bool is_host = mega_device_is_host(made->data);
    void *copy = is_host ? NULL : mega_malloc(bytes);
    if (copy != NULL) {
        mega_device_read(copy, made->data, bytes);
        made->data = copy;
    }
    if (copy != NULL || is_host) p->observer(p->observer_user, made);
    else if (p->failed.code == MEGA_OK)
        mega_error_get_of(MEGA_NO_MEMORY("observer", "a copy of a result"), &p->failed);
    mega_free(copy);
}

static void show_results(mega_program *p, int i, int slot)
{
    const mega_graph *g = p->g;
    const instruction *op = &g->op[i];
    for (int k = 0; k < OP_MAX_OUT; k++) {
        const graph_tensor *t = &g->tensor[op->out[k]];
        if (op->out[k] == 0 || t->role != ROLE_VALUE) continue; /* gradients of parameters are still partial */
        const int64_t count = mega_shape_count(&t->shape), cols = t->shape.num_dims == 2 ? t->shape.dim[1] : 1;
        mega_observed made = {.program = p,
                              .instruction = i,
                              .backward = op->backward,
                              .is_partial = is_partial(g, op->out[k]),
                              .op = mega_op_table[op->kind]->name,
                              .tensor = t->name,
                              .data = mega_program_address(p, op->out[k], slot),
                              .place = mega_program_address(p, op->out[k], slot),
                              .dtype = t->shape.dtype,
                              .rows = count / cols,
                              .cols = cols};
        show_result(p, &made, mega_shape_bytes(&t->shape));
    }
}

static void watch_results(mega_program *p, int i, int slot)
{
    if (p->observer != NULL) show_results(p, i, slot);
    if (p->nonfinite != NULL) keep_nonfinite(p, i, slot);
}

void mega_program_watch(mega_program *p, mega_nonfinite *found)
{
    p->nonfinite = found;
}

void mega_program_observe(mega_program *p, mega_observer *observer, void *user)
{
    p->observer = observer;
    p->observer_user = user;
}

/* ---- profiled runs ---- */

static void note_begin(mega_program *p, int i, int slot)
{
    (void)i;
    (void)slot;
    p->call_began = mega_profile_queued(p->profile, &p->queue);
}

static void note_end(mega_program *p, int i)
{
    mega_profile_instruction(p->profile, p->g, i, p->call_began, mega_profile_queued(p->profile, &p->queue));
}

void mega_program_profile(mega_program *program, mega_profile *profile)
{
    program->profile = profile;
}

const program_probe *mega_program_probe(const mega_program *p)
{
    static const program_probe none = {.before = NULL}, watched = {.completed = watch_results};
    static const program_probe checked = {
        .before = begin_blocks, .completed = probes_keep_failure, .after = end_blocks};
    static const program_probe profiled = {.before = note_begin, .started = note_end};
    if (p->nonfinite != NULL || p->observer != NULL) return &watched;
    return p->check > 0 ? &checked : p->profile != NULL ? &profiled : &none;
}
