/* Runs one program at a time, forward only, over one or several micro-batches: for evaluation by the caller's own rule,
 * and for generation, whose two programs share a key-value cache. A pipeline stage starts the next run while its
 * outputs of the last run are still being sent, so stages work in parallel if a run does not need the result of the
 * previous one. Therefore a run does not communicate its status: a rank that fails stores its first failure and still
 * sends the messages that others wait for, until mega_engine_wait returns the failure on all ranks. */
#include "engine_build.h"
#include "engine_calls.h"
#include "engine_losses.h"
#include "engine_state.h"
#include "engine_step.h"
#include "megalith/device_memory.h"
#include "megalith/memory.h"
#include "megalith/record.h"
#include "megalith/threads.h"

#include <string.h>

/* ---- memory ---- */

mega_status engine_open_runs(mega_engine *e)
{
    engine_runs *r = &e->runs;
    if (!e->options.generate) return MEGA_OK;
    r->filled = mega_calloc((size_t)engine_run_samples(e), sizeof *r->filled);
    if (r->filled == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "engine: no memory for the lengths of %lld samples",
                         (long long)engine_run_samples(e));
    for (engine_kind k = ENGINE_PREFILL; k < ENGINE_KINDS; k++) {
        MEGA_TRY(stage_open(&r->stage[k], e->layout, e->programs.chunk, e->programs.chunks, k,
                            (int)e->options.micro_batches));
        MEGA_TRY(mega_batch_allocate(r->batch[k]));
    }
    return engine_open_caches(e);
}

void engine_close_runs(mega_engine *e)
{
    for (engine_kind k = ENGINE_PREFILL; k < ENGINE_KINDS; k++) {
        stage_close(&e->runs.stage[k]);
        mega_batch_destroy(e->runs.batch[k]);
    }
    mega_free(e->runs.filled);
    mega_free(e->runs.users);
    mega_free(e->runs.has_moved);
    mega_free(e->runs.move);
    mega_device_free(e->runs.space, e->runs.space_bytes);
}

/* ---- checks ---- */

static engine_kind run_kind_of(mega_run program)
{
    return program == MEGA_RUN_EVALUATE  ? ENGINE_EVALUATE
           : program == MEGA_RUN_PREFILL ? ENGINE_PREFILL
                                         : ENGINE_DECODE;
}

/* Checks what does not depend on the state of the engine. */
static mega_status run_check_program(const mega_engine *e, const char *call, mega_run program)
{
    static const char *const name[] = {"MEGA_RUN_EVALUATE", "MEGA_RUN_PREFILL", "MEGA_RUN_DECODE"};
    MEGA_TRY(engine_check_given(e, call, "e", e));
    if ((int)program < 0 || program > MEGA_RUN_DECODE)
        return MEGA_MISTAKE("%s: program %d; expected a mega_run", call, (int)program);
    if (engine_program_of(&e->programs.chunk[0], run_kind_of(program)) != NULL) return MEGA_OK;
    return MEGA_MISTAKE("%s: the engine has no program for %s; create one in mode %s", call, name[program],
                        program == MEGA_RUN_EVALUATE ? "MEGA_EVAL" : "MEGA_GENERATE");
}

static mega_status run_check_ready(const mega_engine *e, const char *call, mega_run program)
{
    MEGA_TRY(run_check_program(e, call, program));
    MEGA_TRY(engine_check_allocated(e, call));
    MEGA_TRY(engine_check_weights(e, call));
    if (e->micro.phase != ENGINE_FORWARDED) return MEGA_OK;
    return MEGA_MISTAKE("%s: it would overwrite what mega_engine_forward keeps for the backward pass; call "
                        "mega_engine_backward first",
                        call);
}

