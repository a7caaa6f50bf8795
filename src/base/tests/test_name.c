/* Names that can be keys in files, and names that cannot. */
#include "kit.h"
#include "megalith/name.h"

static void text_is_utf8_without_control_characters(void **state)
{
    (void)state;
    static const char *const good[] = {"",         "transformer.h.0.w", "a b\"\\",          "\xc3\xa9",
                                       "\xc2\xa0", "\xe2\x82\xac",      "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\xff\xfe", "a\n", "\t", "\x7f", "\x1b[0m", "\xc2\x80",
                                      "\xc2\x9f",                                           /* control characters */
                                      "\xc3", "a\x80", "\xe2\x82", "\xf0\x9f\x98", "\xc3(", /* incomplete sequences */
                                      "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf",       /* overlong */
                                      "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                      /* a surrogate, and code points above the last character */
                                      "\xf8\x88\x80\x80\x80"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!mega_name_is_text(good[i])) fail_msg("good name %zu is refused", i);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (mega_name_is_text(bad[i])) fail_msg("bad name %zu is accepted", i);
}

static void what_is_no_text_is_escaped(void **state)
{
    (void)state;
    char out[12];
    assert_string_equal(mega_name_escape(out, sizeof out, "a\xff\n"), "a\\xff\\x0a");
    assert_string_equal(mega_name_escape(out, sizeof out, "\xff\xff\xff"), "\\xff\\xff");
    assert_string_equal(mega_name_escape(out, sizeof out, ""), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(text_is_utf8_without_control_characters),
                                       cmocka_unit_test(what_is_no_text_is_escaped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
