/* Saves and loads an engine: the tensors of a checkpoint, and the run.json from which a run continues as if it had
 * never stopped. Member names of "scheduler" are those of Megatron's checkpoints. */
#include "checkpoint_scheduler.h"
#include "engine_build.h"
#include "engine_calls.h"
#include "engine_state.h"
#include "engine_step.h"
#include "megalith/json.h"
#include "megalith/log.h"
#include "megalith/optimizer_state.h"
#include "megalith/run_json.h"
#include "saved_tensors.h"
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *optimizer_name(const mega_engine_options *o)
{
    return o->optimizer.row != NULL ? o->optimizer.row->name : mega_optimizer_kind_name(o->optimizer.kind);
}

/* Returns whether the number of tokens does not follow from the samples: a curriculum has run, now or earlier. */
static bool are_counted(const mega_engine *e, int64_t tokens, int64_t samples)
{
    return e->options.curriculum.is_on || tokens != samples * e->options.seq;
}

/* What counts tokens. A schedule in tokens may be that of the checkpoint from which this run continues. */
static void put_tokens(json_t *scheduler, const mega_engine *e)
{
    const mega_lr_schedule *s = &e->options.schedule;
    const mega_engine_progress *p = &e->progress;
    const bool is_in_tokens = s->decay_tokens > 0 || s->warmup_tokens > 0;
    if (scheduler == NULL || (!is_in_tokens && !are_counted(e, p->schedule_tokens, p->schedule_samples))) return;
    json_object_set_new(scheduler, "num_tokens", json_integer((json_int_t)e->progress.schedule_tokens));
    json_object_set_new(scheduler, "lr_warmup_tokens", json_real(s->warmup_tokens));
    json_object_set_new(scheduler, "lr_decay_tokens", json_real(s->decay_tokens));
}

static json_t *scheduler_json(const mega_engine *e)
{
    const mega_lr_schedule *s = &e->options.schedule;
    json_t *out = json_pack(
        "{s:f, s:f, s:f, s:f, s:s, s:f, s:s, s:f, s:I, s:f, s:f, s:s, s:I}", "max_lr", s->max_lr, "min_lr", s->min_lr,
        "lr_warmup_init", s->warmup_init, "lr_warmup_steps", s->warmup, "lr_decay_style", mega_lr_style_name(s->style),
        "lr_decay_steps", s->decay, "lr_wsd_decay_style", mega_lr_wsd_style_name(s->wsd_style), "wsd_decay_steps",
        s->wsd_decay, "num_steps", (json_int_t)e->progress.schedule_samples, "start_wd", s->start_weight_decay,
        "end_wd", s->end_weight_decay, "wd_incr_style", mega_weight_decay_style_name(s->decay_style), "wd_incr_steps",
        (json_int_t)s->weight_decay_samples);
    put_tokens(out, e);
    return checkpoint_put_scheduler(out, &e->options.step_schedule, e->progress.schedule_steps);
}

/* Parses the members that the caller adds to run.json. */
static mega_status extra_members(const mega_engine_save_options *o, json_t **out)
{
    static const char *const kinds[] = {"an object", "an array", "a string", "a number",
                                        "a number",  "true",     "false",    "null"};
    const char *text = o->extra_json != NULL ? o->extra_json : "{}";
    json_error_t error;
    json_t *extra = mega_json_load(text, strlen(text), JSON_DECODE_ANY, &error);
    if (extra == NULL && mega_json_status(&error) == MEGA_ERR_MEMORY) return MEGA_NO_MEMORY("checkpoint", "run.json");
    if (extra == NULL)
        return MEGA_MISTAKE("checkpoint: extra_json, line %d: %s; expected one JSON object, such as {\"epoch\": 3}",
                            error.line, error.text);
    if (!json_is_object(extra)) {
        const char *found = kinds[json_typeof(extra)];
        json_decref(extra);
        return MEGA_MISTAKE("checkpoint: extra_json: found %s, expected one JSON object, such as {\"epoch\": 3}",
                            found);
    }
    *out = extra;
    return MEGA_OK;
}