static mega_status run_check_filled(const mega_engine *e, mega_run program, const int32_t *filled)
{
    if (program == MEGA_RUN_EVALUATE) return MEGA_OK;
    MEGA_TRY(engine_check_given(e, "mega_engine_run", "filled", filled));
    for (int64_t i = 0; i < engine_run_samples(e); i++)
        if (filled[i] < 0 || filled[i] > e->options.seq)
            return MEGA_MISTAKE("mega_engine_run: sample %lld has %d positions in its cache; expected 0 to %lld",
                                (long long)i, filled[i], (long long)e->options.seq);
    return MEGA_OK;
}

/* Returns the samples of a run of this program. */
static int64_t samples_of(const mega_engine *e, mega_run program)
{
    return program == MEGA_RUN_EVALUATE ? e->options.micro_batch : engine_run_samples(e);
}

static mega_batch *run_batch_of(const mega_engine *e, mega_run program)
{
    return program == MEGA_RUN_EVALUATE ? e->data.batch : e->runs.batch[run_kind_of(program)];
}

/* Checks the arguments that may be wrong on one rank only: the filled batch and `filled`. */
static mega_status run_check_given(const mega_engine *e, mega_run program, const int32_t *filled)
{
    const mega_batch *b = run_batch_of(e, program);
    const bool is_asked = program != MEGA_RUN_EVALUATE || e->data.purpose == ENGINE_BATCH_OF_EVALUATION;
    if (!is_asked || mega_batch_num_samples(b) != samples_of(e, program))
        return MEGA_MISTAKE(
            "mega_engine_run: the rows of its batch are not filled; call mega_engine_run_batch each time "
            "and fill what it returns");
    MEGA_TRY(mega_batch_check(b));
    return run_check_filled(e, program, filled);
}

/* ---- running ---- */

mega_batch *mega_engine_run_batch(mega_engine *e, mega_run program)
{
    static const char call[] = "mega_engine_run_batch";
    if (engine_check_free(e, call) != MEGA_OK || run_check_program(e, call, program) != MEGA_OK ||
        engine_check_allocated(e, call) != MEGA_OK)
        return NULL;
    if (program == MEGA_RUN_EVALUATE) return engine_evaluation_batch(e, e->options.micro_batch, 0);
    mega_batch_begin(run_batch_of(e, program), samples_of(e, program));
    for (int64_t i = 0; i < samples_of(e, program); i++) mega_batch_set_index(run_batch_of(e, program), i, i);
    return run_batch_of(e, program);
}

/* Stores the first failure of this rank and returns MEGA_OK, so that the rank continues. Returns MEGA_ERR_COMM as it
 * is. */
static mega_status run_keep_failure(mega_engine *e, mega_status st)
{
    if (st == MEGA_OK || st == MEGA_ERR_COMM) return st;
    if (e->runs.failed.code == MEGA_OK) mega_error_get_of(st, &e->runs.failed);
    return MEGA_OK;
}

static engine_stage *run_stage_of(mega_engine *e, engine_kind kind)
{
    return kind == ENGINE_EVALUATE ? &e->programs.evaluate_stage : &e->runs.stage[kind];
}

int64_t engine_schedule_run(const mega_engine *e, engine_kind kind, mega_schedule_pass *out)
{
    const int64_t micro_batches = engine_micro_batches_of(&e->options, kind),
                  count = micro_batches * e->programs.chunks;
    mega_schedule_forward(e->layout->pp.size, e->programs.chunks, micro_batches, out);
    for (int64_t i = 0; i < count; i++) out[i].slot = out[i].micro_batch;
    return count;
}

/* Runs the micro-batches through the chunks of this stage, each in a slot of its own. If `loads` is false, the batch is
 * not valid: the programs keep the inputs of an earlier run, and their outputs mean nothing. */
