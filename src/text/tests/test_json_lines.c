/* Extracting strings from a line of JSON: what is accepted, what is refused and at which column. */
#include "documents/documents_impl.h"
#include "documents/json_scan.h"
#include "kit.h"
#include <stdio.h>
#include <string.h>

static bool take(const char *line, const char *key, mega_buffer *out, mega_document_fault *fault)
{
    return mega_json_line_strings(line, strlen(line), &key, 1, out, fault);
}

static void expect_text(const char *line, const char *text, size_t bytes)
{
    mega_buffer out = {0};
    mega_document_fault fault;
    if (!take(line, "text", &out, &fault)) fail_msg("%s: column %lld: %s", line, (long long)fault.column, fault.what);
    assert_int_equal(out.size, bytes);
    if (bytes > 0) assert_memory_equal(out.data, text, bytes);
    mega_buffer_fini(&out);
}

static void expect_fault(const char *line, int64_t column, const char *what)
{
    mega_buffer out = {0};
    mega_document_fault fault;
    if (take(line, "text", &out, &fault)) fail_msg("%s: expected a fault", line);
    if (strstr(fault.what, what) == NULL || fault.column != column)
        fail_msg("%s: column %lld: \"%s\", expected column %lld: \"%s\"", line, (long long)fault.column, fault.what,
                 (long long)column, what);
    mega_buffer_fini(&out);
}

static void good_lines(void **state)
{
    (void)state;
    expect_text("{\"text\": \"abc\"}", "abc", 3);
    expect_text(" \t{ \"text\" :\"\" } \r", "", 0);
    expect_text("{\"text\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}", "\"\\/\b\f\n\r\t", 8);
    expect_text("{\"text\":\"a\\u0041\\u00e9\\u20ac\\uD83D\\ude00z\"}", "aA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z", 12);
    expect_text("{\"text\":\"a\\u0000b\"}", "a\0b", 3);
    expect_text("{\"text\":\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"}", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9);
    expect_text("{\"a\":[1,-2.5e+3,{\"text\":\"no\"},[],{}],\"text\":\"yes\",\"b\":{\"c\":[null,true,false]}}", "yes",
                3);
    expect_text("{\"text\":\"first\",\"text\":\"last\"}", "last", 4);
    expect_text("{\"t\\u0065xt\":\"x\"}", "x", 1);
    expect_text("{\"a\":NaN,\"b\":-Infinity,\"c\":Infinity,\"d\":0,\"e\":-0.0,\"text\":\"x\"}", "x", 1);
}

static void several_keys(void **state)
{
    (void)state;
    const char *line = "{\"b\":\"B\",\"a\":\"A\",\"c\":1}";
    const char *keys[2] = {"a", "b"};
    mega_buffer out[2] = {{0}};
    mega_document_fault fault;
    assert_true(mega_json_line_strings(line, strlen(line), keys, 2, out, &fault));
    assert_memory_equal(out[0].data, "A", 1);
    assert_memory_equal(out[1].data, "B", 1);
    for (int i = 0; i < 2; i++) mega_buffer_fini(&out[i]);
}

static void broken_lines(void **state)
{
    (void)state;
    expect_fault("", 1, "expected a JSON object");
    expect_fault("hello", 1, "expected a JSON object");
    expect_fault("[\"text\"]", 1, "expected a JSON object");
    expect_fault("{", 2, "the line ends inside an object");
    expect_fault("{\"text\": \"abc", 14, "the line ends inside a string");
    expect_fault("{\"text\": \"abc\\", 14, "the line ends inside a string");
    expect_fault("{\"text\" \"abc\"}", 9, "expected ':'");
    expect_fault("{text: \"abc\"}", 2, "expected a key in double quotes");
    expect_fault("{\"text\": \"abc\",}", 16, "expected a key in double quotes");
    expect_fault("{\"text\": 'abc'}", 10, "expected a value");
    expect_fault("{\"text\": \"abc\"} {}", 17, "found something after the object");
    expect_fault("{\"text\": \"abc\" \"b\":1}", 16, "expected ',' or '}'");
    expect_fault("{\"text\": \"a\\qb\"}", 12, "unknown escape");
    expect_fault("{\"text\": \"a\\u12g4\"}", 12, "hexadecimal");
    expect_fault("{\"text\": \"a\\ud800 b\"}", 12, "surrogate");
    expect_fault("{\"text\": \"a\\udc00\\ud800\"}", 12, "surrogate");
    expect_fault("{\"text\": \"a\\ud800\\u0041\"}", 12, "surrogate");
    expect_fault("{\"text\": \"a\tb\"}", 12, "control character");
    expect_fault("{\"text\": \"\xc3\xa9\xc3\xa9\xff\"}", 13, "not UTF-8");
    expect_fault("{\"text\": \"\xc0\xaf\"}", 11, "not UTF-8");
    expect_fault("{\"text\": \"\xed\xa0\x80\"}", 11, "not UTF-8");
    expect_fault("{\"text\": \"\xf4\x90\x80\x80\"}", 11, "not UTF-8");
    expect_fault("{\"text\": \"\xe2\x82\"}", 11, "not UTF-8");
    expect_fault("{\"text\": 12}", 10, "\"text\" is a number, expected a string");
    expect_fault("{\"text\": null}", 10, "\"text\" is null, expected a string");
    expect_fault("{\"text\": [\"a\"]}", 10, "\"text\" is an array, expected a string");
    expect_fault("{\"text\": {\"a\":1}}", 10, "\"text\" is an object, expected a string");
    expect_fault("{\"text\": nul}", 10, "expected a value");
    expect_fault("{\"title\": \"a\", \"body\": 1}", 1, "no key \"text\", found \"title\", \"body\"");
    expect_fault("{}", 1, "no key \"text\", found none");
    expect_fault("{\"a\": 01, \"text\":\"\"}", 8, "expected ',' or '}'");
    expect_fault("{\"a\": 1., \"text\":\"\"}", 7, "nothing after its point");
    expect_fault("{\"a\": 1e, \"text\":\"\"}", 7, "exponent");
    expect_fault("{\"a\": -, \"text\":\"\"}", 7, "expected a value");
    expect_fault("{\"a\": [1 2], \"text\":\"\"}", 10, "expected ',' or ']'");
    expect_fault("{\"a\": [1,", 10, "where a value should be");
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    enum { DEEP = 100000 };
    static char line[DEEP + 16];
    strcpy(line, "{\"a\":");
    memset(line + 5, '[', DEEP);
    mega_buffer out = {0};
    mega_document_fault fault;
    assert_false(take(line, "text", &out, &fault));
    assert_non_null(strstr(fault.what, "nested more than 512 deep"));
    mega_buffer_fini(&out);
}

