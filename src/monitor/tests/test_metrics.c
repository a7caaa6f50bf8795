/* Metrics files: rows with all digits, the rows that a resumed run removes, reading curves back, and errors that name
 * file and line. */
#include "kit.h"
#include "megalith/append.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RUN "r1"

static void close_whole(mega_metrics *m)
{
    mega_missing missing;
    need(mega_metrics_close(m, &missing));
    assert_int_equal(missing.pieces, 0);
}

static void assert_text(const char *path, const char *expected)
{
    char *text = NULL;
    need(mega_file_read(path, &text, NULL));
    assert_string_equal(text, expected);
    mega_free(text);
}

static void step(mega_metrics *m, int64_t iteration)
{
    const float loss = 1.0f / (float)iteration;
    const mega_metric row[] = {{.key = "iteration", .kind = MEGA_METRIC_INT, .i = iteration},
                               {.key = "lm_loss", .kind = MEGA_METRIC_FLOAT, .x = loss},
                               {.key = "grad_norm", .kind = MEGA_METRIC_DOUBLE, .x = 0.1 * (double)iteration}};
    need(mega_metrics_row(m, row, 3));
    if (iteration % 5 == 0) {
        const mega_metric evaluation[] = {{.key = "iteration", .kind = MEGA_METRIC_INT, .i = iteration},
                                          {.key = "validation_loss", .kind = MEGA_METRIC_DOUBLE, .x = loss}};
        need(mega_metrics_row(m, evaluation, 2));
    }
}

static void final(mega_metrics *m, int64_t iteration)
{
    const mega_metric row[] = {{.key = "iteration", .kind = MEGA_METRIC_INT, .i = iteration},
                               {.key = "test_loss", .kind = MEGA_METRIC_DOUBLE, .x = NAN},
                               {.key = "final", .kind = MEGA_METRIC_BOOL, .i = 1},
                               {.key = "note", .kind = MEGA_METRIC_TEXT, .text = "a \"b\""}};
    need(mega_metrics_row(m, row, 4));
}

static void rows(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "new/run.jsonl");
    mega_metrics *m = NULL;
    need(mega_metrics_open(path, RUN, 0, &m));
    step(m, 3);
    assert_text(path,
                /* at
                 * once */
                "{\"iteration\": 3, \"lm_loss\": 0.33333334, \"grad_norm\": 0.30000000000000004, \"run\": \"r1\"}\n");
    need(mega_metrics_sync(m));
    final(m, 3);
    close_whole(m);
    assert_text(
        path, "{\"iteration\": 3, \"lm_loss\": 0.33333334, \"grad_norm\": 0.30000000000000004, \"run\": \"r1\"}\n"
              "{\"iteration\": 3, \"test_loss\": null, \"final\": true, \"note\": \"a \\\"b\\\"\", \"run\": \"r1\"}\n");
    close_whole(NULL);
}

static void run(const char *path, int64_t from, int64_t to)
{
    mega_metrics *m = NULL;
    need(mega_metrics_open(path, RUN, from, &m));
    for (int64_t i = from + 1; i <= to; i++) step(m, i);
    final(m, to);
    close_whole(m);
}

/* A file cut anywhere, with a partial last row, and resumed at any earlier iteration, equals that of an uninterrupted
 * run. */
static void resumed_equals_uncut(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const char *uncut = mega_kit_path(folder, "uncut.jsonl"), *cut = mega_kit_path(folder, "cut.jsonl");
    run(uncut, 0, 20);
    char *text = NULL;
    size_t size = 0;
    need(mega_file_read(uncut, &text, &size));
    for (int64_t loaded = 1; loaded < 20; loaded++) {
        for (int64_t reached = loaded + 1; reached <= 20; reached += 3) {
            run(cut, 0, reached);
            int64_t bytes = 0;
            need(mega_file_size(cut, &bytes));
            assert_int_equal(truncate(cut, (off_t)(bytes - 5)), 0);
            run(cut, loaded, 20);
            assert_text(cut, text);
        }
    }
    mega_free(text);
}

