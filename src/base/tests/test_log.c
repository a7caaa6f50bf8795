/* Lines reach the sink whole, and progress lines have the right content at the right time. */
#include "kit.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/progress.h"

#include <stdlib.h>
#include <string.h>

typedef struct page {
    int lines;
    mega_log_level level;
    mega_buffer last;
} page;

static void keep_line(void *user, mega_log_level level, const char *line)
{
    page *p = user;
    p->lines++;
    p->level = level;
    mega_buffer_fini(&p->last);
    mega_buffer_puts(&p->last, line);
}

static void lines_reach_the_sink(void **state)
{
    (void)state;
    page p = {0};
    mega_info("nobody listens"); /* without a sink nothing is logged */
    mega_log_set_sink(keep_line, &p);
    mega_info("value %d", 3);
    assert_int_equal(p.level, MEGA_LOG_INFO);
    assert_string_equal(p.last.data, "value 3");
    mega_warn("careful");
    assert_int_equal(p.level, MEGA_LOG_WARN);
    mega_debug("detail");
    assert_int_equal(p.level, MEGA_LOG_DEBUG);
    char *text = mega_malloc(10001);
    memset(text, 'x', 10000);
    text[10000] = '\0';
    mega_info("%s", text);
    assert_int_equal(p.last.size, 10000);
    mega_log_set_sink(NULL, NULL);
    mega_info("gone");
    assert_int_equal(p.lines, 4);
    mega_buffer_fini(&p.last);
    mega_free(text);
}

static void progress_in_plain_lines(void **state)
{
    (void)state;
    page p = {0};
    mega_log_set_sink(keep_line, &p);
    mega_progress work;
    /* Long times, and numbers far from a rounding boundary, because the test itself takes milliseconds. */
    mega_progress_begin(&work, "tokenizing", "documents", 80400000, 0);
    work.terminal = false; /* the test itself may run on a terminal */
    mega_progress_update(&work, 1000000, 100);
    assert_int_equal(p.lines, 0); /* too early for a line */
    work.started -= 1000;
    mega_progress_update(&work, 40200000, 123456);
    assert_int_equal(p.lines, 1);
    assert_string_equal(p.last.data, "tokenizing: 50 %, 123456 documents, 40.2 of 80.4 MB, 123 documents/s, 0.04 MB/s, "
                                     "16 min 40 s left");
    mega_progress_update(&work, 50000000, 200000);
    assert_int_equal(p.lines, 1); /* at most one line per minute */
    work.last_shown -= 61;
    mega_progress_update(&work, 50000000, 200000);
    assert_int_equal(p.lines, 2);
    mega_progress_end(&work, 80400000, 400400);
    assert_int_equal(p.lines, 3);
    assert_string_equal(p.last.data, "tokenizing: 400400 documents, 80.4 MB, 400 documents/s, 0.08 MB/s, 16 min 40 s");

    mega_progress_begin(&work, "hashing", "files", 0, 8320);
    work.terminal = false;
    work.started -= 1000;
    mega_progress_update(&work, 0, 4160);
    assert_string_equal(p.last.data, "hashing: 50 %, 4160 of 8320 files, 4.16 files/s, 16 min 40 s left");
    mega_progress_begin(&work, "reading", "lines", 0, 0);
    work.terminal = false;
    work.started -= 3;
    mega_progress_update(&work, 0, 0);
    assert_string_equal(p.last.data, "reading: 0 lines, 0.00 lines/s");

    const int before = p.lines;
    mega_progress_begin(&work, "quick", "items", 0, 0);
    mega_progress_end(&work, 0, 1);
    assert_int_equal(p.lines, before); /* nothing for short work */
    mega_log_set_sink(NULL, NULL);
    mega_buffer_fini(&p.last);
}

static void bytes(void **state)
{
    (void)state;
    char text[32];
    mega_format_bytes(text, sizeof text, 1);
    assert_string_equal(text, "1 byte");
    mega_format_bytes(text, sizeof text, 873);
    assert_string_equal(text, "873 bytes");
    mega_format_bytes(text, sizeof text, 12345);
    assert_string_equal(text, "12.3 kB");
    mega_format_bytes(text, sizeof text, 5.25e9);
    assert_string_equal(text, "5250.00 MB");
}

static void durations(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } rows[] = {{0, "0 ms"},
                {-1, "0 ms"},
                {0.0123, "12 ms"},
                {0.9996, "1.0 s"},
                {3.44, "3.4 s"},
                {59.94, "59.9 s"},
                {59.96, "1 min 00 s"},
                {125, "2 min 05 s"},
                {3599.4, "59 min 59 s"},
                {3599.6, "1 h 00 min"},
                {3720, "1 h 02 min"},
                {200000, "2 d 08 h"}};
    char text[32];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mega_format_duration(text, sizeof text, rows[i].seconds);
        assert_string_equal(text, rows[i].text);
    }
    char tiny[4];
    mega_format_duration(tiny, sizeof tiny, 125);
    assert_string_equal(tiny, "2 m");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_reach_the_sink),
        cmocka_unit_test(progress_in_plain_lines),
        cmocka_unit_test(bytes),
        cmocka_unit_test(durations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
