/* Writes the checkpoints of a run: the contents of run.json in addition to the engine's state, the model card, and the
 * log lines. */
#include "megalith/family.h"
#include "megalith/file.h"
#include "megalith/json.h"
#include "megalith/log.h"
#include "train_impl.h"
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void hex_digits(char out[17], uint64_t value)
{
    snprintf(out, 17, "%016llx", (unsigned long long)value);
}

static bool add_finite(json_t *object, const char *key, double value)
{
    return !isfinite(value) || json_object_set_new(object, key, json_real(value)) == 0;
}

/* Stores what determines the order of the training samples, in addition to the options; resume.c reads it back. */
static bool add_order(json_t *root, const trainer *t)
{
    json_t *order = json_array();
    int64_t permutation;
    bool whole = order != NULL;
    for (int i = 0; i < t->order.parts && whole; i++)
        whole = json_array_append_new(order, json_integer(t->order.samples[i])) == 0;
    whole = json_object_set_new(root, "data_order", order) == 0 && whole;
    if (t->data[MEGA_SPLIT_TRAIN].self != NULL) {
        const int64_t samples = t->data[MEGA_SPLIT_TRAIN].samples;
        char hash[17];
        hex_digits(hash, t->order.hash);
        whole = json_object_set_new(root, "data_order_samples", json_integer(samples)) == 0 && whole;
        whole = json_object_set_new(root, "data_order_hash", json_string(hash)) == 0 && whole;
    }
    if (t->data[MEGA_SPLIT_TRAIN].self == NULL || t->cfg->dataloader_type != MEGA_DATALOADER_CYCLIC) return whole;
    const int64_t epoch = train_cyclic_epoch(t, &permutation);
    return whole && json_object_set_new(root, "cyclic_epoch", json_integer(epoch)) == 0 &&
           json_object_set_new(root, "cyclic_permutation", json_integer(permutation)) == 0;
}

/* Writes everything that a person or a later run may want to know about this run. */
static mega_status extra_json(const trainer *t, char **out)
{
    mega_buffer arguments = {0};
    json_error_t error;
    char tokenizer[17], data[17] = "", content[17] = "", loss[MEGA_LOSS_NAME];
    MEGA_TRY(mega_options_to_json(t->cfg->engine.options, &arguments));
    json_t *stored = mega_json_load(arguments.data, strlen(arguments.data), 0, &error);
    mega_buffer_fini(&arguments);
    hex_digits(tokenizer, mega_tokenizer_fingerprint(t->text.tokenizer));
    if (t->data[MEGA_SPLIT_TRAIN].self != NULL) {
        hex_digits(data, t->task->data_hash(&t->data[MEGA_SPLIT_TRAIN]));
        hex_digits(content, t->content[MEGA_SPLIT_TRAIN]);
    }
    json_t *root = json_pack("{s:o, s:s, s:s, s:s, s:s, s:s}", "arguments", stored, "tokenizer_fingerprint", tokenizer,
                             "tokenizer_type", mega_tokenizer_type(t->text.tokenizer), "data_hash", data,
                             "data_content_hash", content, "run_id", t->run_id);
    const bool whole =
        root != NULL && add_order(root, t) &&
        (t->epochs.losses == 0 || (add_finite(root, "epoch_loss", t->epochs.loss) &&
                                   json_object_set_new(root, "epoch_losses", json_integer(t->epochs.losses)) == 0)) &&
        add_finite(root, train_loss_key(loss, train_loss_name(t)), t->log.last_loss) &&
        add_finite(root, "validation_loss", t->log.last_validation_loss);
    *out = whole ? mega_json_dump(root, JSON_REAL_PRECISION(17)) : NULL;
    json_decref(root);
    return *out != NULL ? MEGA_OK : MEGA_NO_MEMORY("checkpoint", "run.json");
}

static void card_data(mega_buffer *b, const mega_train_options *cfg)
{
    const mega_list *list = cfg->data.data_path.count > 0 ? &cfg->data.data_path
                            : cfg->clm.train.count > 0    ? &cfg->clm.train
                            : mega_train_classifies(cfg)  ? &cfg->classify.train_data
                                                          : &cfg->data.train_data_path;
    for (size_t i = 0; i < list->count; i++)
        mega_buffer_printf(b, "%s%s", i > 0 ? " " : "", mega_path_base(list->item[i]));
}

