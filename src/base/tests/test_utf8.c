/* UTF-8: every character survives a round trip, nothing else is decoded, and the length of the valid part of a text. */
#include "kit.h"
#include "megalith/utf8.h"
#include <string.h>

enum { CODE_POINTS = 0x110000 };

static void characters_round_trip(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp < CODE_POINTS; cp++) {
        if (cp >= 0xD800 && cp < 0xE000) continue;
        char bytes[4] = {0};
        uint32_t back = 0;
        const int n = mega_utf8_encode(cp, bytes);
        assert_int_equal(mega_utf8_decode((const uint8_t *)bytes, (size_t)n, &back), n);
        assert_int_equal(back, cp);
        for (int cut = 1; cut < n; cut++)
            assert_int_equal(mega_utf8_decode((const uint8_t *)bytes, (size_t)cut, &back), 0);
    }
}

/* Every two-byte beginning with every relevant third byte: only sequences that survive a round trip are well formed. */
static void all_else_is_refused(void **state)
{
    (void)state;
    static const uint8_t tail[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF};
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++)
            for (size_t c = 0; c < sizeof tail; c++)
                for (size_t d = 0; d < sizeof tail; d++) {
                    const uint8_t text[4] = {(uint8_t)a, (uint8_t)b, tail[c], tail[d]};
                    uint32_t cp = 0;
                    const int n = mega_utf8_decode(text, 4, &cp);
                    if (n == 0) continue;
                    char again[4];
                    assert_true(cp < CODE_POINTS && (cp < 0xD800 || cp > 0xDFFF));
                    assert_int_equal(mega_utf8_encode(cp, again), n);
                    assert_memory_equal(again, text, n);
                }
}

static void valid_bytes_and_characters(void **state)
{
    (void)state;
    assert_int_equal(mega_utf8_valid_bytes("abcdefghijklmnop\xc3\xa9", 18), 18);
    assert_int_equal(mega_utf8_valid_bytes("abcdefghijklmnop\xc3", 17), 16);
    assert_int_equal(mega_utf8_valid_bytes("abcdefghi\x80jklmnop", 17), 9);
    assert_int_equal(mega_utf8_count("a\xc3\xa9\xf0\x9f\x98\x80", 7), 3);
}

static void incomplete_ends(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
    } rows[] = {{"", 0},
                {"abc", 0},
                {"\xC3\xA9", 0},
                {"a\xC3", 1},
                {"\xE6\x97", 2},
                {"\xE6", 1},
                {"\xE6\x97\xA5", 0},
                {"\xF0\x9F\x98", 3},
                {"\xF0\x9F\x98\x80", 0},
                {"\x80\x80", 0},
                {"\xFF", 0},
                {"\xC1", 0},
                {"\xF5\x80", 0},
                {"a\xF0\x9F", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(mega_utf8_incomplete(rows[i].text, strlen(rows[i].text)), rows[i].bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_round_trip),
        cmocka_unit_test(all_else_is_refused),
        cmocka_unit_test(valid_bytes_and_characters),
        cmocka_unit_test(incomplete_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
