/* Training of WordPiece and Unigram: a vocabulary worked out by hand, the same result for any order and number of
 * workers, files that come back, and each failing allocation. tests/golden compares with the trainers of others. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/tokenizer_train.h"
#include "tokenizer/tokenizer_impl.h"
#include <stdio.h>
#include <string.h>

static mega_tokenizer *train(const mega_trainer_options *o, const char *const *documents, int count)
{
    mega_trainer *trainer;
    mega_tokenizer *t = NULL;
    assert_int_equal(mega_trainer_create(o, &trainer), MEGA_OK);
    for (int i = 0; i < count; i++)
        assert_int_equal(mega_trainer_add(trainer, documents[i], strlen(documents[i])), MEGA_OK);
    if (mega_trainer_finish(trainer, &t) != MEGA_OK) fail_msg("%s", mega_error_message());
    mega_trainer_destroy(trainer);
    return t;
}

static const char *kept(const mega_tokenizer *t, const char *name)
{
    for (int i = 0; i < t->num_files; i++)
        if (strcmp(t->files[i].name, name) == 0) return t->files[i].bytes;
    fail_msg("no file %s", name);
    return NULL;
}

/* Pairs: a ##a 3, ##a ##b 3, a ##b 2. Of the equal ones that of the lower ids is merged first, then aa ##b, then a
 * ##b. */
