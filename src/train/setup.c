/* Everything before the first step: opens the checkpoint, takes options from it, opens the tokenizer, builds the
 * engine, loads weights. */
#include "megalith/file.h"
#include "megalith/json.h"
#include "megalith/labelled.h"
#include "megalith/layers.h"
#include "megalith/log.h"
#include "megalith/run_json.h"
#include "train_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPT2_VOCABULARY = 50257 };

/* Sets the options that --use-checkpoint-args takes from the checkpoint, unless the command line gives them. */
static mega_status take_stored_args(trainer *t)
{
    json_t *root;
    MEGA_TRY(mega_run_json(&root, t->checkpoint));
    const json_t *stored = json_object_get(root, "arguments");
    json_t *taken = json_object();
    bool whole = taken != NULL;
    for (const char *const *name = t->task->stored_args; *name != NULL; name++) {
        json_t *value = json_object_get(stored, *name);
        if (value != NULL && !json_is_null(value)) whole = json_object_set(taken, *name, value) == 0 && whole;
    }
    char *chosen = whole ? mega_json_dump(taken, JSON_REAL_PRECISION(17)) : NULL;
    json_decref(taken);
    json_decref(root);
    if (chosen == NULL) return MEGA_NO_MEMORY("checkpoint", "its arguments");
    const mega_status st = mega_options_from_json(t->cfg->engine.options, chosen, MEGA_SET_BY_CHECKPOINT);
    free(chosen);
    return st;
}

const char *train_load_option(const mega_train_options *cfg)
{
    return cfg->begins_mixture ? "--moe-init-from" : "--load";
}

bool train_takes_shape(const trainer *t)
{
    return t->cfg->use_checkpoint_args || t->task->leaves_shape_open(t->cfg);
}

/* Checks that the folder contains a supported model. The tasks in task.h are all Hugging Face families so far; a
 * folder with another model is treated as absent by later checks. */
static mega_status check_family(trainer *t)
{
    mega_status st = mega_checkpoint_check_shape(t->checkpoint);
    if (st != MEGA_OK) mega_error_prepend("%s", train_load_option(t->cfg));
    else if (mega_checkpoint_shape(t->checkpoint)->net.no_head)
        st = MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                       "%s %s: config.json: \"architectures\" names an encoder without a head, which a training would "
                       "have to draw; megalith embed reads it; give the folder of a model with a head (…ForMaskedLM)",
                       train_load_option(t->cfg), mega_checkpoint_folder(t->checkpoint));
    else if (t->task->check_folder != NULL)
        st = t->task->check_folder(mega_checkpoint_shape(t->checkpoint));
    if (st == MEGA_OK) return MEGA_OK;
    mega_checkpoint_close(t->checkpoint);
    t->checkpoint = NULL;
    return st;
}

void train_check_options_again(const trainer *t)
{
    MEGA_IGNORE(mega_options_check(t->cfg->engine.options)); /* the list of mistakes holds what it finds */
    mega_error_clear();
}

mega_status train_open_checkpoint(trainer *t)
{
    mega_train_options *cfg = t->cfg;
    if (cfg->load == NULL) return MEGA_OK;
    if (cfg->begins_mixture && mega_file_exists(cfg->load))
        return MEGA_MISTAKE("--moe-init-from %s: this is a file; expected the folder of a dense model", cfg->load);
    const bool takes_shape = train_takes_shape(t);
    mega_comm *ranks = t->world != NULL ? mega_world_comm(t->world) : NULL;
    t->plan.is_shape_alone = t->plan.is_plan && mega_checkpoint_is_config(cfg->load);
    if (t->plan.is_shape_alone) MEGA_TRY(mega_checkpoint_open_config(cfg->load, &t->checkpoint));
    else
        MEGA_TRY(mega_checkpoint_open_ranks(cfg->load, cfg->load_previous, t->team, ranks, &t->checkpoint));
    if (ranks != NULL) MEGA_TRY(mega_checkpoint_check_shared(t->checkpoint, cfg->load, ranks));
    if (t->checkpoint == NULL) {
        MEGA_TRY(train_check_nothing_loaded(t));
        if (takes_shape) train_check_options_again(t);
        return MEGA_OK;
    }
    MEGA_TRY(check_family(t));
    t->is_loaded = true;
    if (takes_shape && mega_checkpoint_run_json(t->checkpoint) != NULL) MEGA_TRY(take_stored_args(t));
    MEGA_TRY(t->task->take_shape(cfg, mega_checkpoint_shape(t->checkpoint), takes_shape));
    if (takes_shape) train_check_options_again(t);
    return MEGA_OK;
}

