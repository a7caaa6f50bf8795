/* WordPiece and Unigram, with small vocabularies that are made here. The expected ids are those of Megatron's class, of
 * tokenizers and of sentencepiece; tests/golden compares many more. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/tokenizer.h"
#include "models/bert.h"
#include "models/encoder.h"
#include "models/trie.h"
#include "tokenizer_kit.h"
#include <stdio.h>
#include <string.h>

static mega_tokenizer *create(const char *type, const char *file, const char *text, int64_t extra_ids)
{
    mega_tokenizer *t = NULL;
    const char *path = mega_kit_path(mega_kit_temp_folder(), file);
    mega_kit_write(path, text);
    const mega_tokenizer_options o = {.type = type, .vocab_file = path, .model = path, .extra_ids = extra_ids};
    return mega_tokenizer_create(&o, &t) == MEGA_OK ? t : NULL;
}

#define VOCABULARY                                                                                                     \
    "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\nwant\n##want\n##ed\nwa\nun\nrunn\n##ing\n,\nlow\nlowest\nhello\n!\nah\n推\n" \
    "'\nt\nn\ndo\ns\n.\nσας\nHello\n##s\n"

static void megatron_lower_case(void **state)
{
    (void)state;
    mega_tokenizer *t = create("BertWordPieceLowerCase", "vocab.txt", VOCABULARY, 2);
    if (t == NULL) fail_msg("%s", mega_error_message());
    assert_string_equal(mega_tokenizer_type(t), "BertWordPieceLowerCase");
    assert_int_equal(mega_tokenizer_size(t), 28 + 2 + 2); /* [BOS] [EOS], two <extra_id_N> */
    assert_int_equal(mega_tokenizer_eod(t), -1);
    assert_int_equal(mega_tokenizer_find(t, "[EOS]", 5), 29);
    assert_int_equal(mega_tokenizer_find(t, "<extra_id_1>", 12), 31);
    assert_true(mega_tokenizer_continues_word(t, 7) && !mega_tokenizer_continues_word(t, 8));
    ENCODES(t,
            "UNwant\xC3\xA9"
            "d,running",
            9, 6, 7, 12, 10, 11);
    ENCODES(t, "unwantedX running", 0, 10, 11);
    ENCODES(t, " \tHeLLo!low  \n lowest\xC2\xA0He\xC2\xADllo ", 15, 16, 13, 14, 15); /* a soft hyphen vanishes */
    ENCODES(t, "ah博推\xE1\xBC\x85h", 17, 0, 18, 0);
    ENCODES(t, "e\xCC\x81 \xE2\x80\xA8wa\xE2\x80\xA8", 0, 8);
    ENCODES(t, "ΣΑΣ.", 25, 24); /* the last sigma of a word has its own form */
    ENCODES(t, "ΣΑΣα", 0);
    expect_encoded(t, "", NULL, 0);
    ENCODES(t, "\xFFwa\xFF", 8);
    DECODES(t, "hello! unwanted, don't.", 15, 16, 9, 6, 7, 12, 22, 21, 19, 20, 24);
    DECODES(t, "##ed want", 7, 5);
    DECODES(t, "t's", 20, 19, 23);
    DECODES(t, "do n", 22, 21);
    expect_saved(t);
    expect_made(t,
                "UNwant\xC3\xA9"
                "d<extra_id_1>, [EOS]wa<extra_id_0>",
                3);
    mega_tokenizer_destroy(t);
}

