/* Monitors of values: CSV files, the records of a wandb run with an independent reader, and several monitors at
 * once. */
#include "../proto.h"
#include "../wandb_log.h"
#include "kit.h"
#include "megalith/events.h"
#include "megalith/file.h"
#include "megalith/wandb.h"
#include "notes.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *read_text(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    need(mega_file_read(path, &text, &size));
    return text;
}

static void expect_file(const char *folder, const char *name, const char *expected)
{
    char *text = read_text(mega_kit_path(folder, name));
    assert_string_equal(text, expected);
    mega_free(text);
}

/* Makes a new folder the working folder. */
static const char *enter(void)
{
    const char *folder = mega_kit_temp_folder();
    assert_int_equal(chdir(folder), 0);
    notes_begin();
    return folder;
}

static mega_monitor_options none(void)
{
    return (mega_monitor_options){.monitor_tensorboard_path = "",
                                  .monitor_tensorboard_job = "job",
                                  .monitor_csv_path = "out",
                                  .monitor_csv_job = "job",
                                  .monitor_wandb_project = "deepspeed"};
}

/* DeepSpeed's names of folder, files and columns; an existing file is continued. */
static void csv_files(void **state)
{
    (void)state;
    const char *folder = enter();
    mega_monitor_options o = none();
    o.monitor_csv = true;
    for (int run = 0; run < 2; run++) {
        mega_events *e = mega_events_open(&o, "{\"lr\": 0.5, \"a\": \"b\"}");
        assert_non_null(e);
        mega_events_put(e, "Train/Samples/lr", 0.001 / (run + 1), 8 * run + 8);
        mega_events_put(e, "Train/Samples/train loss", run == 0 ? NAN : -INFINITY, 8 * run + 8);
        mega_events_close(e);
    }
    expect_file(folder, "out/job/Train_Samples_lr.csv", "step,lr\n8,0.001\n16,0.0005\n");
    expect_file(folder, "out/job/Train_Samples_train_loss.csv", "step,train loss\n8,nan\n16,-inf\n");
    char *about = read_text(mega_kit_path(folder, "out/job/run.json"));
    assert_has(about, "\"config\": {\n \"lr\": 0.5");
    mega_free(about);
    assert_string_equal(notes, "");
}

/* A file of somebody else with the name of the description stays. */
static void csv_keeps_other_files(void **state)
{
    (void)state;
    const char *folder = enter();
    mega_monitor_options o = none();
    o.monitor_csv = true;
    need(mega_folder_create("out/job"));
    mega_kit_write(mega_kit_path(folder, "out/job/run.json"), "mine");
    mega_events_close(mega_events_open(&o, "{}"));
    expect_file(folder, "out/job/run.json", "mine");
}

static void no_monitor(void **state)
{
    (void)state;
    const mega_monitor_options o = none();
    enter();
    assert_null(mega_events_open(&o, "{}"));
    mega_events_put(NULL, "a", 1, 1);
    mega_events_flush(NULL);
    mega_events_close(NULL);
}

/* Events are counted in samples, files of a training in iterations. */
static void what_is_lost(void **state)
{
    (void)state;
    mega_outbox_report events = {.option = "\"wandb\"", .path = "x", .what = "values", .counted = "samples"},
                       rows = {.option = "--metrics-file", .path = "y", .what = "rows"};
    enter();
    mega_outbox_hear(&events, MEGA_OK, (mega_missing){2, 8, 16});
    mega_outbox_hear_end(&rows, MEGA_OK, (mega_missing){2, 1, 2});
    assert_has(notes, "values of samples 8 to 16 are lost");
    assert_has(notes, "rows of iterations 1 to 2 are missing");
}