/* A run that only evaluates adds rows to the file of a training, even for an iteration before its end. */
static void all_rows_stay(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "all.jsonl");
    const char *whole = "{\"iteration\": 1}\n{\"iteration\": 2, \"final\": true}\n{\"note\": 1}\n";
    mega_metrics *m = NULL;
    mega_kit_write(path, whole);
    need(mega_metrics_open(path, RUN, MEGA_METRICS_KEEP_ALL, &m));
    close_whole(m);
    assert_text(path, whole);
    mega_kit_write(path, "{\"iteration\": 2, \"final\": true, \"run\": \"r1\"}\n{\"iterat");
    need(mega_metrics_open(path, RUN, MEGA_METRICS_KEEP_ALL, &m));
    final(m, 1);
    close_whole(m);
    assert_text(
        path, "{\"iteration\": 2, \"final\": true, \"run\": \"r1\"}\n"
              "{\"iteration\": 1, \"test_loss\": null, \"final\": true, \"note\": \"a \\\"b\\\"\", \"run\": \"r1\"}\n");
}

static void torn_row(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "a.jsonl");
    mega_metrics *m = NULL;
    mega_kit_write(path, "{\"iteration\": 1}\n{\"iteration\": 2}\n{\"iterat");
    need(mega_metrics_open(path, RUN, 2, &m));
    step(m, 3);
    close_whole(m);
    assert_text(path,
                "{\"iteration\": 1}\n{\"iteration\": 2}\n"
                "{\"iteration\": 3, \"lm_loss\": 0.33333334, \"grad_norm\": 0.30000000000000004, \"run\": \"r1\"}\n");
    mega_kit_write(path, "{\"iteration\": 1}\nhello\n{\"iteration\": 2}"); /* complete except for its newline */
    need(mega_metrics_open(path, RUN, 2, &m));
    step(m, 3);
    close_whole(m);
    assert_text(path,
                "{\"iteration\": 1}\nhello\n{\"iteration\": 2}\n"
                "{\"iteration\": 3, \"lm_loss\": 0.33333334, \"grad_norm\": 0.30000000000000004, \"run\": \"r1\"}\n");
}

/* Rows of another run in the same file stay, whatever iteration this run resumes from; a run that writes no row changes
 * nothing. */
static void rows_of_other_runs_stay(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "runs.jsonl");
    const char *before =
        "{\"iteration\": 1}\n{\"iteration\": 8, \"run\": \"r0\"}\n{\"iteration\": 2, \"run\": \"r1\"}\n"
        "{\"iteration\": 9, \"final\": true, \"run\": \"r0\"}\n{\"iteration\": 3, \"run\": \"r1\"}\n{\"iter";
    mega_metrics *m = NULL;
    mega_kit_write(path, before);
    need(mega_metrics_open(path, RUN, 2, &m));
    need(mega_metrics_sync(m));
    close_whole(m);
    assert_text(path, before);
    need(mega_metrics_open(path, RUN, 2, &m));
    step(m, 4);
    close_whole(m);
    assert_text(path, "{\"iteration\": 1}\n{\"iteration\": 8, \"run\": \"r0\"}\n{\"iteration\": 2, \"run\": \"r1\"}\n"
                      "{\"iteration\": 9, \"final\": true, \"run\": \"r0\"}\n"
                      "{\"iteration\": 4, \"lm_loss\": 0.25, \"grad_norm\": 0.4, \"run\": \"r1\"}\n");
}

/* Two runs write to one file; one of them resumes and removes rows while the other keeps writing. */
static void resumed_beside_another_run(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "m.jsonl");
    mega_metrics *a, *b;
    mega_missing missing;
    int held;
    need(mega_metrics_open(path, "a", 0, &a));
    for (int i = 1; i <= 4; i++) step(a, i);
    need(mega_metrics_open(path, "b", 0, &b));
    for (int i = 1; i <= 4; i++) step(b, i);
    close_whole(b);
    need(mega_metrics_open(path, "b", 2, &b));
    step(b, 3);
    step(a, 6);
    assert_int_equal(mega_metrics_missing(a).pieces, 0);
    need(mega_append_exclude(&held, path)); /* waits until no row is being written */
    const mega_metric row = {.key = "iteration", .kind = MEGA_METRIC_INT, .i = 7};
    assert_int_equal(mega_metrics_row(a, &row, 1), MEGA_ERR_BUSY);
    assert_non_null(strstr(mega_error_message(), "another process has held its lock"));
    mega_append_admit(held);
    step(a, 8);
    need(mega_metrics_close(a, &missing));
    assert_int_equal(missing.pieces, 0);
    close_whole(b);
    char *text = NULL;
    need(mega_file_read(path, &text, NULL));
    int rows_of[2] = {0};
    for (const char *at = text; (at = strstr(at, "\"run\": \"")) != NULL; at++) rows_of[at[8] - 'a']++;
    mega_free(text);
    assert_int_equal(rows_of[0], 7);
    assert_int_equal(rows_of[1], 3);
}

