/* Known ids and splits, decoding, and what is refused. The vocabularies are made here; real ones are tested in
 * tests/golden. */
#include "held.h"
#include "kit.h"
#include "megalith/file.h"
#include "megalith/log.h"
#include "megalith/tokenizer.h"
#include "models/pretokenize.h"
#include <stdio.h>
#include <string.h>

static mega_tokenizer *load_written(const char *vocab, const char *merges)
{
    const char *folder = mega_kit_temp_folder();
    const char *vocab_file = mega_kit_path(folder, "vocab.json"), *merge_file = mega_kit_path(folder, "merges.txt");
    mega_kit_write(vocab_file, vocab);
    if (merges != NULL) mega_kit_write(merge_file, merges);
    const mega_tokenizer_options o = {
        .type = "GPT2BPETokenizer", .vocab_file = vocab_file, .merge_file = merges == NULL ? NULL : merge_file};
    mega_tokenizer *t = NULL;
    return mega_tokenizer_create(&o, &t) == MEGA_OK ? t : NULL;
}

static void expect_ids(const mega_tokenizer *t, const char *text, bool special, const int32_t *wanted, int64_t count)
{
    mega_encoder *e;
    mega_ids ids = {0};
    assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
    for (int repeat = 0; repeat < 2; repeat++) { /* the second time the words come from the cache */
        ids.count = 0;
        if ((special ? mega_encoder_encode_special : mega_encoder_encode)(e, text, strlen(text), &ids) != MEGA_OK)
            fail_msg("%s", mega_error_message());
        assert_int_equal(ids.count, count);
        for (int64_t i = 0; i < count; i++) assert_int_equal(ids.id[i], wanted[i]);
    }
    mega_ids_fini(&ids);
    mega_encoder_destroy(e);
}

static const char small_vocab[] = "{\"l\":0,\"o\":1,\"w\":2,\"e\":3,\"r\":4,\"s\":5,\"t\":6,\"i\":7,\"d\":8,\"n\":9,"
                                  "\"\\u0120\":10,\"\\u0120l\":11,\"\\u0120n\":12,\"\\u0120lo\":13,\"\\u0120low\":14,"
                                  "\"er\":15,\"\\u0120lowest\":16,\"\\u0120newer\":17,\"\\u0120wider\":18,\"<unk>\":19,"
                                  "\"<|endoftext|>\":20}";
static const char small_merges[] = "#version: 0.2\n\xC4\xA0 l\n\xC4\xA0l o\n\xC4\xA0lo w\ne r\n";

static void small_vocabulary(void **state)
{
    (void)state;
    mega_tokenizer *t = load_written(small_vocab, small_merges);
    if (t == NULL) fail_msg("%s", mega_error_message());
    assert_int_equal(mega_tokenizer_size(t), 21);
    assert_int_equal(mega_tokenizer_eod(t), 20);
    assert_string_equal(mega_tokenizer_type(t), "GPT2BPETokenizer");
    expect_ids(t, " lower newer", false, (const int32_t[]){14, 15, 10, 9, 3, 2, 15}, 7);
    expect_ids(t, "", false, NULL, 0);
    expect_ids(t, "lo<|endoftext|>we", true, (const int32_t[]){0, 1, 20, 2, 3}, 5);
    mega_encoder *e;
    mega_ids ids = {0};
    assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
    /* <|endoftext|> is ordinary text here */
    assert_int_equal(mega_encoder_encode(e, "lo<|endoftext|>", 15, &ids), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "byte 0x3C at byte 2"));
    assert_int_equal(ids.count, 0);
    mega_encoder_destroy(e);
    mega_ids_fini(&ids);
    mega_buffer text = {0};
    assert_int_equal(mega_tokenizer_decode(t, (const int32_t[]){14, 15, 20}, 3, &text), MEGA_OK);
    assert_string_equal(text.data, " lower<|endoftext|>");
    assert_int_equal(mega_tokenizer_decode(t, (const int32_t[]){21}, 1, &text), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "ids are 0 to 20"));
    mega_buffer_fini(&text);
    assert_int_equal(mega_tokenizer_find(t, " low", 4), 14);
    assert_int_equal(mega_tokenizer_find(t, "zzz", 3), -1);
    assert_true(mega_tokenizer_is_special(t, 20));
    assert_false(mega_tokenizer_is_special(t, 19));
    mega_tokenizer_destroy(t);
}