/* A folder that cannot be made is a warning, and the other monitors go on. */
static void a_monitor_that_fails(void **state)
{
    (void)state;
    const char *folder = enter();
    mega_monitor_options o = none();
    mega_kit_write(mega_kit_path(folder, "file"), "x");
    o.monitor_csv = o.monitor_tensorboard = true;
    o.monitor_csv_path = "file";
    o.monitor_tensorboard_path = "events";
    mega_events *e = mega_events_open(&o, NULL);
    assert_has(notes, "\"csv_monitor\": ");
    assert_has(notes, "the training continues without it");
    mega_events_put(e, "Train/Samples/lr", 1, 8);
    mega_events_close(e);
    assert_true(mega_folder_exists("events/job"));
    expect_file(folder, "file", "x");
}

/* ---- the log of a wandb run: a reader that shares no code with the writer ---- */

static uint32_t crc_of(const uint8_t *p, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0xedb88320u : crc >> 1;
    }
    return ~crc;
}

typedef struct log_reader {
    const uint8_t *data;
    size_t size, at;
    uint8_t record[300000];
    size_t bytes;
} log_reader;

static bool next_record(log_reader *r)
{
    enum { WHOLE = 1, FIRST, MIDDLE, LAST };
    r->bytes = 0;
    for (bool is_begun = false;; is_begun = true) {
        while (32768 - r->at % 32768 < 7) assert_int_equal(r->data[r->at++], 0);
        if (r->at == r->size) {
            assert_false(is_begun);
            return false;
        }
        const uint8_t *p = r->data + r->at;
        const uint32_t crc = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        const size_t n = p[4] | (size_t)p[5] << 8;
        const int kind = p[6];
        assert_true(r->at + 7 + n <= r->size && r->at % 32768 + 7 + n <= 32768);
        assert_int_equal(crc, crc_of(p + 6, n + 1));
        assert_true(is_begun ? kind == MIDDLE || kind == LAST : kind == WHOLE || kind == FIRST);
        memcpy(r->record + r->bytes, p + 7, n);
        r->bytes += n;
        r->at += 7 + n;
        if (kind == WHOLE || kind == LAST) return true;
    }
}

static log_reader *open_reader(const char *path)
{
    log_reader *r = calloc(1, sizeof *r);
    char *text = NULL;
    need(mega_file_read(path, &text, &r->size));
    r->data = (const uint8_t *)text;
    assert_memory_equal(r->data, ":W&B\xe1\xbe\0", 7);
    r->at = 7;
    return r;
}

static void close_reader(log_reader *r)
{
    mega_free((void *)r->data);
    free(r);
}

/* Records of lengths around the ends of blocks. */
static void frames_of_a_log(void **state)
{
    (void)state;
    const char *path = mega_kit_path(enter(), "log");
    static const size_t lengths[] = {
        1, 0, 32768 - 7 - 8 - 7 - 7, 5, 32761, 32762, 100000, 32755, 32768, 3, 200000, 7, 65522, 1};
    wandb_log *l = NULL;
    mega_buffer b = {0};
    need(wandb_log_create(path, &l));
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        b.size = 0;
        mega_buffer_puts(&b, "");
        for (size_t k = 0; k < lengths[i]; k++) mega_buffer_append(&b, &(char){(char)(k * 7 + i)}, 1);
        need(wandb_log_put(l, (int64_t)i, &b));
        if (i % 3 == 0) need(wandb_log_flush(l));
    }
    need(wandb_log_flush(l));
    assert_int_equal(wandb_log_missing(l).pieces, 0);
    need(wandb_log_close(l));
    log_reader *r = open_reader(path);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        assert_true(next_record(r));
        assert_int_equal(r->bytes, lengths[i]);
        for (size_t k = 0; k < r->bytes; k++) assert_int_equal(r->record[k], (uint8_t)(k * 7 + i));
    }
    assert_false(next_record(r));
    close_reader(r);
    mega_buffer_fini(&b);
}