static void megatron_cased(void **state)
{
    (void)state;
    mega_buffer text = {0};
    mega_buffer_puts(&text, VOCABULARY);
    mega_tokenizer *t = create("BertWordPieceCase", "vocab.txt", text.data, 0);
    if (t == NULL) fail_msg("%s", mega_error_message());
    ENCODES(t, "Hello hello HELLO", 26, 15, 0);
    ENCODES(t, "Hellos \xC3\xA9", 26, 27, 0);
    char word[808] = "";
    for (int i = 0; i < 200; i++) strcat(word, i == 0 ? "t" : "s");
    ENCODES(t, word, 20, [1 ... 199] = 27); /* 200 characters are not too many, */
    strcat(word, "s");
    ENCODES(t, word, 0); /* 201 are */
    expect_saved(t);
    mega_tokenizer_destroy(t);
    assert_null(create("BertWordPieceCase", "vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\n", 0));
    assert_non_null(strstr(mega_error_message(), "it has no token [MASK]"));
    t = create("BertWordPieceCase", "vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\nb\na \n", 0);
    if (t == NULL) fail_msg("%s", mega_error_message());
    ENCODES(t, "a b", 7, 6); /* of equal lines the last counts */
    assert_int_equal(mega_tokenizer_size(t), 10);
    mega_tokenizer_destroy(t);
    t = create("BertWordPieceCase", "vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\nb\na \n", 1);
    if (t == NULL) fail_msg("%s", mega_error_message());
    expect_saved(t);
    expect_made(t, "a<extra_id_0>b", 3); /* the same ids also where the file leaves a gap */
    mega_tokenizer_destroy(t);
    assert_null(create("BertWordPieceCase", "vocab.txt", "a\nb\xFF\n", 0));
    assert_non_null(strstr(mega_error_message(), "vocab.txt line 2: it is not UTF-8"));
    assert_null(create("BertWordPieceCase", "vocab.txt", "", 0));
    assert_null(create("BertWordPieceCase", "vocab.txt", "\xef\xbb\xbf" VOCABULARY, 0));
    assert_non_null(strstr(mega_error_message(), "vocab.txt: it begins with a byte order mark"));
    assert_null(create("BertWordPieceCase", "vocab.txt", VOCABULARY, MEGA_TOKENIZER_EXTRA_IDS + 1));
    assert_non_null(strstr(mega_error_message(), "--vocab-extra-ids: found 65537; expected 0 to 65536"));
    assert_null(create("HuggingFaceTokenizer", "tokenizer.json", "\xef\xbb\xbf{}", 0));
    assert_non_null(strstr(mega_error_message(), "tokenizer.json: it begins with a byte order mark"));
    mega_buffer_fini(&text);
}

