/* Checks what a resumed run does differently from the run that wrote its checkpoint. Another tokenizer is an error.
 * Other data, and options that change the order of samples, are warnings that name the first sample affected. */
#include "megalith/file.h"
#include "megalith/json.h"
#include "megalith/log.h"
#include "megalith/run_json.h"
#include "rules/train_rules.h"
#include "train_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OTHER_ORDER "the samples come in another order: some were read before, others will never be"

static uint64_t hex_of(const json_t *root, const char *key)
{
    const char *text = json_string_value(json_object_get(root, key));
    return text != NULL ? strtoull(text, NULL, 16) : 0;
}

mega_status train_check_tokenizer(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    json_t *root;
    MEGA_TRY(mega_run_json(&root, t->checkpoint));
    const uint64_t there = hex_of(root, "tokenizer_fingerprint"), here = mega_tokenizer_fingerprint(t->text.tokenizer);
    const char *type = json_string_value(json_object_get(root, "tokenizer_type"));
    mega_status st = MEGA_OK;
    if (there == 0 || there == here) {
        /* the tokenizer is the same, or was not recorded */
    } else if (cfg->override_tokenizer) {
        mega_warn("--override-tokenizer: the tokenizer is not the one of --load %s: ids have other meanings than the "
                  "model has learnt",
                  cfg->load);
    } else {
        st = MEGA_MISTAKE(
            "--load %s: it was trained with another tokenizer (%s, fingerprint %016llx) than this run's (%s, "
            "%016llx), in which ids have other meanings; leave --tokenizer-type, --vocab-file and --merge-file "
            "out to take the one in the folder, or give --override-tokenizer if the change is meant",
            cfg->load, type != NULL ? type : "unknown", (unsigned long long)there,
            mega_tokenizer_type(t->text.tokenizer), (unsigned long long)here);
    }
    json_decref(root);
    return st;
}

/* ---- options ---- */

static void warn_of_option(trainer *t, const char *dest, const json_t *there, const char *effect)
{
    char *other = json_is_string(there) ? NULL : mega_json_dump(there, JSON_ENCODE_ANY);
    mega_warn("%s, and the checkpoint (--load %s) was made with %s: from sample %lld on %s",
              mega_options_origin(t->cfg->engine.options, dest), t->cfg->load,
              other != NULL ? other : json_string_value(there), (long long)t->cfg->consumed_train_samples, effect);
    free(other);
    t->stored.is_warned = true;
}

static double resume_weight(const json_t *list, size_t i)
{
    const char *text = json_string_value(json_array_get(list, i));
    return text != NULL ? strtod(text, NULL) : 0;
}

static double sum_of_weights(const json_t *list)
{
    double sum = 0;
    for (size_t i = 0; i < json_array_size(list); i += 2) sum += resume_weight(list, i);
    return sum;
}

/* Compares only the weights and the number of datasets: the files may have moved, and hashes tell whether the data are
 * the same. The hash of the order tells it if the two runs name the data with different options. */
static bool is_same_blend(const json_t *a, const json_t *b)
{
    const size_t count = json_array_size(a);
    if (count == 0 || json_array_size(b) == 0) return true;
    if (count != json_array_size(b)) return false;
    if (count < 2) return true;
    const double sum_a = sum_of_weights(a), sum_b = sum_of_weights(b);
    for (size_t i = 0; i < count; i += 2)
        if (fabs(resume_weight(a, i) / sum_a - resume_weight(b, i) / sum_b) > 1e-12) return false;
    return true;
}

static void warn_of_options(trainer *t, const json_t *there, const json_t *here)
{
    static const struct {
        const char *dest, *effect;
    } change[] = {
        {"seed", OTHER_ORDER},
        {"dataloader_type", OTHER_ORDER},
        {"split", "other documents are trained on, and documents change places between training, validation and test"},
        {"seq_length", "samples are cut at this length: what the samples before them hold is other text than was read"},
    };
    static const char *const lists[] = {"data_path", "train_data_path"};
    for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
        const json_t *a = json_object_get(there, change[i].dest), *b = json_object_get(here, change[i].dest);
        if (a != NULL && b != NULL && !json_equal(a, b)) warn_of_option(t, change[i].dest, a, change[i].effect);
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const json_t *a = json_object_get(there, lists[i]), *b = json_object_get(here, lists[i]);
        if (json_is_array(a) && json_is_array(b) && !is_same_blend(a, b)) warn_of_option(t, lists[i], a, OTHER_ORDER);
    }
}

/* Logs one warning for all options that change results and have no message of their own. */
static mega_status warn_of_changes(const trainer *t, const json_t *there)
{
    mega_list changes = {0};
    mega_buffer lines = {0};
    if (!json_is_object(there)) return MEGA_OK; /* written by an older version */
    char *stored = mega_json_dump(there, JSON_REAL_PRECISION(17));
    if (stored == NULL) return MEGA_NO_MEMORY("checkpoint", "its arguments");
    const mega_status st =
        mega_options_changes(t->cfg->engine.options, stored, t->cfg->use_checkpoint_opt_param_scheduler, &changes);
    free(stored);
    MEGA_TRY(st);
    for (size_t i = 0; i < changes.count; i++)
        mega_buffer_printf(&lines, "\n  %s from iteration %lld on", changes.item[i], (long long)t->first_iteration + 1);
    if (lines.size > 0)
        mega_warn("options differ from those of the run that wrote the checkpoint (--load %s):%s", t->cfg->load,
                  lines.data);
    mega_buffer_fini(&lines);
    return MEGA_OK;
}

/* ---- what the checkpoint stores about the data ---- */

