/* Runs one training step, in the order of ARCHITECTURE.md, "The life of a step". Start reading at
 * mega_engine_train_batch. */
#include "engine_build.h"
#include "engine_calls.h"
#include "engine_data.h"
#include "engine_losses.h"
#include "engine_state.h"
#include "engine_step.h"
#include "megalith/record.h"
#include "megalith/threads.h"
#include <math.h>

void engine_record_phase(const mega_engine *e, const char *phase, int64_t micro_batch)
{
    mega_record_phase(mega_world_record(e->options.world), phase, micro_batch);
}

/* Copies micro-batch m of the batch into the inputs of one slot. */
static void step_fill_inputs(const mega_engine *e, mega_program *p, int slot, int64_t m)
{
    mega_batch_load(e->data.batch, m * e->options.micro_batch, e->options.micro_batch, p, slot);
}

/* After the forward of micro-batch m: labels that only the program knows. */
static mega_status step_check_labels(const mega_engine *e, const mega_program *p, int slot, int64_t m)
{
    return mega_batch_check_labels(e->data.batch, m * e->options.micro_batch, e->options.micro_batch, p, slot);
}

/* ---- what scales a gradient: see make_gradients ---- */

/* By how much gradients are divided before they are summed over dp. */
static double divided_before(const mega_engine *e)
{
    return e->options.sums.predivide > 0 ? e->options.sums.predivide : (double)e->layout->dp.size;
}

/* Positions of a step of the expected micro-batches, on all ranks of dp. */
int64_t engine_expected_positions(const mega_engine *e)
{
    return e->step.expected_micro_batches * e->options.micro_batch * e->layout->dp.size * e->lengths.positions;
}

static double loss_factor(const mega_engine *e)
{
    const double micro_batches = (double)e->step.expected_micro_batches * divided_before(e) / engine_scale(e);
    if (!e->options.per_token_loss) return 1.0 / micro_batches;
    return 1.0 / (micro_batches * (double)e->options.micro_batch * (double)e->lengths.positions);
}

/* Returns by how much the number that loss_factor divided by differs from the one that the step had. Without sums that
 * of positions counts as the same. */
static double expected_over_found(const mega_engine *e, const engine_sums *sums, const mega_step_result *r)
{
    if (!e->options.per_token_loss)
        return r->micro_batches == e->step.expected_micro_batches
                   ? 1.0
                   : (double)e->step.expected_micro_batches / (double)r->micro_batches;
    for (int i = 0; i < e->model.num_losses && sums != NULL; i++) {
        const double weight = sums->loss[i][LOSS_WEIGHT];
        if (e->model.loss[i].is_trained && e->model.loss[i].coefficient != 0)
            return weight != 0 ? (double)engine_expected_positions(e) / weight : 0;
    }
    return 1.0;
}

double engine_correction(const mega_engine *e, const engine_sums *sums, const mega_step_result *r)
{
    double correction = expected_over_found(e, sums, r) / engine_scale(e);
    if (e->options.sums.predivide > 0) correction *= divided_before(e) / e->layout->dp.size;
    return correction;
}

/* ---- passes ---- */

static mega_status train_forward(mega_engine *e, const mega_schedule_pass *s)
{
    mega_program *p = e->programs.chunk[s->chunk].train;
    step_fill_inputs(e, p, s->slot, s->micro_batch);
    MEGA_TRY(mega_program_forward(p, s->slot));
    MEGA_TRY(step_check_labels(e, p, s->slot, s->micro_batch));
    engine_outputs_note(&e->programs.chunk[s->chunk], p, s->slot);
    engine_losses_add(e, &e->programs.chunk[s->chunk].train_io[s->slot], 1);
    return MEGA_OK;
}

/* Returns the number of later micro-batches of this step, over all ranks of dp; expected_micro_batches are of one. */
static int64_t later_micro_batches(const mega_engine *e, const mega_schedule_pass *s)
{
    const int64_t here = s->micro_batch + e->micro.done; /* one of the two is 0 */
    return (e->step.expected_micro_batches - here) * e->layout->dp.size - 1 - e->layout->dp.rank;
}

