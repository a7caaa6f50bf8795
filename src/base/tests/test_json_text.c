/* Appending JSON: escaped strings, and numbers that read back as the same bits. */
#include "kit.h"
#include "megalith/memory.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check(mega_buffer *b, const char *expected)
{
    assert_false(b->failed);
    assert_string_equal(b->data, expected);
    mega_buffer_fini(b);
}

static void strings(void **state)
{
    (void)state;
    mega_buffer b = {0};
    mega_buffer_json_string(&b, "");
    check(&b, "\"\"");
    mega_buffer_json_string(&b, "a\"b\\c/\b\f\n\r\t\x01\x1f\xc3\xa9\x7f");
    check(&b, "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\\u001f\xc3\xa9\x7f\"");
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        double x;
        const char *text;
    } c[] = {{0.0, "0.0"},    {-0.0, "-0.0"},     {1.0, "1.0"},     {0.1, "0.1"},
             {1e-5, "1e-05"}, {1e300, "1e+300"},  {0.02, "0.02"},   {1.0 / 3.0, "0.3333333333333333"},
             {NAN, "null"},   {INFINITY, "null"}, {100.0, "100.0"}, {5e-324, "5e-324"}};
    mega_buffer b = {0};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        mega_buffer_json_double(&b, c[i].x);
        check(&b, c[i].text);
    }
    mega_buffer_json_float(&b, 0.1f);
    check(&b, "0.1");
    mega_buffer_json_float(&b, FLT_MAX);
    check(&b, "3.4028235e+38");
}

static void read_back(void **state)
{
    (void)state;
    float f[1000];
    mega_kit_normal(f, 1000, 7);
    for (int i = 0; i < 1000; i++) {
        mega_buffer b = {0};
        const double x = exp(40.0 * f[i]) * (i % 2 != 0 ? -1.0 : 1.0);
        mega_buffer_json_double(&b, x);
        assert_true(strtod(b.data, NULL) == x);
        mega_buffer_fini(&b);
        mega_buffer_json_float(&b, f[i]);
        assert_true(strtof(b.data, NULL) == f[i]);
        mega_buffer_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(strings), cmocka_unit_test(numbers),
                                       cmocka_unit_test(read_back)};
    return cmocka_run_group_tests_name("json_text", tests, NULL, NULL);
}
