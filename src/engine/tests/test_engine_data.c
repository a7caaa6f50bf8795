/* A checkpoint stores which training data it was made with: resuming with other data is refused, unless the caller asks
 * for it. */
#include "api_engine.h"
#include <stdio.h>
#include <string.h>

static mega_status read_one(void *user, int64_t index, mega_sample *sample)
{
    (void)user;
    return api_read(NULL, index, sample);
}

static uint64_t content(void *user)
{
    return *(const uint64_t *)user;
}

static mega_engine *open_engine(const mega_dataset *data, mega_mode mode)
{
    mega_engine *e;
    need(api_try_open(&e, (mega_setup){.training_data = data, .mode = mode}, API_LINE));
    return e;
}

static const char *save(const mega_dataset *data, int steps)
{
    const char *folder = mega_kit_temp_folder();
    mega_engine *e = open_engine(data, MEGA_TRAIN);
    mega_step_result r;
    for (int i = 0; i < steps; i++) need(mega_engine_train_batch(e, &r));
    need(mega_engine_save_checkpoint(e, folder, NULL, NULL));
    mega_engine_destroy(e);
    return folder;
}

static mega_status load(const char *folder, const mega_dataset *data, mega_mode mode, const mega_load_options *o)
{
    mega_engine *e = open_engine(data, mode);
    bool found = false;
    const mega_status st = mega_engine_load_checkpoint(e, folder, NULL, o, &found, NULL);
    assert_true(found == (st == MEGA_OK));
    assert_int_equal(mega_engine_global_steps(e), st == MEGA_OK && (o == NULL || !o->module_only) ? 3 : 0);
    mega_engine_destroy(e);
    return st;
}

static void refuse(const char *folder, const mega_dataset *data, const char *said)
{
    assert_int_equal(load(folder, data, MEGA_TRAIN, NULL), MEGA_ERR_USAGE);
    if (strstr(mega_error_message(), said) == NULL || strstr(mega_error_message(), "other_training_data") == NULL)
        fail_msg("%s; expected \"%s\"", mega_error_message(), said);
}

static void other_data_are_refused(void **state)
{
    (void)state;
    uint64_t here = 0xabc, there = 0xabd;
    mega_dataset d = {.count = API_SAMPLES, .read = read_one, .hash = content, .user = &here};
    const char *folder = save(&d, 3);
    need(load(folder, &d, MEGA_TRAIN, NULL));
    d.user = &there;
    refuse(folder, &d,
           "of which it has consumed 6 samples:\n  training_data->hash: 0000000000000abd here, 0000000000000abc in the "
           "checkpoint\n");
    d.count = 30;
    refuse(folder, &d, "\n  training_data->count: 30 here, 40 in the checkpoint\n  training_data->hash: ");
    d.user = &here;
    refuse(folder, &d, "training_data->count");
    d.count = API_SAMPLES;
    d.first = 2;
    refuse(folder, &d, "\n  training_data->first: 2 here, 0 in the checkpoint\n");
    d.first = 0;
    d.in_order = true;
    refuse(folder, &d, "\n  training_data->in_order: true here, false in the checkpoint\n");
}

static void other_data_that_are_meant(void **state)
{
    (void)state;
    uint64_t here = 1;
    const mega_dataset d = {.count = API_SAMPLES, .read = read_one, .hash = content, .user = &here};
    mega_dataset other = {.count = 30, .read = read_one};
    const char *folder = save(&d, 3);
    need(load(folder, &other, MEGA_TRAIN, &(mega_load_options){.other_training_data = true}));
    need(load(folder, &other, MEGA_TRAIN, &(mega_load_options){.module_only = true}));
    need(load(folder, &other, MEGA_EVAL, NULL)); /* evaluation does not train on them */
    need(load(folder, NULL, MEGA_TRAIN, NULL));
    other.count = API_SAMPLES; /* their content has no hash */
    need(load(folder, &other, MEGA_TRAIN, NULL));
    folder = save(&other, 3);
    need(load(folder, &d, MEGA_TRAIN, NULL));
}