mega_status engine_run_pass(mega_engine *e, const mega_schedule_pass *s, bool is_first, bool is_last)
{
    mega_program *p = e->programs.chunk[s->chunk].train;
    mega_program_step_block(p)->first_micro_batch = is_first;
    mega_program_step_block(p)->last_micro_batch = is_last;
    mega_program_step_block(p)->later_micro_batches = later_micro_batches(e, s);
    mega_program_step_block(p)->awaits_weights = mega_update_pending(e->update) > 0;
    if (e->watch.search != NULL) engine_search_before(e->watch.search);
    const mega_status st = s->forward ? train_forward(e, s) : mega_program_backward(p, s->slot);
    if (e->watch.search != NULL) engine_search_after(e, s);
    return st;
}

/* Stores the first failure of this rank and returns MEGA_OK, so that the rank continues: its results are no longer
 * valid, but other ranks wait for its messages and collectives. All ranks then return its error. */
static mega_status step_keep_failure(engine_sums *sums, mega_status st)
{
    if (st == MEGA_OK || st == MEGA_ERR_COMM) return st;
    if (sums->failed.code == MEGA_OK) mega_error_get_of(st, &sums->failed);
    return MEGA_OK;
}

/* Runs the forward or backward pass of one micro-batch. */
static mega_status run_train_pass(mega_engine *e, const mega_schedule_pass *s, engine_sums *sums)
{
    const bool is_first = s->micro_batch == 0, is_last = s->micro_batch == engine_micro_batches(e) - 1;
    return step_keep_failure(sums, engine_run_pass(e, s, is_first, is_last));
}

/* Sets what the programs read of this step, and zeroes the gradients that the first micro-batch does not overwrite. */
void engine_step_begin(mega_engine *e, int64_t micro_batches)
{
    e->step.expected_micro_batches = micro_batches;
    e->gradients.are_summed = false;
    const double factor = loss_factor(e);
    for (int c = 0; c < e->programs.chunks; c++) {
        mega_step_block *block = mega_program_step_block(e->programs.chunk[c].train);
        block->seed = e->options.dropout_seed;
        block->step = (uint32_t)e->progress.iteration;
        block->loss_factor = factor;
        block->keeps_packed = true;
    }
    mega_optimizer_zero_gradients_but(e->optimizer, e->programs.overwritten);
}

mega_status engine_run_schedule(mega_engine *e, engine_sums *sums, step_clock *clock)
{
    const mega_pipeline pipeline = engine_pipeline(e, engine_micro_batches(e));
    const int64_t passes = mega_schedule_make(&pipeline, e->layout->pp.rank, e->programs.schedule);
    engine_step_begin(e, engine_micro_batches(e));
    engine_losses_begin(e, sums);
    MEGA_TRY(stage_begin(&e->programs.stage, e->programs.schedule, passes));
    clock_restart(clock, NULL);
    for (int64_t i = 0; i < passes; i++) {
        const mega_schedule_pass *s = &e->programs.schedule[i];
        engine_record_phase(e, s->forward ? "forward" : "backward", s->micro_batch);
        MEGA_TRY(stage_before(&e->programs.stage, s));
        clock_add_wait(clock);
        MEGA_TRY(run_train_pass(e, s, sums));
        MEGA_TRY(stage_after(&e->programs.stage, s));
        clock_add_pass(clock, s, s->micro_batch == pipeline.micro_batches - 1);
    }
    MEGA_TRY(stage_end(&e->programs.stage));
    sums->are_deferred = engine_defers_losses(e);
    if (!sums->are_deferred) MEGA_TRY(step_keep_failure(sums, engine_losses_end(e, sums)));
    clock_add_wait(clock);
    clock->result->micro_batches = pipeline.micro_batches;
    MEGA_TRY(engine_wait_reductions(e)); /* also after a failure: the next step starts them again */
    clock_add_sum(clock);
    return sums->failed.code == MEGA_OK ? MEGA_OK : mega_error_restore(&sums->failed);
}

