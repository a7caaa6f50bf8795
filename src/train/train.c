/* Runs a training from beginning to end. Start reading at mega_train. */
#include "megalith/train.h"
#include "megalith/log.h"
#include "train_impl.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>

static mega_status build_model(trainer *t)
{
    train_line(t, "building %s model ...", t->task->model_name);
    const mega_optim_options *o = &t->cfg->engine.optim;
    const bool counts_steps = o->scheduler.kind != MEGA_SCHEDULER_NONE;
    const char *style = counts_steps ? mega_scheduler_name(o->scheduler.kind) : mega_lr_style_name(o->lr_decay_style);
    MEGA_TRY(train_log_parameters(t));
    MEGA_TRY(train_agree(t, train_log_model(t)));
    if (t->cfg->engine.deepspeed)
        train_line(t, "%s is enabled.", train_is_deepscale(t->cfg) ? "DeepScale" : "DeepSpeed");
    if (!t->cfg->skip_train && t->io->is_detailed) train_line(t, "> learning rate decay style: %s", style);
    MEGA_TRY(train_agree(t, mega_engine_allocate(t->engine)));
    MEGA_TRY(train_agree(t, mega_engine_compare_ranks(t->engine)));
    MEGA_TRY(train_check_stop(t, "the start of the run"));
    train_record_phase(t, "loading the checkpoint");
    MEGA_TRY(train_agree(t, train_load(t)));
    MEGA_TRY(train_agree(t, train_identify(t)));
    train_warn_of_newer(t);
    train_datetime(t, "after model, optimizer, and learning rate scheduler are built");
    return MEGA_OK;
}

static mega_status set_up(trainer *t)
{
    MEGA_TRY(train_check(t));
    MEGA_TRY(train_check_stop(t, "the start of the run"));
    MEGA_TRY(train_make_output_folders(t));
    MEGA_TRY(train_agree(t, train_log_start(t)));
    MEGA_TRY(build_model(t));
    train_record_phase(t, "opening the data");
    MEGA_TRY(train_open_data(t));
    train_datetime(t, "after dataloaders are built");
    MEGA_TRY(train_agree(t, train_monitor_open(t)));
    MEGA_TRY(train_curve_open(t));
    train_peak_measure(t);
    MEGA_TRY(train_agree(t, train_load_open(t)));
    MEGA_TRY(train_profile_open(t));
    train_describe(t);
    if (t->io->is_detailed) train_line(t, "done with setup ...");
    t->log.last_line = mega_time_now();
    return MEGA_OK;
}

/* Logs the result of a step. */
static mega_status note_result(trainer *t, const mega_step_result *r)
{
    mega_norm_result params = {.norm = NAN};
    const double step_s = t->log.step_s;
    t->log.step_s = 0;
    if (t->cfg->log_params_norm) MEGA_TRY(mega_optimizer_params_norm(mega_engine_optimizer(t->engine), &params));
    if (t->cfg->log_optimizer_states_to_tensorboard && train_monitor_is_due(t))
        MEGA_TRY(mega_optimizer_state_norms(mega_engine_optimizer(t->engine), &t->states));
    if (!r->skipped) {
        t->log.last_loss = r->loss;
        if (t->task->course->in_epochs) {
            t->epochs.loss += r->loss;
            t->epochs.losses++;
        }
        train_curve_add(t, r->loss);
    }
    train_log_step(t, r, params.norm, step_s);
    train_monitor_step(t, r, params.norm, step_s);
    return MEGA_OK;
}

/* With late results: waits for the step that was asked for last, and logs it. */
static mega_status catch_up(trainer *t)
{
    mega_step_result r;
    const double began = mega_time_now();
    if (mega_engine_progress_told(t->engine) == mega_engine_progress_get(t->engine)) return MEGA_OK;
    MEGA_TRY(train_save_after_failure(t, mega_engine_await_step(t->engine, &r)));
    t->log.step_s += mega_time_now() - began;
    return note_result(t, &r);
}