/* Adds the caller's members. A member under a name that the engine uses is an error, because it would be lost. */
static mega_status checkpoint_join(json_t *root, json_t *extra)
{
    for (void *it = json_object_iter(extra); it != NULL; it = json_object_iter_next(extra, it))
        if (json_object_get(root, json_object_iter_key(it)) != NULL)
            return MEGA_MISTAKE(
                "checkpoint: extra_json: \"%s\" is a name that the engine uses in run.json; choose another",
                json_object_iter_key(it));
    return json_object_update(root, extra) == 0 ? MEGA_OK : MEGA_NO_MEMORY("checkpoint", "run.json");
}

static mega_status run_json(const mega_engine *e, const mega_engine_save_options *o, char **out)
{
    json_t *extra;
    MEGA_TRY(extra_members(o, &extra));
    json_t *root = json_pack("{s:i, s:I, s:I, s:I, s:s, s:b, s:I, s:I, s:o}", "format", 1, "iteration",
                             (json_int_t)e->progress.iteration, "consumed_train_samples",
                             (json_int_t)e->progress.consumed_samples, "consumed_valid_samples",
                             (json_int_t)e->progress.consumed_valid_samples, "optimizer", optimizer_name(&e->options),
                             "has_optimizer_state", !o->no_optim && mega_optimizer_num_moments(e->optimizer) > 0,
                             "optimizer_updates", (json_int_t)mega_optimizer_updates(e->optimizer), "dropout_seed",
                             (json_int_t)e->options.dropout_seed, "scheduler", scheduler_json(e));
    if (o->no_rng) json_object_del(root, "dropout_seed");
    if (root != NULL && are_counted(e, e->progress.consumed_tokens, e->progress.consumed_samples))
        json_object_set_new(root, "consumed_train_tokens", json_integer((json_int_t)e->progress.consumed_tokens));
    mega_status st = root != NULL ? engine_scale_save(e, root) : MEGA_NO_MEMORY("checkpoint", "run.json");
    if (st == MEGA_OK && o->shape != NULL) st = mega_run_json_put_network(root, o->shape);
    if (st == MEGA_OK) st = engine_optimizer_numbers_save(e, root);
    if (st == MEGA_OK && !o->no_optim) st = engine_residuals_save(e, root);
    if (st == MEGA_OK) st = checkpoint_join(root, extra);
    if (st == MEGA_OK) *out = mega_json_dump(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (st == MEGA_OK && *out == NULL) st = MEGA_NO_MEMORY("checkpoint", "run.json");
    json_decref(root);
    json_decref(extra);
    return st;
}

static mega_status write_checkpoint(mega_engine *e, const mega_engine_save_options *o, const saved_tensors *weights,
                                    const saved_tensors *moments, const char *json)
{
    const mega_checkpoint_save save = {.folder = o->folder,
                                       .iteration = e->progress.iteration,
                                       .tag = o->tag,
                                       .shape = o->shape,
                                       .acc = mega_params_acc_dtype(e->params),
                                       .save_dtype = o->save_dtype,
                                       .max_shard_bytes = o->max_shard_size,
                                       .weights = weights->item,
                                       .num_weights = weights->count,
                                       .moments = moments->item,
                                       .num_moments = moments->count,
                                       .tokenizer = o->tokenizer,
                                       .generation_config = o->generation_config,
                                       .run_json = json,
                                       .client_array = o->client_array,
                                       .num_client_arrays = o->num_client_arrays,
                                       .model_card = o->model_card,
                                       .keep = o->keep,
                                       .lock = o->lock,
                                       .ranks = e->layout->world.comm};
    return mega_checkpoint_write(&save);
}

static mega_status refuse_tensor(const mega_engine *e, const mega_engine_save_options *o, const char *tensor,
                                 const mega_norm_result *found)
{
    const int64_t kept = mega_checkpoint_tracked(o->folder);
    char rank[32] = "", what[96] = "has values that are infinite or not a number", last[64] = "holds no checkpoint";
    if (found->finite)
        snprintf(what, sizeof what, "has a norm of %.3g, and no forward pass with it is finite", found->norm);
    if (e->layout->world.size > 1) snprintf(rank, sizeof rank, "rank %d: ", e->layout->world.rank);
    if (kept >= 0) snprintf(last, sizeof last, "keeps the checkpoint of iteration %lld", (long long)kept);
    return engine_name_options_as_given(
        e, MEGA_FAIL(MEGA_ERR_NUMERIC,
                     "iteration %lld is not saved: %s%s %s. Nothing was removed: %s %s. Lower --lr, raise "
                     "--lr-warmup-iters or lower --clip-grad",
                     (long long)e->progress.iteration, rank, tensor, what, o->folder, last));
}

/* Refuses to save a tensor that is not finite, or whose norm exceeds most_norm: a checkpoint that cannot be trained
 * further must not replace one that can. */
static mega_status check_values(const mega_engine *e, const mega_engine_save_options *o, const saved_tensors *list,
                                double most_norm)
{
    for (int i = 0; i < list->count; i++) {
        const mega_state_tensor *t = &list->item[i];
        if (t->file > 0) continue; /* the first tensor of a parameter covers all of its numbers */
        const mega_norm_result found = mega_optimizer_look(e->optimizer, t->data, t->count);
        if (found.finite && found.norm <= most_norm) continue;
        char name[2 * MEGA_PARAM_NAME]; /* name of the moment, if any, then of the whole parameter */
        const size_t before = strlen(t->name) - strlen(mega_param_file_name(t->param, 0));
        snprintf(name, sizeof name, "%.*s%s", (int)before, t->name,
                 mega_param_num_files(t->param) > 1 ? t->param->name : t->name + before);
        return refuse_tensor(e, o, name, &found);
    }
    return MEGA_OK;
}

/* Limits the norm of weights to sqrt(FLT_MAX): squares of larger weights overflow f32, so the next loss would be NaN.
 * Moments may have any finite size. */
static mega_status check_saved_finite(const mega_engine *e, const mega_engine_save_options *o,
                                      const saved_tensors *weights, const saved_tensors *moments)
{
    MEGA_TRY(check_values(e, o, weights, sqrt(FLT_MAX)));
    return check_values(e, o, moments, INFINITY);
}

mega_status engine_save(mega_engine *e, const mega_engine_save_options *o)
{
    saved_tensors weights = {0}, moments = {0};
    char *json = NULL;
    mega_status st = engine_check_save(e, o);
    if (st == MEGA_OK) st = saved_tensors_weights(&weights, e);
    if (st == MEGA_OK && !o->no_optim) st = saved_tensors_moments(&moments, e, engine_residuals_here(e));
    if (st == MEGA_OK) st = run_json(e, o, &json);
    state_leave_to_others(&weights, e);
    state_leave_to_others(&moments, e);
    if (st == MEGA_OK) st = check_saved_finite(e, o, &weights, &moments);
    st = engine_begin_call(e, st);
    if (st == MEGA_OK) st = write_checkpoint(e, o, &weights, &moments, json);
    free(json);
    mega_arena_fini(&moments.arena);
    mega_arena_fini(&weights.arena);
    return st;
}

mega_status mega_engine_save(mega_engine *e, const mega_engine_save_options *o)
{
    MEGA_TRY(engine_enter(e, "mega_engine_save"));
    return engine_leave(e, engine_save(e, o));
}

int64_t mega_engine_save_bytes(const mega_engine *e, const mega_engine_save_options *o)
{
    if (engine_check_given(e, "mega_engine_save_bytes", "options", o) != MEGA_OK) return -1;
    const mega_dtype acc = mega_params_acc_dtype(e->params);
    const int64_t exact = (int64_t)mega_dtype_size(acc);
    const int moments = o->no_optim || e->optimizer == NULL ? 0 : mega_optimizer_num_moments(e->optimizer);
    const int errors = e->optimizer != NULL ? mega_optimizer_num_errors(e->optimizer) : 0; /* one of each rank */
    const bool has_masters = moments > 0 && mega_dtype_size(o->save_dtype) < mega_dtype_size(acc);
    int64_t bytes = 0;
    for (int i = 0; i < mega_params_count(mega_engine_whole(e)); i++) {
        const mega_param *p = mega_params_get(mega_engine_whole(e), i);
        int64_t held = (int64_t)mega_dtype_size(mega_param_file_dtype(p, o->save_dtype)) + (has_masters ? exact : 0);
        for (int k = 0; k < moments && mega_param_is_trained(p); k++)
            held += mega_optimizer_has_moment(e->optimizer, k, p) ? exact : 0;
        if (errors > 0 && moments > 0 && mega_param_is_trained(p)) held += (e->layout->dp.size - 1) * exact;
        bytes += p->true_shape[0] * p->true_shape[1] * held;
    }
    return bytes;
}

static double real(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static int64_t integer(const json_t *object, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(object, key));
}

static void checkpoint_differs(mega_buffer *b, const char *what, double here, double there)
{
    if (here != there) mega_buffer_printf(b, "\n  %s: %.9g here, %.9g in the checkpoint", what, here, there);
}

static void style_differs(mega_buffer *b, const char *what, const char *here, const json_t *there)
{
    const char *text = json_is_string(there) ? json_string_value(there) : "";
    if (strcmp(here, text) != 0) mega_buffer_printf(b, "\n  %s: %s here, %s in the checkpoint", what, here, text);
}

/* What Megatron's curve reads: a constant one has no end, and a schedule of DeepSpeed takes the place of the curve. So
 * such a training can be continued for more iterations than it was begun with. */
static void curve_differs(mega_buffer *b, const mega_lr_schedule *s, const json_t *stored)
{
    checkpoint_differs(b, "start of the warm-up (--lr-warmup-init)", s->warmup_init, real(stored, "lr_warmup_init"));
    checkpoint_differs(b, "samples of warm-up (--lr-warmup-*)", s->warmup, real(stored, "lr_warmup_steps"));
    checkpoint_differs(b, "tokens of warm-up (--lr-warmup-*)", s->warmup_tokens, real(stored, "lr_warmup_tokens"));
    const json_t *style = json_object_get(stored, "lr_decay_style");
    style_differs(b, "style of decay (--lr-decay-style)", mega_lr_style_name(s->style), style);
    if (s->style == MEGA_LR_CONSTANT) return;
    checkpoint_differs(b, "least learning rate (--min-lr)", s->min_lr, real(stored, "min_lr"));
    checkpoint_differs(b, "tokens of decay (--lr-decay-tokens)", s->decay_tokens, real(stored, "lr_decay_tokens"));
    if (s->decay_tokens > 0) return;
    checkpoint_differs(b, "samples of decay (--lr-decay-iters, --lr-decay-samples, --train-iters)", s->decay,
                       real(stored, "lr_decay_steps"));
    if (s->style != MEGA_LR_WSD) return;
    style_differs(b, "style of the last part of WSD (--lr-wsd-decay-style)", mega_lr_wsd_style_name(s->wsd_style),
                  json_object_get(stored, "lr_wsd_decay_style"));
    checkpoint_differs(b, "samples of the last part of WSD (--lr-wsd-decay-iters, --lr-wsd-decay-samples)",
                       s->wsd_decay, real(stored, "wsd_decay_steps"));
}

/* Checks that the stored schedule equals the requested one, unless an option says which of the two wins. */
static mega_status check_schedule(const mega_lr_schedule *s, const mega_step_schedule *steps, const json_t *stored)
{
    mega_buffer b = {0};
    checkpoint_scheduler_differs(&b, steps, stored);
    checkpoint_differs(&b, "learning rate (--lr)", s->max_lr, real(stored, "max_lr"));
    if (steps->kind == MEGA_SCHEDULER_NONE) curve_differs(&b, s, stored);
    checkpoint_differs(&b, "first weight decay", s->start_weight_decay, real(stored, "start_wd"));
    checkpoint_differs(&b, "last weight decay", s->end_weight_decay, real(stored, "end_wd"));
    style_differs(&b, "weight decay style", mega_weight_decay_style_name(s->decay_style),
                  json_object_get(stored, "wd_incr_style"));
    if (s->decay_style != MEGA_WD_CONSTANT)
        checkpoint_differs(&b, "samples of weight decay growth", (double)s->weight_decay_samples,
                           real(stored, "wd_incr_steps"));
    mega_status st = mega_buffer_check(&b, "the differences of two schedules");
    if (st == MEGA_OK && b.size > 0)
        st = MEGA_MISTAKE(
            "the schedule of the checkpoint is not the one asked for:%s\nadd --override-opt_param-scheduler to "
            "go on with the schedule of this command, which a longer training needs, or "
            "--use-checkpoint-opt_param-scheduler to keep that of the checkpoint",
            b.data);
    mega_buffer_fini(&b);
    return st;
}

/* Reads the schedule of a checkpoint. */
static mega_status read_schedule(mega_lr_schedule *s, const json_t *stored)
{
    const char *lr_style = json_string_value(json_object_get(stored, "lr_decay_style"));
    const char *wd_style = json_string_value(json_object_get(stored, "wd_incr_style"));
    const char *wsd_style = json_string_value(json_object_get(stored, "lr_wsd_decay_style"));
    *s = (mega_lr_schedule){.max_lr = real(stored, "max_lr"),
                            .min_lr = real(stored, "min_lr"),
                            .warmup_init = real(stored, "lr_warmup_init"),
                            .warmup = real(stored, "lr_warmup_steps"),
                            .decay = real(stored, "lr_decay_steps"),
                            .wsd_decay = real(stored, "wsd_decay_steps"),
                            .warmup_tokens = real(stored, "lr_warmup_tokens"),
                            .decay_tokens = real(stored, "lr_decay_tokens"),
                            .start_weight_decay = real(stored, "start_wd"),
                            .end_weight_decay = real(stored, "end_wd"),
                            .weight_decay_samples = integer(stored, "wd_incr_steps")};
    bool found_lr = false, found_wd = false, found_wsd = false;
    for (mega_lr_style i = 0; i < MEGA_LR_STYLE_COUNT; i++)
        if (lr_style != NULL && strcmp(lr_style, mega_lr_style_name(i)) == 0) s->style = i, found_lr = true;
    for (mega_weight_decay_style i = MEGA_WD_CONSTANT; i <= MEGA_WD_COSINE; i++)
        if (wd_style != NULL && strcmp(wd_style, mega_weight_decay_style_name(i)) == 0)
            s->decay_style = i, found_wd = true;
    for (mega_lr_wsd_style i = 0; i < MEGA_LR_WSD_STYLE_COUNT; i++)
        if (wsd_style != NULL && strcmp(wsd_style, mega_lr_wsd_style_name(i)) == 0) s->wsd_style = i, found_wsd = true;
    if (found_lr && found_wd && (found_wsd || s->style != MEGA_LR_WSD) && s->decay > 0) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_FORMAT, "run.json of the checkpoint: its \"scheduler\" is not complete; "
                                      "--override-opt_param-scheduler continues with this command's schedule");
}

