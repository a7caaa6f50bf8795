/* Tests the samples of tasks: columns of the tasks of GLUE, questions of RACE, cleaning, cutting, types, names of
 * sets. */
#include "kit.h"
#include "megalith/batch.h"
#include "megalith/labelled.h"
#include "megalith/memory.h"

#include <string.h>

enum { CLS = 300, SEP = 301, PAD = 302, LENGTH = 12 };

static mega_tokenizer *bytes;

static mega_status open_paths(const char *task, const char *const *path, size_t count, int64_t length,
                              mega_labelled **out)
{
    const mega_labelled_options o = {.task = mega_labelled_find(task),
                                     .path = path,
                                     .num_paths = count,
                                     .tokenizer = bytes,
                                     .cls = CLS,
                                     .sep = SEP,
                                     .pad = PAD,
                                     .seq_length = length};
    return mega_labelled_open(&o, out);
}

static const char *written(const char *name, const char *text)
{
    static const char *folder;
    if (folder == NULL) folder = mega_kit_temp_folder();
    const char *path = mega_kit_path(folder, name);
    mega_kit_write(path, text);
    return path;
}

/* With ByteTokenizer the tokens are the bytes of the texts; ^ stands for [CLS] and | for [SEP]. */
static void assert_sequence(const mega_labelled *l, int64_t sample, int64_t choice, const char *text, int64_t first)
{
    int64_t length, is_first;
    const int32_t *id = mega_labelled_sequence(l, sample, choice, &length, &is_first);
    if (length != (int64_t)strlen(text)) fail_msg("\"%s\": %d tokens", text, (int)length);
    for (int64_t i = 0; i < length; i++) {
        const int32_t wanted = text[i] == '^' ? CLS : text[i] == '|' ? SEP : (unsigned char)text[i];
        if (id[i] != wanted) fail_msg("\"%s\": token %d is %d", text, (int)i, id[i]);
    }
    assert_int_equal(is_first, first);
}

#define MNLI_HEAD "index\tpromptID\tpairID\tgenre\tb1\tb2\tp1\tp2\tsentence1\tsentence2"
#define MNLI_ROW  "\t1\t1\tg\tx\tx\tx\tx\t"

static void mnli_has_ten_columns_and_a_label(void **state)
{
    (void)state;
    mega_labelled *l;
    const char *path[] = {written("dev_matched.tsv", MNLI_HEAD "\tlabel1\tgold_label\n"
                                                               "0" MNLI_ROW "a  b\tc\tneutral\tentailment\n"
                                                               "1" MNLI_ROW "d . e\tf\tneutral\tcontradiction\r\n"
                                                               "2" MNLI_ROW "g\th\tx\tneutral"),
                          written("test.tsv", MNLI_HEAD "\n0" MNLI_ROW "i\tj\n")};
    need(open_paths("MNLI", path, 2, LENGTH, &l));
    assert_int_equal(mega_labelled_count(l), 4);
    assert_sequence(l, 0, 0, "^a b|c|", 5);
    assert_sequence(l, 1, 0, "^d. e|f|", 6);
    assert_int_equal(mega_labelled_label(l, 0), 1);
    assert_int_equal(mega_labelled_label(l, 1), 0);
    assert_int_equal(mega_labelled_label(l, 2), 2);
    assert_int_equal(mega_labelled_label(l, 3), 0); /* of a test file */
    assert_int_equal(mega_labelled_sets(l), 2);
    assert_string_equal(mega_labelled_set_get(l, 0)->name, "dev-matched");
    assert_int_equal(mega_labelled_set_get(l, 1)->first, 3);
    assert_int_equal(mega_labelled_set_get(l, 1)->count, 1);
    mega_labelled_close(l);
}

static void long_pairs_are_cut_at_their_end(void **state)
{
    (void)state;
    mega_labelled *l;
    const char *path[] = {written("dev.tsv", MNLI_HEAD "\tgold_label\n"
                                                       "0" MNLI_ROW "abc\tdefgh\tneutral\n"
                                                       "1" MNLI_ROW "abc\tdefg\tneutral\n"
                                                       "2" MNLI_ROW "abcdefghijk\tx\tneutral\n")};
    need(open_paths("MNLI", path, 1, 10, &l));
    assert_sequence(l, 0, 0, "^abc|defg|", 5);
    assert_sequence(l, 1, 0, "^abc|defg|", 5);
    assert_sequence(l, 2, 0, "^abcdefgh|", 9); /* the last [SEP] is of type 1 in any case */
    mega_labelled_close(l);
}

