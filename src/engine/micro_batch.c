/* Training by one micro-batch at a time: the caller runs the passes that mega_engine_train_batch runs from a schedule.
 * Both ways use the same sums of gradients and the same update (step.c). */
#include "engine_calls.h"
#include "engine_data.h"
#include "engine_losses.h"
#include "engine_state.h"
#include "engine_step.h"
#include "megalith/record.h"
#include <math.h>

static const char *call_after(engine_phase phase)
{
    return phase == ENGINE_STEPPED     ? "mega_engine_forward"
           : phase == ENGINE_FORWARDED ? "mega_engine_backward"
                                       : "mega_engine_step";
}

static mega_status micro_check_call(const mega_engine *e, const char *call, engine_phase expected)
{
    if (e->layout->pp.size > 1)
        return MEGA_MISTAKE(
            "%s: the engine has a pipeline of %d stages, whose schedule decides when micro-batches run; "
            "call mega_engine_train_batch",
            call, e->layout->pp.size);
    MEGA_TRY(engine_check_allocated(e, call));
    MEGA_TRY(engine_check_weights(e, call));
    if (e->micro.phase == expected) return MEGA_OK;
    return MEGA_MISTAKE(
        "%s: called out of order; forward, backward and step alternate, and %s is next (after an error, a "
        "step begins again with its first forward)",
        call, call_after(e->micro.phase));
}

static mega_status micro_check_training_call(const mega_engine *e, const char *call, engine_phase expected)
{
    MEGA_TRY(engine_check_trains(e, call));
    return micro_check_call(e, call, expected);
}

static mega_status fill_micro_batch(mega_engine *e)
{
    if (e->data.has_set) MEGA_TRY(engine_read_training_data(e, ENGINE_BATCH_OF_MICRO_BATCH));
    if (e->data.purpose == ENGINE_BATCH_OF_MICRO_BATCH) return mega_batch_check(e->data.batch);
    return MEGA_MISTAKE("mega_engine_forward: the rows of the batch are %s; call mega_engine_micro_batch "
                        "and fill what it returns",
                        e->data.purpose == ENGINE_BATCH_NONE ? "not filled" : "not those of a micro-batch");
}

void engine_micro_discard(mega_engine *e)
{
    e->micro = (engine_micro){.phase = ENGINE_STEPPED};
    e->gradients.are_summed = false;
    e->data.purpose = ENGINE_BATCH_NONE;
}

/* Ends a pass. If it failed on any rank, all ranks discard the micro-batches of the step, which then starts over. */
static mega_status finish_pass(mega_engine *e, mega_status st)
{
    st = engine_agree(e, st);
    if (st != MEGA_OK) engine_micro_discard(e);
    return st;
}

static mega_status forward_to_evaluate(mega_engine *e, double *out_loss)
{
    engine_sums sums = {.stops = 0};
    mega_loss_sums found;
    MEGA_TRY(engine_agree(e, engine_run_evaluation(e, &sums)));
    engine_evaluation_losses(e, &sums, &found);
    if (out_loss != NULL) *out_loss = found.count > 0 ? found.loss / found.count : 0;
    if (e->data.has_set) e->micro.done++; /* no step follows that would advance the data */
    e->data.purpose = ENGINE_BATCH_NONE;
    return MEGA_OK;
}

static mega_status forward_to_train(mega_engine *e, double *out_loss)
{
    engine_micro *m = &e->micro;
    engine_sums now = {.stops = 0};
    double metric[MEGA_METRICS];
    if (m->done == 0) {
        m->sums = (engine_sums){.stops = 0};
        m->result = (mega_step_result){0};
        mega_record_step(mega_world_record(e->options.world), e->progress.iteration + 1);
        engine_step_begin(e, mega_engine_gradient_accumulation_steps(e));
        m->clock = clock_start(e, &m->result);
        clock_begin_passes(&m->clock, mega_engine_gradient_accumulation_steps(e), NULL);
    }
    clock_restart(&m->clock, CLOCK_BEFORE_FORWARD);
    const mega_schedule_pass pass = {.forward = true};
    engine_record_phase(e, "forward", m->done);
    engine_losses_begin(e, &now);
    mega_status st = engine_run_pass(e, &pass, m->done == 0, mega_engine_is_accumulation_boundary(e));
    if (st == MEGA_OK) st = engine_losses_end(e, &now);
    clock_add_pass(&m->clock, &pass, false);
    MEGA_TRY(finish_pass(e, st));
    clock_restart(&m->clock, CLOCK_AFTER_FORWARD);
    for (int i = 0; i < e->model.num_losses; i++)
        for (int k = LOSS_SUM; k <= LOSS_WEIGHT; k++) m->sums.loss[i][k] += now.loss[i][k];
    m->phase = ENGINE_FORWARDED;
    if (out_loss != NULL) *out_loss = engine_losses_total(e, &now, metric);
    return MEGA_OK;
}