/* A folder with nothing but vocab.txt, as `transformers` reads it. */
static void bert_folder(void **state)
{
    (void)state;
    const char *folder = mega_kit_path(mega_kit_temp_folder(), "bert");
    mega_tokenizer *t;
    assert_int_equal(mega_tree_remove(folder), MEGA_OK);
    assert_int_equal(mega_folder_create(folder), MEGA_OK);
    mega_kit_write(mega_kit_path(folder, "vocab.txt"), VOCABULARY);
    if (mega_tokenizer_load(folder, &t) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_string_equal(mega_tokenizer_type(t), "HuggingFaceTokenizer");
    ENCODES(t, "[CLS]Hello[MASK] \xEA\x99\x80 [SEP]", 1, 1, 15, 4, 0, 2, 2);
    ENCODES(t, "ΣΑΣ.", 1, 0, 24, 2); /* characters one by one: no final sigma */
    char word[101 * 2 + 1] = "t";
    for (int i = 1; i < 100; i++) strcat(word, "s");
    ENCODES(t, word, 1, 20, [2 ... 100] = 27, 2);
    strcat(word, "s");
    ENCODES(t, word, 1, 0, 2);
    DECODES(t, "[CLS] hello! unwanted, do n ' t. [SEP]", 1, 15, 16, 9, 6, 7, 12, 22, 21, 19, 20, 24, 2);
    expect_saved(t);
    mega_tokenizer_destroy(t);
    mega_kit_write(mega_kit_path(folder, "tokenizer_config.json"),
                   "{\"do_lower_case\":false,\"strip_accents\":true,\"cls_token\":{\"content\":\"hello\"}}");
    assert_int_equal(mega_tokenizer_load(folder, &t), MEGA_OK);
    ENCODES(t, "H\xC3\xA9llo", 15, 26, 2);
    mega_tokenizer_destroy(t);
    mega_kit_write(mega_kit_path(folder, "tokenizer_config.json"), "{\"tokenizer_class\":\"EsmTokenizer\"}");
    assert_int_equal(mega_tokenizer_load(folder, &t), MEGA_ERR_UNSUPPORTED);
    assert_non_null(strstr(mega_error_message(), "tokenizer_config.json: tokenizer_class: EsmTokenizer"));
}

#define WORDS(pre, model)                                                   \
    "{\"pre_tokenizer\":" pre ",\"model\":{" model                          \
    "\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\",\":3,\",.\":4,\"$\":5,\"a$\":6," \
    "\",a\":7,\"##a\":8,\"##,\":9}}}"
#define WHOLE \
    "\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":9,"

#define BERT_RULES "\"clean_text\":false,\"handle_chinese_chars\":false,\"strip_accents\":false,"

/* Nmt, and two BertNormalizers with different rules. */
static void normalizers_of_others(void **state)
{
    (void)state;
    mega_tokenizer *t = create("HuggingFaceTokenizer", "tokenizer.json",
                               "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Nmt\"},"
                               "{\"type\":\"BertNormalizer\"," BERT_RULES "\"lowercase\":false},"
                               "{\"type\":\"BertNormalizer\"," BERT_RULES "\"lowercase\":true}]},"
                               "\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},"
                               "\"model\":{" WHOLE "\"vocab\":{\"?\":0,\"a\":1,\"b\":2}}}",
                               0);
    if (t == NULL) fail_msg("%s", mega_error_message());
    ENCODES(t, "a\x01\tB\xE2\x80\x8B\x61\x0B", 1, 2, 1);
    ENCODES(t, "\xEF\xBB\xBF\x62\xE2\x96\x81\x41\xC2\x8F \xC3\x81", 2, 1, 0);
    expect_saved(t);
    mega_tokenizer_destroy(t);
}

/* Metaspace with the scheme "first": a text whose first character the normalizer removes has no begin any more. */
static void begin_that_is_removed(void **state)
{
    (void)state;
    mega_tokenizer *t = create("HuggingFaceTokenizer", "tokenizer.json",
                               "{\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false},"
                               "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\","
                               "\"prepend_scheme\":\"first\",\"split\":true},"
                               "\"model\":{" WHOLE "\"vocab\":{\"?\":0,\"a\":1,\"\xE2\x96\x81\x61\":2}}}",
                               0);
    if (t == NULL) fail_msg("%s", mega_error_message());
    ENCODES(t, "a a", 2, 2);
    ENCODES(t, "  a a", 1, 2);
    expect_saved(t);
    mega_tokenizer_destroy(t);
}

/* Whitespace takes a row of signs as a word; Punctuation takes each sign by itself, the signs of ASCII among them. */
static void words_and_signs(void **state)
{
    (void)state;
    mega_tokenizer *t = create("HuggingFaceTokenizer", "tokenizer.json", WORDS("{\"type\":\"Whitespace\"}", WHOLE), 0);
    if (t == NULL) fail_msg("%s", mega_error_message());
    ENCODES(t, " a  b,.a\xE2\x80\x8D \xE2\x85\xA3,,\n", 1, 2, 4, 0, 0, 3, 9);
    ENCODES(t, "aa,$ $", 1, 8, 0, 5);
    expect_saved(t);
    mega_tokenizer_destroy(t);
    t = create("HuggingFaceTokenizer", "tokenizer.json", WORDS("{\"type\":\"Punctuation\"}", WHOLE), 0);
    if (t == NULL) fail_msg("%s", mega_error_message());
    ENCODES(t, "a,,a$b\xE2\x80\x94 a", 1, 3, 3, 1, 5, 2, 0, 0);
    ENCODES(t, "a\xD8\x9D,", 0, 3); /* a sign of a Unicode that is newer than the lists of `tokenizers` */
    mega_tokenizer_destroy(t);
    t = create("HuggingFaceTokenizer", "tokenizer.json",
               WORDS("{\"type\":\"Punctuation\",\"behavior\":\"MergedWithNext\"}", WHOLE), 0);
    if (t == NULL) fail_msg("%s", mega_error_message());
    ENCODES(t, "a,a$", 1, 7, 5);
    mega_tokenizer_destroy(t);
}

static void incomplete_wordpiece(void **state)
{
    (void)state;
    static const struct {
        const char *model, *message;
    } row[] = {
        {"\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\",",
         "type WordPiece, but has no \"max_input_chars_per_word\""},
        {"\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\",",
         "type WordPiece, but has no \"max_input_chars_per_word\""},
        {"\"type\":\"WordPiece\",\"unk_token\":\"?\",\"max_input_chars_per_word\":9,",
         "has no \"continuing_subword_prefix\""},
        {"\"type\":\"WordPiece\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":9,",
         "has no \"unk_token\""},
        {"\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":-1,",
         "\"max_input_chars_per_word\" is -1; expected 0 or more"},
    };
    const char *path = mega_kit_path(mega_kit_temp_folder(), "tokenizer.json");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[400];
        mega_tokenizer *t;
        snprintf(text, sizeof text, "{\"model\":{%s\"vocab\":{\"?\":0,\"a\":1}}}", row[i].model);
        mega_kit_write(path, text);
        const mega_tokenizer_options o = {.type = "HuggingFaceTokenizer", .model = path};
        assert_int_equal(mega_tokenizer_create(&o, &t), MEGA_ERR_FORMAT);
        if (strstr(mega_error_message(), row[i].message) == NULL ||
            strstr(mega_error_message(), "tokenizer.json line 1 column ") == NULL)
            fail_msg("row %zu: found '%s', wanted '%s'", i, mega_error_message(), row[i].message);
    }
}