/* After a loss nothing is written that readers could not find. */
static void a_log_that_was_removed(void **state)
{
    (void)state;
    const char *path = mega_kit_path(enter(), "log");
    wandb_log *l = NULL;
    mega_buffer b = {0};
    mega_buffer_puts(&b, "record");
    need(wandb_log_create(path, &l));
    need(wandb_log_put(l, 1, &b));
    need(wandb_log_flush(l));
    assert_int_equal(unlink(path), 0);
    need(wandb_log_put(l, 2, &b));
    need(wandb_log_flush(l));
    need(wandb_log_put(l, 3, &b));
    need(wandb_log_flush(l));
    const mega_missing missing = wandb_log_missing(l);
    assert_int_equal(missing.first, 1);
    assert_int_equal(missing.last, 3);
    assert_int_equal(missing.pieces, 2);
    need(wandb_log_close(l));
    mega_buffer_fini(&b);
}

static bool holds(const log_reader *r, const char *text)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i + n <= r->bytes; i++)
        if (memcmp(r->record + i, text, n) == 0) return true;
    return false;
}

/* The records of a run, in order, by the number of their field. */
static void records_of_a_run(void **state)
{
    (void)state;
    enter();
    json_t *config = json_pack("{s:f, s:s}", "lr", 1e-5, "optimizer", "adam");
    const mega_wandb_run run = {
        .folder = "", .project = "p", .team = "t", .name = "first", .config = config, .now = 1700000000.25};
    mega_wandb *w = NULL;
    mega_missing missing;
    char log[256], files[256];
    need(mega_wandb_open(&run, &w));
    const char *id = strrchr(mega_wandb_folder(w), '-') + 1;
    snprintf(log, sizeof log, "%s/run-%s.wandb", mega_wandb_folder(w), id);
    snprintf(files, sizeof files, "%s/files", mega_wandb_folder(w));
    need(mega_wandb_put(w, "lr", 0.5, 8, 1700000001));
    need(mega_wandb_put(w, "loss", NAN, 8, 1700000001));
    need(mega_wandb_put(w, "lr", 0.25, 16, 1700000002));
    need(mega_wandb_close(w, 1700000003, &missing));
    assert_int_equal(missing.pieces, 0);
    /* field << 3 | 2 in one or two bytes, after the record's number: header, run, environment, then two rows, each as
     * summary and history, and the end */
    static const uint8_t kinds[][2] = {{0xaa, 1}, {0x8a, 1}, {0xd2, 1}, {0x1a, 0},
                                       {0x12, 0}, {0x1a, 0}, {0x12, 0}, {0x92, 1}};
    log_reader *r = open_reader(log);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        assert_true(next_record(r));
        assert_int_equal(r->record[0], 8);
        assert_int_equal(r->record[1], i + 1);
        assert_int_equal(r->record[2], kinds[i][0]);
        if (kinds[i][1] != 0) assert_int_equal(r->record[3], kinds[i][1]);
        if (i == 1) assert_true(holds(r, "first") && holds(r, "\"adam\"") && holds(r, "1e-05"));
        if (i == 4) assert_true(holds(r, "NaN") && holds(r, "0.5") && holds(r, "_step"));
        if (i == 6) assert_true(holds(r, "0.25") && !holds(r, "NaN"));
    }
    assert_false(next_record(r));
    close_reader(r);
    char *yaml = read_text(mega_kit_path(files, "config.yaml")),
         *summary = read_text(mega_kit_path(files, "wandb-summary.json"));
    assert_has(yaml, "\"lr\":\n    value: 1.0e-05\n");
    assert_has(yaml, "\"optimizer\":\n    value: \"adam\"\n");
    assert_has(summary, "\"lr\": 0.25, \"loss\": null, \"_step\": 16");
    mega_free(yaml);
    mega_free(summary);
    json_decref(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_files),
        cmocka_unit_test(csv_keeps_other_files),
        cmocka_unit_test(no_monitor),
        cmocka_unit_test(a_monitor_that_fails),
        cmocka_unit_test(what_is_lost),
        cmocka_unit_test(frames_of_a_log),
        cmocka_unit_test(a_log_that_was_removed),
        cmocka_unit_test(records_of_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
