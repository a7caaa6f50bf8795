/* A run whose length is given in epochs: how many steps that is; and of run_clm what transformers' script prints,
 * evaluates and writes at the start, after each epoch and at the end (of tasks with labels: sets.c). */
#include "megalith/file.h"
#include "megalith/run_json.h"
#include "train_impl.h"
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool train_ends_epoch(const trainer *t)
{
    const int64_t iteration = mega_engine_progress_get(t->engine)->iteration;
    return t->epochs.steps > 0 && (iteration % t->epochs.steps == 0 || iteration >= t->train_iters);
}

/* Prints a line as Python's logging does in that script. */
static void epochs_line(const trainer *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void epochs_line(const trainer *t, const char *fmt, ...)
{
    char when[32], text[512];
    const time_t now = time(NULL);
    struct tm local;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    localtime_r(&now, &local);
    strftime(when, sizeof when, "%m/%d/%Y %H:%M:%S", &local);
    train_line(t, "%s - INFO - %s - %s", when, t->task->command, text);
}

/* ---- the length of the run ---- */

/* Reads the texts on the first rank of each host; its other ranks map the memory. */
static mega_status read_in_turn(trainer *t, mega_task_data_options *o)
{
    const bool leads = mega_world_rank(t->world) == mega_world_host_first(t->world);
    if (mega_world_size(t->world) == 1) return t->task->make_texts(o, &t->epochs.texts);
    if (!t->task->course->shares_texts) return train_agree(t, t->task->make_texts(o, &t->epochs.texts));
    mega_status st = train_agree(t, leads ? mega_gpt_share_create(&o->share) : MEGA_OK);
    if (st == MEGA_OK) st = train_agree(t, leads ? t->task->make_texts(o, &t->epochs.texts) : MEGA_OK);
    if (st == MEGA_OK) st = train_agree(t, train_open_share(t, &o->share));
    if (st == MEGA_OK) st = train_agree(t, leads ? MEGA_OK : t->task->make_texts(o, &t->epochs.texts));
    mega_gpt_share_destroy(o->share);
    return st;
}

static mega_status count_steps(trainer *t)
{
    mega_train_options *cfg = t->cfg;
    const int64_t batch = cfg->engine.optim.global_batch_size, samples = t->epochs.texts.samples[MEGA_SPLIT_TRAIN];
    if (cfg->skip_train) return MEGA_OK;
    t->epochs.steps = (samples + (t->epochs.texts.drops_last ? 0 : batch - 1)) / batch;
    if (t->epochs.steps == 0)
        return MEGA_MISTAKE(
            "--train-data: %lld samples do not fill a batch of %lld (--global-batch-size); give a smaller "
            "batch, or --keep-last",
            (long long)samples, (long long)batch);
    if (!mega_options_is_given(cfg->engine.options, "train_iters"))
        MEGA_TRY(mega_options_set_int(cfg->engine.options, "train_iters", t->epochs.texts.epochs * t->epochs.steps,
                                      MEGA_SET_BY_PRESET));
    t->train_iters = cfg->engine.optim.train_iters;
    train_check_options_again(t);
    return MEGA_OK;
}

/* An epoch has whole batches. With another size the steps of the checkpoint would be another number of epochs. */
mega_status train_epochs_check_batch(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    json_t *root;
    if (!t->task->course->in_epochs || t->checkpoint == NULL || cfg->finetune) return MEGA_OK;
    if (mega_checkpoint_run_json(t->checkpoint) == NULL) return MEGA_OK;
    MEGA_TRY(mega_run_json(&root, t->checkpoint));
    const json_t *stored = json_object_get(json_object_get(root, "arguments"), "global_batch_size");
    const long long there = (long long)json_integer_value(stored),
                    here = (long long)cfg->engine.optim.global_batch_size;
    json_decref(root);
    if (there <= 0 || here <= 0 || there == here || cfg->skip_train) return MEGA_OK;
    return MEGA_MISTAKE(
        "--load %s: its steps have %lld samples, and those of this run %lld: steps would be counted as other "
        "epochs; give the same batch (%s), or begin anew from its weights with %s %s",
        cfg->load, there, here, t->task->course->batch_options, t->task->course->weights_option, cfg->load);
}

mega_status train_read_texts(trainer *t)
{
    static const unsigned needed[] = {MEGA_TOPIC_OPTIONS, MEGA_TOPIC_DATA, MEGA_TOPIC_TOKENIZER};
    const mega_train_options *cfg = t->cfg;
    mega_task_data_options o = {.cfg = cfg,
                                .tokenizer = t->text.tokenizer,
                                .words = t->text.words,
                                .stored = t->checkpoint != NULL ? mega_checkpoint_shape(t->checkpoint) : NULL,
                                .team = t->team,
                                .stop = t->io != NULL ? t->io->stop : NULL};
    if (!t->task->course->in_epochs || t->text.tokenizer == NULL || cfg->seq_length < 1) return MEGA_OK;
    if (t->task->read_tokenizer != NULL && t->text.words == NULL) return MEGA_OK; /* the tokenizer was refused */
    for (size_t i = 0; i < MEGA_COUNT(needed); i++)
        if (mega_options_is_faulty(cfg->engine.options, needed[i])) return MEGA_OK;
    train_record_phase(t, "tokenizing the texts");
    MEGA_TRY(read_in_turn(t, &o));
    return count_steps(t);
}

/* ---- the start ---- */

static mega_status epochs_begin(trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const mega_optim_options *o = &cfg->engine.optim;
    const long long of_rank = (long long)o->micro_batch_size,
                    micro_batches = o->global_batch_size / o->micro_batch_size / cfg->engine.data_parallel_size;
    epochs_line(t, "***** Running training *****");
    epochs_line(t, "  Num examples = %lld", (long long)t->epochs.texts.samples[MEGA_SPLIT_TRAIN]);
    epochs_line(t, "  Num Epochs = %lld", (long long)((t->train_iters + t->epochs.steps - 1) / t->epochs.steps));
    epochs_line(t, "  Instantaneous batch size per device = %lld", of_rank);
    epochs_line(t, "  Total train batch size (w. parallel, distributed & accumulation) = %lld",
                (long long)o->global_batch_size);
    epochs_line(t, "  Gradient Accumulation steps = %lld", micro_batches);
    epochs_line(t, "  Total optimization steps = %lld", (long long)t->train_iters);
    if (cfg->load != NULL && t->first_iteration > 0) train_line(t, "Resumed from checkpoint: %s", cfg->load);
    return MEGA_OK;
}

/* ---- after an epoch ---- */

static mega_status run_epoch_evaluation(trainer *t, mega_step_result *r, bool *is_whole)
{
    const mega_dataset d = t->task->dataset(&t->data[MEGA_SPLIT_VALID]);
    bool late;
    train_record_phase(t, "evaluating the validation set");
    if (t->io->status != NULL) t->io->status(t->io->user, "evaluating");
    const mega_status st = mega_engine_evaluate_quietly(t->engine, &d, 0, r);
    *is_whole = st == MEGA_OK;
    if (st != MEGA_ERR_INTERRUPTED) MEGA_TRY(train_save_after_failure(t, st));
    return train_poll_ranks(t, 0, &late); /* sets t->stop to the signal */
}

/* Returns the number of the epoch that the last step belongs to, from 0. */
static int64_t epoch_of(const trainer *t)
{
    const int64_t iteration = mega_engine_progress_get(t->engine)->iteration;
    return iteration > 0 ? (iteration - 1) / t->epochs.steps : 0;
}

static double epoch_loss(const trainer *t)
{
    return t->epochs.losses > 0 ? t->epochs.loss / (double)t->epochs.losses : NAN;
}

static mega_status evaluate_epoch(trainer *t)
{
    mega_step_result r = {.loss = NAN};
    mega_buffer text = {0};
    bool is_whole;
    if (t->data[MEGA_SPLIT_VALID].self == NULL) return MEGA_OK;
    MEGA_TRY(run_epoch_evaluation(t, &r, &is_whole));
    if (!is_whole) {
        train_line(t, "a signal ended the evaluation of epoch %lld: no loss is known", (long long)epoch_of(t));
        return MEGA_OK;
    }
    t->log.last_validation_loss = r.loss;
    t->evaluated = true;
    mega_buffer_puts(&text, "perplexity: ");
    mega_buffer_json_double(&text, exp(r.loss));
    mega_buffer_puts(&text, " eval_loss: ");
    mega_buffer_json_double(&text, r.loss);
    const mega_status st = mega_buffer_check(&text, "the line of an evaluation");
    if (st == MEGA_OK) epochs_line(t, "epoch %lld: %s", (long long)epoch_of(t), text.data);
    mega_buffer_fini(&text);
    train_monitor_evaluation(t, MEGA_SPLIT_VALID, r.loss, false, false);
    if (st == MEGA_OK) train_monitor_epoch(t, epoch_of(t), r.loss, epoch_loss(t));
    return st;
}

void train_end_epoch(trainer *t)
{
    t->epochs.finished_loss = epoch_loss(t);
    t->epochs.loss = 0;
    t->epochs.losses = 0;
}

static mega_status epochs_after(trainer *t)
{
    char tag[32];
    if (!train_ends_epoch(t)) return MEGA_OK;
    MEGA_TRY(evaluate_epoch(t));
    train_end_epoch(t);
    snprintf(tag, sizeof tag, "epoch_%lld", (long long)epoch_of(t));
    return t->cfg->clm.saves_epochs && t->stop == 0 ? train_save_as(t, tag, true) : MEGA_OK;
}

/* ---- the end ---- */

/* Gives the files of OUTPUT/final, except what is in its folders, a second name in OUTPUT. config.json comes last: a
 * folder without it is no model. */
static mega_status publish(const char *output)
{
    mega_names names = {0};
    char *final = mega_path_join(output, "final");
    mega_status st = final != NULL ? mega_folder_list(final, &names) : MEGA_NO_MEMORY("--output_dir", "a path");
    for (int last = 0; last < 2; last++) {
        for (size_t i = 0; i < names.count && st == MEGA_OK; i++) {
            if ((strcmp(names.name[i], "config.json") == 0) != (last == 1)) continue;
            char *from = mega_path_join(final, names.name[i]), *to = mega_path_join(output, names.name[i]);
            st = from != NULL && to != NULL ? MEGA_OK : MEGA_NO_MEMORY("--output_dir", "a path");
            if (st == MEGA_OK && !mega_folder_exists(from)) st = mega_file_link(from, to);
            MEGA_FREE(from, to);
        }
    }
    mega_names_fini(&names);
    mega_free(final);
    return st == MEGA_OK ? mega_folder_sync(output) : st;
}

static mega_status write_results(const trainer *t)
{
    mega_buffer b = {0};
    char *path = mega_path_join(t->cfg->save, "all_results.json");
    const struct {
        const char *key;
        double value;
    } result[] = {{"perplexity", exp(t->log.last_validation_loss)},
                  {"eval_loss", t->log.last_validation_loss},
                  {"train_loss", t->epochs.finished_loss}};
    mega_buffer_puts(&b, "{");
    for (size_t i = 0; i < MEGA_COUNT(result); i++) {
        if (!isfinite(result[i].value)) continue;
        mega_buffer_printf(&b, "\"%s\": ", result[i].key);
        mega_buffer_json_double(&b, result[i].value);
        mega_buffer_puts(&b, ", ");
    }
    mega_buffer_printf(&b, "\"epoch\": %lld, \"step\": %lld}\n", (long long)epoch_of(t),
                       (long long)mega_engine_progress_get(t->engine)->iteration);
    mega_status st =
        path != NULL ? mega_buffer_check(&b, "all_results.json") : MEGA_NO_MEMORY("--output_dir", "a path");
    if (st == MEGA_OK) st = mega_file_write_atomic(path, b.data, b.size);
    mega_buffer_fini(&b);
    mega_free(path);
    return st;
}

static mega_status epochs_end(trainer *t)
{
    if (!t->evaluated) MEGA_TRY(evaluate_epoch(t)); /* a resumed run with nothing left to train */
    if (t->cfg->save == NULL || t->stop != 0) return MEGA_OK;
    MEGA_TRY(train_save_as(t, "final", false));
    mega_status st = MEGA_OK;
    if (train_is_first(t)) {
        st = publish(t->cfg->save);
        if (st == MEGA_OK) st = write_results(t);
    }
    MEGA_TRY(train_agree(t, st));
    t->epochs.is_final = true;
    return MEGA_OK;
}

const train_course train_by_epochs = {
    .in_epochs = true,
    .shares_texts = true,
    .save_option = "--output_dir",
    .load_option = "--resume_from_checkpoint",
    .restart_option = "--overwrite_output_dir",
    .batch_options = "--per_device_train_batch_size, --gradient_accumulation_steps, the number of ranks",
    .weights_option = "--model_name_or_path",
    .losses_in_log = "the losses above",
    .length_options = "--num_train_epochs, the training file and the batch",
    .begin = epochs_begin,
    .after = epochs_after,
    .end = epochs_end};

/* ---- the progress bar ---- */

static int put_clock(char *out, int size, double seconds)
{
    const long long s = (long long)(seconds < 0 || seconds > 1e9 ? 0 : seconds);
    if (s >= 3600) return snprintf(out, (size_t)size, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    return snprintf(out, (size_t)size, "%02lld:%02lld", s / 60, s % 60);
}

/* Writes " 40%|████      | 98/245 [02:10<03:07, 1.28s/it, loss=3.0913, tokens/s=5120]", as wide as the terminal. */
void train_epochs_bar(const trainer *t, double loss, double tokens_s, mega_buffer *out)
{
    static const char *const eighth[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    char rest[160], passed[24], left[24];
    const int64_t total = t->train_iters, done = mega_engine_progress_get(t->engine)->iteration;
    const double seconds_a_step = t->log.interval.seconds / (double)t->log.interval.iterations;
    const bool is_slow = seconds_a_step > 1;
    put_clock(passed, sizeof passed, mega_time_now() - t->began);
    put_clock(left, sizeof left, seconds_a_step * (double)(total - done));
    const int n =
        snprintf(rest, sizeof rest, "| %lld/%lld [%s<%s, %.2f%s, loss=%.4f, tokens/s=%.0f]", (long long)done,
                 (long long)total, passed, left, is_slow || seconds_a_step <= 0 ? seconds_a_step : 1 / seconds_a_step,
                 is_slow ? "s/it" : "it/s", loss, tokens_s);
    const int width = t->io->columns - 1 - 5 - n, cells = width < 10 ? 10 : width > 60 ? 60 : width;
    const int64_t filled = total > 0 ? done * cells * 8 / total : 0;
    mega_buffer_printf(out, "%3lld%%|", (long long)(total > 0 ? done * 100 / total : 0));
    for (int i = 0; i < cells; i++) {
        const int64_t part = filled - (int64_t)i * 8;
        if (part >= 8) mega_buffer_puts(out, t->io->utf8 ? "█" : "#");
        else
            mega_buffer_puts(out, part > 0 && t->io->utf8 ? eighth[part] : " ");
    }
    mega_buffer_puts(out, rest);
}