#define UNIGRAM(more)                                                                                                 \
    "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0," more "\"vocab\":[[\"<unk>\",0.0],[\"a\",0],[\"b\",0],[\"c\",0]," \
    "[\"d\",0],[\"cd\",1.0],[\"ab\",2.0],[\"abc\",5.0],[\"abcd\",1e1]"

static void unigram_json(void **state)
{
    (void)state;
    mega_tokenizer *t = create("HuggingFaceTokenizer", "tokenizer.json", UNIGRAM("") "]}}", 0);
    if (t == NULL) fail_msg("%s", mega_error_message());
    ENCODES(t, "abcdacdxx", 8, 1, 5, 0);
    ENCODES(t, "xaxé", 0, 1, 0);
    ENCODES(t, "<unk>x", 0);
    expect_saved(t);
    mega_tokenizer_destroy(t);
    t = create("HuggingFaceTokenizer", "tokenizer.json",
               UNIGRAM("\"byte_fallback\":true,") ",[\"<0x78>\",0],[\"<0xC3>\",0],[\"<0xA9>\",-3.5]]}}", 0);
    if (t == NULL) fail_msg("%s", mega_error_message());
    ENCODES(t, "xaxéy", 9, 1, 0);
    ENCODES(t, "xaxé", 9, 1, 9, 10, 11);
    mega_tokenizer_destroy(t);
    assert_null(create("HuggingFaceTokenizer", "tokenizer.json", UNIGRAM("") ",[\"x\"]]}}", 0));
    assert_non_null(strstr(mega_error_message(), "a token and its score"));
    assert_null(create("HuggingFaceTokenizer", "tokenizer.json", UNIGRAM("\"unk_id\":9,") "]}}", 0));
    assert_non_null(strstr(mega_error_message(), "unk_id 9 is not in the vocabulary"));
}

/* Without an unknown token `tokenizers` refuses a text with a character that is no token, also where a longer token has
 * it, unless the way to what follows it is better. */