/* Reads both schedules; changes neither where one is not complete. */
static mega_status read_schedules(const json_t *stored, mega_engine_options *o)
{
    mega_lr_schedule schedule;
    mega_step_schedule steps;
    MEGA_TRY(read_schedule(&schedule, stored));
    MEGA_TRY(checkpoint_read_scheduler(stored, &steps));
    o->schedule = schedule;
    o->step_schedule = steps;
    return MEGA_OK;
}

/* Returns the tokens of this number of samples: as a checkpoint of a curriculum counts them, else of whole samples. */
static int64_t tokens_of(const mega_engine *e, const json_t *counted, int64_t samples)
{
    return json_is_integer(counted) ? (int64_t)json_integer_value(counted) : samples * e->options.seq;
}

static mega_status load_schedule(mega_engine *e, const json_t *root, const mega_engine_load_options *o)
{
    const json_t *stored = json_object_get(root, "scheduler");
    if (o->use_checkpoint_schedule) MEGA_TRY(read_schedules(stored, &e->options));
    e->progress.schedule_samples = integer(stored, "num_steps");
    e->progress.schedule_tokens = tokens_of(e, json_object_get(stored, "num_tokens"), e->progress.schedule_samples);
    e->progress.schedule_steps = checkpoint_scheduler_steps(stored, integer(root, "iteration"));
    return MEGA_OK;
}