/* Collective over the world. Checks that all ranks agree on the boundary: otherwise they would wait for gradients that
 * others do not send. */
static mega_status compare_boundary(const mega_engine *e)
{
    const int32_t is_boundary = mega_engine_is_accumulation_boundary(e);
    int32_t most[2] = {is_boundary, -is_boundary};
    mega_comm *world = e->layout->world.comm;
    MEGA_TRY(mega_comm_all_reduce(world, "accumulation boundary", most, 2, MEGA_I32, MEGA_REDUCE_MAX));
    if (most[0] == -most[1]) return MEGA_OK;
    return mega_comm_agree(world,
                           MEGA_MISTAKE("mega_engine_forward: the micro-batch is an accumulation boundary on some "
                                        "ranks only (%s on rank %d); call mega_engine_set_accumulation_boundary "
                                        "with the same on all",
                                        is_boundary != 0 ? "one" : "none", e->layout->world.rank));
}

static mega_status micro_forward(mega_engine *e, double *out_loss)
{
    static const char call[] = "mega_engine_forward";
    const bool trains = e->programs.train != NULL;
    mega_status st = engine_check_forward_pass(e, call);
    if (st == MEGA_OK) st = micro_check_call(e, call, ENGINE_STEPPED);
    if (st == MEGA_OK) st = fill_micro_batch(e);
    MEGA_TRY(trains ? engine_begin_pass(e, st) : engine_begin_call(e, st));
    if (trains) MEGA_TRY(engine_use_trained_weights(e));
    if (trains) MEGA_TRY(compare_boundary(e));
    if (trains && e->micro.done == 0) MEGA_TRY(engine_set_length(e));
    return trains ? forward_to_train(e, out_loss) : forward_to_evaluate(e, out_loss);
}

mega_status mega_engine_forward(mega_engine *e, double *out_loss)
{
    MEGA_TRY(engine_enter(e, "mega_engine_forward"));
    return engine_leave(e, micro_forward(e, out_loss));
}

/* Waits for the gradient sums of a pass and returns `st`, or the error of the wait if `st` is MEGA_OK. Also called for
 * a failed pass, because the next step starts the sums again. */
static mega_status wait_reductions(mega_engine *e, mega_status st)
{
    const mega_status waited = engine_wait_reductions(e);
    return st != MEGA_OK ? st : waited;
}

static mega_status run_backward(mega_engine *e)
{
    engine_micro *m = &e->micro;
    const mega_schedule_pass pass = {.forward = false};
    const bool is_boundary = mega_engine_is_accumulation_boundary(e);
    clock_restart(&m->clock, NULL);
    engine_record_phase(e, "backward", m->done);
    mega_status st = engine_run_pass(e, &pass, m->done == 0, is_boundary);
    clock_mark_pass_end(&m->clock);
    if (st != MEGA_ERR_COMM) st = wait_reductions(e, st);
    MEGA_TRY(finish_pass(e, st));
    clock_add_pass(&m->clock, &pass, is_boundary); /* the sums begin when the last rank is there */
    clock_restart(&m->clock, CLOCK_AFTER_BACKWARD);
    m->phase = ENGINE_BACKWARDED;
    m->result.micro_batches = m->done + 1;
    if (!is_boundary) return MEGA_OK;
    MEGA_TRY(finish_pass(e, engine_finish_gradients(e, &m->sums, &m->result)));
    clock_add_sum(&m->clock);
    return MEGA_OK;
}

static mega_status micro_backward(mega_engine *e)
{
    static const char call[] = "mega_engine_backward";
    mega_status st = micro_check_training_call(e, call, ENGINE_FORWARDED);
    if (st == MEGA_OK) st = engine_check_has_loss(e, call);
    MEGA_TRY(engine_begin_call(e, st));
    return run_backward(e);
}

mega_status mega_engine_backward(mega_engine *e)
{
    MEGA_TRY(engine_enter(e, "mega_engine_backward"));
    return engine_leave(e, micro_backward(e));
}

/* Local. Gives the program the caller's gradient of an output. The next backward pass adds it to the gradients of the
 * model's own losses. */