static void unigram_without_unknown(void **state)
{
    (void)state;
    static const char *const fallback[] = {"", "\"byte_fallback\":true,"};
    static const char *const refused[] = {"x", "bx", "ab", "abc", "cab", "\xC3\xA9", "b\xFF"};
    for (int i = 0; i < 2; i++) {
        char text[300];
        snprintf(text, sizeof text,
                 "{\"model\":{\"type\":\"Unigram\",\"unk_id\":null,%s\"vocab\":[[\"ab\",-1],[\"b\",-2],[\"c\",-3],"
                 "[\"abc\",-2],[\"<0x61>\",-9],[\"<0x78>\",-9]]}}",
                 fallback[i]);
        mega_tokenizer *t = create("HuggingFaceTokenizer", "tokenizer.json", text, 0);
        if (t == NULL) fail_msg("%s", mega_error_message());
        ENCODES(t, "bcb", 1, 2, 1);
        mega_encoder *e;
        mega_ids ids = {0};
        assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
        for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++) {
            assert_int_equal(mega_encoder_encode(e, refused[k], strlen(refused[k]), &ids), MEGA_ERR_FORMAT);
            assert_non_null(strstr(mega_error_message(), "has no unk_id"));
        }
        assert_int_equal(mega_encoder_encode(e, "bcab", 4, &ids), MEGA_ERR_FORMAT);
        assert_non_null(strstr(mega_error_message(), "character 'a' near byte 2 of the text"));
        assert_int_equal(ids.count, 0);
        mega_ids_fini(&ids);
        mega_encoder_destroy(e);
        mega_tokenizer_destroy(t);
    }
}

/* Words come from a cache, and begin at marks and signs; one search for the whole text must have the same ids. */
static void cached_words_are_those_searched(void **state)
{
    (void)state;
    mega_tokenizer *t =
        create("HuggingFaceTokenizer", "tokenizer.json",
               "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"▁\",-3],[\"a\",-2.1],"
               "[\"b\",-2.1],[\"ab\",-4.2000000001],[\"ba\",-4.2],[\"▁a\",-3.3],[\"aa\",-4.2],[\",\",-2.1],"
               "[\"1\",-2.5],[\"b1\",-4.6],[\"1,\",-4.6],[\"é\",-2],[\"a.\",-3]]}}",
               0);
    if (t == NULL) fail_msg("%s", mega_error_message());
    mega_encoder *e;
    mega_ids ids = {0}, again = {0};
    mega_buffer text = {0};
    uint32_t state32 = 7;
    for (int i = 0; i < 60000; i++) { /* the sums pass the least that SentencePiece allows */
        state32 = state32 * 1664525u + 1013904223u;
        mega_buffer_puts(&text, (const char *[]){"a", "b", "ab", "▁", "a", "x", "b", "ba", ",", "1", "b1", "é", ".",
                                                 "1,a", "▁▁", "b,a"}[state32 >> 28]);
    }
    for (int narrow = 0; narrow < 2; narrow++) {
        t->pipe->narrow = narrow;
        for (int64_t i = 0; i < t->pipe->scores && narrow; i++) t->pipe->score[i] = (double)(float)t->pipe->score[i];
        for (uint32_t i = 0; i < t->pipe->nodes && narrow; i++)
            t->pipe->node[i].score = (double)(float)t->pipe->node[i].score;
        t->pipe->unknown_score = narrow ? (double)(float)t->pipe->unknown_score : t->pipe->unknown_score;
        assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
        ids.count = again.count = 0;
        uint64_t joined[1024];
        uint8_t *characters = t->pipe->characters;
        memcpy(joined, t->pipe->joined, sizeof joined);
        t->pipe->splits_at_mark = true;
        for (int repeat = 0; repeat < 2; repeat++) {
            ids.count = 0;
            assert_int_equal(mega_encoder_encode(e, text.data, text.size, &ids), MEGA_OK);
        }
        t->pipe->splits_at_mark = false; /* one search for all of it: the definition */
        t->pipe->characters = NULL;
        memset(t->pipe->joined, 0xFF, sizeof joined);
        assert_int_equal(mega_encoder_encode(e, text.data, text.size, &again), MEGA_OK);
        memcpy(t->pipe->joined, joined, sizeof joined);
        t->pipe->characters = characters;
        assert_int_equal(ids.count, again.count);
        assert_memory_equal(ids.id, again.id, (size_t)ids.count * sizeof *ids.id);
        mega_encoder_destroy(e);
    }
    mega_buffer_fini(&text);
    mega_ids_fini(&ids);
    mega_ids_fini(&again);
    mega_tokenizer_destroy(t);
}

