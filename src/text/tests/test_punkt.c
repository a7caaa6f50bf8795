/* Sentences of our own texts: what ends one, with parameters that are read, listed by a user, or learnt. The peer's
 * cuts in every language are compared by golden_test_punkt. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/punkt.h"
#include <stdio.h>
#include <string.h>

static mega_punkt *make(const char *language)
{
    mega_punkt *p;
    need(mega_punkt_create(language, &p));
    return p;
}

/* Cuts the text; the sentences must be those between the bars of `expected`. */
static void expect_cuts(const mega_punkt *p, const char *text, bool keep, const char *expected)
{
    mega_sentence_spans s = {0};
    mega_buffer found = {0};
    need(mega_punkt_cut(p, text, strlen(text), keep, &s));
    for (int64_t i = 0; i < s.count; i++) {
        if (i > 0) mega_buffer_puts(&found, "|");
        mega_buffer_append(&found, text + s.span[i].begin, s.span[i].end - s.span[i].begin);
    }
    assert_string_equal(found.data != NULL ? found.data : "", expected);
    mega_buffer_fini(&found);
    mega_sentence_spans_fini(&s);
}

static const char *write_folder(const char *const content[5])
{
    static const char *const name[5] = {"abbrev_types.txt", "collocations.tab", "sent_starters.txt",
                                        "ortho_context.tab", "numeric_abbrev_types.txt"};
    const char *folder = mega_kit_temp_folder();
    for (int i = 0; i < 5; i++)
        if (content[i] != NULL) mega_kit_write(mega_kit_path(folder, name[i]), content[i]);
    return folder;
}

/* The rules alone: there is no parameter. */
static void rules_alone(void **state)
{
    (void)state;
    mega_punkt *p = make(NULL);
    static const struct {
        const char *text, *expected;
    } row[] = {
        {"", ""},
        {"  \n ", ""},
        {"No end", "No end"},
        {" One.  Two!\nThree? Four ", " One.|Two!|Three?|Four"},
        {"Pi is 3.14 or so. It is.", "Pi is 3.14 or so.|It is."},
        {"He said (\"No.\") It was so.", "He said (\"No.\")|It was so."},
        {"\u00abOui.\u00bb Il part. \u201cYes.\u201d She goes.",
         "\u00abOui.\u00bb|Il part.|\u201cYes.\u201d|She goes."},
        {"Wow!!! And?! Well...", "Wow!!!|And?!|Well..."},
        {"Wait . . . what? Yes", "Wait . . .|what?|Yes"},
        {"A. Smith came. he left.", "A. Smith came.|he left."},
        {"The 3. day. Then", "The 3. day.|Then"},
        {"One.\u00a0Two.\u3000Three", "One.\u00a0Two.|Three"},
        {"bytes \xff\xfe. That is all", "bytes \xff\xfe.|That is all"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) expect_cuts(p, row[i].text, false, row[i].expected);
    expect_cuts(p, "One.\n\nTwo.  \nThree", true, "One.\n\n|Two.  \n|Three");
    mega_punkt_destroy(p);
}

static void parameters(void **state)
{
    (void)state;
    mega_punkt *p = make("english");
    need(mega_punkt_read(
        p, write_folder((const char *const[]){"dr\nco\ne.g\netc\n", "s\tbach\n##number##\tmay\n", "however\n",
                                              "the\t46\nhe\t34\nbach\t4\nday\t32\nmay\t34\n", "no\n"})));
    static const struct {
        const char *text, *expected;
    } row[] = {
        {"Dr. Who left. Then", "Dr. Who left.|Then"},
        {"A mining-co. in town. Then", "A mining-co. in town.|Then"},
        {"Bread, etc. He left.", "Bread, etc.|He left."}, /* section 4.1.1: "he" is never inside of sentences */
        {"Bread, etc. However it is.", "Bread, etc.|However it is."}, /* section 4.1.3 */
        {"Johann S. Bach came. Then", "Johann S. Bach came.|Then"},   /* section 4.1.2 */
        {"On 3. May it was. May it", "On 3. May it was.|May it"},
        {"See no. 5 there. It is no. Not at all.", "See no. 5 there.|It is no.|Not at all."},
        {"The 3. day came. Then",
         "The 3. day came.|Then"}, /* section 4.3: "day" is small inside of sentences, and never begins one */
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) expect_cuts(p, row[i].text, false, row[i].expected);
    const char *again = mega_kit_path(mega_kit_temp_folder(), "written");
    need(mega_punkt_write(p, again));
    mega_punkt *q = make(NULL);
    need(mega_punkt_read(q, again));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) expect_cuts(q, row[i].text, false, row[i].expected);
    mega_punkt_destroy(p);
    mega_punkt_destroy(q);
}