/* Every prefix of a valid line is invalid, and parsing it reads nothing past its end (the sanitizer watches the exact
 * block). */
static void every_cut_is_noticed(void **state)
{
    (void)state;
    const char good[] =
        "{\"a\":[1.5e3,{\"b\":\"\\ud83d\\ude00\"}],\"text\":\"\xe2\x82\xac\\u20ac\\n\",\"c\":-Infinity}";
    const char *key = "text";
    for (size_t n = 0; n < sizeof good - 1; n++) {
        char *exact = mega_malloc(n + 1); /* size 0 is refused by some allocators */
        memcpy(exact + 1, good, n);
        mega_buffer out = {0};
        mega_document_fault fault;
        assert_false(mega_json_line_strings(exact + 1, n, &key, 1, &out, &fault));
        mega_buffer_fini(&out);
        mega_free(exact);
    }
}

/* For every byte at every position of a block, followed by every other byte, each variant stops where the plain one
 * does. The block has the exact size, so that the sanitizer detects a read past it. */
static void runs_are_equal(void **state)
{
    (void)state;
    for (size_t n = 0; n <= 71; n++) {
        uint8_t *p = mega_malloc(n + 1);
        memset(p, 'a', n);
        for (int isa = MEGA_ISA_PORTABLE; isa <= (int)mega_cpu_isa(); isa++)
            assert_int_equal(mega_json_run_for((mega_isa)isa)(p + 1, n > 0 ? n - 1 : 0), n > 0 ? n - 1 : 0);
        for (size_t at = 0; at < n; at++) {
            for (int byte = 0; byte < 256; byte++) {
                memset(p, 'a' + (int)at % 20, n);
                p[at] = (uint8_t)byte;
                if (at + 1 < n) p[at + 1] = (uint8_t)(byte * 7);
                const size_t plain = mega_json_run_plain(p, n);
                for (int isa = MEGA_ISA_PORTABLE; isa <= (int)mega_cpu_isa(); isa++)
                    assert_int_equal(mega_json_run_for((mega_isa)isa)(p, n), plain);
            }
        }
        mega_free(p);
    }
}

/* A string without escapes is not copied; a string with escapes, and a later value of the same key, are correct as
 * well. */
static void views_point_into_the_line(void **state)
{
    (void)state;
    const char *keys[2] = {"a", "b"};
    const char line[] = "{\"a\": \"one \\n two\", \"b\": \"p\\u00e9q\", \"a\": \"as it is\"}";
    mega_buffer space[2] = {{0}, {0}};
    mega_document_text text[2];
    mega_document_fault fault;
    assert_true(mega_json_line_views(line, sizeof line - 1, keys, 2, space, text, &fault));
    assert_ptr_equal(text[0].text, strstr(line, "as it is"));
    assert_int_equal(text[0].bytes, 8);
    assert_int_equal(text[1].bytes, 4);
    assert_memory_equal(text[1].text, "p\xc3\xa9q", 4);
    assert_true(mega_json_line_strings(line, sizeof line - 1, keys, 2, space, &fault));
    assert_string_equal(space[0].data, "as it is");
    assert_int_equal(space[0].size, 8);
    mega_buffer_fini(&space[0]);
    mega_buffer_fini(&space[1]);
}

static void long_key_lists_are_cut(void **state)
{
    (void)state;
    char line[4096] = "{";
    for (int i = 0; i < 60; i++) sprintf(line + strlen(line), "%s\"some_key_%d\":%d", i > 0 ? "," : "", i, i);
    strcat(line, "}");
    expect_fault(line, 1, "found \"some_key_0\", ");
    expect_fault(line, 1, ", …");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_lines),           cmocka_unit_test(several_keys),
        cmocka_unit_test(broken_lines),         cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(every_cut_is_noticed), cmocka_unit_test(long_key_lists_are_cut),
        cmocka_unit_test(runs_are_equal),       cmocka_unit_test(views_point_into_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
