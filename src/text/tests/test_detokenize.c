/* WikiText's detokenizer, rule by rule. */
#include "kit.h"
#include "megalith/detokenize.h"

#include <string.h>

static void expect(const char *text, const char *wanted)
{
    mega_buffer out = {0};
    assert_int_equal(mega_detokenize_wikitext(text, strlen(text), &out), MEGA_OK);
    assert_string_equal(out.data == NULL ? "" : out.data, wanted);
    mega_buffer_fini(&out);
}

static void every_rule(void **state)
{
    (void)state;
    expect("", "");
    expect("the dogs ' bowls", "the dogs' bowls");
    expect("a well @-@ known 1 @,@ 200 at 3 @.@ 5", "a well-known 1,200 at 3.5");
    expect("one : two ; three . four ! five ? six , seven", "one: two; three. four! five? six, seven");
    expect("( a ) [ b ] { c } \" d \"", "(a) [b] {c} \"d\"");
    expect("= = = = four = = = =", "==== four ====");
    expect("= = = three = = =", "=== three ===");
    expect("= = two = =", "== two ==");
    expect("20 \xc2\xb0 C", "20\xc2\xb0"
                            "C");
    expect("end \n next", "end\nnext");
    expect("from N to N again", "from 1 to 1 again");
    expect("the cat 's tail", "the cat's tail");
}

/* Quotes are paired from left to right over the whole text; an unpaired one stays. */
static void pairs_over_lines(void **state)
{
    (void)state;
    expect("\" a\nb \" c \" d", "\"a\nb\" c \" d");
    expect("( open", "( open");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_rule), cmocka_unit_test(pairs_over_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