/* Surprising splits of GPT-2's pattern; words are separated by '|'. */
static void splits(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"Hello  world", "Hello| | world"},
        {"a\n\nb", "a|\n|\n|b"},
        {"a \n b", "a| \n| b"},
        {"x  ", "x|  "},
        {"x\t\ty", "x|\t|\t|y"},
        {"I'm I'M it's", "I|'m| I|'|M| it|'s"},
        {"3.14abc", "3|.|14|abc"},
        {"foo_bar", "foo|_|bar"},
        {"a\xC2\xA0"
         "b",
         "a|\xC2\xA0|b"},
        {"e\xCC\x81", "e|\xCC\x81"},
        {"日本語 123", "日本語| 123"},
        {"$100,000!!", "$|100|,|000|!!"},
        {"'sx", "'s|x"},
        {"we'll they're I've he'd don't", "we|'ll| they|'re| I|'ve| he|'d| don|'t"},
        {"'lx 'r 'v '", "'|lx| '|r| '|v| '"},
        {" 's", " '|s"},
        {"!'s", "!'|s"},
        {"   a", "  | a"},
        {"   ", "   "},
        {" \xE3\x80\x80x", " |\xE3\x80\x80|x"},
        {"½²a", "½²|a"},
        {"a\xFF\xFE"
         "b",
         "a|\xFF\xFE|b"},
        {"\xC3", "\xC3"},
        {"a\xE2\x80\x8B"
         "b",
         "a|\xE2\x80\x8B|b"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char found[128] = "";
        const size_t n = strlen(rows[i].text);
        for (size_t at = 0, end; at < n; at = end) {
            end = mega_word_end((const uint8_t *)rows[i].text, at, n);
            assert_true(end > at && end <= n);
            snprintf(found + strlen(found), sizeof found - strlen(found), "%s%.*s", at == 0 ? "" : "|", (int)(end - at),
                     rows[i].text + at);
        }
        assert_string_equal(found, rows[i].words);
    }
}

static void byte_tokenizer(void **state)
{
    (void)state;
    mega_tokenizer *t;
    const mega_tokenizer_options o = {.type = "ByteTokenizer"};
    assert_int_equal(mega_tokenizer_create(&o, &t), MEGA_OK);
    assert_int_equal(mega_tokenizer_size(t), 257);
    assert_int_equal(mega_tokenizer_eod(t), 256);
    expect_ids(t, "aA\xFF <", false, (const int32_t[]){97, 65, 255, 32, 60}, 5);
    expect_ids(t, "a<|endoftext|>", true, (const int32_t[]){97, 256}, 2);
    char all[256];
    for (int i = 0; i < 256; i++) all[i] = (char)i;
    mega_encoder *e;
    mega_ids ids = {0};
    mega_buffer text = {0};
    assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
    assert_int_equal(mega_encoder_encode(e, all, 256, &ids), MEGA_OK);
    assert_int_equal(mega_tokenizer_decode(t, ids.id, ids.count, &text), MEGA_OK);
    assert_int_equal(text.size, 256);
    assert_memory_equal(text.data, all, 256);
    mega_buffer_fini(&text);
    mega_ids_fini(&ids);
    mega_encoder_destroy(e);
    mega_tokenizer_destroy(t);
}

