/* The end of a step: runs the update program (megalith/update.h), which sums gradients and losses over the ranks,
 * checks them and updates the weights. Programs sum buckets over dp while the backward pass runs; the update program
 * sums the rest. */
#include "engine_calls.h"
#include "engine_losses.h"
#include "engine_state.h"
#include "engine_step.h"
#include "megalith/memory.h"
#include "megalith/record.h"
#include "megalith/threads.h"
#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* Returns whether this stage and another one hold parameter `index` of the whole model. */
static bool is_tied_here(const mega_engine *e, int index)
{
    const int own = mega_params_find(e->params, mega_params_get(mega_model_parts_params(e->model.parts), index)->name);
    return own >= 0 && mega_params_get(e->params, own)->tie != MEGA_TIE_NONE;
}

mega_status engine_find_ties(mega_engine *e)
{
    const mega_params *whole = mega_model_parts_params(e->model.parts);
    const mega_axis *pp = &e->layout->pp;
    const int count = mega_params_count(whole);
    int ties = 0;
    for (int i = 0; i < count; i++) ties += is_tied_here(e, i);
    if (ties == 0) return MEGA_OK;
    e->ties.tie = mega_calloc((size_t)ties, sizeof *e->ties.tie);
    e->ties.stages = mega_calloc((size_t)ties * (size_t)pp->size, sizeof *e->ties.stages);
    if (e->ties.tie == NULL || e->ties.stages == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "engine: no memory for %d tied parameters", ties);
    int *stage = e->ties.stages;
    for (int i = 0; i < count; i++) {
        if (!is_tied_here(e, i)) continue;
        mega_update_tie *t = &e->ties.tie[e->ties.count++];
        *t = (mega_update_tie){.param = mega_params_find(e->params, mega_params_get(whole, i)->name),
                               .stages = {.comm = pp->comm, .rank = stage}};
        for (int s = 0; s < pp->size; s++) {
            if (!mega_model_parts_holds(e->model.parts, i, s)) continue;
            if (s == pp->rank) t->stages.own = t->stages.count;
            stage[t->stages.count++] = s;
        }
        stage += t->stages.count;
    }
    return MEGA_OK;
}

bool engine_reduces(const mega_engine *e, int bucket)
{
    for (int c = 0; c < e->programs.chunks; c++)
        if (mega_program_reduces(e->programs.chunk[c].train, bucket)) return true;
    return false;
}

mega_status engine_wait_reductions(mega_engine *e)
{
    for (int c = 0; c < e->programs.chunks; c++) MEGA_TRY(mega_program_wait_reductions(e->programs.chunk[c].train));
    return MEGA_OK;
}

static mega_status wait_for_weights(void *user, int bucket)
{
    return mega_update_wait_bucket(user, bucket);
}

void engine_await_weights(const mega_engine *e, mega_program *p)
{
    mega_program_await_weights(p, wait_for_weights, e->update);
}

mega_status engine_make_update(mega_engine *e)
{
    static_assert(MEGA_UPDATE_NUMBERS >= 2 * MEGA_METRICS, "a sum and a weight for each loss and metric");
    const int buckets = mega_params_num_buckets(e->params);
    bool *is_reduced = mega_calloc((size_t)buckets + 1, sizeof *is_reduced);
    if (e->optimizer == NULL || is_reduced == NULL) {
        mega_free(is_reduced);
        return e->optimizer == NULL ? MEGA_OK
                                    : MEGA_FAIL(MEGA_ERR_MEMORY, "engine: no memory for a list of %d buckets", buckets);
    }
    for (int b = 0; b < buckets; b++) is_reduced[b] = engine_reduces(e, b);
    /* a plan runs on one rank, which knows only the losses of its own stage */
    const bool is_plan = e->options.layout.planned_ranks > 0;
    const int losses = is_plan && e->model.num_losses == 0 ? 1 : e->model.num_losses;
    const mega_update_options o = {.tie = e->ties.tie,
                                   .ties = e->ties.count,
                                   .is_reduced = is_reduced,
                                   .packed_elements = e->options.tp_sum_elements,
                                   .records = !e->options.no_graphs,
                                   .num_sums = 2 * losses,
                                   .world = e->options.world};
    const mega_status st = mega_update_create(e->optimizer, &o, &e->update);
    mega_free(is_reduced);
    for (int c = 0; st == MEGA_OK && c < e->programs.chunks; c++) engine_await_weights(e, e->programs.chunk[c].train);
    return st;
}

/* ---- losses that the host learns of when the update is done ---- */

bool engine_defers_losses(const mega_engine *e)
{
    return e->memory.device != NULL && e->layout->world.size == 1 && mega_update_can_defer_check(e->update);
}

static mega_check_losses deferred_losses(const mega_engine *e)
{
    mega_check_losses l = {.sums = e->memory.losses, .count = e->model.num_losses};
    for (int i = 0; i < e->model.num_losses; i++)
        if (e->model.loss[i].is_trained) l.coefficient[i] = e->model.loss[i].coefficient;
    if (e->options.per_token_loss) l.positions = (double)engine_expected_positions(e);
    return l;
}

/* The losses of a step, and what depends on them. */
static void read_deferred_losses(mega_engine *e, mega_step_result *r)
{
    engine_sums sums = {.stops = 0};
    memcpy(sums.loss, mega_update_step_block(e->update)->sum, (size_t)e->model.num_losses * sizeof *sums.loss);
    r->loss = engine_losses_total(e, &sums, r->metric);
    e->gradients.correction = engine_correction(e, &sums, r);
    e->step.are_losses_deferred = false;
}

/* ---- the two parts of the program ---- */

