/* The error record: one per thread, with context from callers, never overrun. */
#include "kit.h"
#include "megalith/status.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static mega_status inner(void)
{
    return MEGA_FAIL(MEGA_ERR_FORMAT, "file %s: found %d, expected %d", "a.bin", 1, 2);
}

static mega_status outer(void)
{
    MEGA_TRY(inner());
    return MEGA_OK;
}

static void message_passes_up(void **state)
{
    (void)state;
    assert_int_equal(outer(), MEGA_ERR_FORMAT);
    assert_string_equal(mega_error_message(), "file a.bin: found 1, expected 2");
    assert_non_null(strstr(mega_error_where(), "test_status.c:"));
    MEGA_CONTEXT("loading layer %d", 3);
    assert_string_equal(mega_error_message(), "loading layer 3: file a.bin: found 1, expected 2");
    mega_error_clear();
    assert_string_equal(mega_error_message(), "");
    assert_string_equal(mega_error_where(), "");
}

static void message_may_quote_the_last_one(void **state)
{
    (void)state;
    inner();
    assert_int_equal(MEGA_FAIL(MEGA_ERR_IO, "[%s]", mega_error_message()), MEGA_ERR_IO);
    assert_string_equal(mega_error_message(), "[file a.bin: found 1, expected 2]");
    MEGA_CONTEXT("<%s>", mega_error_message());
    assert_string_equal(mega_error_message(), "<[file a.bin: found 1, expected 2]>: [file a.bin: found 1, expected 2]");
}

/* A failure without a message still gets a record with its status. */
static void a_failure_without_a_record_gets_one(void **state)
{
    (void)state;
    mega_error_record r;
    mega_error_clear();
    mega_error_get_of(MEGA_ERR_USAGE, &r);
    assert_int_equal(r.code, MEGA_ERR_USAGE);
    assert_non_null(strstr(r.text, "the status \"usage\" (1) without a message"));
    assert_null(strstr(r.text, "the last message"));
    inner(); /* leaves the record of an earlier failure */
    mega_error_get_of(MEGA_ERR_IO, &r);
    assert_int_equal(mega_error_restore(&r), MEGA_ERR_IO);
    assert_non_null(strstr(r.text, "the last message of this thread is: file a.bin"));
    inner();
    mega_error_get_of(MEGA_ERR_FORMAT, &r);
    assert_string_equal(r.text, "file a.bin: found 1, expected 2");
}

static void long_messages_are_cut_between_characters(void **state)
{
    (void)state;
    char text[3 * MEGA_ERROR_BYTES];
    for (int lead = 0; lead < 3; lead++) { /* the limit may fall before, or inside, the three bytes of "…" */
        memset(text, 'x', (size_t)lead);
        for (size_t i = (size_t)lead; i + 3 < sizeof text; i += 3) memcpy(text + i, "\xE2\x80\xA6", 4);
        MEGA_FAIL(MEGA_ERR_IO, "%s", text);
        const size_t n = strlen(mega_error_message());
        assert_in_range(n, MEGA_ERROR_BYTES - 4, MEGA_ERROR_BYTES - 1);
        assert_int_equal((n - (size_t)lead) % 3, 0);
        MEGA_CONTEXT("reading %s", "it");
        const size_t longer = strlen(mega_error_message());
        assert_in_range(longer, MEGA_ERROR_BYTES - 4, MEGA_ERROR_BYTES - 1);
        assert_int_equal((longer - (size_t)lead - strlen("reading it: ")) % 3, 0);
    }
    MEGA_FAIL(MEGA_ERR_IO, "the cause");
    MEGA_CONTEXT("%s", text); /* a context that is too long must not displace the cause */
    assert_string_equal(mega_error_message(), "the cause");
}

static void *fail_elsewhere(void *out)
{
    MEGA_FAIL(MEGA_ERR_NUMERIC, "from the other thread");
    mega_error_get(out);
    return NULL;
}

static void record_is_per_thread_and_moves(void **state)
{
    (void)state;
    MEGA_FAIL(MEGA_ERR_USAGE, "from this thread");
    char here[96];
    snprintf(here, sizeof here, "%s", mega_error_where());
    mega_error_record record;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &record), 0);
    pthread_join(thread, NULL);
    assert_string_equal(mega_error_message(), "from this thread");
    assert_string_equal(mega_error_where(), here);
    assert_string_not_equal(record.where, here);
    assert_int_equal(mega_error_restore(&record), MEGA_ERR_NUMERIC);
    assert_string_equal(mega_error_message(), "from the other thread");
    assert_string_equal(mega_error_where(), record.where);
}

static void every_status_has_its_own_name(void **state)
{
    (void)state;
    for (int a = MEGA_OK; a <= MEGA_ERR_COMM; a++) {
        assert_string_not_equal(mega_status_name((mega_status)a), "unknown");
        for (int b = MEGA_OK; b < a; b++) {
            assert_string_not_equal(mega_status_name((mega_status)a), mega_status_name((mega_status)b));
        }
    }
    assert_string_equal(mega_status_name((mega_status)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_passes_up),
        cmocka_unit_test(message_may_quote_the_last_one),
        cmocka_unit_test(a_failure_without_a_record_gets_one),
        cmocka_unit_test(long_messages_are_cut_between_characters),
        cmocka_unit_test(record_is_per_thread_and_moves),
        cmocka_unit_test(every_status_has_its_own_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
