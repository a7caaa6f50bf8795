/* Runs a program: a loop over its calls, without allocation. With MEGA_CHECK=1 every output is tested for values that
 * are not finite, the memory of dead values is filled with 0xFF (NaN in every float type), and the canary after every
 * block is checked. */
#include "megalith/assert.h"
#include "megalith/record.h"
#include "megalith/threads.h"
#include "program_impl.h"

#include <limits.h>
#include <string.h>

/* Returns whether to skip computation: a program without a backward (evaluation, generation) stops computing once a
 * signal asks for it. It still sends its messages, with whatever they contain, because other ranks wait for them. */
static bool execute_is_left(const mega_program *p)
{
    return p->g->num_forward == p->g->num_ops && p->check == 0 && p->found == NULL &&
           mega_world_stops(p->world, mega_team_is_stopped(p->team));
}

static mega_status run_call(mega_program *p, const program_call *c)
{
    const op_kind kind = p->g->op[c->instruction].kind;
    MEGA_TRY(mega_comm_poll(p->world)); /* lets collectives and pipeline messages in progress advance */
    if (mega_op_is_bucket(kind)) return mega_bucket_run(p, c->instruction, c->args);
    if (c->kernel == NULL) return mega_collective_run(p, c->instruction, c->args);
    if (!execute_is_left(p)) c->kernel->run(p->team, c->args);
    if (kind == OP_CUSTOM || kind == OP_CUSTOM_GRAD) mega_custom_collect(p, c->instruction, c->args);
    return MEGA_OK;
}

/* ---- weights that are still arriving ---- */

void mega_program_await_weights(mega_program *p, mega_weights_wait *wait, void *user)
{
    p->weights_wait = wait;
    p->weights_user = user;
}

static mega_status await_tensor(const mega_program *p, int32_t t)
{
    const graph_tensor *x = &p->g->tensor[mega_graph_root(p->g, t)];
    if (t == 0 || x->role != ROLE_WEIGHT) return MEGA_OK;
    return p->weights_wait(p->weights_user, mega_params_get(p->g->params, x->param)->bucket);
}

static bool is_awaiting(const mega_program *p, int i)
{
    return p->step.awaits_weights && p->weights_wait != NULL && i < p->g->num_forward;
}

/* Waits for the weights that instruction i of a forward reads. */
static mega_status await_weights(const mega_program *p, int i)
{
    for (int k = 0; is_awaiting(p, i) && k < OP_MAX_IN; k++) MEGA_TRY(await_tensor(p, p->g->op[i].in[k]));
    return MEGA_OK;
}

/* Waits for all weights of the program, since its backward may read some that its forward does not. */
static mega_status await_all(const mega_program *p)
{
    for (int32_t t = 1; is_awaiting(p, 0) && t < p->g->num_tensors; t++) MEGA_TRY(await_tensor(p, t));
    return MEGA_OK;
}

/* ---- runs with MEGA_CHECK ---- */

#define CANARY   0xCA
#define RELEASED 0xFF

static unsigned char *block_memory(const mega_program *p, const plan_block *b, int slot)
{
    return (unsigned char *)(b->area == AREA_SAVED ? p->saved[slot] : p->scratch) + b->at;
}

static void begin_blocks(const mega_program *p, int i, int slot)
{
    for (int k = 0; k < p->num_blocks; k++) {
        const plan_block *b = &p->block[k];
        if (b->first == i) memset(block_memory(p, b, slot) + b->used, CANARY, b->bytes - b->used);
    }
}

static void end_blocks(const mega_program *p, int i, int slot)
{
    for (int k = 0; k < p->num_blocks; k++) {
        const plan_block *b = &p->block[k];
        if (i < b->first || i > b->last) continue;
        unsigned char *m = block_memory(p, b, slot);
        for (size_t n = b->used; n < b->bytes; n++)
            MEGA_ASSERT(m[n] == CANARY, "program %s, instruction %d (%s in \"%s\") wrote %zu bytes past the end of %s",
                        p->name, i, mega_op_table[p->g->op[i].kind]->name, p->g->op[i].scope, n - b->used + 1,
                        b->tensor == 0 ? "its scratch" : p->g->tensor[b->tensor].name);
        if (b->last == i) memset(m, RELEASED, b->used);
    }
}