static void list_of_abbreviations(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "list");
    static const char list[] = "# ours\nApprox.\n  \xc3\x84rzt \r\n\nU.S\n";
    mega_kit_write(path, list);
    mega_punkt *p = make(NULL);
    expect_cuts(p, "It is approx. Ten.", false, "It is approx.|Ten.");
    need(mega_punkt_read_abbreviations(p, path));
    expect_cuts(p,
                "It is approx. Ten \xc3\xa4rzt. Kr\xc3\xa4"
                "fte in the U.S. Army.",
                false,
                "It is approx. Ten \xc3\xa4rzt. Kr\xc3\xa4"
                "fte in the U.S. Army.");
    assert_int_equal(mega_punkt_read_abbreviations(p, "no such file"), MEGA_ERR_NOT_FOUND);
    mega_punkt_destroy(p);
}

static void languages(void **state)
{
    (void)state;
    static const struct {
        const char *language, *text, *expected;
    } row[] = {
        {"chinese", "\u6211\u770b\u3002\u4ed6\u8bf4\uff1a\u201c\u597d\uff01\u201d\u8d70\u4e86 3.5 km.\u597d",
         "\u6211\u770b\u3002|\u4ed6\u8bf4\uff1a\u201c\u597d\uff01\u201d|\u8d70\u4e86 3.5 km.\u597d"},
        {"JAPANESE", "\u300c\u3044\u3044\u3002\u300d\u305d\u308c\u304b\u3089\u3002",
         "\u300c\u3044\u3044\u3002\u300d|\u305d\u308c\u304b\u3089\u3002"},
        {"greek", "\u03a0\u03bf\u03b9\u03bf\u03c2; \u0395\u03b3\u03ce. ",
         "\u03a0\u03bf\u03b9\u03bf\u03c2;|\u0395\u03b3\u03ce."},
        {"hindi", "\u092f\u0939\u0964 \u0935\u0939 \u0939\u0948\u0964",
         "\u092f\u0939\u0964|\u0935\u0939 \u0939\u0948\u0964"},
        {"ur", "\u06cc\u06c1\u06d4 \u0648\u06c1\u061f", "\u06cc\u06c1\u06d4|\u0648\u06c1\u061f"},
        {"german", "Das; ja. Und", "Das; ja.|Und"},
        {"chin", "One\u3002two. Three", "One\u3002two.|Three"}, /* no language: the rules of European ones */
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        mega_punkt *p = make(row[i].language);
        expect_cuts(p, row[i].text, false, row[i].expected);
        mega_punkt_destroy(p);
    }
    assert_true(mega_punkt_knows("German") && mega_punkt_knows("zh") && !mega_punkt_knows("chines") &&
                !mega_punkt_knows("") && !mega_punkt_knows(NULL));
    assert_true(mega_punkt_needs_none("Chinese") && !mega_punkt_needs_none("korean") && !mega_punkt_needs_none(NULL));
}