/* Returns the size of the vocabulary of a plan that names no tokenizer, 0 where one must be opened. That of a folder is
 * its config.json's, and that of a preset its model's; GPT-2's is assumed, which the plan says, where neither is
 * given. */
static int64_t vocabulary_of_plan(trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const char *type = cfg->text.tokenizer_type;
    if (!t->plan.is_plan || cfg->text.vocab_file != NULL) return 0;
    if (t->checkpoint != NULL) {
        const bool has_one = train_names_tokenizer(t) || mega_tokenizer_is_in(mega_checkpoint_folder(t->checkpoint));
        return has_one ? 0 : mega_checkpoint_shape(t->checkpoint)->vocab;
    }
    if (strcmp(type, "GPT2BPETokenizer") != 0) return 0;
    if (cfg->text.vocab_size > 0) return cfg->text.vocab_size;
    if (cfg->clm.vocab > 0) return cfg->clm.vocab;
    const int64_t own = mega_options_is_given(cfg->engine.options, "tokenizer_type") ? 0 : train_preset_vocabulary(cfg);
    t->plan.assumed_vocab = own == 0;
    return own > 0 ? own : GPT2_VOCABULARY;
}

bool train_names_tokenizer(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    return cfg->clm.tokenizer_folder != NULL || mega_text_names_files(&cfg->text) ||
           (mega_options_was_set(cfg->engine.options, "tokenizer_type") &&
            !mega_tokenizer_needs_file(cfg->text.tokenizer_type));
}

/* Keeps generation_config.json for the folders that this run saves, unless their config.json will name another end of
 * text. */
static mega_status keep_generation_config(trainer *t)
{
    const mega_model_shape *stored = t->checkpoint != NULL ? mega_checkpoint_shape(t->checkpoint) : NULL;
    const bool has_same_end = stored != NULL && stored->eos == mega_tokenizer_eod(t->text.tokenizer);
    if (stored == NULL || !(stored->net.has_ids || has_same_end)) return MEGA_OK;
    return mega_checkpoint_generation_config(t->checkpoint, &t->generation_config);
}

/* Refuses options that the tokenizer in the folder of --load does not obey. */
static mega_status check_said(const trainer *t)
{
    mega_buffer wrong = {0};
    mega_train_compare_tokenizer(t->cfg, t->text.tokenizer, &wrong);
    mega_status st = mega_buffer_check(&wrong, "options against a tokenizer");
    if (st == MEGA_OK && wrong.size > 0)
        st = MEGA_MISTAKE("options that contradict the tokenizer in the folder of --load:%s", wrong.data);
    mega_buffer_fini(&wrong);
    return st;
}

static void pad_vocabulary(trainer *t)
{
    mega_train_options *cfg = t->cfg;
    cfg->model.padded_vocab_size = mega_vocab_pad(t->text.vocab_rows, cfg->make_vocab_size_divisible_by,
                                                  (int)cfg->engine.comm.tensor_model_parallel_size);
}