static mega_status run_all_chunks(mega_engine *e, mega_run program, bool loads)
{
    const engine_kind kind = run_kind_of(program);
    engine_stage *s = run_stage_of(e, kind);
    const int64_t count = engine_schedule_run(e, kind, e->programs.schedule);
    MEGA_TRY(stage_begin(s, e->programs.schedule, count));
    for (int64_t i = 0; i < count; i++) {
        const mega_schedule_pass *x = &e->programs.schedule[i];
        const int64_t first = x->micro_batch * e->options.micro_batch;
        mega_program *p = engine_program_of(&e->programs.chunk[x->chunk], kind);
        MEGA_TRY(stage_before(s, x));
        if (loads) mega_batch_load(run_batch_of(e, program), first, e->options.micro_batch, p, x->slot);
        if (e->runs.filled != NULL) mega_program_step_block(p)->kv_length = e->runs.filled + first;
        MEGA_TRY(run_keep_failure(e, mega_program_forward(p, x->slot)));
        if (loads)
            MEGA_TRY(run_keep_failure(
                e, mega_batch_check_labels(run_batch_of(e, program), first, e->options.micro_batch, p, x->slot)));
        engine_outputs_note(&e->programs.chunk[x->chunk], p, x->slot);
        MEGA_TRY(stage_after(s, x));
    }
    return MEGA_OK;
}

static mega_status run_forward(mega_engine *e, mega_run program, const int32_t *filled)
{
    static const char *const phase[] = {"evaluation", "prompt", "next token"};
    MEGA_TRY(run_check_ready(e, "mega_engine_run", program));
    engine_record_phase(e, phase[program], -1);
    const mega_status st = run_check_given(e, program, filled);
    const size_t bytes = (size_t)samples_of(e, program) * sizeof *filled;
    MEGA_TRY(mega_update_wait(e->update));
    MEGA_TRY(engine_use_averaged_weights(e));
    MEGA_TRY(run_keep_failure(e, st));
    if (st == MEGA_OK && program != MEGA_RUN_EVALUATE) memcpy(e->runs.filled, filled, bytes);
    MEGA_TRY(run_all_chunks(e, program, st == MEGA_OK));
    if (program == MEGA_RUN_EVALUATE) e->data.purpose = ENGINE_BATCH_NONE;
    else
        mega_batch_begin(run_batch_of(e, program), samples_of(e, program)); /* its rows are used up */
    return MEGA_OK;
}

mega_status mega_engine_run(mega_engine *e, mega_run program, const int32_t *filled)
{
    MEGA_TRY(engine_enter(e, "mega_engine_run"));
    return engine_leave(e, run_forward(e, program, filled));
}

/* A device that has failed makes no exchange, in which the device of another rank may wait, so that its host comes to
 * no agreement: this rank alone returns the failure, and its caller ends the others. */
static bool is_device_lost(const mega_engine *e)
{
    return e->memory.device != NULL && e->layout->tp.size * e->layout->pp.size * e->layout->ep.size > 1 &&
           mega_device_finish(e->memory.device) != MEGA_OK;
}

/* Collective over tp, pp and ep. Returns MEGA_ERR_INTERRUPTED if any rank was asked to stop, else the failure of any
 * rank. */
static mega_status ask_ranks(mega_engine *e)
{
    const mega_layout *l = e->layout;
    enum { STOPS, FAILED, NUM_ASKED };
    const mega_status own =
        engine_take_failure(e, e->runs.failed.code == MEGA_OK ? MEGA_OK : mega_error_restore(&e->runs.failed));
    if (is_device_lost(e)) {
        e->runs.failed.code = MEGA_OK;
        return mega_device_finish(e->memory.device);
    }
    if (own != MEGA_OK) mega_error_get_of(own, &e->runs.failed);
    int32_t any[NUM_ASKED] = {[STOPS] = mega_world_stops(e->options.world, mega_team_is_stopped(e->options.team)),
                              [FAILED] = e->runs.failed.code != MEGA_OK};
    MEGA_TRY(mega_comm_all_reduce(l->tp.comm, "signals", any, NUM_ASKED, MEGA_I32, MEGA_REDUCE_MAX));
    MEGA_TRY(mega_comm_all_reduce(l->pp.comm, "signals", any, NUM_ASKED, MEGA_I32, MEGA_REDUCE_MAX));
    MEGA_TRY(mega_comm_all_reduce(l->ep.comm, "signals", any, NUM_ASKED, MEGA_I32, MEGA_REDUCE_MAX));
    if (any[STOPS] != 0) {
        e->runs.failed.code = MEGA_OK;
        return MEGA_FAIL(MEGA_ERR_INTERRUPTED, "%s was interrupted by a signal",
                         e->options.generate ? "generation" : "the evaluation");
    }
    if (any[FAILED] == 0) return MEGA_OK;
    mega_status st = e->runs.failed.code == MEGA_OK ? MEGA_OK : mega_error_restore(&e->runs.failed);
    e->runs.failed.code = MEGA_OK;
    st = mega_comm_agree(l->tp.comm, st);
    st = mega_comm_agree(l->pp.comm, st);
    return mega_comm_agree(l->ep.comm, st);
}