/* Sums gradients and losses over the ranks: the first part of the update program. */
mega_status engine_finish_gradients(mega_engine *e, engine_sums *sums, mega_step_result *r)
{
    mega_update_step *u = mega_update_step_block(e->update);
    const size_t bytes = (size_t)e->model.num_losses * sizeof *sums->loss;
    engine_record_phase(e, "gradients", -1);
    memcpy(u->sum, sums->loss, bytes);
    MEGA_TRY(mega_update_run(e->update, MEGA_UPDATE_SUMS));
    memcpy(sums->loss, u->sum, bytes);
    if (!sums->are_deferred) r->loss = engine_losses_total(e, sums, r->metric);
    e->step.are_losses_deferred = sums->are_deferred;
    r->samples = r->micro_batches * e->options.micro_batch * e->layout->dp.size;
    r->tokens = r->samples * e->lengths.positions;
    e->gradients = (engine_gradients){true, engine_correction(e, sums->are_deferred ? NULL : sums, r)};
    return MEGA_OK;
}

/* The numbers of a schedule, which a function of the caller may compute. That function is called on every rank, so one
 * rank alone may have a wrong number; the others would then wait in an exchange for it. */
static mega_status check_update_schedule(const mega_engine *e, double lr, double weight_decay)
{
    mega_status st = MEGA_OK;
    if (!(lr >= 0 && lr <= FLT_MAX && fabs(weight_decay) <= FLT_MAX))
        st = MEGA_MISTAKE(
            "iteration %lld: the schedule%s%s gives the learning rate %g and the weight decay %g; expected "
            "finite numbers that a float holds, and a rate of at least 0. No update was made",
            (long long)e->progress.iteration + 1, e->step.scheduler.name != NULL ? " " : "",
            e->step.scheduler.name != NULL ? e->step.scheduler.name : "", lr, weight_decay);
    return e->step.scheduler.lr != NULL ? mega_comm_agree(e->layout->world.comm, st) : st;
}

/* Runs the second part of the update program: norm, check, update, publication of the weights. is_late: nothing is
 * waited for (mega_update_step.is_late). */
static mega_status run_update_program(mega_engine *e, bool is_late, mega_step_result *r)
{
    mega_update_step *u = mega_update_step_block(e->update);
    double beta1, beta2;
    r->iteration = e->progress.iteration + 1;
    r->lr = mega_engine_lr(e);
    if (mega_step_schedule_betas(&e->options.step_schedule, e->progress.schedule_steps, &beta1, &beta2))
        MEGA_TRY(mega_optimizer_set_betas(e->optimizer, beta1, beta2));
    r->weight_decay = mega_lr_schedule_weight_decay(&e->options.schedule, e->progress.schedule_samples);
    MEGA_TRY(check_update_schedule(e, r->lr, r->weight_decay));
    r->loss_scale = engine_scale(e);
    u->loss = r->loss;
    u->losses = e->step.are_losses_deferred ? deferred_losses(e) : (mega_check_losses){.sums = NULL};
    u->correction = e->gradients.correction;
    u->clip = e->options.clip_grad;
    u->lr = r->lr;
    u->weight_decay = r->weight_decay;
    u->samples = r->samples;
    u->tokens = r->tokens;
    u->expected_samples = e->step.expected_micro_batches * e->options.micro_batch * e->layout->dp.size;
    u->is_late = is_late;
    const mega_status st = mega_update_run(e->update, MEGA_UPDATE_APPLY);
    if (u->verdict != MEGA_UPDATE_IS_FINITE) mega_update_clear(e->update); /* it is answered here */
    if (u->is_cut && e->layout->world.size > 1) return st; /* others have begun exchanges that this rank has not */
    return engine_agree(e, st);
}

void engine_update_read(mega_engine *e, mega_step_result *r)
{
    const mega_update_step *u = mega_update_step_block(e->update);
    if (u->losses.sums != NULL) read_deferred_losses(e, r);
    if (u->verdict != MEGA_UPDATE_IS_FINITE) return;
    engine_scale_good_step(e);
    r->grad_norm = u->grad_norm;
    r->grad_zeros = u->norm.zeros;
    r->clip_factor = u->clip_factor;
}

static void progress_advance(mega_engine *e, const mega_step_result *r)
{
    e->progress.iteration++;
    e->progress.consumed_samples += r->samples;
    e->progress.consumed_tokens += r->tokens;
    if (r->skipped) return; /* the schedule stays, in all units */
    e->progress.schedule_samples += r->samples;
    e->progress.schedule_tokens += r->tokens;
    e->progress.schedule_steps++;
}

/* The counters of the step after this one. */
static void update_is_asked_for(mega_engine *e, const mega_step_result *r)
{
    progress_advance(e, r);
    e->data.purpose = ENGINE_BATCH_NONE; /* its rows are used up */
    mega_record_step_end(mega_world_record(e->options.world));
}

mega_status engine_update(mega_engine *e, mega_step_result *r)
{
    engine_record_phase(e, "norm and update", -1);
    MEGA_TRY(engine_use_trained_weights(e)); /* an evaluation may have come between */
    MEGA_TRY(run_update_program(e, false, r));
    engine_update_read(e, r);
    if (mega_update_step_block(e->update)->verdict != MEGA_UPDATE_IS_FINITE) MEGA_TRY(engine_skip_step(e, r));
    update_is_asked_for(e, r);
    e->step.grad_norm = r->grad_norm;
    return MEGA_OK;
}

mega_status engine_update_late(mega_engine *e, mega_step_result *r)
{
    engine_record_phase(e, "norm and update", -1);
    MEGA_TRY(run_update_program(e, true, r));
    update_is_asked_for(e, r);
    return MEGA_OK;
}