static void qqp_leaves_out_broken_rows(void **state)
{
    (void)state;
    mega_labelled *l;
    const char *path[] = {written("train.tsv", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
                                               "1\t2\t3\ta?\tb?\t1\n"
                                               "4\t5\n"
                                               "6\t7\t8\tc?\t \t0\n"
                                               "9\t10\t11\td\te\t0\n"),
                          written("test.tsv", "id\tquestion1\tquestion2\n1\tf\tg\n")};
    need(open_paths("QQP", path, 2, LENGTH, &l));
    assert_int_equal(mega_labelled_count(l), 3);
    assert_int_equal(mega_labelled_set_get(l, 0)->skipped, 2);
    assert_sequence(l, 0, 0, "^a?|b?|", 4);
    assert_int_equal(mega_labelled_label(l, 0), 1);
    assert_int_equal(mega_labelled_label(l, 1), 0);
    assert_sequence(l, 2, 0, "^f|g|", 3);
    mega_labelled_close(l);
}

static void sst2_has_one_sentence(void **state)
{
    (void)state;
    mega_labelled *l;
    const char *path[] = {written("dev.tsv", "sentence\tlabel\nab c \t1\nabcdefghijkl\t0\n"),
                          written("test.tsv", "index\tsentence\n0\td\n")};
    need(open_paths("SST-2", path, 2, LENGTH, &l));
    assert_int_equal(mega_labelled_count(l), 3);
    assert_sequence(l, 0, 0, "^ab c |", 7); /* no token is of type 1 */
    assert_sequence(l, 1, 0, "^abcdefghij|", LENGTH);
    assert_sequence(l, 2, 0, "^d|", 3);
    assert_int_equal(mega_labelled_label(l, 0), 1);
    assert_int_equal(mega_labelled_label(l, 1), 0);
    assert_int_equal(mega_labelled_label(l, 2), 0);
    mega_labelled_close(l);
}

static void cola_has_no_names_of_columns(void **state)
{
    (void)state;
    mega_labelled *l;
    const char *path[] = {written("train.tsv", "gj04\t1\t\tab\ngj04\t0\t*\tcd\n"),
                          written("test.tsv", "index\tsentence\n0\tef\n")};
    need(open_paths("CoLA", path, 2, LENGTH, &l));
    assert_int_equal(mega_labelled_set_get(l, 0)->count, 2);
    assert_sequence(l, 0, 0, "^ab|", 4);
    assert_sequence(l, 1, 0, "^cd|", 4);
    assert_sequence(l, 2, 0, "^ef|", 4);
    assert_int_equal(mega_labelled_label(l, 0), 1);
    assert_int_equal(mega_labelled_label(l, 1), 0);
    assert_true(!mega_labelled_set_get(l, 0)->is_test && mega_labelled_set_get(l, 1)->is_test);
    mega_labelled_close(l);
}