static mega_status run_wait(mega_engine *e)
{
    static const char call[] = "mega_engine_wait";
    MEGA_TRY(engine_check_allocated(e, call));
    mega_world_forget_failure(e->options.world);
    for (engine_kind k = ENGINE_EVALUATE; k < ENGINE_KINDS; k++) MEGA_TRY(stage_end(run_stage_of(e, k)));
    return ask_ranks(e);
}

mega_status mega_engine_wait(mega_engine *e)
{
    MEGA_TRY(engine_enter(e, "mega_engine_wait"));
    return engine_leave(e, run_wait(e));
}

/* ---- queries and outputs ---- */

int64_t mega_engine_run_rows(const mega_engine *e, mega_run program)
{
    if (run_check_program(e, "mega_engine_run_rows", program) != MEGA_OK) return -1;
    return program == MEGA_RUN_EVALUATE ? e->options.seq : program == MEGA_RUN_PREFILL ? e->options.prefill : 1;
}

int64_t mega_engine_positions(const mega_engine *e)
{
    return engine_check_given(e, "mega_engine_positions", "e", e) == MEGA_OK ? e->options.seq : -1;
}

int64_t mega_engine_run_samples(const mega_engine *e)
{
    return engine_check_given(e, "mega_engine_run_samples", "e", e) == MEGA_OK ? engine_run_samples(e) : -1;
}

bool mega_engine_run_output(const mega_engine *e, mega_run program, const char *output, mega_run_value *out)
{
    return mega_engine_run_output_of(e, program, output, 0, out);
}

bool mega_engine_run_output_of(const mega_engine *e, mega_run program, const char *output, int64_t micro_batch,
                               mega_run_value *out)
{
    static const char call[] = "mega_engine_run_output";
    mega_program_named t;
    if (engine_check_free(e, call) != MEGA_OK || run_check_program(e, call, program) != MEGA_OK ||
        engine_check_given(e, call, "output", output) != MEGA_OK ||
        engine_check_given(e, call, "out", out) != MEGA_OK || engine_check_allocated(e, call) != MEGA_OK)
        return false;
    for (int c = 0; c < e->programs.chunks; c++) {
        mega_program *p = engine_program_of(&e->programs.chunk[c], run_kind_of(program));
        for (int i = 0; mega_program_named_get(p, i, &t); i++) {
            if (t.role != MEGA_PROGRAM_OUTPUT || strcmp(t.name, output) != 0) continue;
            void *data = mega_program_tensor(p, t.name, (int)micro_batch);
            if (data == NULL) return false; /* there are fewer micro-batches */
            *out = (mega_run_value){.data = data, .dtype = t.dtype, .count = 1};
            for (int d = 0; d < t.num_dims; d++) out->count *= t.dim[d];
            return true;
        }
    }
    return false;
}

mega_status mega_run_value_read(const mega_run_value *value, int64_t first, int64_t count, void *out)
{
    const size_t size = mega_dtype_size(value->dtype);
    mega_device_read(out, (const char *)value->data + (size_t)first * size, (size_t)count * size);
    return mega_device_finish(mega_device_of(value->data));
}