static mega_status iterate(trainer *t)
{
    mega_step_result r;
    const bool looks_at_weights = t->cfg->log_params_norm || t->cfg->log_optimizer_states_to_tensorboard;
    const mega_profile_moment began = mega_profile_now(t->team);
    const bool profiled = train_profile_begin(t);
    MEGA_TRY(train_save_after_failure(t, mega_engine_train_batch(t->engine, &r)));
    const mega_profile_moment ended = mega_profile_now(t->team);
    t->log.step_s += ended.at - began.at;
    if (profiled) MEGA_TRY(train_profile_end(t, began, ended));
    if (r.iteration > 0) MEGA_TRY(note_result(t, &r));
    return looks_at_weights ? catch_up(t) : MEGA_OK;
}

/* Saves, if there is a folder to save to, and logs why the run ends here. */
static mega_status leave(trainer *t, const char *why)
{
    char label[64];
    const int64_t iteration = mega_engine_progress_get(t->engine)->iteration;
    MEGA_TRY(train_save(t));
    if (t->cfg->save == NULL && why != NULL) mega_warn("without --save nothing of this run is kept");
    if (why != NULL) train_line(t, "%s", why);
    snprintf(label, sizeof label, "exiting program at iteration %lld", (long long)iteration);
    train_datetime(t, label);
    return MEGA_OK;
}

/* Whether what follows an iteration needs its result. */
static bool is_looked_at(const trainer *t, int64_t iteration)
{
    const mega_train_options *cfg = t->cfg;
    const int64_t evaluates = t->task->course->is_as_megatron ? cfg->eval_interval : 0;
    const int64_t interval[] = {evaluates, cfg->save_interval, cfg->exit_interval};
    for (size_t i = 0; i < MEGA_COUNT(interval); i++)
        if (interval[i] > 0 && iteration % interval[i] == 0) return true;
    return iteration >= t->train_iters || train_ends_epoch(t);
}

/* Called after each iteration. Does, in Megatron's order: evaluation, signal, periodic save, time limit, exit
 * interval. */
static mega_status after_iteration(trainer *t, bool *left)
{
    const mega_train_options *cfg = t->cfg;
    const int64_t iteration = mega_engine_progress_get(t->engine)->iteration;
    const double minutes = (mega_time_now() - t->began) / 60;
    char text[96];
    bool late;
    if (is_looked_at(t, iteration)) MEGA_TRY(catch_up(t));
    if (t->task->course->is_as_megatron && iteration % cfg->eval_interval == 0) {
        snprintf(text, sizeof text, "iteration %lld", (long long)iteration);
        MEGA_TRY(train_evaluate(t, MEGA_SPLIT_VALID, text, false));
    }
    if (t->task->course->after != NULL) MEGA_TRY(t->task->course->after(t));
    MEGA_TRY(train_poll_ranks(t, minutes, &late));
    if (t->stop != 0 || late) MEGA_TRY(catch_up(t));
    if (t->stop != 0) {
        *left = true;
        t->io->stop_line(t->stop, text, sizeof text);
        return leave(t, text);
    }
    if (cfg->save_interval > 0 && iteration % cfg->save_interval == 0) MEGA_TRY(train_save(t));
    if (late) {
        *left = true;
        snprintf(text, sizeof text, "exiting program after %.2f minutes", minutes);
        return leave(t, text);
    }
    if (cfg->exit_interval > 0 && iteration % cfg->exit_interval == 0) {
        *left = true;
        return leave(t, NULL);
    }
    return MEGA_OK;
}

/* Names the option that leaves out the training: tasks has --epochs 0 for it. */
static mega_status training_train(trainer *t, bool *left)
{
    const mega_engine_progress *p = mega_engine_progress_get(t->engine);
    t->log.has_described = true;
    if (t->io->began != NULL) t->io->began(t->io->user);
    if (t->cfg->skip_train) {
        train_line(t, "skipping training (%s%s) ...", train_why_untrained(t),
                   mega_train_classifies(t->cfg) ? "" : " is on");
        return MEGA_OK;
    }
    train_line(t, "training ...");
    if (t->task->course->begin != NULL) MEGA_TRY(t->task->course->begin(t));
    train_datetime(t, "before the start of training step");
    const bool in_samples = t->cfg->engine.optim.train_samples > 0;
    if (p->iteration >= t->train_iters)
        mega_warn("the checkpoint is at %s %lld and --train-%s is %lld: there is nothing left to train",
                  in_samples ? "sample" : "iteration", (long long)(in_samples ? p->consumed_samples : p->iteration),
                  in_samples ? "samples" : "iters",
                  (long long)(in_samples ? t->cfg->engine.optim.train_samples : t->train_iters));
    MEGA_TRY(train_check_stop(t, "the start of the run"));
    while (p->iteration < t->train_iters && !*left) {
        MEGA_TRY(iterate(t));
        MEGA_TRY(after_iteration(t, left));
    }
    if (*left) return MEGA_OK;
    train_datetime(t, "after training is done");
    return t->task->course->is_as_megatron && p->iteration > t->first_iteration ? train_save(t) : MEGA_OK;
}

