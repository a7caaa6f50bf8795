/* Late results (mega_engine_options.late_results): on a device of one rank, mega_engine_train_batch asks for a step and
 * returns the result of the step before, so that the device never waits for the host. Counters go on as if the step
 * were good. If it was not, its update has changed nothing, and neither has that of the step after it: the verdict
 * stays until the host clears it. The step is then run again from its rows, which were kept, as one that is waited for:
 * so it fails, or is skipped, as without late results. */
#include "engine_calls.h"
#include "engine_step.h"
#include "engine_watch.h"

bool engine_answers_late(const mega_engine *e)
{
    return e->options.late_results && engine_defers_losses(e);
}

/* Whether nobody looks at the parts of a step while it runs. */
static bool may_be_awaited(mega_engine *e)
{
    return e->watch.profile == NULL && e->lengths.observer == NULL && !engine_monitor_is_open(e);
}

/* Whether the next step can be asked for before the last one is known. The scale of the losses follows from that one in
 * fp16, and programs of another length take the place of those that may still run. */
static bool may_go_on(mega_engine *e)
{
    return may_be_awaited(e) && e->options.compute != MEGA_F16 &&
           engine_length_of(e, e->progress.iteration + 1) == e->lengths.positions;
}

static void swap_rows(mega_engine *e)
{
    mega_batch *rows = e->late.rows;
    e->late.rows = e->data.batch;
    e->data.batch = rows;
}

/* Runs the step that was refused once more. The batch that the caller may be filling stays as it is. */
static mega_status late_run_again(mega_engine *e)
{
    const engine_batch_purpose purpose = e->data.purpose;
    swap_rows(e);
    const mega_status st = engine_run_step(e, true, &e->late.result);
    swap_rows(e);
    e->data.purpose = purpose;
    return st;
}

/* Reads what became of the step that is awaited. *out_is_refused: it changed nothing, and the counters are again those
 * before it. */
static mega_status read_awaited(mega_engine *e, bool *out_is_refused)
{
    engine_late *l = &e->late;
    l->is_awaited = false;
    const mega_status st = mega_update_answer(e->update);
    *out_is_refused = st != MEGA_OK || mega_update_step_block(e->update)->verdict != MEGA_UPDATE_IS_FINITE;
    if (*out_is_refused) e->progress = l->before;
    if (st != MEGA_OK) return st;
    if (*out_is_refused) {
        mega_update_clear(e->update);
        return MEGA_OK;
    }
    engine_update_read(e, &l->result);
    e->step.grad_norm = l->result.grad_norm;
    e->micro.was_applied = true;
    return MEGA_OK;
}

mega_status engine_settle(mega_engine *e)
{
    engine_late *l = &e->late;
    bool is_refused;
    if (!l->is_awaited) return MEGA_OK;
    MEGA_TRY(read_awaited(e, &is_refused));
    if (is_refused) MEGA_TRY(late_run_again(e));
    l->next = (engine_answer){l->result, e->progress};
    return MEGA_OK;
}

/* The next step could not be asked for. The error of the one before it comes first. */
static mega_status settle_after(mega_engine *e, mega_status st)
{
    mega_error_record failed;
    mega_error_get_of(st, &failed);
    MEGA_TRY(engine_settle(e));
    return mega_error_restore(&failed);
}

/* Asks for the next step, then reads the one before it into *answer. If that was refused and is good after all, the
 * next one, which was refused with it, is asked for again. */
static mega_status ask_and_read(mega_engine *e, engine_answer *answer)
{
    engine_late *l = &e->late;
    mega_step_result r = {0};
    mega_engine_progress before;
    bool is_refused = false, was_refused;
    do {
        was_refused = is_refused;
        before = e->progress;
        const mega_status st = engine_ask_for_step(e, was_refused, &r);
        if (st != MEGA_OK) return settle_after(e, st);
        is_refused = false;
        if (!l->is_awaited) break;
        MEGA_TRY(read_awaited(e, &is_refused));
        if (is_refused) MEGA_TRY(late_run_again(e));
        *answer = (engine_answer){l->result, is_refused ? e->progress : before};
    } while (is_refused);
    mega_update_ask(e->update);
    swap_rows(e);
    l->is_awaited = true;
    l->result = r;
    l->before = before;
    return MEGA_OK;
}

mega_status engine_train_late(mega_engine *e, mega_step_result *out)
{
    engine_late *l = &e->late;
    MEGA_TRY(engine_check_given(e, "mega_engine_train_batch", "out", out));
    if (!may_go_on(e)) MEGA_TRY(engine_settle(e));
    engine_answer answer = l->next, next = {.result = {.iteration = 0}};
    if (may_be_awaited(e)) {
        MEGA_TRY(ask_and_read(e, &answer));
    } else {
        MEGA_TRY(engine_run_step(e, false, &next.result));
        next.progress = e->progress;
    }
    l->next = next;
    if (answer.result.iteration > 0) l->told = answer.progress;
    *out = answer.result;
    return MEGA_OK;
}

static mega_status await_step(mega_engine *e, mega_step_result *out)
{
    engine_late *l = &e->late;
    MEGA_TRY(engine_check_given(e, "mega_engine_await_step", "out", out));
    *out = l->next.result;
    if (out->iteration > 0) l->told = l->next.progress;
    l->next.result.iteration = 0;
    return MEGA_OK;
}

mega_status mega_engine_await_step(mega_engine *e, mega_step_result *out)
{
    MEGA_TRY(engine_enter(e, "mega_engine_await_step"));
    return engine_leave(e, await_step(e, out));
}

const mega_engine_progress *mega_engine_progress_told(const mega_engine *e)
{
    if (engine_check_given(e, "mega_engine_progress_told", "e", e) != MEGA_OK) return NULL;
    const bool is_ahead = e->late.is_awaited || e->late.next.result.iteration > 0;
    return is_ahead ? &e->late.told : &e->progress;
}