void engine_profile(mega_engine *e, mega_profile *profile)
{
    const mega_queue queue = {.team = e->options.team, .device = e->memory.device};
    e->watch.profile = profile;
    if (profile != NULL) mega_profile_begin_step(profile, &queue);
    for (int c = 0; c < e->programs.chunks && e->programs.train != NULL; c++)
        mega_program_profile(e->programs.chunk[c].train, profile);
    if (e->update != NULL) mega_update_profile(e->update, profile);
}

void mega_engine_profile(mega_engine *e, mega_profile *profile)
{
    if (engine_check_free(e, "mega_engine_profile") == MEGA_OK) engine_profile(e, profile);
}

void mega_engine_observe(mega_engine *e, mega_observer *observer, void *user)
{
    if (engine_check_free(e, "mega_engine_observe") != MEGA_OK) return;
    e->lengths.observer = observer;
    e->lengths.user = user;
    for (int c = 0; c < e->programs.chunks && e->programs.train != NULL; c++)
        mega_program_observe(e->programs.chunk[c].train, observer, user);
}

static mega_status read_batch(mega_engine *e, bool has_rows, const mega_step_result *out)
{
    if (has_rows) e->data.purpose = ENGINE_BATCH_OF_STEP;
    MEGA_TRY(engine_check_step(e, out));
    if (e->data.has_set && !has_rows) MEGA_TRY(engine_read_training_data(e, ENGINE_BATCH_OF_STEP));
    return mega_batch_check(e->data.batch);
}

/* A step but for its update: the passes of all micro-batches, and the sum of their gradients over dp. Three numbers
 * scale a gradient:
 *
 *   loss_factor   what a loss's gradient begins with in each backward: loss scale / (M D). M micro-batches of a rank
 *                 are expected, and D ranks of dp are summed over (or D is the part of them to divide by before the
 *                 sum, prescale_gradients). A loss per token (per_token_loss) is to be divided by the weight of the
 *                 step, known only after its last forward: M counts the positions of these micro-batches.
 *   correction    after the sum: 1 / loss scale, times M / what M should have been (micro-batches that the step had, or
 *                 the weight of its loss over D), times what is left to divide by with prescale_gradients.
 *   clip_factor   min(1, clip / (norm + 1e-6)) of the norm of the corrected gradients (backend/plain/check.c).
 *
 * So the gradient of the step is sum * correction, and optimizers read sum * correction * clip_factor (grad_factor). */
static mega_status make_gradients(mega_engine *e, bool has_rows, const mega_step_result *out, step_clock *clock)
{
    engine_sums sums = {.stops = 0};
    mega_record_step(mega_world_record(e->options.world), e->progress.iteration + 1);
    MEGA_TRY(engine_begin_pass(e, read_batch(e, has_rows, out)));
    MEGA_TRY(engine_use_trained_weights(e));
    MEGA_TRY(engine_set_length(e));
    clock_begin_passes(clock, engine_micro_batches(e), CLOCK_BEFORE_PASSES);
    /* If one rank fails in its passes, all return here, before they wait for each other. */
    MEGA_TRY(engine_agree(e, engine_run_schedule(e, &sums, clock)));
    /* The sums begin when the last rank is there; with a pipeline, most of this wait is for the other stages. */
    if (e->layout->pp.size > 1) clock_restart(clock, NULL);
    MEGA_TRY(engine_finish_gradients(e, &sums, clock->result));
    clock_add_sum(clock);
    return MEGA_OK;
}

mega_status engine_run_step(mega_engine *e, bool has_rows, mega_step_result *out)
{
    mega_step_result r = {0};
    step_clock clock = clock_start(e, &r);
    MEGA_TRY(make_gradients(e, has_rows, out, &clock));
    clock_restart(&clock, CLOCK_BEFORE_STEP);
    MEGA_TRY(engine_update(e, &r));
    clock_add_update(&clock);
    e->micro.was_applied = !r.skipped;
    clock_end(&clock, mega_time_now() - clock.began);
    *out = r;
    return MEGA_OK;
}

mega_status engine_ask_for_step(mega_engine *e, bool has_rows, mega_step_result *out)
{
    mega_step_result r = {0};
    step_clock clock = clock_start(e, &r);
    MEGA_TRY(make_gradients(e, has_rows, out, &clock));
    MEGA_TRY(engine_update_late(e, &r));
    clock_add_update(&clock);
    *out = r;
    return MEGA_OK;
}