static const mega_family *saved_family(const trainer *t)
{
    const mega_model_shape shape = t->task->shape(&t->network, -1);
    return mega_family_of(&shape.net);
}

/* Whether transformers cannot load what this run saves. */
static bool save_is_own(const trainer *t)
{
    return saved_family(t)->is_own;
}

/* The class of transformers that loads it, with the head that is trained. */
static const char *loading_class(const trainer *t)
{
    const mega_network_shape n = t->task->shape(&t->network, -1).net;
    return n.t5 != MEGA_T5_NONE ? "AutoModelForSeq2SeqLM"
           : !n.is_encoder      ? "AutoModelForCausalLM"
           : n.choices > 0      ? "AutoModelForMultipleChoice"
           : n.classes > 0      ? "AutoModelForSequenceClassification"
           : n.sentence_head    ? "AutoModelForPreTraining"
                                : "AutoModelForMaskedLM";
}

static mega_status model_card(const trainer *t, mega_buffer *b)
{
    const mega_train_options *cfg = t->cfg;
    const mega_engine_progress *p = mega_engine_progress_get(t->engine);
    char a[32], c[32], d[32];
    t->task->card(&t->network, cfg, b);
    mega_buffer_printf(b, "| vocabulary | %s ids, %s |\n", train_grouped(c, sizeof c, t->text.vocab_rows),
                       mega_tokenizer_type(t->text.tokenizer));
    mega_buffer_printf(b, "| parameters | %s |\n",
                       train_grouped(a, sizeof a, mega_params_logical_count(mega_engine_whole(t->engine))));
    mega_buffer_puts(b, "| data | ");
    card_data(b, cfg);
    if (t->task->course->in_epochs) mega_buffer_puts(b, " |\n");
    else
        mega_buffer_printf(b, ", split %s |\n", cfg->data.split != NULL ? cfg->data.split : "969, 30, 1");
    mega_buffer_printf(b, "| iterations, samples, tokens seen | %lld, %s, %s |\n", (long long)p->iteration,
                       train_grouped(c, sizeof c, p->consumed_samples), train_grouped(d, sizeof d, p->consumed_tokens));
    mega_buffer_printf(b, "| precision | %s, weights saved as %s |\n",
                       mega_dtype_name(cfg->engine.backend.params_dtype),
                       mega_dtype_name(mega_save_dtype_of(cfg->engine.ckpt.save_dtype)));
    if (isfinite(t->log.last_loss)) mega_buffer_printf(b, "| training loss | %.4f |\n", t->log.last_loss);
    if (isfinite(t->log.last_validation_loss))
        mega_buffer_printf(b, "| validation loss, perplexity | %.4f, %.2f |\n", t->log.last_validation_loss,
                           train_perplexity(t->log.last_validation_loss));
    mega_buffer_puts(b, "\nLoads with ");
    if (!save_is_own(t)) mega_buffer_printf(b, "`%s.from_pretrained` of transformers, and with ", loading_class(t));
    mega_buffer_printf(b, "`megalith %s --load` of this folder.\nAll options of the run are in `state/run.json`.\n",
                       t->task->use);
    return mega_buffer_check(b, "the model card");
}

/* Where no folder named the ids of a model, the tokenizer does, unless it has one id for all roles. */
static void name_ids(const mega_tokenizer *t, mega_model_shape *s)
{
    const int32_t bos = mega_tokenizer_named(t, MEGA_ROLE_BOS), pad = mega_tokenizer_named(t, MEGA_ROLE_PAD);
    if (s->net.has_ids || ((bos < 0 || bos == s->eos) && pad < 0)) return;
    s->net.has_ids = true;
    s->net.bos = bos;
    s->net.pad = pad;
    s->net.num_eos = 0;
}