/* Where the sentences and the label of a row are; its number, or 1, is class 1. */
static void pairs_of_glue(void **state)
{
    (void)state;
    static const struct {
        const char *task, *with_labels, *test, *named;
    } tasks[] = {
        {"MRPC", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tab\tc\n0\t7\t8\tab\tc\n",
         "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\td\te\n", "equivalent"},
        {"QNLI", "index\tquestion\tsentence\tlabel\n0\tab\tc\tnot_entailment\n1\tab\tc\tentailment\n",
         "index\tquestion\tsentence\n0\td\te\n", "not_entailment"},
        {"RTE", "index\tsentence1\tsentence2\tlabel\n0\tab\tc\tnot_entailment\n1\tab\tc\tentailment\n",
         "index\tsentence1\tsentence2\n0\td\te\n", "not_entailment"},
        {"WNLI", "index\tsentence1\tsentence2\tlabel\n0\tab\tc\t1\n1\tab\tc\t0\n",
         "index\tsentence1\tsentence2\n0\td\te\n", "entailment"},
    };
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        mega_labelled *l;
        const char *path[] = {written("train.tsv", tasks[i].with_labels), written("test.tsv", tasks[i].test)};
        need(open_paths(tasks[i].task, path, 2, LENGTH, &l));
        assert_int_equal(mega_labelled_count(l), 3);
        assert_sequence(l, 0, 0, "^ab|c|", 4);
        assert_sequence(l, 2, 0, "^d|e|", 3);
        assert_int_equal(mega_labelled_label(l, 0), 1);
        assert_int_equal(mega_labelled_label(l, 1), 0);
        assert_true(!mega_labelled_set_get(l, 0)->is_test && mega_labelled_set_get(l, 1)->is_test);
        assert_int_equal(mega_labelled_label_of(mega_labelled_find(tasks[i].task), tasks[i].named), 1);
        mega_labelled_close(l);
    }
}

static void race_is_a_sequence_for_each_answer(void **state)
{
    (void)state;
    mega_labelled *l;
    const char *folder = mega_kit_temp_folder();
    mega_kit_write(mega_kit_path(folder, "b.txt"),
                   "{\"article\": \"x\", \"questions\": [\"q\", \"r _.\"], \"options\": [[\"a\", \"b\", \"c\", \"d\"], "
                   "[\"e\", \"f\", \"g\", \"h\"]], \"answers\": [\"C\", \"A\"], \"id\": \"1\"}\n\n");
    mega_kit_write(mega_kit_path(folder, "a.txt"),
                   "{\"article\": \"y\", \"questions\": [\"s\"], \"options\": [[\"i\", \"j\", \"k\", \"l\"]], "
                   "\"answers\": [\"D\"]}");
    mega_kit_write(mega_kit_path(folder, "README"), "no sample");
    need(open_paths("RACE", &folder, 1, LENGTH, &l));
    assert_int_equal(mega_labelled_count(l), 3);
    assert_sequence(l, 0, 0, "^s i|y|", 5); /* files in the order of their names */
    assert_int_equal(mega_labelled_label(l, 0), 3);
    assert_sequence(l, 1, 2, "^q c|x|", 5);
    assert_int_equal(mega_labelled_label(l, 1), 2);
    assert_sequence(l, 2, 3, "^r h.|x|", 6);
    mega_labelled_close(l);
}

static void samples_fill_the_inputs_of_a_classifier(void **state)
{
    (void)state;
    mega_labelled *l;
    mega_batch *b;
    const char *path[] = {written("dev.tsv", MNLI_HEAD "\tgold_label\n0" MNLI_ROW "ab\tc\tneutral\n")};
    const mega_batch_input input[] = {
        {.name = "tokens", .dtype = MEGA_I32, .per_sample = LENGTH},
        {.name = "token_types", .dtype = MEGA_I32, .per_sample = LENGTH, .below = 2},
        {.name = "position_ids", .dtype = MEGA_I32, .per_sample = LENGTH, .below = LENGTH},
        {.name = "key_end", .dtype = MEGA_I32, .per_sample = LENGTH, .below = LENGTH + 1},
        {.name = "label", .dtype = MEGA_I32, .per_sample = 1}};
    need(open_paths("MNLI", path, 1, LENGTH, &l));
    need(mega_batch_create(2, &b));
    for (size_t i = 0; i < sizeof input / sizeof *input; i++) need(mega_batch_add(b, &input[i], true));
    need(mega_batch_allocate(b));
    mega_batch_begin(b, 2);
    mega_labelled_fill(l, 0, false, mega_batch_sample(b, 0));
    mega_labelled_fill(l, 0, true, mega_batch_sample(b, 1));
    need(mega_batch_check(b));
    const int32_t tokens[LENGTH] = {CLS, 'a', 'b', SEP, 'c', SEP, PAD, PAD, PAD, PAD, PAD, PAD};
    assert_memory_equal(mega_sample_i32(mega_batch_sample(b, 0), "tokens", LENGTH), tokens, sizeof tokens);
    const int32_t types[LENGTH] = {0, 0, 0, 0, 1, 1};
    assert_memory_equal(mega_sample_i32(mega_batch_sample(b, 0), "token_types", LENGTH), types, sizeof types);
    assert_int_equal(mega_sample_i32(mega_batch_sample(b, 0), "key_end", LENGTH)[LENGTH - 1], 6);
    assert_int_equal(mega_sample_i32(mega_batch_sample(b, 0), "label", 1)[0], 2);
    assert_int_equal(mega_sample_i32(mega_batch_sample(b, 1), "label", 1)[0], -100);
    mega_batch_destroy(b);
    mega_labelled_close(l);
}