mega_status train_open_tokenizer(trainer *t)
{
    mega_train_options *cfg = t->cfg;
    t->text.vocab = t->text.vocab_rows = vocabulary_of_plan(t);
    if (t->text.vocab > 0) {
        pad_vocabulary(t);
        return MEGA_OK;
    }
    const mega_tokenizer_options o = mega_text_tokenizer(&cfg->text);
    const char *folder = t->checkpoint != NULL ? mega_checkpoint_folder(t->checkpoint) : NULL;
    const bool is_of_checkpoint = !train_names_tokenizer(t) && folder != NULL && mega_tokenizer_is_in(folder);
    if (cfg->clm.tokenizer_folder != NULL) {
        MEGA_TRY(mega_tokenizer_load(cfg->clm.tokenizer_folder, &t->text.tokenizer));
        MEGA_TRY(mega_options_set(cfg->engine.options, "tokenizer_type", mega_tokenizer_type(t->text.tokenizer),
                                  MEGA_SET_BY_PRESET));
    } else if (is_of_checkpoint) {
        MEGA_TRY(mega_tokenizer_load(folder, &t->text.tokenizer));
        mega_tokenizer_check_vocab_size(t->text.tokenizer, cfg->text.vocab_size);
        MEGA_TRY(check_said(t));
        MEGA_TRY(mega_options_set(cfg->engine.options, "tokenizer_type", mega_tokenizer_type(t->text.tokenizer),
                                  MEGA_SET_BY_CHECKPOINT));
    } else {
        MEGA_TRY(mega_tokenizer_create(&o, &t->text.tokenizer));
    }
    MEGA_TRY(train_check_tokenizer(t));
    MEGA_TRY(train_check_ends(t));
    MEGA_TRY(keep_generation_config(t));
    if (t->task->read_tokenizer != NULL) MEGA_TRY(t->task->read_tokenizer(t->text.tokenizer, &t->text.words));
    const int64_t stored = t->checkpoint != NULL ? mega_checkpoint_shape(t->checkpoint)->vocab : 0;
    t->text.vocab = mega_tokenizer_size(t->text.tokenizer);
    t->text.vocab_rows = stored > t->text.vocab ? stored : t->text.vocab;
    pad_vocabulary(t);
    return MEGA_OK;
}

void train_log_tokenizer(const trainer *t)
{
    const long long padded = (long long)t->cfg->model.padded_vocab_size, real = (long long)t->text.vocab_rows;
    train_line(t, "> building %s tokenizer ...", mega_tokenizer_type(t->text.tokenizer));
    if (t->text.vocab_rows > t->text.vocab)
        train_line(t, " > the checkpoint's vocabulary has %lld ids, the tokenizer's %lld: trained and saved with %lld",
                   real, (long long)t->text.vocab, real);
    train_line(t, " > padded vocab (size: %lld) with %lld dummy tokens (new size: %lld)", real, padded - real, padded);
}

/* Converts --train-samples to iterations: those done plus those left, whatever batch sizes the earlier samples had. */
static void count_iterations(trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    if (cfg->engine.optim.train_samples == 0) return;
    t->train_iters = cfg->iteration + mega_batch_ramp_iterations(&t->batch, cfg->consumed_train_samples,
                                                                 cfg->engine.optim.train_samples);
}

void train_plan_iterations(trainer *t)
{
    mega_engine_options o;
    if (mega_options_is_faulty(t->cfg->engine.options, MEGA_TOPIC_OPTIONS)) return;
    if (mega_train_engine_options(t->cfg, &o) != MEGA_OK) {
        mega_error_clear(); /* reported later, when the engine is built */
        return;
    }
    t->batch = o.batch;
    count_iterations(t);
}

mega_status train_make_model(const trainer *t, const mega_train_options *cfg, mega_task_model *out)
{
    const mega_task_options o = {.cfg = cfg,
                                 .vocab_rows = t->text.vocab_rows,
                                 .words = t->text.words,
                                 .stored = t->checkpoint != NULL ? mega_checkpoint_shape(t->checkpoint) : NULL};
    return t->task->make_model(&o, out);
}

mega_status train_build_network(trainer *t)
{
    MEGA_TRY(train_make_model(t, t->cfg, &t->network));
    if (t->network.begins_classifier) mega_checkpoint_begin_classifier(t->checkpoint);
    return t->network.begins_mixture ? t->task->begin_mixture(&t->network, t->cfg, t->checkpoint) : MEGA_OK;
}