static mega_status save_write_folder(trainer *t, const char *tag, bool is_whole)
{
    const mega_train_options *cfg = t->cfg;
    mega_buffer card = {0};
    mega_model_shape shape = t->task->shape(&t->network, mega_tokenizer_eod(t->text.tokenizer));
    char *extra = NULL;
    name_ids(t->text.tokenizer, &shape);
    mega_status st = extra_json(t, &extra);
    if (st == MEGA_OK) st = model_card(t, &card);
    st = train_agree(t, st); /* saving is collective, so all ranks must agree first */
    if (st == MEGA_OK) {
        const mega_engine_save_options o = {.folder = cfg->save,
                                            .tag = tag,
                                            .shape = &shape,
                                            .tokenizer = t->text.tokenizer,
                                            .generation_config = t->generation_config,
                                            .save_dtype = mega_save_dtype_of(cfg->engine.ckpt.save_dtype),
                                            .max_shard_size = cfg->engine.ckpt.max_shard_size,
                                            .no_optim = cfg->no_save_optim || !is_whole,
                                            .no_rng = cfg->no_save_rng,
                                            .extra_json = extra,
                                            .model_card = card.data,
                                            /* with --restart only a healthy run removes older ones */
                                            .keep = t->saves.is_alone ? 0 : (int)cfg->engine.ckpt.keep_checkpoints,
                                            .lock = t->saves.lock};
        st = mega_engine_save(t->engine, &o);
    }
    free(extra);
    mega_buffer_fini(&card);
    return st;
}

/* Returns whether there are folders of interrupted saves, which the next save removes before it writes. */
static bool has_leftovers(const char *folder)
{
    mega_names names = {0};
    bool found = false;
    if (!mega_folder_exists(folder) || mega_folder_list(folder, &names) != MEGA_OK) return false;
    for (size_t i = 0; i < names.count; i++) {
        const char *mark = strncmp(names.name[i], "iter_", 5) == 0 ? strstr(names.name[i], ".tmp-") : NULL;
        found = found || (mark != NULL && mega_owner_is_known(mark + 5));
    }
    mega_names_fini(&names);
    return found;
}

mega_status train_check_space(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const mega_engine_save_options whole = {.save_dtype = mega_save_dtype_of(cfg->engine.ckpt.save_dtype),
                                            .no_optim = cfg->no_save_optim},
                                   light = {.save_dtype = whole.save_dtype, .no_optim = true};
    unsigned long long available;
    char need[32], have[32], least[32], remedy[96] = "";
    if (cfg->save == NULL || cfg->skip_train || !train_is_first(t)) return MEGA_OK;
    const int64_t bytes = mega_engine_save_bytes(t->engine, &whole), few = mega_engine_save_bytes(t->engine, &light);
    if (!mega_file_available(cfg->save, &available) || available >= (unsigned long long)bytes) return MEGA_OK;
    if (has_leftovers(cfg->save)) return MEGA_OK;
    train_bytes(need, sizeof need, (double)bytes);
    train_bytes(have, sizeof have, (double)available);
    train_bytes(least, sizeof least, (double)few);
    if (few < bytes && (unsigned long long)few <= available)
        snprintf(remedy, sizeof remedy, ", or give --no-save-optim, with which it needs %s", least);
    return MEGA_FAIL(MEGA_ERR_IO,
                     "--save %s: a checkpoint needs %s and its file system has %s free; free some space, or choose "
                     "another folder%s",
                     cfg->save, need, have, remedy);
}

mega_status train_save(trainer *t)
{
    char tag[32];
    const int64_t iteration = mega_engine_progress_get(t->engine)->iteration;
    if (t->cfg->save == NULL || t->saves.iteration == iteration) return MEGA_OK;
    snprintf(tag, sizeof tag, "step_%lld", (long long)iteration);
    return train_save_as(t, !t->task->course->is_as_megatron ? tag : NULL, true);
}

/* With --restart, once a checkpoint of this run is whole. What cannot be removed is tried again at the next save. A run
 * that somebody stops, or that fails, may have been begun by mistake: what it saves then removes nothing. */
static void remove_others(trainer *t)
{
    mega_status st;
    if (!t->saves.is_alone || !train_is_first(t)) return;
    if (t->stop != 0 || t->saves.is_failing) {
        mega_warn("--restart: the run ended early, so the checkpoints of the run before stay in %s", t->cfg->save);
        return;
    }
    st = mega_lock_check(t->saves.lock);
    if (st == MEGA_OK) st = mega_checkpoint_remove_others(t->cfg->save, t->run_id);
    t->saves.is_alone = st != MEGA_OK;
    if (st != MEGA_OK) mega_warn("--restart: a checkpoint of the run before stays: %s", mega_error_message());
}