/* Examines the results of instruction i. */
typedef mega_status look(mega_program *p, int i, int slot);

/* Waits for the collectives whose results the instruction after i reads, and examines each result if `at` is not
 * NULL. */
static mega_status execute_wait(mega_program *p, int slot, int i, int end, look *at)
{
    for (int waited = -1; p->num_waits > 0;) {
        MEGA_TRY(mega_collectives_wait(p, i + 1 < end ? i + 1 : INT_MAX, &waited));
        if (waited < 0) break;
        if (at != NULL) MEGA_TRY(at(p, waited, slot));
    }
    return MEGA_OK;
}

/* Returns whether the results of instruction i are complete; those of a collective or bucket op are not, because it
 * only starts them. */
static bool execute_is_done(const mega_program *p, int i)
{
    return !mega_op_is_bucket(p->g->op[i].kind) && !mega_op_is_collective(p->g->op[i].kind);
}

/* Keeps the first failure, and the run goes on: other ranks wait for messages and collectives of this one, which would
 * otherwise be said to make different calls. */
static mega_status keep_failure(mega_program *p, int i, int slot)
{
    if (p->failed.code != MEGA_OK) return MEGA_OK;
    const mega_status st = mega_program_check_finite(p, i, slot, p->g->dtype != MEGA_F16);
    if (st != MEGA_OK) mega_error_get_of(st, &p->failed);
    return MEGA_OK;
}

static mega_status run_checked(mega_program *p, int slot, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        MEGA_TRY(await_weights(p, i));
        if (p->check > 0) begin_blocks(p, i, slot);
        MEGA_TRY(run_call(p, &p->call[slot * p->g->num_ops + i]));
        if (execute_is_done(p, i)) MEGA_TRY(keep_failure(p, i, slot));
        MEGA_TRY(execute_wait(p, slot, i, end, keep_failure));
        if (p->check > 0) end_blocks(p, i, slot);
    }
    return MEGA_OK;
}

/* ---- runs that search for non-finite values, or show each result to an observer ---- */

static mega_status keep_nonfinite(mega_program *p, int i, int slot)
{
    if (p->found->instruction >= 0 || mega_program_check_finite(p, i, slot, true) == MEGA_OK) return MEGA_OK;
    p->found->instruction = i;
    mega_error_get(&p->found->what);
    return MEGA_OK;
}

/* Returns whether a collective sums tensor t over ranks. */
static bool is_partial(const mega_graph *g, int32_t t)
{
    for (int i = 0; i < g->num_ops; i++)
        if (g->op[i].in[0] == t && (g->op[i].kind == OP_ALL_REDUCE || g->op[i].kind == OP_REDUCE_SCATTER)) return true;
    return false;
}

static void execute_show(mega_program *p, int i, int slot)
{
    const mega_graph *g = p->g;
    const instruction *op = &g->op[i];
    for (int k = 0; k < OP_MAX_OUT; k++) {
        const graph_tensor *t = &g->tensor[op->out[k]];
        if (op->out[k] == 0 || t->role != ROLE_VALUE) continue; /* gradients of parameters are still partial */
        const int64_t count = mega_shape_count(&t->shape), cols = t->shape.num_dims == 2 ? t->shape.dim[1] : 1;
        const mega_observed made = {.program = p,
                                    .instruction = i,
                                    .backward = op->backward,
                                    .is_partial = is_partial(g, op->out[k]),
                                    .op = mega_op_table[op->kind]->name,
                                    .tensor = t->name,
                                    .data = mega_program_address(p, op->out[k], slot),
                                    .dtype = t->shape.dtype,
                                    .rows = count / cols,
                                    .cols = cols};
        p->observer(p->observer_user, &made);
    }
}