static mega_status give_gradient(mega_engine *e, const char *output, const float *gradient, int64_t count,
                                 double weight)
{
    static const char call[] = "mega_engine_backward_from";
    MEGA_TRY(micro_check_training_call(e, call, ENGINE_FORWARDED));
    MEGA_TRY(engine_check_given(e, call, "output", output));
    MEGA_TRY(engine_check_given(e, call, "gradient", gradient));
    if (e->options.per_token_loss)
        return MEGA_FAIL(
            MEGA_ERR_UNSUPPORTED,
            "%s: --calculate-per-token-loss divides by the weight of a loss of the model, and this loss is "
            "the caller's; leave the option out",
            call);
    if (!(weight >= 0) || !isfinite(weight))
        return MEGA_MISTAKE(
            "%s: output \"%s\": weight %g; expected the total weight of the rows of this micro-batch, 0 "
            "or more",
            call, output, weight);
    const mega_status st = mega_program_output_gradient(e->programs.train, output, 0, gradient, count, weight);
    if (st != MEGA_OK) MEGA_CONTEXT("%s", call);
    return st;
}

static mega_status micro_backward_from(mega_engine *e, const char *output, const float *gradient, int64_t count,
                                       double weight)
{
    const mega_status st = engine_begin_call(e, give_gradient(e, output, gradient, count, weight));
    if (st == MEGA_OK) return run_backward(e);
    if (e->programs.train != NULL && e->memory.is_allocated)
        mega_program_forget_given(e->programs.train, 0); /* another rank failed */
    return st;
}

mega_status mega_engine_backward_from(mega_engine *e, const char *output, const float *gradient, int64_t count,
                                      double weight)
{
    MEGA_TRY(engine_enter(e, "mega_engine_backward_from"));
    return engine_leave(e, micro_backward_from(e, output, gradient, count, weight));
}

/* Completes a micro-batch. The next boundary is set by the options, unless the caller sets it again. */
static void micro_complete(engine_micro *m, bool is_boundary)
{
    m->phase = ENGINE_STEPPED;
    m->done = is_boundary ? 0 : m->done + 1;
    m->is_boundary_set = false;
    m->was_applied = is_boundary && !m->result.skipped;
}

static mega_status micro_step(mega_engine *e, mega_step_result *out)
{
    static const char call[] = "mega_engine_step";
    engine_micro *m = &e->micro;
    MEGA_TRY(engine_begin_call(e, micro_check_training_call(e, call, ENGINE_BACKWARDED)));
    const bool is_boundary = mega_engine_is_accumulation_boundary(e);
    if (!is_boundary) {
        clock_restart(&m->clock, CLOCK_AFTER_STEP);
    } else {
        clock_restart(&m->clock, NULL);
        const mega_status st = engine_update(e, &m->result);
        if (st != MEGA_OK) {
            engine_micro_discard(e);
            return st;
        }
        clock_add_update(&m->clock);
        const mega_step_result *r = &m->result;
        clock_end(&m->clock, r->forward_s + r->backward_s + r->reduce_s + r->optimizer_s);
        if (out != NULL) *out = *r;
    }
    e->data.purpose = ENGINE_BATCH_NONE;
    micro_complete(m, is_boundary);
    return MEGA_OK;
}

mega_status mega_engine_step(mega_engine *e, mega_step_result *out)
{
    MEGA_TRY(engine_enter(e, "mega_engine_step"));
    return engine_leave(e, micro_step(e, out));
}

bool mega_engine_is_accumulation_boundary(const mega_engine *e)
{
    if (engine_check_given(e, "mega_engine_is_accumulation_boundary", "e", e) != MEGA_OK) return false;
    if (e->micro.is_boundary_set) return e->micro.is_boundary;
    return e->micro.done + 1 >= mega_engine_gradient_accumulation_steps(e);
}

bool mega_engine_was_step_applied(const mega_engine *e)
{
    return engine_check_given(e, "mega_engine_was_step_applied", "e", e) == MEGA_OK && e->micro.was_applied;
}

mega_status mega_engine_set_accumulation_boundary(mega_engine *e, bool is_boundary)
{
    static const char call[] = "mega_engine_set_accumulation_boundary";
    MEGA_TRY(engine_check_free(e, call));
    MEGA_TRY(micro_check_training_call(e, call, ENGINE_STEPPED));
    e->micro.is_boundary_set = true;
    e->micro.is_boundary = is_boundary;
    return MEGA_OK;
}