mega_status train_create_engine(const trainer *t, mega_engine **out, const mega_task_model *m,
                                const mega_engine_options *options)
{
    mega_engine_options o = *options;
    o.stage_programs = m->stage_programs;
    const mega_setup setup = {
        .model = &m->model, .training_data = o.no_train ? NULL : &t->training_data, .options = &o};
    return mega_engine_create(&setup, out);
}

mega_status train_build_engine(trainer *t)
{
    mega_engine_options o;
    MEGA_TRY(mega_train_engine_options(t->cfg, &o));
    o.team = t->team;
    o.world = t->world;
    t->batch = o.batch;
    count_iterations(t);
    train_set_training_data(t);
    return train_create_engine(t, &t->engine, &t->network, &o);
}

/* The optimizer of a run that trained the head for pairs has states for it. */
static mega_status check_model_head(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const bool resumes = mega_checkpoint_run_json(t->checkpoint) != NULL && !cfg->finetune && !cfg->no_load_optim;
    if (!resumes || t->network.begins_classifier || !mega_checkpoint_shape(t->checkpoint)->net.sentence_head ||
        t->task->shape(&t->network, -1).net.sentence_head)
        return MEGA_OK;
    return MEGA_MISTAKE(
        "%s: the run in --load %s trains the head for pairs of sentences, and cannot go on without it; leave "
        "the option out, or give --finetune to begin a run without the head from its weights",
        mega_options_origin(cfg->engine.options, "bert_binary_head"), cfg->load);
}

/* differences: those of the network, a line each. The vocabulary is that of the tokenizer, so that no number of the
 * network is its remedy. */
static mega_status refuse_shape(const trainer *t, const char *differences)
{
    static const char vocabulary[] = "\n  the vocabulary";
    const char *folder = mega_checkpoint_folder(t->checkpoint), *option = train_load_option(t->cfg);
    const bool is_vocabulary = strncmp(differences, vocabulary, sizeof vocabulary - 1) == 0;
    if (!is_vocabulary)
        return MEGA_MISTAKE("%s %s: its network is not the one asked for; give its numbers%s:%s", option, folder,
                            train_takes_shape(t) ? "" : ", or --use-checkpoint-args to take them from it", differences);
    return MEGA_MISTAKE("%s %s: its model was made for another tokenizer (this run's: %s); %s:%s", option, folder,
                        mega_tokenizer_type(t->text.tokenizer),
                        mega_tokenizer_is_in(folder)
                            ? "leave the options of the tokenizer out to take the one in the folder"
                            : "give the one that it was trained with",
                        differences);
}

/* The checks of Megatron's load, all reported together. */
mega_status train_check_shape(const trainer *t)
{
    if (t->checkpoint == NULL) return MEGA_OK;
    mega_buffer b = {0};
    MEGA_TRY(check_model_head(t));
    t->task->compare(&t->network, mega_checkpoint_shape(t->checkpoint), &b);
    mega_status st = mega_buffer_check(&b, "the differences of two shapes");
    if (st == MEGA_OK && b.size > 0) st = refuse_shape(t, b.data);
    mega_buffer_fini(&b);
    return st;
}

static mega_engine_load_options load_options(const mega_train_options *cfg)
{
    return (mega_engine_load_options){.finetune = cfg->finetune,
                                      .no_optim = cfg->no_load_optim,
                                      .no_rng = cfg->no_load_rng,
                                      .override_schedule = cfg->override_opt_param_scheduler,
                                      .use_checkpoint_schedule = cfg->use_checkpoint_opt_param_scheduler};
}

/* Where a schedule differs in its length and no option says that in steps, names the options which it follows from. */
static mega_status name_length(const trainer *t, mega_status st)
{
    const char *options = t->task->course->length_options;
    if (st != MEGA_ERR_USAGE || options == NULL || strstr(mega_error_message(), "samples of decay") == NULL) return st;
    mega_error_record failure;
    mega_error_get(&failure);
    const size_t used = strlen(failure.text);
    snprintf(failure.text + used, sizeof failure.text - used,
             "\n  the samples of decay are those of the whole run, which follow from %s", options);
    return mega_error_restore(&failure);
}

