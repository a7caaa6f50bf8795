/* The page of megalith report: what it draws and lists of runs with and without a description, and memory that runs
 * out. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/report.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ABOUT                                                                                                         \
    "{\"run\": \"r1\", \"loss\": \"a_loss\", \"parameters\": 7, \"memory\": {\"classes\": [{\"class\": \"masters\", " \
    "\"meaning\": \"m\", \"bytes\": 1500}, {\"class\": \"gradients\", \"meaning\": \"g\", \"bytes\": 500}]}, "        \
    "\"schedule\": {\"stages\": 2, \"micro_batches\": 4, \"svg\": \"<svg onload='evil()'>\"}, "                       \
    "\"options\": [{\"option\": \"lr\", \"value\": \"<1>\", \"set_by\": \"JSON\", \"origin\": \"ds.json, line 3\"}, " \
    "{\"option\": \"seed\", \"value\": \"1234\", \"set_by\": \"default\", \"origin\": \"--seed 1234 (default)\"}]}\n"

/* Writes a run of `rows` iterations with a description; `run` is the id in its rows. */
static char *metrics(const char *folder, const char *name, const char *run, int rows)
{
    char *path = mega_path_join(folder, name), *about = mega_format("%s" MEGA_METRICS_ABOUT, path);
    mega_buffer b = {0};
    for (int i = 1; i <= rows; i++)
        mega_buffer_printf(&b, "{\"iteration\": %d, \"run\": \"%s\", \"a_loss\": %s, \"tokens_per_second\": %d}\n", i,
                           run,
                           i == 2       ? "null"
                           : i % 2 == 1 ? "1.5"
                                        : "1.25",
                           100 + i);
    mega_buffer_printf(&b, "{\"iteration\": %d, \"run\": \"%s\", \"validation_loss\": 0.75}\n", rows, run);
    mega_kit_write(path, b.data);
    mega_kit_write(about, ABOUT);
    mega_buffer_fini(&b);
    mega_free(about);
    return path;
}

static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) n++;
    return n;
}

static void one_run(void **state)
{
    (void)state;
    char *path = metrics(mega_kit_temp_folder(), "m.jsonl", "r1", 5);
    mega_report_run run = {0};
    mega_buffer page = {0};
    need(mega_report_read(&run, path, "m & n", NULL));
    assert_non_null(run.about);
    assert_int_equal(run.curve[MEGA_REPORT_LOSS].count, 5);
    assert_int_equal(run.curve[MEGA_REPORT_VALIDATION].count, 1);
    assert_int_equal(run.curve[MEGA_REPORT_LOSS_SCALE].count, 0);
    need(mega_report_write(&run, 1, &page));
    assert_has(page.data, "m &amp; n");
    assert_has(page.data, "<tr><th>last training loss</th><td>1.5</td></tr>");
    assert_has(page.data, "<tr><th>lowest validation loss</th><td>0.75</td></tr>");
    assert_has(page.data, "<tr><th>tokens per second (median)</th><td>103</td></tr>");
    assert_has(page.data, "<tr><th>parameters</th><td>7</td></tr>");
    assert_has(page.data, "<tr><th>total</th><td>2.00 kB</td></tr>");
    assert_has(page.data, "width=\"480.00\""); /* three quarters of the bar */
    assert_has(page.data, "<td title=\"ds.json, line 3\">&lt;1&gt; <small>JSON</small></td>");
    assert_has(page.data, "2 stages, 4 micro-batches; blue");
    assert_null(strstr(page.data, "<svg onload")); /* only as an image, in which nothing runs */
    assert_int_equal(count_of(page.data, "<figure"), 2);
    assert_int_equal(count_of(page.data, "class=\"differs\""), 0);
    assert_true(strstr(page.data, "<th>lr</th>") < strstr(page.data, "<details>"));
    assert_true(strstr(page.data, "<th>seed</th>") > strstr(page.data, "<details>"));
    mega_buffer_fini(&page);
    mega_report_run_fini(&run);
    mega_free(path);
}

static void two_runs(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    char *path = metrics(folder, "m.jsonl", "r1", 300), *other = metrics(folder, "o.jsonl", "r2", 3);
    mega_report_run run[2] = {0};
    mega_buffer page = {0};
    need(mega_report_read(&run[0], path, "a", NULL));
    assert_int_equal(mega_report_read(&run[1], other, "b", NULL), MEGA_OK); /* its description is of r1 */
    assert_null(run[1].about);
    need(mega_report_write(run, 2, &page));
    assert_has(page.data, "b: only its curves are shown: ");
    assert_has(page.data, "o.jsonl.run.json is of run r1");
    assert_has(page.data, "Lines are running means");
    assert_has(page.data, "a: validation");
    assert_has(page.data,
               "<tr><th>lr</th><td title=\"ds.json, line 3\">&lt;1&gt; <small>JSON</small></td><td title=\"\"> ");
    mega_buffer_fini(&page);
    for (int i = 0; i < 2; i++) mega_report_run_fini(&run[i]);
    mega_free(path);
    mega_free(other);
}

static int attempt(void *user)
{
    mega_report_run run = {0};
    mega_buffer page = {0};
    mega_status st = mega_report_read(&run, user, "a", NULL);
    if (st == MEGA_OK) st = mega_report_write(&run, 1, &page);
    mega_buffer_fini(&page);
    mega_report_run_fini(&run);
    return (int)st;
}

static void out_of_memory(void **state)
{
    (void)state;
    char *path = metrics(mega_kit_temp_folder(), "m.jsonl", "r1", 12);
    assert_true(mega_kit_fail_each_allocation(attempt, path) > 20);
    mega_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_run), cmocka_unit_test(two_runs),
                                       cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