static void link_is_followed(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *path = mega_kit_path(folder, "link"),
               *file = mega_kit_path(folder, "f");
    mega_metrics *m = NULL;
    char target[16] = "";
    mega_kit_write(file, "{\"iteration\": 3, \"run\": \"r1\"}\n");
    assert_int_equal(symlink("f", path), 0);
    need(mega_metrics_open(path, RUN, 2, &m));
    step(m, 3);
    close_whole(m);
    assert_int_equal(readlink(path, target, sizeof target), 1);
    assert_text(file,
                "{\"iteration\": 3, \"lm_loss\": 0.33333334, \"grad_norm\": 0.30000000000000004, \"run\": \"r1\"}\n");
}

/* If log rotation moves the file away, rows go to a new one. If it is removed, its rows count as missing. */
static void moved_and_removed(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *path = mega_kit_path(folder, "m.jsonl"),
               *old = mega_kit_path(folder, "o");
    mega_metrics *m = NULL;
    mega_missing missing;
    need(mega_metrics_open(path, RUN, 0, &m));
    step(m, 1);
    assert_int_equal(rename(path, old), 0);
    step(m, 2);
    step(m, 3);
    assert_int_equal(mega_metrics_missing(m).pieces, 0);
    assert_int_equal(unlink(path), 0);
    step(m, 4);
    need(mega_metrics_close(m, &missing));
    assert_int_equal(missing.pieces, 2);
    assert_true(missing.first == 2 && missing.last == 3);
}

static void foreign_file(void **state)
{
    (void)state;
    static const char *const foreign[] = {
        "my notes\nof a week\n", "notes without an end", "{\"text\": \"a document\"}\n", "[1]\n",
        "\n\nnotes\n",           "{\"it is mine"};
    static const char *const ours[] = {"", "\n", "{\"iter", "{\"iteration\": 1, \"lm_", "{\"iteration\": 1}"};
    static const int64_t through[] = {0, 2, MEGA_METRICS_KEEP_ALL};
    const char *path = mega_kit_path(mega_kit_temp_folder(), "notes.txt");
    mega_metrics *m = NULL;
    for (size_t k = 0; k < sizeof through / sizeof *through; k++) {
        for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
            mega_kit_write(path, foreign[i]);
            assert_int_equal(mega_metrics_check(path), MEGA_ERR_FORMAT);
            assert_int_equal(mega_metrics_open(path, RUN, through[k], &m), MEGA_ERR_FORMAT);
            assert_non_null(strstr(mega_error_message(), "notes.txt: its first line is not a row of metrics"));
            assert_text(path, foreign[i]);
        }
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
            mega_kit_write(path, ours[i]);
            need(mega_metrics_check(path));
            need(mega_metrics_open(path, RUN, through[k], &m));
            step(m, 3);
            close_whole(m);
        }
    }
    need(mega_metrics_check(mega_kit_path(path, "missing")));
}