mega_status train_check_state(const trainer *t)
{
    const mega_engine_load_options how = load_options(t->cfg);
    const bool has_length =
        t->cfg->engine.optim.train_iters > 0 || t->cfg->engine.optim.train_samples > 0; /* a plan may lack both */
    mega_engine_options o;
    if (t->checkpoint == NULL || !has_length) return MEGA_OK;
    MEGA_TRY(mega_train_engine_options(t->cfg, &o));
    return name_length(t, mega_engine_check_load(&o, t->checkpoint, &how));
}

static void log_schedule(const trainer *t)
{
    const mega_lr_schedule *s = mega_engine_schedule(t->engine);
    const mega_step_schedule *steps = mega_engine_step_schedule(t->engine);
    if (steps->kind != MEGA_SCHEDULER_NONE) {
        train_line(t, " > using the checkpoint's schedule: %s; weight decay %g to %g", mega_scheduler_name(steps->kind),
                   s->start_weight_decay, s->end_weight_decay);
        return;
    }
    train_line(t,
               " > using the checkpoint's schedule: learning rate %g to %g, %s over %.0f samples with %.0f of warm-up; "
               "weight decay %g to %g",
               s->max_lr, s->min_lr, mega_lr_style_name(s->style), s->decay, s->warmup, s->start_weight_decay,
               s->end_weight_decay);
}

static mega_status begin_classifier(const trainer *t)
{
    const mega_network_shape *n = &mega_checkpoint_shape(t->checkpoint)->net;
    train_line(t, "    a new classifier begins with random weights%s",
               n->classes > 0 || n->choices > 0 ? "; that of the folder, of another task, is left out" : "");
    return mega_engine_initialize(t->engine, (uint32_t)t->cfg->engine.seed);
}

static mega_status begin_mixture(const trainer *t)
{
    train_line(t, "    every expert begins as the MLP of its layer, and routers with random weights");
    return mega_engine_initialize(t->engine, (uint32_t)t->cfg->engine.seed);
}

static mega_status load_checkpoint_or_folder(trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const mega_engine_load_options o = load_options(cfg);
    mega_engine_loaded loaded;
    const char *folder = mega_checkpoint_folder(t->checkpoint);
    const int64_t iteration = mega_checkpoint_iteration(t->checkpoint);
    train_line(t, " loading checkpoint from %s at iteration %lld", folder, (long long)iteration);
    t->task->warn(&t->network, t->cfg, mega_checkpoint_shape(t->checkpoint), folder);
    if (t->network.begins_classifier) MEGA_TRY(begin_classifier(t));
    if (t->network.begins_mixture) MEGA_TRY(begin_mixture(t));
    MEGA_TRY(mega_engine_load(t->engine, t->checkpoint, &o, &loaded));
    const mega_engine_progress *p = mega_engine_progress_get(t->engine);
    t->cfg->iteration = t->first_iteration = p->iteration;
    t->cfg->consumed_train_samples = p->consumed_samples;
    t->cfg->consumed_valid_samples = p->consumed_valid_samples;
    train_line(t, " checkpoint version 3.0");
    train_line(t, "  successfully loaded checkpoint from %s at iteration %lld", folder, (long long)iteration);
    if (cfg->use_checkpoint_opt_param_scheduler && !cfg->skip_train) log_schedule(t);
    if (loaded.resumed) MEGA_TRY(train_read_stored(t));
    if (!cfg->skip_train && !loaded.optimizer && loaded.resumed && !cfg->no_load_optim)
        mega_warn("checkpoint %s: it holds no optimizer state (--no-save-optim); the moments start at zero", folder);
    if (!loaded.resumed)
        train_line(t, "    weights alone: iteration 0, fresh optimizer%s",
                   cfg->begins_mixture ? " (--moe-init-from)"
                   : cfg->finetune     ? " (--finetune)"
                                       : "");
    return MEGA_OK;
}

