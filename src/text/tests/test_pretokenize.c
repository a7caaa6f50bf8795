/* Compares the state machine with the pattern itself, run by PCRE2 on random text, if PCRE2 was found at build time. */
#include "kit.h"
#include "megalith/memory.h"
#include "megalith/utf8.h"
#include "pretokenize.h"
#include "unicode.h"
#include <stdio.h>
#include <string.h>

#ifdef MEGA_HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* \s spelled out, because PCRE2's own \s treats U+180E differently. */
#define WS "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
static const char pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+|[" WS "]+(?![^" WS "])|[" WS "]+";

static pcre2_code *compile(const char *text)
{
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &error, &at, NULL);
    if (code == NULL) fail_msg("the pattern does not compile: error %d at %zu", error, at);
    return code;
}

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

static void compare(pcre2_code *code, pcre2_match_data *match, const uint8_t *text, size_t n, mega_buffer *utf8,
                    size_t *origin)
{
    to_utf8(text, n, utf8, origin);
    size_t at = 0, there = 0;
    while (at < n) {
        const int found = pcre2_match(code, (PCRE2_SPTR)utf8->data, utf8->size, there,
                                      PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, match, NULL);
        assert_true(found > 0);
        there = pcre2_get_ovector_pointer(match)[1];
        const size_t end = mega_word_end(text, at, n);
        if (end != origin[there])
            fail_msg("word at byte %zu of %zu: ends at %zu, the pattern says %zu", at, n, end, origin[there]);
        at = end;
    }
    assert_int_equal(there, utf8->size);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Code points whose class is the same for PCRE2 (of an older or newer Unicode) and for our table. */
static uint32_t *agreed_code_points(size_t *out_count)
{
    pcre2_code *code = compile("(\\p{L})|(\\p{N})|([" WS "])|(.)");
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(code, NULL);
    uint32_t *list = mega_malloc(0x110000 * sizeof *list);
    size_t count = 0, disputed = 0;
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        if (cp >= 0xD800 && cp < 0xE000) continue;
        char bytes[4];
        const int n = mega_utf8_encode(cp, bytes);
        const int group = pcre2_match(code, (PCRE2_SPTR)bytes, (PCRE2_SIZE)n, 0, 0, match, NULL) - 2;
        static const int class[] = {MEGA_CLASS_LETTER, MEGA_CLASS_NUMBER, MEGA_CLASS_SPACE, MEGA_CLASS_OTHER};
        if (group < 0 ? unicode_class(cp) == MEGA_CLASS_OTHER : unicode_class(cp) == class[group]) list[count++] = cp;
        else
            disputed++;
    }
    assert_true(disputed <
                12000); /* PCRE2 may have an older or newer Unicode, but that explains only so many differences */
    pcre2_match_data_free(match);
    pcre2_code_free(code);
    *out_count = count;
    return list;
}

/* A text in which the characters that the pattern distinguishes are frequent. */
static size_t random_text(uint8_t *text, size_t limit, uint64_t *state, const uint32_t *list, size_t count)
{
    static const char *const likely[] = {
        "'s",       "'re", "'ll", "'",  " ",    "  ",   "\n",       "\t",           "a",        "Z",
        "l",        "e",   "7",   "42", "!",    "_",    "\xC2\xA0", "\xE3\x80\x80", "é",        "日",
        "\xCC\x81", "٣",   "²",   "😀",  "\xFF", "\xC3", "\xE2\x80", "\xED\xA0\x80", "\xC0\x80", "\x80"};
    size_t n = 0;
    const size_t wanted = next_random(state) % limit;
    while (n < wanted) {
        const uint64_t r = next_random(state);
        if (r % 4 != 0) {
            const char *piece = likely[(r >> 8) % (sizeof likely / sizeof likely[0])];
            memcpy(text + n, piece, strlen(piece));
            n += strlen(piece);
        } else if (r % 16 == 4) {
            text[n++] = (uint8_t)(r >> 8);
        } else {
            char bytes[4];
            const int length = mega_utf8_encode(list[(r >> 8) % count], bytes);
            memcpy(text + n, bytes, (size_t)length);
            n += (size_t)length;
        }
    }
    return n;
}

static void equals_the_pattern(void **unused)
{
    (void)unused;
    size_t count;
    uint32_t *list = agreed_code_points(&count);
    pcre2_code *code = compile(pattern);
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(code, NULL);
    enum { LIMIT = 200 };
    uint8_t text[LIMIT + 8];
    size_t origin[(LIMIT + 8) * 4];
    mega_buffer utf8 = {0};
    uint64_t state = 88172645463325252ull;
    for (int round = 0; round < 20000; round++) {
        const size_t n = random_text(text, LIMIT, &state, list, count);
        compare(code, match, text, n, &utf8, origin);
    }
    for (int round = 0; round < 5000; round++) { /* random bytes only */
        const size_t n = next_random(&state) % LIMIT;
        for (size_t i = 0; i < n; i++) text[i] = (uint8_t)next_random(&state);
        compare(code, match, text, n, &utf8, origin);
    }
    mega_buffer_fini(&utf8);
    pcre2_match_data_free(match);
    pcre2_code_free(code);
    mega_free(list);
}
#else
static void equals_the_pattern(void **state)
{
    (void)state;
    mega_kit_skip("PCRE2 was not found at build time (Debian package libpcre2-dev)");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_the_pattern)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