/* A checkpoint of step 0 accepts any data, because no sample has been used yet. */
static void data_of_step_0_are_any(void **state)
{
    (void)state;
    const mega_dataset d = {.count = API_SAMPLES, .read = read_one}, other = {.count = 30, .read = read_one};
    const char *folder = save(&d, 0);
    mega_engine *e = open_engine(&other, MEGA_TRAIN);
    bool found = false;
    need(mega_engine_load_checkpoint(e, folder, NULL, NULL, &found, NULL));
    assert_true(found);
    mega_engine_destroy(e);
}

/* ---- --dataloader-drop-last ---- */

typedef struct log_of_reads {
    int64_t index[64];
    int count;
} log_of_reads;

static mega_status read_and_note(void *user, int64_t index, mega_sample *sample)
{
    log_of_reads *l = user;
    l->index[l->count++ % 64] = index;
    return api_read(NULL, index, sample);
}

static mega_status open_dropping(mega_engine **out, const mega_dataset *data, const char *batch)
{
    char text[8];
    snprintf(text, sizeof text, "%s", batch);
    char *argv[] = {
        "program", "--micro-batch-size",    "1", "--lr", "0.01", "--fp64", "--num-threads", "1", "--global-batch-size",
        text,      "--dataloader-drop-last"};
    return mega_initialize(
        &(mega_setup){
            .model = &api_model, .training_data = data, .argc = (int)(sizeof argv / sizeof *argv), .argv = argv},
        out);
}

/* 11 samples in batches of 4: two batches an epoch, each of samples of one permutation; and a run that is resumed in
 * the middle reads and computes the same. */
static void batches_that_an_epoch_does_not_fill_are_dropped(void **state)
{
    (void)state;
    enum { STEPS = 6 };
    log_of_reads all = {.count = 0}, rest = {.count = 0};
    const mega_dataset data = {.count = 11, .read = read_and_note, .user = &all};
    const mega_dataset again = {.count = 11, .read = read_and_note, .user = &rest};
    const char *folder = mega_kit_temp_folder();
    mega_engine *e = NULL;
    mega_step_result r[STEPS], other;
    need(open_dropping(&e, &data, "4"));
    for (int i = 0; i < STEPS; i++) {
        if (i == 3) need(mega_engine_save_checkpoint(e, folder, NULL, NULL));
        need(mega_engine_train_batch(e, &r[i]));
    }
    mega_engine_destroy(e);
    assert_int_equal(all.count, 4 * STEPS);
    for (int epoch = 0; epoch < STEPS / 2; epoch++) {
        bool seen[11] = {false};
        for (int i = 0; i < 8; i++) {
            assert_false(seen[all.index[8 * epoch + i]]);
            seen[all.index[8 * epoch + i]] = true;
        }
    }
    assert_memory_not_equal(all.index, all.index + 8, 8 * sizeof *all.index);

    bool found = false;
    need(open_dropping(&e, &again, "4"));
    need(mega_engine_load_checkpoint(e, folder, NULL, NULL, &found, NULL));
    assert_true(found);
    for (int i = 3; i < STEPS; i++) {
        need(mega_engine_train_batch(e, &other));
        assert_memory_equal(&other.loss, &r[i].loss, sizeof other.loss);
    }
    mega_engine_destroy(e);
    assert_memory_equal(rest.index, all.index + 12, 12 * sizeof *rest.index);

    /* with other batches the same number of samples would be another place */
    need(open_dropping(&e, &again, "3"));
    assert_int_equal(mega_engine_load_checkpoint(e, folder, NULL, NULL, &found, NULL), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "training_data->epoch: 9 here, 8 in the checkpoint"));
    mega_engine_destroy(e);
    assert_int_equal(open_dropping(&e, &again, "12"), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "has 11 samples and --global-batch-size is 12"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_data_are_refused),
        cmocka_unit_test(other_data_that_are_meant),
        cmocka_unit_test(data_of_step_0_are_any),
        cmocka_unit_test(batches_that_an_epoch_does_not_fill_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