static mega_status check_optimizer(const mega_engine_options *e, const mega_checkpoint *c, const json_t *root)
{
    const char *kind = json_string_value(json_object_get(root, "optimizer"));
    if (!json_is_true(json_object_get(root, "has_optimizer_state"))) return MEGA_OK;
    if (kind != NULL && strcmp(kind, optimizer_name(e)) == 0) return MEGA_OK;
    return MEGA_MISTAKE("checkpoint %s: its optimizer state is of %s, --optimizer is %s; give --optimizer %s, or "
                        "--no-load-optim to start with fresh moments",
                        mega_checkpoint_folder(c), kind != NULL ? kind : "an unknown optimizer", optimizer_name(e),
                        kind != NULL ? kind : "as before");
}

static mega_status read_progress(const mega_checkpoint *c, json_t **out)
{
    static const char *const needed[] = {"iteration", "consumed_train_samples", "consumed_valid_samples"};
    json_t *root;
    MEGA_TRY(mega_run_json(&root, c));
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (json_is_integer(json_object_get(root, needed[i]))) continue;
        json_decref(root);
        return MEGA_FAIL(MEGA_ERR_FORMAT,
                         "checkpoint %s: state/run.json: \"%s\" is no integer; --finetune takes the weights alone",
                         mega_checkpoint_folder(c), needed[i]);
    }
    *out = root;
    return MEGA_OK;
}