static void wordpiece_by_hand(void **unused)
{
    (void)unused;
    static const char *const documents[] = {"aab A\xC3\x81"
                                            "B ab",
                                            "ab\taab"};
    static const char lines[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\naa\naab\nab\n";
    mega_trainer_options o = {.type = "BertWordPieceLowerCase", .vocab_size = 100};
    mega_tokenizer *t = train(&o, documents, 2);
    assert_string_equal(mega_tokenizer_type(t), "BertWordPieceLowerCase");
    assert_memory_equal(kept(t, "vocab.txt"), lines, sizeof lines - 1);
    assert_int_equal(mega_tokenizer_size(t), 12 + 2); /* [BOS], [EOS] */
    mega_tokenizer_destroy(t);
    o.vocab_size = 10;
    t = train(&o, documents, 2);
    assert_memory_equal(kept(t, "vocab.txt"), lines, sizeof lines - 1 - 7);
    assert_int_equal(mega_tokenizer_size(t), 10 + 2);
    mega_tokenizer_destroy(t);
    o = (mega_trainer_options){.type = "BertWordPieceCase", .vocab_size = 100, .min_frequency = 3};
    t = train(&o, documents, 2);
    static const char cased[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nA\nB\na\nb\n\xC3\x81\n##B\n##a\n##b\n##\xC3\x81\n";
    assert_memory_equal(kept(t, "vocab.txt"), cased, sizeof cased - 1); /* no pair occurs 3 times */
    mega_tokenizer_destroy(t);
}

static const char *const parts[] = {"one fish two fish, red fish blue fish", "the fish'll swim\n\n  2 fish 22 fishes",
                                    "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E\xE3\x81\xAE\xE9\xAD\x9A fish \xFF\xFE", "",
                                    "swimming, swimming, swimming"};
enum { DOCUMENTS = 5 };

static const char *const types[] = {"BertWordPieceLowerCase", "BertWordPieceCase", "SentencePieceTokenizer",
                                    "GPTSentencePieceTokenizer"};
enum { TYPES = 4 };

static void order_joining_and_workers_do_not_matter(void **unused)
{
    (void)unused;
    const char *reversed[DOCUMENTS];
    for (int i = 0; i < DOCUMENTS; i++) reversed[i] = parts[DOCUMENTS - 1 - i];
    for (int k = 0; k < TYPES; k++) {
        mega_trainer_options o = {.type = types[k], .vocab_size = 70};
        mega_tokenizer *a = train(&o, parts, DOCUMENTS), *b;
        const uint64_t wanted = mega_tokenizer_fingerprint(a);
        mega_tokenizer_destroy(a);
        for (o.workers = 1; o.workers <= 3; o.workers++) {
            b = train(&o, reversed, DOCUMENTS);
            assert_true(mega_tokenizer_fingerprint(b) == wanted);
            mega_tokenizer_destroy(b);
        }
        mega_trainer *first, *second;
        assert_int_equal(mega_trainer_create(&o, &first), MEGA_OK);
        assert_int_equal(mega_trainer_create(&o, &second), MEGA_OK);
        for (int i = 0; i < DOCUMENTS; i++)
            assert_int_equal(mega_trainer_add(i % 2 == 0 ? first : second, parts[i], strlen(parts[i])), MEGA_OK);
        assert_int_equal(mega_trainer_join(first, second), MEGA_OK);
        assert_int_equal(mega_trainer_finish(first, &b), MEGA_OK);
        assert_true(mega_tokenizer_fingerprint(b) == wanted);
        mega_trainer_destroy(first);
        mega_trainer_destroy(second);
        mega_tokenizer_destroy(b);
    }
}

static int64_t count_ids(const mega_tokenizer *t, const char *text)
{
    mega_encoder *e;
    mega_ids ids = {0};
    assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
    assert_int_equal(mega_encoder_encode(e, text, strlen(text), &ids), MEGA_OK);
    const int64_t count = ids.count;
    mega_ids_fini(&ids);
    mega_encoder_destroy(e);
    return count;
}

/* A text that repeats becomes few pieces; blanks of every kind are the same. */
static void unigram_learns(void **unused)
{
    (void)unused;
    const mega_trainer_options o = {.type = "GPTSentencePieceTokenizer", .vocab_size = 60};
    mega_tokenizer *t = train(&o, parts, DOCUMENTS);
    assert_true(mega_tokenizer_size(t) <= 60);
    assert_int_equal(mega_tokenizer_eod(t), 1);
    assert_true(mega_tokenizer_find(t, "\xE2\x96\x81", 3) >= 3);
    assert_true(mega_tokenizer_find(t, "\xE6\x97\xA5", 3) >= 3); /* each character is a piece */
    const int64_t count = count_ids(t, "fish swimming");
    assert_in_range(count, 2, 8); /* of 14 characters */
    assert_int_equal(count_ids(t, "\tfish\r\nswimming \n"), count);
    mega_tokenizer_destroy(t);
}

/* The share of the text that characters of the vocabulary make up. */
static void unigram_leaves_rare_characters_out(void **unused)
{
    (void)unused;
    static const char *const text[] = {"aaaaaaaaaa bbbbbbbbbb zz q"};
    static const double coverage[] = {0, 0.85, 1};
    static const bool has_z[] = {true, false, true};
    for (int i = 0; i < 3; i++) {
        const mega_trainer_options o = {
            .type = "GPTSentencePieceTokenizer", .vocab_size = 60, .character_coverage = coverage[i]};
        mega_tokenizer *t = train(&o, text, 1);
        assert_true(mega_tokenizer_find(t, "a", 1) >= 3 && mega_tokenizer_find(t, "b", 1) >= 3);
        assert_true((mega_tokenizer_find(t, "z", 1) >= 3) == has_z[i]);
        mega_tokenizer_destroy(t);
    }
    mega_trainer *none;
    const mega_trainer_options above = {
        .type = "GPTSentencePieceTokenizer", .vocab_size = 60, .character_coverage = 1.5};
    assert_int_equal(mega_trainer_create(&above, &none), MEGA_ERR_USAGE);
}

/* The folder is that of BERT or T5 for others; the single file that of the type. */
static void files_come_back(void **unused)
{
    (void)unused;
    for (int k = 0; k < TYPES; k++) {
        const mega_trainer_options o = {.type = types[k], .vocab_size = 70};
        const char *folder = mega_kit_path(mega_kit_temp_folder(), "trained");
        mega_tokenizer *t = train(&o, parts, DOCUMENTS), *json, *file;
        assert_int_equal(mega_tree_remove(folder), MEGA_OK);
        assert_int_equal(mega_folder_create(folder), MEGA_OK);
        assert_int_equal(mega_tokenizer_save(t, folder), MEGA_OK);
        const char *path = mega_kit_path(folder, k < 2 ? "vocab.txt" : "tokenizer.model");
        const mega_tokenizer_options named = {.type = types[k], .vocab_file = path, .model = path};
        if (mega_tokenizer_create(&named, &file) != MEGA_OK) fail_msg("%s", mega_error_message());
        assert_true(mega_tokenizer_fingerprint(file) == mega_tokenizer_fingerprint(t));
        if (mega_tokenizer_load(folder, &json) != MEGA_OK) fail_msg("%s", mega_error_message());
        assert_string_equal(mega_tokenizer_type(json), "HuggingFaceTokenizer");
        /* [CLS] and [SEP], or </s>, around the same tokens */
        assert_int_equal(count_ids(json, "the fish swims"), count_ids(t, "the fish swims") + (k < 2 ? 2 : 1));
        if (k >= 2) assert_int_equal(mega_tokenizer_find(json, "<extra_id_0>", 12), mega_tokenizer_size(json) - 1);
        mega_tokenizer_destroy(file);
        mega_tokenizer_destroy(json);
        mega_tokenizer_destroy(t);
    }
}

static void wrong_options(void **unused)
{
    (void)unused;
    mega_trainer *trainer;
    mega_tokenizer *t = NULL;
    for (int k = 0; k < TYPES; k++) {
        mega_trainer_options o = {.type = types[k], .vocab_size = mega_trainer_least(types[k]) - 1};
        assert_int_equal(mega_trainer_create(&o, &trainer), MEGA_ERR_USAGE);
        o.vocab_size++;
        assert_int_equal(mega_trainer_create(&o, &trainer), MEGA_OK);
        assert_int_equal(mega_trainer_add(trainer, " \n ", 3), MEGA_OK);
        assert_int_equal(mega_trainer_finish(trainer, &t), MEGA_ERR_USAGE); /* no word */
        mega_trainer_destroy(trainer);
        assert_int_equal(mega_trainer_create(&o, &trainer), MEGA_OK);
        assert_int_equal(mega_trainer_add(trainer, parts[0], strlen(parts[0])), MEGA_OK);
        assert_int_equal(mega_trainer_finish(trainer, &t), MEGA_ERR_USAGE); /* more characters than that */
        assert_non_null(strstr(mega_error_message(), "--vocab-size"));
        mega_trainer_destroy(trainer);
    }
}

static int whole_life(void *user)
{
    const mega_trainer_options *o = user;
    mega_trainer *trainer = NULL;
    mega_tokenizer *t = NULL;
    mega_status st = mega_trainer_create(o, &trainer);
    for (int i = 0; i < DOCUMENTS && st == MEGA_OK; i++) st = mega_trainer_add(trainer, parts[i], strlen(parts[i]));
    if (st == MEGA_OK) st = mega_trainer_finish(trainer, &t);
    mega_tokenizer_destroy(t);
    mega_trainer_destroy(trainer);
    return st;
}

static void failing_allocations(void **unused)
{
    (void)unused;
    mega_trainer_options wordpiece = {.type = "BertWordPieceCase", .vocab_size = 60}; /* its table is made faster */
    mega_trainer_options unigram = {.type = "SentencePieceTokenizer", .vocab_size = 60};
    assert_true(mega_kit_fail_each_allocation(whole_life, &wordpiece) > 30);
    assert_true(mega_kit_fail_each_allocation(whole_life, &unigram) > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wordpiece_by_hand),   cmocka_unit_test(order_joining_and_workers_do_not_matter),
        cmocka_unit_test(unigram_learns),      cmocka_unit_test(unigram_leaves_rare_characters_out),
        cmocka_unit_test(files_come_back),     cmocka_unit_test(wrong_options),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