mega_status mega_engine_train_batch(mega_engine *e, mega_step_result *out)
{
    MEGA_TRY(engine_enter_ahead(e, "mega_engine_train_batch"));
    return engine_leave(e, engine_answers_late(e) ? engine_train_late(e, out) : engine_run_step(e, false, out));
}

/* Runs one micro-batch of an evaluation. */
static mega_status run_evaluation_pass(mega_engine *e, const mega_schedule_pass *s, engine_sums *sums)
{
    mega_program *p = e->programs.chunk[s->chunk].evaluate;
    step_fill_inputs(e, p, 0, s->micro_batch);
    if (e->watch.search != NULL) engine_search_before(e->watch.search);
    MEGA_TRY(step_keep_failure(sums, mega_program_forward(p, 0)));
    MEGA_TRY(step_keep_failure(sums, step_check_labels(e, p, 0, s->micro_batch)));
    engine_outputs_note(&e->programs.chunk[s->chunk], p, 0);
    if (e->watch.search != NULL) engine_search_after(e, s);
    const double weight = engine_evaluation_weight(e, s->micro_batch);
    if (weight > 0) engine_losses_add(e, &e->programs.chunk[s->chunk].evaluate_io, weight);
    return MEGA_OK;
}

mega_status engine_run_evaluation(mega_engine *e, engine_sums *sums)
{
    const int64_t micro_batches = engine_micro_batches(e);
    const int64_t passes = micro_batches * e->programs.chunks;
    MEGA_TRY(engine_use_averaged_weights(e));
    engine_losses_begin(e, sums);
    mega_schedule_forward(e->layout->pp.size, e->programs.chunks, micro_batches, e->programs.schedule);
    MEGA_TRY(stage_begin(&e->programs.evaluate_stage, e->programs.schedule, passes));
    for (int64_t i = 0; i < passes; i++) {
        engine_record_phase(e, "evaluation", e->programs.schedule[i].micro_batch);
        MEGA_TRY(stage_before(&e->programs.evaluate_stage, &e->programs.schedule[i]));
        MEGA_TRY(run_evaluation_pass(e, &e->programs.schedule[i], sums));
        MEGA_TRY(stage_after(&e->programs.evaluate_stage, &e->programs.schedule[i]));
    }
    MEGA_TRY(stage_end(&e->programs.evaluate_stage));
    MEGA_TRY(step_keep_failure(sums, engine_losses_end(e, sums)));
    return sums->failed.code == MEGA_OK ? MEGA_OK : mega_error_restore(&sums->failed);
}

mega_status engine_evaluate_batch(mega_engine *e, mega_loss_sums *sums)
{
    engine_sums found = {.stops = 0};
    mega_loss_sums now;
    MEGA_TRY(engine_begin_call(e, engine_check_evaluate(e, sums)));
    MEGA_TRY(engine_agree(e, engine_run_evaluation(e, &found)));
    if (e->layout->tp.rank > 0) found = (engine_sums){.stops = 0}; /* all ranks of tp have the same sums: count one */
    found.stops = mega_world_stops(e->options.world, mega_team_is_stopped(e->options.team));
    MEGA_TRY(engine_losses_reduce(e, e->layout->world.comm, "validation loss", &found));
    if (found.stops > 0) return MEGA_FAIL(MEGA_ERR_INTERRUPTED, "the evaluation was interrupted by a signal");
    engine_evaluation_losses(e, &found, &now);
    if (!isfinite(now.loss)) return engine_nonfinite_evaluation(e, now.loss);
    sums->loss += now.loss;
    sums->count += now.count;
    for (int i = 0; i < e->model.num_losses; i++) {
        sums->metric[i] += now.metric[i];
        sums->weight[i] += now.weight[i];
    }
    return MEGA_OK;
}

mega_status mega_engine_evaluate_batch(mega_engine *e, mega_loss_sums *sums)
{
    MEGA_TRY(engine_enter(e, "mega_engine_evaluate_batch"));
    return engine_leave(e, engine_evaluate_batch(e, sums));
}