static mega_status check_state(const mega_engine_options *e, const mega_checkpoint *c, const json_t *root,
                               const mega_engine_load_options *o)
{
    const json_t *stored = json_object_get(root, "scheduler");
    mega_engine_options unused;
    if (e->no_train || o->no_optim) return MEGA_OK;
    if (o->use_checkpoint_schedule) MEGA_TRY(read_schedules(stored, &unused));
    else if (!o->override_schedule && !o->no_schedule)
        MEGA_TRY(check_schedule(&e->schedule, &e->step_schedule, stored));
    return o->no_states ? MEGA_OK : check_optimizer(e, c, root);
}

mega_status mega_engine_check_load(const mega_engine_options *e, const mega_checkpoint *c,
                                   const mega_engine_load_options *o)
{
    json_t *root = NULL;
    if (e == NULL || c == NULL || o == NULL)
        return MEGA_MISTAKE("mega_engine_check_load: %s is NULL; give it", e == NULL   ? "the engine's options"
                                                                           : c == NULL ? "the checkpoint"
                                                                                       : "the load's options");
    const bool is_weights = mega_checkpoint_run_json(c) == NULL;
    if (is_weights && o->use_checkpoint_schedule && !e->no_train)
        return MEGA_MISTAKE("--use-checkpoint-opt_param-scheduler: --load %s holds weights alone (it has no "
                            "state/run.json), and so no schedule; leave the option out and give --lr and its relatives",
                            mega_checkpoint_folder(c));
    if (is_weights || (o->finetune && !o->use_checkpoint_schedule)) return MEGA_OK;
    MEGA_TRY(read_progress(c, &root));
    mega_engine_options unused;
    mega_status st = MEGA_OK;
    if (!o->finetune) st = check_state(e, c, root, o);
    else if (!e->no_train)
        st = read_schedules(json_object_get(root, "scheduler"), &unused);
    json_decref(root);
    return st;
}