static void char_tokenizer(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *file = mega_kit_path(folder, "chars.json");
    mega_kit_write(file, "[\"\\u0000\", \"\\n\", \"a\", \"b\", \"é\", \"日\", \"<|endoftext|>\"]");
    mega_tokenizer *t;
    const mega_tokenizer_options o = {.type = "CharTokenizer", .vocab_file = file};
    if (mega_tokenizer_create(&o, &t) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_int_equal(mega_tokenizer_size(t), 7);
    assert_int_equal(mega_tokenizer_eod(t), 6);
    expect_ids(t, "baé日\n", false, (const int32_t[]){3, 2, 4, 5, 1}, 5);
    mega_encoder *e;
    mega_ids ids = {0};
    assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
    assert_int_equal(mega_encoder_encode(e, "ééx", 5, &ids), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "U+0078 'x' at byte 4 of the text (character 3 of it)"));
    assert_int_equal(mega_encoder_encode(e, "a\xC3", 2, &ids), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "not UTF-8"));
    assert_int_equal(ids.count, 0);
    mega_ids_fini(&ids);
    mega_encoder_destroy(e);

    /* the same tokenizer from its tokenizer.json, and from an object */
    assert_int_equal(mega_tokenizer_save(t, folder), MEGA_OK);
    mega_tokenizer *again;
    if (mega_tokenizer_load(folder, &again) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_string_equal(mega_tokenizer_type(again), "CharTokenizer");
    assert_true(mega_tokenizer_fingerprint(t) == mega_tokenizer_fingerprint(again));
    mega_tokenizer_destroy(again);
    mega_kit_write(file, "{\"<|endoftext|>\":6,\"a\":2,\"b\":3,\"\\u0000\":0,\"\\n\":1,\"\\u65e5\":5,\"\\u00e9\":4}");
    if (mega_tokenizer_create(&o, &again) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_true(mega_tokenizer_fingerprint(t) == mega_tokenizer_fingerprint(again));
    mega_tokenizer_destroy(again);
    assert_int_equal(mega_tokenizer_save_vocab(t, file), MEGA_OK);
    if (mega_tokenizer_create(&o, &again) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_true(mega_tokenizer_fingerprint(t) == mega_tokenizer_fingerprint(again));
    mega_tokenizer_destroy(again);
    mega_tokenizer_destroy(t);
}

static void null_tokenizer(void **state)
{
    (void)state;
    mega_tokenizer *t;
    mega_tokenizer_options o = {.type = "NullTokenizer", .vocab_size = 100};
    assert_int_equal(mega_tokenizer_create(&o, &t), MEGA_OK);
    assert_int_equal(mega_tokenizer_size(t), 101);
    assert_int_equal(mega_tokenizer_eod(t), 100);
    expect_ids(t, "5  99\n0 100", false, (const int32_t[]){5, 99, 0, 100}, 4);
    mega_encoder *e;
    mega_ids ids = {0};
    assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
    static const char *const bad[] = {"1 101", "1 x", "-3", "1.5", "99999999999999999999"};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(mega_encoder_encode(e, bad[i], strlen(bad[i]), &ids), MEGA_ERR_FORMAT);
        assert_int_equal(ids.count, 0);
    }
    mega_ids_fini(&ids);
    mega_encoder_destroy(e);
    mega_buffer text = {0};
    assert_int_equal(mega_tokenizer_decode(t, (const int32_t[]){5, 99, 0}, 3, &text), MEGA_OK);
    assert_string_equal(text.data, "5 99 0");
    assert_int_equal(mega_tokenizer_decode_more(t, (const int32_t[]){34, 29}, 2, &text), MEGA_OK);
    assert_string_equal(text.data, "5 99 0 34 29"); /* what follows a prompt is another number */
    text.size = 0;
    assert_int_equal(mega_tokenizer_piece(t, 34, &text), MEGA_OK);
    assert_string_equal(text.data, "34");
    mega_buffer_fini(&text);
    const char *folder = mega_kit_temp_folder();
    assert_int_equal(mega_tokenizer_save(t, folder), MEGA_OK);
    mega_tokenizer *again;
    if (mega_tokenizer_load(folder, &again) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_true(mega_tokenizer_fingerprint(t) == mega_tokenizer_fingerprint(again));
    mega_tokenizer_destroy(again);
    mega_tokenizer_destroy(t);
    o.vocab_size = 0;
    assert_int_equal(mega_tokenizer_create(&o, &t), MEGA_ERR_USAGE);
}

static void kinds_that_need_a_model(void **state)
{
    (void)state;
    assert_true(mega_tokenizer_needs_model("HFTokenizer") && mega_tokenizer_needs_model("TikTokenizer"));
    assert_true(mega_tokenizer_needs_model("Llama2Tokenizer") && !mega_tokenizer_needs_model("BertWordPieceCase"));
    assert_true(mega_tokenizer_needs_file("HFTokenizer") && mega_tokenizer_needs_file("CharTokenizer"));
    assert_true(!mega_tokenizer_needs_file("ByteTokenizer") && !mega_tokenizer_needs_file("NullTokenizer"));
    assert_true(!mega_tokenizer_needs_model("NullTokenizer") && !mega_tokenizer_needs_model("nothing"));
}

static char warning[400];

static void note_warning(void *user, mega_log_level level, const char *line)
{
    (void)user;
    if (level == MEGA_LOG_WARN) snprintf(warning, sizeof warning, "%s", line);
}

/* --vocab-size with a tokenizer that has another number of ids. */
static void vocab_size_is_checked(void **state)
{
    (void)state;
    static const struct {
        const char *type, *text;
        int64_t vocab_size;
    } row[] = {{"ByteTokenizer", "", 0},
               {"ByteTokenizer", "", 257},
               {"NullTokenizer", "", 100},
               {"ByteTokenizer", "--vocab-size 512 has no effect: the ByteTokenizer has 257 ids", 512}};
    mega_log_set_sink(note_warning, NULL);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        mega_tokenizer *t;
        const mega_tokenizer_options o = {.type = row[i].type, .vocab_size = row[i].vocab_size};
        warning[0] = '\0';
        assert_int_equal(mega_tokenizer_create(&o, &t), MEGA_OK);
        if (strstr(warning, row[i].text) == NULL || (row[i].text[0] == '\0' && warning[0] != '\0'))
            fail_msg("row %zu: found \"%s\", expected \"%s\"", i, warning, row[i].text);
        mega_tokenizer_destroy(t);
    }
    mega_log_set_sink(NULL, NULL);
}

/* Of two files that are read as one the message names the one with the mistake. */
static void names_the_file_of_a_folder(void **state)
{
    (void)state;
    static const struct {
        const char *vocab, *merges, *message;
    } rows[] = {
        {"{\"a\":0,\n\"b\":1,\"ab\":2}", "#version: 0.2\n\na b\nb a\n",
         "merges.txt line 4: merge 'b a': the vocabulary has no"},
        {"{\"a\":0,\"b\":1,\"ab\":2}", "a b\nb a\n", "merges.txt line 2: merge 'b a'"},
        {"{\"a\":0,\"b\":1,\"ab\":2}", "#version: 0.2\na b c\n", "merges.txt line 2: 'a b c'; expected two tokens"},
        {"{\"a\":0,\n\"b\":1.5}", "#version: 0.2\n", "vocab.json line 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *folder = mega_kit_temp_folder();
        mega_tokenizer *t = NULL;
        mega_kit_write(mega_kit_path(folder, "vocab.json"), rows[i].vocab);
        mega_kit_write(mega_kit_path(folder, "merges.txt"), rows[i].merges);
        mega_kit_write(mega_kit_path(folder, "tokenizer_config.json"), "{\"tokenizer_class\":\"GPT2Tokenizer\"}");
        assert_int_equal(mega_tokenizer_load(folder, &t), MEGA_ERR_FORMAT);
        if (strstr(mega_error_message(), rows[i].message) == NULL)
            fail_msg("row %zu: found '%s', wanted '%s'", i, mega_error_message(), rows[i].message);
    }
}

/* Its ids come after those of the roles; strings of the same kind take the key's place. */
static void tokens_of_the_models_own_roles(void **state)
{
    (void)state;
    static const char begin[] = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"pad_token\":\"<p>\",";
    static const struct {
        const char *more;
        int32_t id; /* of <i> */
    } rows[] = {{"\"model_specific_special_tokens\":{\"a\":\"<i>\"}}", 4},
                {"\"model_specific_special_tokens\":{\"a\":\"<o>\"},\"image_token\":\"<i>\"}", 4},
                {"\"extra_special_tokens\":[\"<i>\"],\"model_specific_special_tokens\":{\"a\":\"<o>\"}}", 5}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *folder = mega_kit_temp_folder();
        mega_tokenizer *t = NULL;
        char config[256];
        snprintf(config, sizeof config, "%s%s", begin, rows[i].more);
        mega_kit_write(mega_kit_path(folder, "vocab.json"), "{\"a\":0,\"b\":1,\"<|endoftext|>\":2}");
        mega_kit_write(mega_kit_path(folder, "merges.txt"), "#version: 0.2\n");
        mega_kit_write(mega_kit_path(folder, "tokenizer_config.json"), config);
        if (mega_tokenizer_load(folder, &t) != MEGA_OK) fail_msg("row %zu: %s", i, mega_error_message());
        expect_ids(t, "a<i>b", true, (const int32_t[]){0, rows[i].id, 1}, 3);
        mega_tokenizer_destroy(t);
    }
}

static int decode_cleaned(void *user)
{
    static const int32_t ids[] = {0, 4}; /* all that is to be cleaned up is left to the end */
    mega_decoder *d = NULL;
    mega_buffer text = {0};
    mega_status st = mega_decoder_create(user, false, &d);
    for (size_t i = 0; i < sizeof ids / sizeof *ids && st == MEGA_OK; i++) st = mega_decoder_add(d, ids[i], &text);
    if (st == MEGA_OK) st = mega_decoder_finish(d, &text);
    if (st == MEGA_OK) mega_buffer_append(&text, "", 1);
    if (st == MEGA_OK) st = mega_buffer_check(&text, "text");
    if (st == MEGA_OK) assert_string_equal(text.data, "do's");
    mega_buffer_fini(&text);
    mega_decoder_destroy(d);
    return (int)st;
}

/* A text of which a part found no memory is an error, and no shorter text. */
static void decoding_without_memory(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    mega_tokenizer *t = NULL;
    mega_kit_write(mega_kit_path(folder, "vocab.json"),
                   "{\"do\":0,\"\u0120\":1,\".\":2,\"he\":3,\"\u0120's\":4,\"<|endoftext|>\":5}");
    mega_kit_write(mega_kit_path(folder, "merges.txt"), "#version: 0.2\n");
    mega_kit_write(mega_kit_path(folder, "tokenizer_config.json"),
                   "{\"tokenizer_class\":\"GPT2Tokenizer\",\"clean_up_tokenization_spaces\":true,"
                   "\"clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output\":true}");
    if (mega_tokenizer_load(folder, &t) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_true(mega_kit_fail_each_allocation(decode_cleaned, t) > 3);
    mega_tokenizer_destroy(t);
}

static void refused_files(void **state)
{
    (void)state;
    static const struct {
        const char *vocab, *merges, *message;
    } rows[] = {
        {"{\"a\":0,\"b\":0}", "", "id 0 is given twice"},
        {"{\"a\":0,\"a\":1}", "", "token 'a' occurs twice"},
        {"{\"a\":0,\"b\":-1}", "", "has id -1"},
        /* found by fuzz_tokenizer_files: 178 MB for a file of a few bytes */
        {"{\"a\":0,\"b\":7000000}", "", "has id 7000000; ids are 0 to 262162 in a file of this size"},
        {"{\"a\":0,\n \"b\":1.5}", "", "line 2 column 6: found a number that is not an integer"},
        {"{\"a\":0,", "", "column 8"},
        {"\xEF\xBB\xBF{\"a\":0}", "", "vocab.json: it begins with a byte order mark"},
        {"\xEF\xBB\xBF{\"a\":0}", NULL, "it begins with a byte order mark"},
        {"{\"a\":0,\"b\":1}", "\xEF\xBB\xBF#version: 0.2\n", "merges.txt: it begins with a byte order mark"},
        {"{\"a\":0}}", "", "expected the end of the file"},
        {"{\"a\":0,\"b\":1,\"ab\":2}", "#version: 0.2\na b\nb a\n",
         "merges.txt line 3: merge 'b a': the vocabulary has no token 'ba'"},
        {"{\"a\":0,\"b\":1}", "a  b\n", "line 1: 'a  b'; expected two tokens"},
        {"{\"a\":0,\"b\":1}", "ab\n", "expected two tokens"},
        {"{\"a\":0,\"b\":1}", NULL, "--merge-file is missing"},
        {"{\"version\":\"1.0\",\"model\":{\"type\":\"Trigram\",\"vocab\":[]}}", NULL, "of type Trigram"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"normalizer\":{\"type\":\"NFC\"}}", NULL,
         "holds a HuggingFaceTokenizer"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_"
         "prefix_"
         "space\":false},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<"
         "s>\"}},"
         "{\"Sequence\":{\"id\":\"A\"}}]}}",
         NULL, "the template has no \"special_tokens\""},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", NULL, "holds a HuggingFaceTokenizer"},
        {"{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{},\"merges\":[]},\"pre_tokenizer\":{\"type\":"
         "\"ByteLevel\",\"add_prefix_space\":false}}",
         NULL, "holds a HuggingFaceTokenizer"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
         "\"add_prefix_space\":true}}",
         NULL, "holds a HuggingFaceTokenizer"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]},\"pre_tokenizer\":{\"type\":"
         "\"ByteLevel\","
         "\"add_prefix_space\":false}}",
         NULL, "a merge must be two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
         "\"add_prefix_space\":false},\"added_tokens\":[{\"id\":1,\"content\":\"<x>\",\"lstrip\":true}]}",
         NULL, "holds a HuggingFaceTokenizer"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
         "\"add_prefix_space\":false},\"added_tokens\":[{\"id\":7,\"content\":\"<x>\",\"special\":true}]}",
         NULL, "has id 7; `tokenizers` would give it 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mega_tokenizer *t = load_written(rows[i].vocab, rows[i].merges);
        assert_null(t);
        if (strstr(mega_error_message(), rows[i].message) == NULL)
            fail_msg("row %zu: found '%s', wanted '%s'", i, mega_error_message(), rows[i].message);
    }
    mega_tokenizer *t;
    static const mega_tokenizer_options wrong[] = {
        {0},
        {.type = "GPT2BPETokenizer"},
        {.type = "CharTokenizer"},
        {.type = "Gpt2"},
        {.type = "BertWordPieceCase"},
        {.type = "GPT2BPETokenizer", .vocab_file = "/nonexistent/vocab.json"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_not_equal(mega_tokenizer_create(&wrong[i], &t), MEGA_OK);
        assert_true(strlen(mega_error_message()) > 20);
    }
    assert_int_equal(mega_tokenizer_load(mega_kit_temp_folder(), &t), MEGA_ERR_NOT_FOUND);
}

/* A vocabulary of 60,000 characters, which is most of the heap here. */
static void bytes_are_those_held(void **state)
{
    (void)state;
    enum { FIRST = 0x10000, CHARACTERS = 60000 };
    const char *path = mega_kit_path(mega_kit_temp_folder(), "characters.json");
    mega_buffer text = {0};
    for (int c = FIRST; c < FIRST + CHARACTERS; c++)
        mega_buffer_printf(&text, "%c\"%c%c%c%c\"", c == FIRST ? '[' : ',', 0xF0 | c >> 18, 0x80 | (c >> 12 & 63),
                           0x80 | (c >> 6 & 63), 0x80 | (c & 63));
    mega_buffer_puts(&text, "]");
    mega_kit_write(path, text.data);
    mega_buffer_fini(&text);
    const mega_tokenizer_options o = {.type = "CharTokenizer", .vocab_file = path};
    mega_tokenizer *t;
    const double before = held_heap_bytes();
    if (mega_tokenizer_create(&o, &t) != MEGA_OK) fail_msg("%s", mega_error_message());
    const double held = held_heap_bytes() - before, planned = (double)mega_tokenizer_bytes(t);
    assert_true(planned > 1e6);
    if (held_is_exact() && (held < 0.97 * planned || held > 1.03 * planned))
        fail_msg("%.0f bytes are held, %.0f are planned", held, planned);
    mega_tokenizer_destroy(t);
    assert_true(mega_tokenizer_bytes(NULL) == 0);
}

static void expect_file(const char *folder, const char *name, const char *expected)
{
    char *text = NULL;
    if (mega_file_read(mega_kit_path(folder, name), &text, NULL) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_string_equal(text, expected);
    mega_free(text);
}

/* A tokenizer of GPT-2's kind could write its files itself: those of the folder it was loaded from stay as they are. */
static void files_of_a_folder_are_kept(void **state)
{
    (void)state;
    static const char config[] = "{\"model_max_length\": 77, \"vocab_size\": null, \"add_bos_token\": null }",
                      map[] = "{\"pad_token\": null}\n\n";
    const char *from = mega_kit_temp_folder(), *to = mega_kit_path(from, "to");
    const mega_tokenizer_options o = {.type = "ByteTokenizer"};
    mega_tokenizer *t;
    char *text = NULL;
    mega_buffer spaced = {0};
    if (mega_tokenizer_create(&o, &t) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_int_equal(mega_tokenizer_save(t, from), MEGA_OK);
    mega_tokenizer_destroy(t);
    assert_int_equal(mega_file_read(mega_kit_path(from, "tokenizer.json"), &text, NULL), MEGA_OK);
    mega_buffer_printf(&spaced, "%s  \n", text);
    mega_kit_write(mega_kit_path(from, "tokenizer.json"), spaced.data);
    mega_kit_write(mega_kit_path(from, "tokenizer_config.json"), config);
    mega_kit_write(mega_kit_path(from, "special_tokens_map.json"), map);
    if (mega_tokenizer_load(from, &t) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_int_equal(mega_folder_create(to), MEGA_OK);
    if (mega_tokenizer_save(t, to) != MEGA_OK) fail_msg("%s", mega_error_message());
    expect_file(to, "tokenizer.json", spaced.data);
    expect_file(to, "tokenizer_config.json", config);
    expect_file(to, "special_tokens_map.json", map);
    mega_tokenizer_destroy(t);
    mega_buffer_fini(&spaced);
    mega_free(text);
}

/* Another's folder of GPT-2's kind: special tokens are found in data. In one that we made they are ordinary text. */
static void special_tokens_of_a_folder(void **state)
{
    (void)state;
    static const char json[] = "{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true},{\"id\":1,"
                               "\"content\":\"<p>\",\"special\":true}],"
                               "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{"
                               "\"type\":\"BPE\",\"vocab\":{\"<s>\":0,"
                               "\"<p>\":1,\"<\":2,\"p\":3,\">\":4,\"s\":5},\"merges\":[]}}";
    const char *folder = mega_kit_temp_folder(), *saved = mega_kit_path(folder, "saved");
    const char *file = mega_kit_path(folder, "tokenizer.json");
    mega_tokenizer *t;
    mega_kit_write(file, json);
    assert_int_equal(mega_folder_create(mega_kit_path(folder, "roles")), MEGA_OK);
    mega_kit_write(mega_kit_path(folder, "roles/tokenizer.json"), json);
    mega_kit_write(mega_kit_path(folder, "roles/tokenizer_config.json"),
                   "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"s\",\"pad_token\":\"<p>\"}");
    if (mega_tokenizer_load(mega_kit_path(folder, "roles"), &t) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_true(mega_tokenizer_named(t, MEGA_ROLE_BOS) == 0 && mega_tokenizer_eod(t) == 5 &&
                mega_tokenizer_named(t, MEGA_ROLE_PAD) == 1);
    mega_tokenizer_destroy(t);
    const mega_tokenizer_options o = {.type = "GPT2BPETokenizer", .vocab_file = file};
    if (mega_tokenizer_create(&o, &t) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_int_equal(mega_folder_create(saved), MEGA_OK);
    assert_int_equal(mega_tokenizer_save(t, saved), MEGA_OK); /* writes a configuration, as there is none */
    mega_tokenizer_destroy(t);
    const struct {
        const char *path;
        bool is_ours;
    } rows[] = {{folder, false}, {file, false}, {saved, true}, {mega_kit_path(saved, "tokenizer.json"), true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (mega_tokenizer_load(rows[i].path, &t) != MEGA_OK) fail_msg("%s", mega_error_message());
        assert_string_equal(mega_tokenizer_type(t), "GPT2BPETokenizer");
        if (rows[i].is_ours) expect_ids(t, "p<p>s", false, (const int32_t[]){3, 2, 3, 4, 5}, 5);
        else
            expect_ids(t, "p<p>s", false, (const int32_t[]){3, 1, 5}, 3);
        mega_tokenizer_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_a_folder_are_kept),
        cmocka_unit_test(small_vocabulary),
        cmocka_unit_test(splits),
        cmocka_unit_test(byte_tokenizer),
        cmocka_unit_test(char_tokenizer),
        cmocka_unit_test(null_tokenizer),
        cmocka_unit_test(kinds_that_need_a_model),
        cmocka_unit_test(vocab_size_is_checked),
        cmocka_unit_test(bytes_are_those_held),
        cmocka_unit_test(special_tokens_of_a_folder),
        cmocka_unit_test(refused_files),
        cmocka_unit_test(names_the_file_of_a_folder),
        cmocka_unit_test(tokens_of_the_models_own_roles),
        cmocka_unit_test(decoding_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