/* A schedule that has ended trains nothing, where its last rate is 0. */
static void warn_of_ended_schedule(const trainer *t)
{
    const mega_engine_progress *p = mega_engine_progress_get(t->engine);
    const mega_lr_schedule *s = mega_engine_schedule(t->engine);
    const int64_t left = t->train_iters - p->iteration, batch = t->cfg->engine.optim.global_batch_size;
    const bool is_ours = mega_engine_step_schedule(t->engine)->kind == MEGA_SCHEDULER_NONE;
    if (t->cfg->skip_train || left <= 0 || !is_ours || !(s->max_lr > 0)) return;
    for (int64_t i = 0; i < left; i++)
        if (mega_lr_schedule_lr_at(s, p->schedule_samples + i * batch,
                                   p->schedule_tokens + i * batch * t->cfg->seq_length) > 0)
            return;
    mega_warn(
        "the learning rate is 0 in the %lld iterations that are left, so that they change no weight: its schedule "
        "ended at sample %.0f, and %lld were consumed; %s",
        (long long)left, s->decay, (long long)p->schedule_samples,
        t->cfg->use_checkpoint_opt_param_scheduler
            ? "--override-opt_param-scheduler in place of --use-checkpoint-opt_param-scheduler takes the schedule "
              "of this command, over all of --train-iters"
            : "give a larger --lr-decay-iters (--lr-decay-samples), or a --min-lr above 0");
}

bool train_is_deepscale(const mega_train_options *cfg)
{
    const char *typed = mega_options_typed(cfg->engine.options, "deepspeed");
    return typed != NULL && strncmp(typed, "--deepscale", 11) == 0;
}

static void log_missing(const trainer *t)
{
    if (train_is_deepscale(t->cfg)) train_line(t, "Unable to load checkpoint.");
    train_line(t, "WARNING: could not find the metadata file %s/latest_checkpointed_iteration.txt", t->cfg->load);
    train_line(t, "    will not load any checkpoints and will start from random");
}

mega_status train_load(trainer *t)
{
    mega_train_options *cfg = t->cfg;
    if (t->checkpoint == NULL && cfg->load != NULL) log_missing(t);
    if (t->checkpoint == NULL) return mega_engine_initialize(t->engine, (uint32_t)cfg->engine.seed);
    MEGA_TRY(load_checkpoint_or_folder(t));
    count_iterations(t);
    warn_of_ended_schedule(t);
    mega_checkpoint_close(t->checkpoint);
    t->checkpoint = NULL;
    return MEGA_OK;
}

/* Under a curriculum the learning rate counts tokens where an option does. A decay in tokens after a warm-up in samples
 * begins with the tokens that these had. */
static void count_tokens(const mega_train_options *cfg, mega_engine_options *out)
{
    mega_lr_schedule *s = &out->schedule;
    if (!out->curriculum.is_on || !(s->decay > 0)) return;
    s->decay_tokens = (double)cfg->lr_decay_tokens;
    s->warmup_tokens = (double)cfg->lr_warmup_tokens;
    if (cfg->lr_warmup_tokens > 0) s->warmup = 0;
    else if (cfg->lr_decay_tokens > 0 && s->warmup > 0 &&
             mega_curriculum_check(&out->curriculum, cfg->seq_length) == MEGA_OK)
        s->warmup_tokens =
            (double)mega_consumed_after(&out->curriculum, &out->batch, cfg->seq_length, (int64_t)ceil(s->warmup), 0)
                .tokens;
}

mega_status mega_train_engine_options(const mega_train_options *cfg, mega_engine_options *out)
{
    MEGA_TRY(mega_engine_options_from_settings(&cfg->engine, out));
    out->layout.planned_ranks = (int)cfg->planned_world_size;
    out->layout.planned_rank = (int)cfg->planned_rank;
    const mega_labelled_task *task = mega_labelled_find(cfg->classify.task);
    out->seq = cfg->seq_length * (task != NULL && task->choices > 0 ? task->choices : 1);
    count_tokens(cfg, out);
    /* the samples that fill up the last batch of an epoch weigh nothing, also where they fill micro-batches */
    if (task != NULL && cfg->classify.keep_last) out->per_token_loss = true;
    out->no_train = cfg->skip_train;
    out->no_evaluate = cfg->eval_iters == 0 && task == NULL;
    return MEGA_OK;
}
