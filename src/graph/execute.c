/* Runs a program: one loop over its calls, without allocation. What is done beside them in a run that is checked,
 * watched or profiled is a probe of the loop (probes.c). */
#include "megalith/device_memory.h"
#include "megalith/record.h"
#include "megalith/threads.h"
#include "program_impl.h"

#include <limits.h>

/* Returns whether to skip computation: a program without a backward (evaluation, generation) stops computing once a
 * signal asks for it. It still sends its messages, with whatever they contain, because other ranks wait for them. */
static bool execute_is_stopped(const mega_program *p)
{
    return p->g->num_forward == p->g->num_ops && p->check == 0 && p->nonfinite == NULL &&
           mega_world_stops(p->world, mega_team_is_stopped(p->team));
}

/* An op of the caller's own is the host's: it reaches the device by copies, where the host cannot do so in place. */
static mega_status run_custom(mega_program *p, const program_call *c)
{
    if (!execute_is_stopped(p)) c->kernel->run(&p->queue, c->args);
    mega_custom_take_failure(p, c->instruction, c->args);
    return MEGA_OK;
}

static mega_status run_on_device(mega_program *p, const program_call *c, op_kind kind)
{
    if (mega_op_is_bucket(kind)) return mega_bucket_run(p, c->instruction, c->args);
    if (c->kernel == NULL) return mega_collective_run(p, c->instruction, c->args);
    if (!execute_is_stopped(p)) c->kernel->run(&p->queue, c->args);
    return MEGA_OK;
}

static mega_status run_call(mega_program *p, const program_call *c)
{
    const op_kind kind = p->g->op[c->instruction].kind;
    MEGA_TRY(mega_comm_poll(p->world)); /* lets collectives and pipeline messages in progress advance */
    if (kind == OP_CUSTOM || kind == OP_CUSTOM_GRAD) return run_custom(p, c);
    mega_device_begin();
    const mega_status st = run_on_device(p, c, kind);
    mega_device_end();
    return st;
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

/* ---- the loop ---- */

/* Waits for the collectives whose results the instruction after i reads. */
static mega_status wait_results(mega_program *p, const program_probe *probe, int slot, int i, int end)
{
    for (int waited = -1; p->num_waits > 0;) {
        MEGA_TRY(mega_collectives_wait(p, i + 1 < end ? i + 1 : INT_MAX, &waited));
        if (waited < 0) break;
        if (probe->completed != NULL) probe->completed(p, waited, slot);
    }
    return MEGA_OK;
}

/* Returns whether the results of instruction i are complete when it has run; those of a collective or bucket op are
 * not, because it only starts them. */
static bool completes_at_once(const mega_program *p, int i)
{
    return !mega_op_is_bucket(p->g->op[i].kind) && !mega_op_is_collective(p->g->op[i].kind);
}

/* Runs a stretch of instructions as one; *i becomes the last of them. */
static mega_status run_stretch(mega_program *p, int slot, int stretch, int *i)
{
    *i = p->stretch[stretch].end - 1;
    MEGA_TRY(mega_comm_poll(p->world));
    return execute_is_stopped(p) ? MEGA_OK : mega_recording_run(p, slot, stretch);
}

/* With `is_recorded`, nothing is done beside the launches of a stretch. */
static mega_status run_calls(mega_program *p, int slot, int begin, int end, bool is_recorded)
{
    const program_probe *probe = mega_program_probe(p);
    const program_call *call = p->call + (ptrdiff_t)slot * p->g->num_ops;
    mega_collectives_drop_failed(p);
    for (int i = begin; i < end; i++) {
        const int stretch = is_recorded ? mega_recording_find(p, i) : -1;
        if (stretch >= 0) {
            MEGA_TRY(run_stretch(p, slot, stretch, &i));
            MEGA_TRY(wait_results(p, probe, slot, i, end));
            continue;
        }
        MEGA_TRY(await_weights(p, i));
        if (probe->before != NULL) probe->before(p, i, slot);
        MEGA_TRY(run_call(p, &call[i]));
        if (probe->started != NULL) probe->started(p, i);
        if (probe->completed != NULL && completes_at_once(p, i)) probe->completed(p, i, slot);
        MEGA_TRY(wait_results(p, probe, slot, i, end));
        if (probe->after != NULL) probe->after(p, i, slot);
    }
    return MEGA_OK;
}

static mega_status run_range(mega_program *p, int slot, int begin, int end)
{
    const program_probe *probe = mega_program_probe(p);
    const bool is_watched = probe->before != NULL || probe->started != NULL || probe->completed != NULL;
    return run_calls(p, slot, begin, end, !is_watched && !is_awaiting(p, begin));
}

/* A failed custom op, or a value that is not finite, does not end the loop, because other ranks wait for messages of
 * this one. */
static mega_status execute_range(mega_program *p, int slot, int begin, int end)
{
    p->failed.code = MEGA_OK;
    p->reduce_s = 0;
    mega_control_write(p);
    MEGA_TRY(run_range(p, slot, begin, end));
    return p->failed.code == MEGA_OK ? MEGA_OK : mega_error_restore(&p->failed);
}

static mega_status execute_check_ready(const mega_program *p, int slot)
{
    MEGA_TRY(mega_program_check_slot(p, slot));
    if (p->is_allocated) return MEGA_OK;
    return MEGA_MISTAKE("program %s: it is run before it has memory; %s", p->name,
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
