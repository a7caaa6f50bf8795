/* Checks of the training data: all ranks must read the same, and a checkpoint must have been made with the same. */
#include "engine_data.h"
#include "megalith/compare.h"
#include "megalith/hash.h"
#include "megalith/run_json.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- comparing the data sets of the ranks ---- */

/* Mapped samples of a run have no epochs of their own (mega_dataset_sampled). */
static bool has_epochs(const mega_engine *e)
{
    return e->data.has_set && e->data.set.count < INT64_MAX;
}

mega_status engine_cut_epochs(mega_engine *e)
{
    mega_dataset *d = &e->data.set;
    const mega_batch_ramp *b = &e->options.batch;
    if (!e->options.drop_last || !has_epochs(e)) return MEGA_OK;
    if (b->samples > 0)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "mega_engine_create: drop_last and a ramp of the batch size: batches that grow have no common "
                         "size that an epoch could be cut to");
    if (d->count < b->global_batch)
        return MEGA_MISTAKE(
            "--dataloader-drop-last: setup.training_data has %lld samples and --global-batch-size is %lld: "
            "every batch would be dropped; give more samples, a smaller batch, or leave the option out",
            (long long)d->count, (long long)b->global_batch);
    d->epoch = d->count - d->count % b->global_batch;
    return MEGA_OK;
}

/* Returns the samples of an epoch that are read. */
static int64_t read_of_epoch(const mega_dataset *d)
{
    return d->epoch > 0 ? d->epoch : d->count;
}

enum { DATA_GIVEN, DATA_FIRST, DATA_COUNT, DATA_IN_ORDER, DATA_EPOCH, DATA_HASH, NUM_OF_DATA };
static const char *const data_name[NUM_OF_DATA] = {"given", "first", "count", "in_order", "epoch", "hash"};

static int64_t of_data(const mega_engine *e, int64_t i)
{
    const mega_dataset *d = &e->data.set;
    const int64_t value[NUM_OF_DATA] = {e->data.has_set, d->first,         d->count,
                                        d->in_order,     read_of_epoch(d), (int64_t)e->data.hash};
    return value[i];
}

static uint64_t hash_data(const void *list, int64_t begin, int64_t end)
{
    uint64_t hash = MEGA_HASH_START;
    for (int64_t i = begin; i < end; i++) {
        const int64_t value = of_data(list, i);
        hash = mega_hash64(hash, &value, sizeof value);
    }
    return hash;
}

enum { VALUE_TEXT = 32 };

static const char *value_text(char out[VALUE_TEXT], int64_t i, int64_t value)
{
    if (i == DATA_HASH) snprintf(out, VALUE_TEXT, "%016" PRIx64, (uint64_t)value);
    else if (i == DATA_IN_ORDER)
        snprintf(out, VALUE_TEXT, "%s", value != 0 ? "true" : "false");
    else
        snprintf(out, VALUE_TEXT, "%" PRId64, value);
    return out;
}

static void describe_data(const void *list, int64_t i, char out[MEGA_COMPARED_TEXT])
{
    char text[VALUE_TEXT];
    const int64_t value = of_data(list, i);
    if (i == DATA_GIVEN) snprintf(out, MEGA_COMPARED_TEXT, "training_data %s", value != 0 ? "given" : "NULL");
    else
        snprintf(out, MEGA_COMPARED_TEXT, "training_data->%s %s", data_name[i], value_text(text, i, value));
}

mega_status engine_compare_data(const mega_engine *e)
{
    const mega_compared l = {.what = "data sets in mega_engine_create",
                             .item = "member of mega_setup",
                             .remedy = "give all ranks the same training_data",
                             .is_independent = true,
                             .list = e,
                             .count = NUM_OF_DATA,
                             .hash = hash_data,
                             .describe = describe_data};
    return mega_comm_compare(mega_world_comm(e->options.world), &l);
}

/* ---- the description of the training data in a checkpoint ---- */

json_t *engine_data_json(const mega_engine *e)
{
    const mega_dataset *d = &e->data.set;
    char hash[VALUE_TEXT];
    json_t *out = json_pack("{s:I, s:I, s:b}", data_name[DATA_FIRST], (json_int_t)d->first, data_name[DATA_COUNT],
                            (json_int_t)d->count, data_name[DATA_IN_ORDER], (int)d->in_order);
    if (d->epoch > 0 && out != NULL) (void)json_object_set_new(out, data_name[DATA_EPOCH], json_integer(d->epoch));
    if (d->hash != NULL && out != NULL)
        (void)json_object_set_new(out, data_name[DATA_HASH],
                                  json_string(value_text(hash, DATA_HASH, (int64_t)e->data.hash)));
    return out;
}

/* Writes member i of the stored description to *out. Returns false if the checkpoint has no such member. A whole epoch
 * is not stored. */
static bool stored_data_value(const json_t *stored, int64_t i, int64_t *out)
{
    const json_t *value = json_object_get(stored, data_name[i]);
    if (value == NULL && i == DATA_EPOCH) value = json_object_get(stored, data_name[DATA_COUNT]);
    if (json_is_integer(value)) *out = (int64_t)json_integer_value(value);
    else if (json_is_boolean(value))
        *out = json_is_true(value);
    else if (json_is_string(value))
        *out = (int64_t)strtoull(json_string_value(value), NULL, 16);
    else
        return false;
    return true;
}

static void list_differences(const mega_engine *e, const json_t *stored, mega_buffer *out)
{
    char here[VALUE_TEXT], there[VALUE_TEXT];
    for (int i = DATA_FIRST; i < NUM_OF_DATA; i++) {
        int64_t value;
        if (!stored_data_value(stored, i, &value) || value == of_data(e, i)) continue;
        if (i == DATA_HASH && e->data.set.hash == NULL) continue;
        const bool is_whole = e->data.set.epoch == 0 && json_object_get(stored, data_name[i]) == NULL;
        if (i == DATA_EPOCH && is_whole) continue; /* the counts say it */
        mega_buffer_printf(out, "\n  training_data->%s: %s here, %s in the checkpoint", data_name[i],
                           value_text(here, i, of_data(e, i)), value_text(there, i, value));
    }
}

mega_status engine_check_data(const mega_engine *e, const mega_checkpoint *c)
{
    json_t *root = NULL;
    mega_buffer differences = {0};
    if (!e->data.has_set || mega_checkpoint_run_json(c) == NULL) return MEGA_OK;
    MEGA_TRY(mega_run_json(&root, c));
    const json_int_t consumed = json_integer_value(json_object_get(root, "consumed_train_samples"));
    if (consumed > 0) list_differences(e, json_object_get(root, ENGINE_DATA_MEMBER), &differences);
    json_decref(root);
    mega_status st = mega_buffer_check(&differences, "the differences of two data sets");
    if (st == MEGA_OK && differences.size > 0)
        st = MEGA_MISTAKE("mega_engine_load_checkpoint: %s was made with other training data, of which it has consumed "
                          "%lld samples:%s\nGive the data set of that run; or set other_training_data in "
                          "mega_load_options, and the run continues after that many samples of the new one; or "
                          "module_only, and it starts at step 0 with the weights alone",
                          mega_checkpoint_folder(c), (long long)consumed, differences.data);
    mega_buffer_fini(&differences);
    return st;
}