/* Evaluates the validation and test splits at the end, unless a signal arrives: the trained weights
 * are saved by then. */
static mega_status evaluate_at_end(trainer *t)
{
    const int64_t iteration = mega_engine_progress_get(t->engine)->iteration;
    const long long samples = (long long)(t->cfg->eval_iters * t->cfg->engine.optim.global_batch_size);
    char text[128];
    for (int split = MEGA_SPLIT_VALID; split <= MEGA_SPLIT_TEST && t->stop == 0; split++) {
        snprintf(text, sizeof text, "iteration %lld on %lld-sample draw from %s set", (long long)iteration, samples,
                 train_split_name(split));
        MEGA_TRY(train_evaluate(t, split, text, true));
    }
    if (t->stop == 0) return MEGA_OK;
    if (t->cfg->skip_train) return train_check_stop(t, "the evaluation");
    t->io->stop_line(t->stop, text, sizeof text);
    train_line(t, "%s", text);
    return MEGA_OK;
}

const train_course train_by_iterations = {.is_as_megatron = true,
                                          .save_option = "--save",
                                          .load_option = "--load",
                                          .restart_option = "--restart",
                                          .losses_in_log = "the losses above",
                                          .end = evaluate_at_end};

static mega_status training_run(trainer *t)
{
    bool left = false;
    MEGA_TRY(set_up(t));
    MEGA_TRY(training_train(t, &left));
    MEGA_TRY(train_profile_close(t));
    if (!left) MEGA_TRY(t->task->course->end(t));
    if (t->cfg->engine.monitor.comms_logger && t->cfg->engine.monitor.comms_logger_stragglers)
        MEGA_TRY(mega_engine_log_exchanges(t->engine, true));
    MEGA_TRY(train_find_most_held(t));
    train_describe(t); /* again, with what is known now */
    if (t->io->status != NULL) t->io->status(t->io->user, "");
    train_curve_draw(t);
    train_log_result(t);
    return MEGA_OK;
}

mega_status mega_train(mega_train_options *cfg, mega_team *team, const mega_train_io *io)
{
    trainer t = {.cfg = cfg,
                 .task = train_task_of(mega_options_command(cfg->engine.options)),
                 .team = team,
                 .io = io,
                 .world = io->world,
                 .train_iters = cfg->engine.optim.train_iters,
                 .saves = {.iteration = -1, .is_alone = cfg->restart},
                 .began = mega_time_now(),
                 .epochs = {.finished_loss = NAN},
                 .log = {.last_loss = NAN, .last_validation_loss = NAN}};
    mega_team_stop_on(team, io->stop);
    const mega_status st = training_run(&t);
    mega_team_stop_on(team, NULL); /* a signal must not interrupt what follows */
    if (io->status != NULL) io->status(io->user, "");
    if (st == MEGA_ERR_INTERRUPTED) MEGA_CONTEXT("no step was made, and nothing is saved");
    mega_error_record failure;
    mega_error_get(&failure);
    train_monitor_close(&t);
    train_trace_retry(&t, true);
    train_curve_close(&t);
    mega_cpu_meter_destroy(t.cpu.meter);
    mega_buffer_fini(&t.log.line);
    mega_engine_destroy(t.engine); /* it reads the data until it is destroyed */
    train_close_data(&t);
    mega_profile_destroy(t.profile.events);
    t.task->free_model(&t.network);
    mega_tokenizer_destroy(t.text.tokenizer);
    mega_free(t.text.words);
    mega_checkpoint_close(t.checkpoint);
    mega_free(t.generation_config);
    if (st != MEGA_OK && !t.saves.has_begun) mega_lock_give_back(t.saves.lock);
    else
        mega_lock_release(t.saves.lock);
    return st != MEGA_OK ? mega_error_restore(&failure) : MEGA_OK;
}
