/* The JSON cursor: how strings are decoded, where mistakes are reported, and tokenizer files that are truncated or
 * changed at every byte, which must be refused or accepted but never crash. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/json_cursor.h"
#include "megalith/tokenizer.h"
#include <string.h>

#define EIGHT(text) text text text text text text text text

static void strings(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text;
        size_t n;
    } rows[] = {
        {"\"\"", "", 0},
        {"  \"plain\"", "plain", 5},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
        {"\"\\u0041\\u00e9\\u65E5\"", "Aé日", 6},
        {"\"\\ud83d\\ude00\"", "😀", 4},
        {"\"a\\u0000b\"", "a\0b", 3},
        {"\"日本\"", "日本", 6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mega_cursor c;
        mega_cursor_init(&c, "t", rows[i].json, strlen(rows[i].json));
        if (mega_cursor_string(&c) != MEGA_OK) fail_msg("%s: %s", rows[i].json, mega_error_message());
        assert_int_equal(c.string.size, rows[i].n);
        if (rows[i].n > 0) assert_memory_equal(c.string.data, rows[i].text, rows[i].n);
        assert_int_equal(mega_cursor_end(&c), MEGA_OK);
        mega_buffer again = {0};
        assert_true(mega_json_quote(&again, rows[i].text, rows[i].n));
        mega_cursor_fini(&c);
        mega_cursor_init(&c, "t", again.data, again.size);
        assert_int_equal(mega_cursor_string(&c), MEGA_OK);
        assert_int_equal(c.string.size, rows[i].n);
        if (rows[i].n > 0) assert_memory_equal(c.string.data, rows[i].text, rows[i].n);
        mega_cursor_fini(&c);
        mega_buffer_fini(&again);
    }
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *json, *message;
    } rows[] = {
        {"", "column 1: found the end of the file, expected a value"},
        {"\"abc", "line 1 column 1: this string has no end"},
        {"[1,\n  \"a\\x\"]", "line 2 column 5: '\\x' is not a JSON escape"},
        {"\"\\u12\"", "four hexadecimal digits"},
        {"\"\\ud800\"", "half of a surrogate pair"},
        {"\"\\ud800\\u0041\"", "half of a surrogate pair"},
        {"\"\\udc00\"", "half of a surrogate pair"},
        {"\"a\nb\"", "a control character inside a string; write \\u000a"},
        {"\"\xFF\"", "a byte that is not UTF-8"},
        {"\"\xED\xA0\x80\"", "a byte that is not UTF-8"},
        {"[1 2]", "expected ',' or ']'"},
        {"[1,]", "a value must follow ','"},
        {"{\"a\" 1}", "expected ':'"},
        {"{1:2}", "found a number, expected a string"},
        {"[nul]", "expected a value"},
        {EIGHT(EIGHT(EIGHT("[["))), "nested deeper than 512"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mega_cursor c;
        mega_cursor_init(&c, "name.json", rows[i].json, strlen(rows[i].json));
        assert_int_equal(mega_cursor_skip(&c), MEGA_ERR_FORMAT);
        if (strstr(mega_error_message(), rows[i].message) == NULL ||
            strncmp(mega_error_message(), "name.json line ", 15) != 0)
            fail_msg("%s: found '%s', expected '%s'", rows[i].json, mega_error_message(), rows[i].message);
        mega_cursor_fini(&c);
    }
}

static void integers(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        mega_status st;
        int64_t value;
    } rows[] = {{"0", MEGA_OK, 0},
                {"-17 ", MEGA_OK, -17},
                {"9223372036854775807", MEGA_OK, INT64_MAX},
                {"9223372036854775808", MEGA_ERR_FORMAT, 0},
                {"1.5", MEGA_ERR_FORMAT, 0},
                {"1e3", MEGA_ERR_FORMAT, 0},
                {"-", MEGA_ERR_FORMAT, 0},
                {"\"1\"", MEGA_ERR_FORMAT, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mega_cursor c;
        int64_t value = 0;
        mega_cursor_init(&c, "t", rows[i].json, strlen(rows[i].json));
        assert_int_equal(mega_cursor_int(&c, &value), rows[i].st);
        if (rows[i].st == MEGA_OK) assert_true(value == rows[i].value);
        mega_cursor_fini(&c);
    }
}

static const char bpe[] = "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":4,\"content\":\"<|endoftext|>\",\"single_"
                          "word\":false,\"lstrip\":false,"
                          "\"rstrip\":false,\"normalized\":false,\"special\":true}],\"normalizer\":null,\"pre_"
                          "tokenizer\":{\"type\":\"ByteLevel\","
                          "\"add_prefix_space\":false,\"use_regex\":true},\"post_processor\":{\"type\":"
                          "\"TemplateProcessing\",\"single\":[{\"Sequence\":"
                          "{\"id\":\"A\"}}]},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
                          "\"dropout\":null,\"ignore_merges\":false,"
                          "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"aba\":3},\"merges\":[[\"a\",\"b\"],\"ab a\"]}}";

/* Loads the text as tokenizer.json and uses the resulting tokenizer. */
static bool load_text(const char *path, const char *text, size_t n)
{
    mega_writer *w;
    mega_tokenizer *t;
    assert_int_equal(mega_writer_create(path, &w), MEGA_OK);
    assert_int_equal(mega_writer_write(w, text, n), MEGA_OK);
    assert_int_equal(mega_writer_close(w, false), MEGA_OK);
    if (mega_tokenizer_load(path, &t) != MEGA_OK) {
        assert_true(strlen(mega_error_message()) > 10);
        return false;
    }
    mega_encoder *e;
    mega_ids ids = {0};
    mega_buffer back = {0};
    assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
    if (mega_encoder_encode_special(e, "abaab<|endoftext|>", 18, &ids) == MEGA_OK)
        assert_int_equal(mega_tokenizer_decode(t, ids.id, ids.count, &back), MEGA_OK);
    mega_buffer_fini(&back);
    mega_ids_fini(&ids);
    mega_encoder_destroy(e);
    mega_tokenizer_destroy(t);
    return true;
}

static void broken_tokenizer_files(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "tokenizer.json");
    const size_t n = sizeof bpe - 1;
    char text[sizeof bpe];
    assert_true(load_text(path, bpe, n));
    for (size_t cut = 0; cut < n; cut++) assert_false(load_text(path, bpe, cut));
    uint64_t x = 88172645463325252ull;
    int taken = 0;
    for (int round = 0; round < 500; round++) {
        memcpy(text, bpe, sizeof bpe);
        for (int k = 0; k <= round % 3; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            static const char likely[] = "{}[]\",:0129-tfn\\ab<\x80";
            text[(x >> 8) % n] = (x & 1) != 0 ? likely[(x >> 40) % (sizeof likely - 1)] : (char)(x >> 40);
        }
        taken += load_text(path, text, n);
    }
    assert_true(taken > 15 && taken < 400); /* a change at most of the bytes matters */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(integers),
        cmocka_unit_test(broken_tokenizer_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