/* What a GPU that has failed holds cannot be read. */
static void say_what_stays(const trainer *t)
{
    const int64_t kept = t->cfg->save != NULL ? mega_checkpoint_tracked(t->cfg->save) : -1;
    if (!train_is_first(t)) return;
    if (t->cfg->save == NULL) mega_warn("a GPU has failed, and without --save nothing of this run is kept");
    else if (kept < 0)
        mega_warn("a GPU has failed, so its state is not saved: --save %s holds no checkpoint", t->cfg->save);
    else
        mega_warn("a GPU has failed, so its state is not saved: the checkpoint of iteration %lld in %s stays whole",
                  (long long)kept, t->cfg->save);
}

/* Collective: the world. Of a failure that all ranks know of, and still do: whether it is a GPU's; says what stays. */
static bool has_lost_gpu(const trainer *t)
{
    mega_error_record why;
    mega_error_get(&why);
    const bool is_lost = mega_engine_has_failed(t->engine);
    if (is_lost) say_what_stays(t);
    const mega_status st = mega_error_restore(&why);
    if (!is_lost) MEGA_IGNORE(train_agree(t, st));
    return is_lost;
}

static bool all_know(const trainer *t, mega_status st)
{
    return st != MEGA_OK && st != MEGA_ERR_COMM && (mega_world_size(t->world) == 1 || mega_world_failed(t->world));
}

mega_status train_save_as(trainer *t, const char *tag, bool is_whole)
{
    const int64_t iteration = mega_engine_progress_get(t->engine)->iteration;
    train_line(t, "saving checkpoint at iteration %7lld to %s", (long long)iteration, t->cfg->save);
    train_record_phase(t, "saving the checkpoint");
    train_trace_retry(t, false);
    train_monitor_flush(t); /* the metrics up to here must be on disk before the checkpoint from which a run resumes */
    const mega_status st = save_write_folder(t, tag, is_whole);
    if (all_know(t, st)) (void)has_lost_gpu(t);
    MEGA_TRY(st);
    if (t->saves.iteration < 0 && save_is_own(t))
        mega_warn("--save %s: transformers cannot load these checkpoints, as no model of it has this combination of "
                  "options (docs/families.md); their config.json has model_type %s",
                  t->cfg->save, saved_family(t)->model_type);
    train_line(t, "  successfully saved checkpoint at iteration %7lld to %s", (long long)iteration, t->cfg->save);
    remove_others(t);
    t->saves.iteration = iteration;
    snprintf(t->saves.tag, sizeof t->saves.tag, "%s", tag != NULL ? tag : "");
    train_monitor_saved(t);
    return MEGA_OK;
}

mega_status train_save_after_failure(trainer *t, mega_status st)
{
    const bool is_of_data = all_know(t, st) && st != MEGA_ERR_NUMERIC && st != MEGA_ERR_INTERRUPTED;
    const bool has_trained = mega_engine_progress_get(t->engine)->iteration > t->first_iteration;
    mega_error_record why;
    if (!is_of_data || has_lost_gpu(t) || !has_trained) return st;
    mega_error_get(&why);
    mega_world_forget_failure(t->world);
    t->saves.is_failing = true;
    if (t->cfg->save == NULL) mega_warn("without --save nothing of this run is kept");
    if (train_save(t) != MEGA_OK) mega_warn("the state before the failure is not saved: %s", mega_error_message());
    return train_agree(t, mega_error_restore(&why));
}

/* Warns if the run starts at an iteration before the newest checkpoint in --save: it would gradually overwrite the
 * newer ones. --load SAVE uses the iteration in the tracker file, which is older than the newest checkpoint if the run
 * was set back. */
void train_warn_of_newer(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const int64_t here = mega_engine_progress_get(t->engine)->iteration;
    const int64_t there = cfg->save != NULL && !cfg->skip_train ? mega_checkpoint_latest(cfg->save) : -1;
    const bool is_tracked = there > here && mega_checkpoint_tracked(cfg->save) == there;
    char iteration[32] = "", remedy[PATH_MAX + 128] = "";
    if (there <= here || cfg->restart) return;
    if (!is_tracked) snprintf(iteration, sizeof iteration, "/iter_%07lld", (long long)there);
    if (!cfg->load_previous) /* --load-previous has just skipped a damaged one */
        snprintf(remedy, sizeof remedy, "; --load %s%s%s continues from iteration %lld", cfg->save, iteration,
                 cfg->finetune ? " without --finetune" : "", (long long)there);
    mega_warn("--save %s already holds a checkpoint of iteration %lld and this run begins at %lld: checkpoints of the "
              "same iterations will be replaced%s",
              cfg->save, (long long)there, (long long)here, remedy);
}