/* A byte order mark is no part of the first column or object. */
static void a_mark_is_passed_over(void **state)
{
    (void)state;
    mega_labelled *l;
    const char *tsv[] = {written("m.tsv", "\xef\xbb\xbfsentence\tlabel\na\t1\n")};
    need(open_paths("SST-2", tsv, 1, LENGTH, &l));
    assert_int_equal(mega_labelled_count(l), 1);
    mega_labelled_close(l);
    const char *race[] = {
        written("m.txt", "\xef\xbb\xbf{\"article\": \"x\", \"questions\": [\"q\"], \"options\": [[\"a\", \"b\", "
                         "\"c\", \"d\"]], \"answers\": [\"B\"]}\n")};
    need(open_paths("RACE", race, 1, LENGTH, &l));
    assert_int_equal(mega_labelled_label(l, 0), 1);
    mega_labelled_close(l);
}

static void count_mistake(void *user, mega_status st)
{
    if (st == MEGA_ERR_FORMAT) ++*(int *)user;
}

/* Labels in the order of a model; names of classes; the mistakes of all files; files without labels. */
static void labels_are_the_classes_of_a_model(void **state)
{
    (void)state;
    mega_labelled *l = NULL;
    int mistakes = 0;
    const char *path[] = {written("a.tsv", "sentence\tlabel\na\t1\nb\t0\n"),
                          written("b.tsv", "sentence\tlabel\na\t7\n"), written("c.tsv", "index\tsentence\n0\td\n")};
    mega_labelled_options o = {.task = mega_labelled_find("SST-2"),
                               .path = path,
                               .num_paths = 1,
                               .tokenizer = bytes,
                               .seq_length = LENGTH,
                               .order = (const int32_t[]){1, 0},
                               .needs_labels = true,
                               .mistake = count_mistake,
                               .user = &mistakes};
    need(mega_labelled_open(&o, &l));
    assert_int_equal(mega_labelled_label(l, 0), 0);
    assert_int_equal(mega_labelled_label(l, 1), 1);
    assert_false(mega_labelled_set_get(l, 0)->is_test);
    mega_labelled_close(l);
    o.num_paths = 3;
    assert_int_equal(mega_labelled_open(&o, &l), MEGA_ERR_FORMAT);
    assert_int_equal(mistakes, 2);
    assert_non_null(strstr(mega_error_message(), "c.tsv: its 2 columns are those of a test file of SST-2"));
    assert_int_equal(mega_labelled_label_of(mega_labelled_find("MNLI"), "NEUTRAL"), 2);
    assert_int_equal(mega_labelled_label_of(mega_labelled_find("QQP"), "Not Duplicate"), 0);
    assert_int_equal(mega_labelled_label_of(mega_labelled_find("QQP"), "1"), 1);
    assert_int_equal(mega_labelled_label_of(mega_labelled_find("SST-2"), "positiv"), -1);
    assert_int_equal(mega_labelled_label_of(mega_labelled_find("SST-2"), "positives"), -1);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *task, *text, *says;
    } wrong[] = {
        {"MNLI", "a\tb\n", "x.tsv:1: not the first line of such a file"},
        {"MNLI", MNLI_HEAD "\tlabel\n0" MNLI_ROW "a\tb\tyes\n", "x.tsv:2: an unknown label"},
        {"MNLI", MNLI_HEAD "\tlabel\n0" MNLI_ROW "a\t \tneutral\n", "x.tsv:2: an empty sentence"},
        {"MNLI", MNLI_HEAD "\tlabel\n0\t1\n", "x.tsv:2: not the columns of MNLI"},
        {"MNLI", MNLI_HEAD "\tlabel\n", "it holds no sample of MNLI"},
        {"QQP", "a\tb\tc\td\te\tf\n1\t2\t3\tx\ty\t2\n", "x.tsv:2: an unknown label"},
        {"SST-2", "a\tlabel\n", "expected the names of SST-2's columns: 2 that begin with sentence, in a test file 2"},
        {"SST-2", "sentence\tlabel\na\t2\n", "x.tsv:2: an unknown label; expected 0 or 1"},
        {"SST-2", "sentence\tlabel\na\n", "x.tsv:2: not the columns of SST-2; expected 2"},
        {"CoLA", "a\tb\n", "expected a row of CoLA's columns: 4, in a test file names of 2 that begin with index"},
        {"CoLA", "source\tlabel\tmark\tsentence\na\t1\t\tb\n",
         "x.tsv:1: names of columns, or a row without a label in"},
        {"CoLA", "a\t1\t\tb\na\t2\t\tb\n", "x.tsv:2: an unknown label; expected 0 or 1"},
        {"MRPC", "Quality\ta\tb\tc\n",
         "expected the names of MRPC's columns: 5 that begin with Quality, in a test file 5"},
        {"RTE", "index\ta\tb\tlabel\n0\ta\tb\t1\n", "x.tsv:2: an unknown label; expected entailment or not_entailment"},
        {"RACE", "{\"article\": 1}\n", "x.tsv:1: an article or questions without options"},
        {"RACE", "\n{\"article\": \n", "x.tsv:2: "},
        {"RACE", "{\"article\": \"a\\u0000b\"}\n", "x.tsv:1: a zero character (\\u0000) in a text"},
        {"RACE", "{\"article\": \"a\", \"article\": \"b\"}\n", "x.tsv:1: a key that the object has twice"},
        {"SST-2", "sentence\tlabel\na\xff\t1\n", "x.tsv:2:2: bytes that are not UTF-8"},
        {"RACE",
         "{\"article\": \"x\", \"questions\": [\"q\"], \"options\": [[\"a\", \"b\", \"c\", \"d\"]], \"answers\": "
         "[\"E\"]}",
         "a right answer that is none of A, B, C and D"},
        {"RACE", "{\"article\": \"x\", \"questions\": [\"q\"], \"options\": [[\"a\", \"b\"]], \"answers\": [\"A\"]}",
         "a question without its text, its four answers"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mega_labelled *l = NULL;
        const char *path[] = {written("x.tsv", wrong[i].text)};
        assert_int_equal(open_paths(wrong[i].task, path, 1, LENGTH, &l), MEGA_ERR_FORMAT);
        if (strstr(mega_error_message(), wrong[i].says) == NULL)
            fail_msg("\"%s\" is not in %s", wrong[i].says, mega_error_message());
    }
    mega_labelled *l = NULL;
    const char *path[] = {"nothing.tsv"};
    assert_int_equal(open_paths("QQP", path, 1, LENGTH, &l), MEGA_ERR_NOT_FOUND);
}

int main(void)
{
    const mega_tokenizer_options o = {.type = "ByteTokenizer"};
    const struct CMUnitTest tests[] = {cmocka_unit_test(mnli_has_ten_columns_and_a_label),
                                       cmocka_unit_test(long_pairs_are_cut_at_their_end),
                                       cmocka_unit_test(qqp_leaves_out_broken_rows),
                                       cmocka_unit_test(sst2_has_one_sentence),
                                       cmocka_unit_test(cola_has_no_names_of_columns),
                                       cmocka_unit_test(pairs_of_glue),
                                       cmocka_unit_test(race_is_a_sequence_for_each_answer),
                                       cmocka_unit_test(samples_fill_the_inputs_of_a_classifier),
                                       cmocka_unit_test(a_mark_is_passed_over),
                                       cmocka_unit_test(labels_are_the_classes_of_a_model),
                                       cmocka_unit_test(other_files_are_refused)};
    if (mega_tokenizer_create(&o, &bytes) != MEGA_OK) return 1;
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    mega_tokenizer_destroy(bytes);
    return failures;
}