static void curves(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "a.jsonl");
    mega_curve c = {0};
    mega_kit_write(
        path,
        "{\"iteration\": 1, \"lm_loss\": 4, \"x\": \"y\"}\n\n{\"iteration\": 2, \"lm_loss\": null}\n"
        "{\"iteration\": 2, \"validation_loss\": 7}\n{\"iteration\": 4, \"lm_loss\": 1.0}\n{\"iteration\": 5, \"lm");
    need(mega_curve_read(path, NULL, "iteration", "lm_loss", &c));
    assert_int_equal(c.count, 3);
    assert_true(c.x[0] == 1 && c.y[0] == 4 && c.x[1] == 2 && isnan(c.y[1]) && c.x[2] == 4 && c.y[2] == 1);
    mega_curve_smooth(&c, 0.5);
    assert_true(c.y[0] == 4 && isnan(c.y[1]) && c.y[2] == (0.5 * 4 + 1) / 1.5);
    mega_curve_fini(&c);
    assert_int_equal(mega_curve_read(path, NULL, "iteration", "loss", &c), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "\"loss\""));
    assert_non_null(strstr(mega_error_message(), "it has iteration, lm_loss, validation_loss"));
    mega_kit_write(path, "");
    assert_int_equal(mega_curve_read(path, NULL, "iteration", "lm_loss", &c), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "no rows"));
    mega_kit_write(path, "{\"iteration\": 1, \"lm_loss\": 4}\n[1]\n");
    assert_int_equal(mega_curve_read(path, NULL, "iteration", "lm_loss", &c), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "line 2: no object"));
    assert_int_equal(mega_curve_read(mega_kit_path(path, "x"), NULL, "iteration", "lm_loss", &c), MEGA_ERR_NOT_FOUND);
}

static void curves_of_runs(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "a.jsonl");
    mega_curve c = {0};
    mega_buffer runs = {0};
    int64_t count = 0;
    mega_kit_write(path, "{\"iteration\": 1, \"lm_loss\": 7}\n{\"iteration\": 1, \"lm_loss\": 4, \"run\": \"a\"}\n"
                         "{\"iteration\": 1, \"lm_loss\": 5, \"run\": \"b\"}\n"
                         "{\"iteration\": 2, \"lm_loss\": 3, \"run\": \"a\"}\n");
    need(mega_metrics_runs(path, &runs, &count));
    assert_int_equal(count, 3);
    assert_string_equal(runs.data, "none, b, a");
    mega_buffer_fini(&runs);
    need(mega_curve_read(path, NULL, "iteration", "lm_loss", &c));
    assert_true(c.count == 2 && c.y[0] == 4 && c.y[1] == 3);
    mega_curve_fini(&c);
    need(mega_curve_read(path, "b", "iteration", "lm_loss", &c));
    assert_true(c.count == 1 && c.y[0] == 5);
    mega_curve_fini(&c);
    need(mega_curve_read(path, "none", "iteration", "lm_loss", &c));
    assert_true(c.count == 1 && c.y[0] == 7);
    mega_curve_fini(&c);
    assert_int_equal(mega_curve_read(path, "x", "iteration", "lm_loss", &c), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "none, b, a"));
}

static int attempt(void *user)
{
    const mega_metric row[] = {{.key = "iteration", .kind = MEGA_METRIC_INT, .i = 2},
                               {.key = "lm_loss", .kind = MEGA_METRIC_DOUBLE, .x = 0.5}};
    mega_metrics *m = NULL;
    mega_missing missing;
    mega_curve c = {0};
    mega_status st = mega_metrics_open(user, RUN, 1, &m);
    if (st == MEGA_OK) st = mega_metrics_row(m, row, 2);
    if (st == MEGA_OK) st = mega_metrics_sync(m);
    if (st != MEGA_OK) {
        mega_error_record why;
        mega_error_get(&why);
        mega_metrics_close(m, &missing);
        return (int)mega_error_restore(&why);
    }
    st = mega_metrics_close(m, &missing);
    if (st == MEGA_OK) st = mega_curve_read(user, NULL, "iteration", "lm_loss", &c);
    mega_curve_fini(&c);
    return (int)st;
}

static void out_of_memory(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "a.jsonl");
    mega_kit_write(path, "{\"iteration\": 1, \"lm_loss\": 4}\n");
    assert_true(mega_kit_fail_each_allocation(attempt, (void *)(uintptr_t)path) > 10);
    assert_text(path, "{\"iteration\": 1, \"lm_loss\": 4}\n{\"iteration\": 2, \"lm_loss\": 0.5, \"run\": \"r1\"}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(resumed_equals_uncut),
        cmocka_unit_test(all_rows_stay),
        cmocka_unit_test(torn_row),
        cmocka_unit_test(rows_of_other_runs_stay),
        cmocka_unit_test(resumed_beside_another_run),
        cmocka_unit_test(link_is_followed),
        cmocka_unit_test(moved_and_removed),
        cmocka_unit_test(foreign_file),
        cmocka_unit_test(curves),
        cmocka_unit_test(curves_of_runs),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