/* Compares only names and shapes, because nothing is allocated yet. */
mega_status mega_engine_check_tensors(const mega_engine *e, mega_checkpoint *c)
{
    MEGA_TRY(engine_check_given(e, "mega_engine_check_tensors", "checkpoint", c));
    return mega_checkpoint_match_params(c, mega_engine_whole(e));
}

static mega_status load_optimizer(mega_engine *e, mega_checkpoint *c, const json_t *root)
{
    saved_tensors moments = {0};
    const engine_residuals residuals = engine_residuals_there(e, root);
    engine_residuals_clear(e);
    if (residuals.ranks > 0 && !residuals.is_own && e->layout->world.rank == 0)
        mega_warn("checkpoint %s: what 1-bit compression has lost so far is of another number of ranks; it starts at 0",
                  mega_checkpoint_folder(c));
    MEGA_TRY(saved_tensors_moments(&moments, e, residuals));
    const mega_status st =
        mega_checkpoint_read_moments(c, moments.item, moments.count, mega_params_acc_dtype(e->params));
    mega_arena_fini(&moments.arena);
    MEGA_TRY(st);
    mega_optimizer_set_updates(e->optimizer, integer(root, "optimizer_updates"));
    return engine_optimizer_numbers_load(e, root);
}

/* Loads only the schedule, for --finetune --use-checkpoint-opt_param-scheduler. */
static mega_status load_schedule_alone(mega_engine *e, mega_checkpoint *c)
{
    json_t *root = NULL;
    MEGA_TRY(read_progress(c, &root));
    const mega_status st = read_schedules(json_object_get(root, "scheduler"), &e->options);
    json_decref(root);
    return st;
}