static mega_status take_order(train_stored *s, const json_t *order)
{
    const size_t count = json_array_size(order);
    if (count == 0) return MEGA_OK;
    s->order = mega_malloc(count * sizeof *s->order);
    if (s->order == NULL) return MEGA_NO_MEMORY("checkpoint", "the order of its samples");
    for (size_t i = 0; i < count; i++) {
        s->order[i] = json_integer_value(json_array_get(order, i));
        if (s->order[i] <= 0)
            return MEGA_FAIL(MEGA_ERR_FORMAT,
                             "checkpoint: state/run.json: data_order holds %lld, expected counts above 0",
                             (long long)s->order[i]);
    }
    s->orders = (int)count;
    return MEGA_OK;
}

/* Returns whether this run continues the checkpoint's run and keeps its id. A run that saves nowhere, or to a folder
 * other than the checkpoint's (SAVE or SAVE/iter_N), is a branch with its own id; otherwise it would truncate the
 * metrics of the original run. An evaluation belongs to the original run. */
static bool continues(const trainer *t)
{
    return t->cfg->save == NULL ? t->cfg->skip_train : train_continues_save(t->cfg);
}

static mega_status read_stored(trainer *t, const json_t *root, const json_t *now)
{
    train_stored *s = &t->stored;
    /* NULL in checkpoints of versions without run ids */
    const char *run_id = json_string_value(json_object_get(root, "run_id"));
    if (run_id != NULL && continues(t)) snprintf(t->run_id, sizeof t->run_id, "%s", run_id);
    s->data = hex_of(root, "data_hash");
    s->content = hex_of(root, "data_content_hash");
    s->order_samples = json_integer_value(json_object_get(root, "data_order_samples"));
    s->order_hash = hex_of(root, "data_order_hash");
    s->cyclic_epoch = json_integer_value(json_object_get(root, "cyclic_epoch"));
    s->cyclic_permutation = json_integer_value(json_object_get(root, "cyclic_permutation"));
    if (t->task->course->in_epochs) {
        t->epochs.loss = json_real_value(json_object_get(root, "epoch_loss"));
        t->epochs.losses = json_integer_value(json_object_get(root, "epoch_losses"));
    }
    if (!t->cfg->skip_train && t->cfg->consumed_train_samples > 0) {
        warn_of_options(t, json_object_get(root, "arguments"), now);
        MEGA_TRY(warn_of_changes(t, json_object_get(root, "arguments")));
    }
    return take_order(s, json_object_get(root, "data_order"));
}

mega_status train_read_stored(trainer *t)
{
    json_error_t error;
    mega_buffer arguments = {0};
    json_t *root;
    MEGA_TRY(mega_run_json(&root, t->checkpoint));
    mega_status st = mega_options_to_json(t->cfg->engine.options, &arguments);
    json_t *now = st == MEGA_OK ? mega_json_load(arguments.data, strlen(arguments.data), 0, &error) : NULL;
    if (st == MEGA_OK) st = read_stored(t, root, now);
    mega_buffer_fini(&arguments);
    json_decref(now);
    json_decref(root);
    return st;
}

/* ---- data ---- */

static void warn_of_cyclic(const trainer *t)
{
    int64_t permutation;
    if (t->stored.cyclic_epoch == 0 || t->cfg->dataloader_type != MEGA_DATALOADER_CYCLIC) return;
    const int64_t epoch = train_cyclic_epoch(t, &permutation);
    if (epoch == t->stored.cyclic_epoch && permutation == t->stored.cyclic_permutation) return;
    mega_warn("--dataloader-type cyclic draws epochs of %lld from %lld samples, and drew %lld from %lld in the run of "
              "--load %s (they follow from --micro-batch-size, the data-parallel ranks and the data): from sample %lld "
              "on " OTHER_ORDER,
              (long long)epoch, (long long)permutation, (long long)t->stored.cyclic_epoch,
              (long long)t->stored.cyclic_permutation, t->cfg->load, (long long)t->cfg->consumed_train_samples);
}

/* Warns if the samples differ although the data and the options above are the same. */
static void warn_of_order(const trainer *t, const char *prefix, const char *others)
{
    const train_stored *s = &t->stored;
    const int64_t samples = t->data[MEGA_SPLIT_TRAIN].samples;
    if (s->is_warned || s->order_samples == 0) return;
    if (samples >= s->order_samples && train_order_hash(t, s->order_samples) == s->order_hash) return;
    mega_warn("%s%s: the training samples are not those of the run that wrote the checkpoint (--load %s): from sample "
              "%lld on " OTHER_ORDER,
              prefix, others, t->cfg->load, (long long)t->cfg->consumed_train_samples);
}

void train_warn_of_other_data(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const long long passed = (long long)cfg->consumed_train_samples;
    const mega_task_data *data = &t->data[MEGA_SPLIT_TRAIN];
    const char *others, *prefix = train_data_prefix(cfg, MEGA_SPLIT_TRAIN, &others);
    if (data->self == NULL || cfg->skip_train || passed == 0) return;
    warn_of_cyclic(t);
    if (t->stored.data != 0 && t->task->data_hash(data) != t->stored.data)
        mega_warn(
            "%s%s: the training data are not those of the checkpoint (--load %s), and the run continues after the "
            "%lld samples that it consumed: that many of the new data are skipped; --finetune starts at their first",
            prefix, others, cfg->load, passed);
    else if (t->stored.content != 0 && t->content[MEGA_SPLIT_TRAIN] != t->stored.content)
        mega_warn(
            "%s.bin%s: its tokens were changed since the checkpoint (--load %s) was written, although documents have "
            "the lengths they had: from sample %lld on the changed tokens are trained on",
            prefix, others, cfg->load, passed);
    else
        warn_of_order(t, prefix, others);
}