static mega_status execute_watch(mega_program *p, int i, int slot)
{
    if (p->observer != NULL) execute_show(p, i, slot);
    return p->found != NULL ? keep_nonfinite(p, i, slot) : MEGA_OK;
}

/* Runs all instructions even after a value that is not finite, because other ranks wait for messages. */
static mega_status run_watched(mega_program *p, int slot, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        MEGA_TRY(await_weights(p, i));
        MEGA_TRY(run_call(p, &p->call[slot * p->g->num_ops + i]));
        if (execute_is_done(p, i)) MEGA_TRY(execute_watch(p, i, slot));
        MEGA_TRY(execute_wait(p, slot, i, end, execute_watch));
    }
    return MEGA_OK;
}

void mega_program_watch(mega_program *p, mega_nonfinite *found)
{
    p->found = found;
}

void mega_program_observe(mega_program *p, mega_observer *observer, void *user)
{
    p->observer = observer;
    p->observer_user = user;
}

/* ---- profiled runs ---- */

static mega_status run_profiled(mega_program *p, int slot, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        MEGA_TRY(await_weights(p, i));
        const mega_profile_moment began = mega_profile_now(p->team);
        MEGA_TRY(run_call(p, &p->call[slot * p->g->num_ops + i]));
        mega_profile_instruction(p->profile, p->g, i, began, mega_profile_now(p->team));
        MEGA_TRY(execute_wait(p, slot, i, end, NULL));
    }
    return MEGA_OK;
}

void mega_program_profile(mega_program *program, mega_profile *profile)
{
    program->profile = profile;
}

static mega_status execute_calls(mega_program *p, int slot, int begin, int end)
{
    mega_collectives_forget(p);
    if (p->found != NULL || p->observer != NULL) return run_watched(p, slot, begin, end);
    if (p->check > 0) return run_checked(p, slot, begin, end);
    if (p->profile != NULL) return run_profiled(p, slot, begin, end);
    const program_call *call = p->call + (ptrdiff_t)slot * p->g->num_ops;
    for (int i = begin; i < end; i++) {
        if (p->step.awaits_weights) MEGA_TRY(await_weights(p, i));
        MEGA_TRY(run_call(p, &call[i]));
        if (p->num_waits > 0) MEGA_TRY(execute_wait(p, slot, i, end, NULL));
    }
    return MEGA_OK;
}

/* A failed custom op, or a value that is not finite, does not end the loop, because other ranks wait for messages of this
 * one. */
static mega_status execute_range(mega_program *p, int slot, int begin, int end)
{
    p->failed.code = MEGA_OK;
    p->reduce_s = 0;
    MEGA_TRY(execute_calls(p, slot, begin, end));
    return p->failed.code == MEGA_OK ? MEGA_OK : mega_error_restore(&p->failed);
}

static mega_status execute_check_ready(const mega_program *p, int slot)
{
    MEGA_TRY(mega_program_check_slot(p, slot));
    if (p->is_allocated) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_USAGE, "program %s: it is run before it has memory; %s", p->name,
                     p->call == NULL ? "call mega_program_allocate first"
                                     : "mega_program_allocate failed, so build a program that takes less");
}

mega_status mega_program_forward(mega_program *p, int slot)
{
    MEGA_TRY(execute_check_ready(p, slot));
    p->is_forward_done[slot] = false;
    mega_program_forget_given(p, slot);
    mega_status st = execute_range(p, slot, 0, p->g->num_forward);
    if (st == MEGA_OK) st = await_all(p);
    p->is_forward_done[slot] = st == MEGA_OK || p->failed.code != MEGA_OK;
    return st;
}

mega_status mega_program_backward(mega_program *p, int slot)
{
    MEGA_TRY(execute_check_ready(p, slot));
    if (!p->is_forward_done[slot])
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "program %s: the backward of slot %d has no forward that it belongs to; run mega_program_forward "
            "of that slot first",
            p->name, slot);
    p->is_forward_done[slot] = false;
    return execute_range(p, slot, p->g->num_forward, p->g->num_ops);
}