/* Loads the optimizer states, the schedule and its position, from a folder that has them. */
static mega_status load_training(mega_engine *e, mega_checkpoint *c, const json_t *root,
                                 const mega_engine_load_options *o, mega_engine_loaded *loaded)
{
    if (!o->no_schedule) MEGA_TRY(load_schedule(e, root, o));
    MEGA_TRY(engine_scale_load(e, root));
    if (o->no_states) return MEGA_OK;
    if (mega_optimizer_num_moments(e->optimizer) == 0)
        mega_optimizer_set_updates(e->optimizer, integer(root, "optimizer_updates"));
    if (!json_is_true(json_object_get(root, "has_optimizer_state"))) return MEGA_OK;
    MEGA_TRY(load_optimizer(e, c, root));
    loaded->optimizer = true;
    return MEGA_OK;
}

static mega_status load_state(mega_engine *e, mega_checkpoint *c, const mega_engine_load_options *o,
                              mega_engine_loaded *loaded)
{
    json_t *root = NULL;
    MEGA_TRY(read_progress(c, &root));
    mega_status st = MEGA_OK;
    e->progress.iteration = integer(root, "iteration");
    e->progress.consumed_samples = integer(root, "consumed_train_samples");
    e->progress.consumed_valid_samples = integer(root, "consumed_valid_samples");
    e->progress.consumed_tokens =
        tokens_of(e, json_object_get(root, "consumed_train_tokens"), e->progress.consumed_samples);
    if (!o->no_rng && json_object_get(root, "dropout_seed") != NULL)
        e->options.dropout_seed = (uint32_t)integer(root, "dropout_seed");
    engine_scale_load_skipped(e, root);
    loaded->resumed = true;
    if (e->optimizer != NULL && !o->no_optim) st = load_training(e, c, root, o, loaded);
    json_decref(root);
    return st;
}