static void learning(void **state)
{
    (void)state;
    mega_buffer text = {0};
    for (int i = 0; i < 300; i++)
        mega_buffer_printf(
            &text, "On day %d Mr. Smith met the man of word%d. However, the man saw Mr. Jones at pp. %d of it.\n", i,
            i * 7919 % 97, i);
    mega_punkt *p = make(NULL);
    const char *one = "He met Mr. Smith. However, on pp. 7 he left.";
    expect_cuts(p, one, false, "He met Mr.|Smith.|However, on pp.|7 he left.");
    mega_punkt_trainer *t;
    need(mega_punkt_trainer_create(p, &t));
    need(mega_punkt_learn(t, text.data, text.size));
    need(mega_punkt_learn(t, "", 0));
    need(mega_punkt_finish(t));
    mega_punkt_trainer_destroy(t);
    expect_cuts(p, one, false, "He met Mr. Smith.|However, on pp. 7 he left.");
    expect_cuts(p, "It is in pp. However it is.", false,
                "It is in pp.|However it is."); /* "pp" alone in front of numbers */
    mega_punkt_destroy(p);
    mega_buffer_fini(&text);
}

static void damaged_folders(void **state)
{
    (void)state;
    static const struct {
        const char *content[5];
        mega_status status;
        const char *says;
    } row[] = {
        {{"dr\n", "a\tb\n", "x\n", NULL, NULL}, MEGA_ERR_NOT_FOUND, "ortho_context.tab"},
        {{"dr\n", "a b\n", "x\n", "the\t2\n", NULL}, MEGA_ERR_FORMAT, "collocations.tab: line 1"},
        {{"dr\n", "", "x\n", "the\t2\nof\tx\n", NULL}, MEGA_ERR_FORMAT, "ortho_context.tab: line 2"},
        {{"dr\n", "", "x\n", "the\t999\n", NULL}, MEGA_ERR_FORMAT, "up to 255"},
        {{"d\tr\n", "", "x\n", "", NULL}, MEGA_ERR_FORMAT, "expected one word"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        mega_punkt *p = make(NULL);
        assert_int_equal(mega_punkt_read(p, write_folder(row[i].content)), row[i].status);
        assert_non_null(strstr(mega_error_message(), row[i].says));
        mega_punkt_destroy(p);
    }
}

static int use_all(void *user)
{
    const char *const *folder = user;
    static const char text[] = "Dr. Who (he) left. \u03a3\u0391\u03a3. On p. 5 it is.";
    mega_sentence_spans s = {0};
    mega_punkt *p = NULL;
    mega_punkt_trainer *t = NULL;
    mega_status st = mega_punkt_create("greek", &p);
    if (st == MEGA_OK) st = mega_punkt_read(p, folder[0]);
    if (st == MEGA_OK) st = mega_punkt_trainer_create(p, &t);
    if (st == MEGA_OK) st = mega_punkt_learn(t, text, sizeof text - 1);
    if (st == MEGA_OK) st = mega_punkt_finish(t);
    if (st == MEGA_OK) st = mega_punkt_cut(p, text, sizeof text - 1, false, &s);
    if (st == MEGA_OK) st = mega_punkt_write(p, folder[1]);
    mega_sentence_spans_fini(&s);
    mega_punkt_trainer_destroy(t);
    mega_punkt_destroy(p);
    return (int)st;
}

static void allocation_failures(void **state)
{
    (void)state;
    const char *folder[2] = {write_folder((const char *const[]){"dr\n", "a\tb\n", "he\n", "the\t46\n", NULL}),
                             mega_kit_path(mega_kit_temp_folder(), "out")};
    assert_true(mega_kit_fail_each_allocation(use_all, folder) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_alone),        cmocka_unit_test(parameters), cmocka_unit_test(list_of_abbreviations),
        cmocka_unit_test(languages),          cmocka_unit_test(learning),   cmocka_unit_test(damaged_folders),
        cmocka_unit_test(allocation_failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
