/* Compares the state machines of the public patterns with the patterns themselves, run by PCRE2 on random text, with
 * classes of characters from our table. */
#include "kit.h"
#include "megalith/memory.h"
#include "megalith/utf8.h"
#include "models/pretokenize.h"
#include "unicode/regex.h"
#include "unicode/unicode.h"
#include <stdio.h>
#include <string.h>

/* A byte that is not UTF-8 is one character of no class; for PCRE2 it becomes a private-use character. */
static void to_utf8(const uint8_t *text, size_t n, mega_buffer *out, size_t *origin)
{
    out->size = 0;
    for (size_t at = 0; at < n;) {
        uint32_t cp = 0;
        int length = mega_utf8_decode(text + at, n - at, &cp);
        char bytes[4];
        if (length == 0) {
            cp = 0xE000u + text[at];
            length = 1;
        }
        const int written = mega_utf8_encode(cp, bytes);
        for (int i = 0; i < written; i++) origin[out->size + (size_t)i] = at;
        assert_true(mega_buffer_append(out, bytes, (size_t)written));
        at += (size_t)length;
    }
    origin[out->size] = n;
}

/* A text in which the characters that the pattern distinguishes are frequent. */
static size_t random_text(uint8_t *text, size_t limit, uint64_t *state)
{
    static const char *const likely[] = {
        "'s",   "'re",  "'S",       "'Ve",          "'\xC5\xBF", "\r\n", "/",        "123", "'ll", "'",
        " ",    "  ",   "\n",       "\t",           "a",         "Z",    "l",        "e",   "7",   "42",
        "!",    "_",    "\xC2\xA0", "\xE3\x80\x80", "é",         "日",   "\xCC\x81", "٣",   "²",   "😀",
        "\xFF", "\xC3", "\xE2\x80", "\xED\xA0\x80", "\xC0\x80",  "\x80"};
    size_t n = 0;
    const size_t wanted = mega_kit_next(state) % limit;
    while (n < wanted) {
        const uint64_t r = mega_kit_next(state);
        if (r % 4 != 0) {
            const char *piece = likely[(r >> 8) % (sizeof likely / sizeof likely[0])];
            memcpy(text + n, piece, strlen(piece));
            n += strlen(piece);
        } else if (r % 16 == 4) {
            text[n++] = (uint8_t)(r >> 8);
        } else {
            char bytes[4];
            const uint32_t any = (uint32_t)((r >> 8) % 0x110000), low = any % 0x3000;
            const uint32_t cp = r % 32 == 0 ? any : low;
            const int length = mega_utf8_encode(cp >= 0xD800 && cp < 0xE000 ? 0x4E00 : cp, bytes);
            memcpy(text + n, bytes, (size_t)length);
            n += (size_t)length;
        }
    }
    return n;
}

static void compare(mega_split split, const mega_regex *regex, mega_regex_match *match, const uint8_t *text, size_t n,
                    mega_buffer *utf8, size_t *origin)
{
    to_utf8(text, n, utf8, origin);
    for (size_t at = 0, there = 0; at < n;) {
        bool found;
        size_t begin;
        assert_int_equal(
            mega_regex_find(regex, match, (const uint8_t *)utf8->data, utf8->size, there, &found, &begin, &there),
            MEGA_OK);
        assert_true(found);
        const size_t end = mega_split_end(split, text, at, n);
        if (end != origin[there])
            fail_msg("pattern %d, word at byte %zu of %zu: ends at %zu, the pattern says %zu", split, at, n, end,
                     origin[there]);
        at = end;
    }
}

#define GPT4_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
static const char *const patterns[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" GPT4_REST,
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" GPT4_REST,
    "[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
};

enum { LIMIT = 200, PATTERNS = sizeof patterns / sizeof patterns[0] };

static void equals_the_pattern(void **unused)
{
    (void)unused;
    uint8_t text[LIMIT + 8];
    static size_t origin[(LIMIT + 8) * 4];
    mega_buffer utf8 = {0};
    mega_regex_match *match;
    assert_int_equal(mega_regex_match_create(&match), MEGA_OK);
    for (int p = 0; p < PATTERNS; p++) {
        const mega_split split = mega_split_of(patterns[p], strlen(patterns[p]));
        uint64_t state = 88172645463325252ull;
        mega_regex *regex;
        assert_true(split != MEGA_SPLIT_NONE);
        assert_int_equal(mega_regex_compile(patterns[p], strlen(patterns[p]), &regex), MEGA_OK);
        for (int round = 0; round < 4000; round++)
            compare(split, regex, match, text, random_text(text, LIMIT, &state), &utf8, origin);
        for (int round = 0; round < 500; round++) { /* random bytes only */
            const size_t n = mega_kit_next(&state) % LIMIT;
            for (size_t i = 0; i < n; i++) text[i] = (uint8_t)mega_kit_next(&state);
            compare(split, regex, match, text, n, &utf8, origin);
        }
        mega_regex_destroy(regex);
    }
    mega_buffer_fini(&utf8);
    mega_regex_match_destroy(match);
}

/* Splits by hand: numbers one by one, and what is between them by itself. */
static void digits_come_first(void **unused)
{
    (void)unused;
    uint8_t text[LIMIT + 8];
    uint64_t state = 5;
    for (int round = 0; round < 4000; round++) {
        const size_t n = random_text(text, LIMIT, &state);
        for (size_t at = 0; at < n;) {
            size_t part = at; /* the end of the part that begins at `at` and has no number, or of the number */
            while (part < n && mega_split_end(MEGA_SPLIT_LINES1, text, part, n) > part) {
                uint32_t cp = 0;
                const int length = mega_utf8_decode(text + part, n - part, &cp);
                const bool number = length > 0 && unicode_class(cp) == MEGA_CLASS_NUMBER;
                if (number && part > at) break;
                part += length > 0 ? (size_t)length : 1;
                if (number) break;
            }
            for (const size_t end = part; at < end;) {
                const size_t expected = mega_word_end(text, at, end);
                assert_int_equal(mega_split_end(MEGA_SPLIT_DIGITS, text, at, n), expected);
                at = expected;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_the_pattern), cmocka_unit_test(digits_come_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