/* Loads what a folder holds besides weights. */
static mega_status load_run(mega_engine *e, mega_checkpoint *c, const mega_engine_load_options *o,
                            mega_engine_loaded *loaded)
{
    if (mega_checkpoint_run_json(c) == NULL) return MEGA_OK;
    if (!o->finetune) return load_state(e, c, o, loaded);
    return o->use_checkpoint_schedule && e->optimizer != NULL ? load_schedule_alone(e, c) : MEGA_OK;
}

/* Writes to *out whether load_state will read moments, and to *out_residuals which residuals are with them. */
static mega_status reads_moments(const mega_engine *e, const mega_checkpoint *c, const mega_engine_load_options *o,
                                 bool *out, engine_residuals *out_residuals)
{
    json_t *root = NULL;
    *out = false;
    *out_residuals = (engine_residuals){0};
    const bool leaves_out = o->finetune || o->no_optim || o->no_states;
    if (mega_checkpoint_run_json(c) == NULL || leaves_out || e->optimizer == NULL) return MEGA_OK;
    MEGA_TRY(read_progress(c, &root));
    *out = json_is_true(json_object_get(root, "has_optimizer_state"));
    if (*out) *out_residuals = engine_residuals_there(e, root);
    json_decref(root);
    return MEGA_OK;
}

/* Checks everything that can be checked before the engine changes: options against the folder, then names and shapes of
 * its tensors. */
static mega_status checkpoint_check_folder(mega_engine *e, mega_checkpoint *c, const mega_engine_load_options *o)
{
    saved_tensors l = {0};
    bool has_moments;
    engine_residuals residuals;
    MEGA_TRY(mega_engine_check_load(&e->options, c, o));
    MEGA_TRY(mega_engine_check_tensors(e, c));
    MEGA_TRY(reads_moments(e, c, o, &has_moments, &residuals));
    if (!has_moments) return MEGA_OK;
    MEGA_TRY(saved_tensors_moments(&l, e, residuals));
    const mega_status st = mega_checkpoint_match_moments(c, l.item, l.count);
    mega_arena_fini(&l.arena);
    return st;
}

static mega_status read_folder(mega_engine *e, mega_checkpoint *c, const mega_engine_load_options *o,
                               mega_engine_loaded *loaded)
{
    MEGA_TRY(mega_checkpoint_read_params(c, mega_engine_whole(e), e->params));
    return load_run(e, c, o, loaded);
}

mega_status engine_load(mega_engine *e, mega_checkpoint *c, const mega_engine_load_options *o, mega_engine_loaded *out)
{
    mega_engine_loaded loaded = {false, false};
    mega_status st = engine_check_load(e, c, o, out);
    if (st == MEGA_OK) st = checkpoint_check_folder(e, c, o);
    MEGA_TRY(engine_begin_call(e, st)); /* if one rank refuses, no rank changes */
    engine_micro_discard(e);
    e->memory.has_moments = true;
    if (e->optimizer != NULL) mega_optimizer_begin_load(e->optimizer);
    e->memory.has_weights = false; /* a file that cannot be read to its end would leave a mix of old and new weights */
    MEGA_TRY(engine_agree(e, read_folder(e, c, o, &loaded))); /* before ranks wait for weights of others */
    if (e->optimizer != NULL && mega_optimizer_averages(e->optimizer) && !loaded.optimizer)
        mega_optimizer_set_updates(e->optimizer, 0); /* the average starts again from these weights */
    MEGA_TRY(engine_agree(e, mega_params_publish(e->params)));
    e->memory.has_weights = true;
    *out = loaded;
    return MEGA_OK;
}

mega_status mega_engine_load(mega_engine *e, mega_checkpoint *c, const mega_engine_load_options *o,
                             mega_engine_loaded *out)
{
    MEGA_TRY(engine_enter(e, "mega_engine_load"));
    return engine_leave(e, engine_load(e, c, o, out));
}