/* Every character between two letters, and pairs of those that act: the fast way against the definition. */
static void normal_forms_are_those_of_the_definition(void **state)
{
    (void)state;
    static const mega_bert_rules rules[] = {{true, true, true, true, true},
                                            {true, true, true, true, false},
                                            {true, true, false, false, true},
                                            {false, false, false, true, false},
                                            {false, false, true, false, false}};
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        mega_bert *b;
        mega_buffer text = {0}, fast = {0}, plain = {0};
        assert_int_equal(mega_bert_create(&rules[r], &b), MEGA_OK);
        for (uint32_t cp = 0; cp < 0x30000; cp++) {
            const bool surrogate = cp >= 0xD800 && cp < 0xE000;
            if (surrogate || (b->kind[cp] & MEGA_BERT_REORDERS) != 0 || (cp > 0x2FF && b->kind[cp] == 0)) continue;
            char one[8] = "A";
            int n = 1;
            for (int i = 0; i < 1; i++) {
                if (cp < 0x80) one[n++] = (char)cp;
                else if (cp < 0x800)
                    n += snprintf(one + n, 4, "%c%c", 0xC0 | cp >> 6, 0x80 | (cp & 63));
                else if (cp < 0x10000)
                    n += snprintf(one + n, 5, "%c%c%c", 0xE0 | cp >> 12, 0x80 | (cp >> 6 & 63), 0x80 | (cp & 63));
                else
                    n += snprintf(one + n, 6, "%c%c%c%c", 0xF0 | cp >> 18, 0x80 | (cp >> 12 & 63),
                                  0x80 | (cp >> 6 & 63), 0x80 | (cp & 63));
            }
            mega_buffer_append(&text, one, (size_t)n);
        }
        assert_int_equal(mega_bert_normalize(b, (const uint8_t *)text.data, text.size, &fast), MEGA_OK);
        assert_int_equal(mega_bert_normalize_plain(b, (const uint8_t *)text.data, text.size, &plain), MEGA_OK);
        assert_int_equal(fast.size, plain.size);
        assert_memory_equal(fast.data, plain.data, fast.size);
        mega_buffer_fini(&text);
        mega_buffer_fini(&fast);
        mega_buffer_fini(&plain);
        mega_bert_destroy(b);
    }
}

static void tries(void **state)
{
    (void)state;
    enum { KEYS = 3000 };
    static char text[KEYS][8];
    static mega_trie_key key[KEYS], shuffled[KEYS];
    mega_trie t;
    for (int i = 0; i < KEYS; i++) {
        const uint32_t x = (uint32_t)i * 2654435761u;
        const int n = snprintf(text[i], sizeof text[i], "%x", i < 40 ? (uint32_t)i : x >> 8);
        key[i] = shuffled[i] = (mega_trie_key){text[i], (uint32_t)n, i};
    }
    assert_int_equal(mega_trie_build(&t, shuffled, KEYS), MEGA_OK);
    for (int i = 0; i < KEYS; i++) {
        uint32_t node = MEGA_TRIE_ROOT;
        for (uint32_t k = 0; k < key[i].size; k++) assert_true(mega_trie_step(&t, &node, (uint8_t)key[i].bytes[k]));
        const int32_t found = t.unit[node].id;
        assert_true(found == i || strcmp(text[found], text[i]) == 0);
        assert_false(mega_trie_step(&t, &node, 'z'));
    }
    mega_trie_fini(&t);
    assert_int_equal(mega_trie_build(&t, NULL, 0), MEGA_OK);
    uint32_t node = MEGA_TRIE_ROOT;
    for (int b = 0; b < 256; b++) assert_false(mega_trie_step(&t, &node, (uint8_t)b));
    mega_trie_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatron_lower_case),
        cmocka_unit_test(megatron_cased),
        cmocka_unit_test(bert_folder),
        cmocka_unit_test(normalizers_of_others),
        cmocka_unit_test(begin_that_is_removed),
        cmocka_unit_test(words_and_signs),
        cmocka_unit_test(incomplete_wordpiece),
        cmocka_unit_test(unigram_json),
        cmocka_unit_test(unigram_without_unknown),
        cmocka_unit_test(cached_words_are_those_searched),
        cmocka_unit_test(normal_forms_are_those_of_the_definition),
        cmocka_unit_test(tries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
