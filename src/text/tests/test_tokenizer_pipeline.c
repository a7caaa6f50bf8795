/* Tokenizers with a pipeline, made here: a tokenizer.json of characters and one of bytes, a SentencePiece model, the
 * JSON of TikTokenizer. The expected ids are those of tokenizers, sentencepiece and tiktoken; tests/golden compares
 * more of them. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/tokenizer.h"
#include "sentencepiece_kit.h"
#include "tokenizer_kit.h"
#include "unicode/regex.h"
#include <stdio.h>
#include <string.h>

static mega_tokenizer *load_json(const char *text)
{
    const char *path = mega_kit_path(mega_kit_temp_folder(), "tokenizer.json");
    mega_tokenizer *t = NULL;
    mega_kit_write(path, text);
    const mega_tokenizer_options o = {.type = "HuggingFaceTokenizer", .model = path};
    return mega_tokenizer_create(&o, &t) == MEGA_OK ? t : NULL;
}

/* Llama 2's kind: <unk> <s> </s>, 256 bytes, then pieces. */
static const char *characters_json(const char *added, const char *normalizer, const char *rest)
{
    static mega_buffer b;
    b.size = 0;
    mega_buffer_printf(&b, "{\"version\":\"1.0\",\"added_tokens\":[%s],\"normalizer\":%s,%s,", added, normalizer, rest);
    mega_buffer_puts(&b, "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,"
                         "\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2");
    for (int i = 0; i < 256; i++) mega_buffer_printf(&b, ",\"<0x%02X>\":%d", i, 3 + i);
    static const char *const pieces[] = {"▁a", "ab", "▁ab", "bc", "▁▁", "▁", "a", "b", "c", "é"};
    for (int i = 0; i < 10; i++) mega_buffer_printf(&b, ",\"%s\":%d", pieces[i], 259 + i);
    mega_buffer_puts(&b, "},\"merges\":[[\"▁\",\"a\"],[\"a\",\"b\"],\"▁a b\",[\"b\",\"c\"],[\"▁\",\"▁\"]]}}");
    return b.data;
}

#define LLAMA_ADDED                                                                                     \
    "{\"id\":1,\"content\":\"<s>\",\"special\":true},{\"id\":2,\"content\":\"</s>\",\"special\":true}," \
    "{\"id\":269,\"content\":\"<m>\",\"lstrip\":true,\"rstrip\":true},"                                 \
    "{\"id\":270,\"content\":\"bob\",\"single_word\":true}"
#define LLAMA_NORMAL                                                                      \
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"▁\"}," \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}]}"
#define LLAMA_REST                                                                                              \
    "\"pre_tokenizer\":null,\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":" \
    "{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"<s>\":" \
    "{\"id\":\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]}}},\"decoder\":{\"type\":\"Sequence\",\"decoders\":["     \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"▁\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},"    \
    "{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}"

static void characters_with_byte_fallback(void **state)
{
    (void)state;
    mega_tokenizer *t = load_json(characters_json(LLAMA_ADDED, LLAMA_NORMAL, LLAMA_REST));
    if (t == NULL) fail_msg("%s", mega_error_message());
    assert_string_equal(mega_tokenizer_type(t), "HuggingFaceTokenizer");
    assert_int_equal(mega_tokenizer_size(t), 271);
    assert_int_equal(mega_tokenizer_eod(t), 2);
    ENCODES(t, "", 1);
    ENCODES(t, "abc ab", 1, 261, 267, 261);
    ENCODES(t, "  é\n", 1, 263, 264, 268, 13);
    ENCODES(t, "z</s>a", 1, 264, 125, 2, 259);
    ENCODES(t, "b  <m> a", 1, 264, 266, 269, 259);
    ENCODES(t, "a bob", 1, 259, 264, 270);
    ENCODES(t, "abobo", 1, 261, 114, 266, 114);
    ENCODES(t, "bob, bobé bob", 1, 270, 264, 47, 264, 266, 114, 266, 268, 264, 270);
    DECODES(t, "<s> ab", 1, 261);
    DECODES(t, "ab ab", 261, 261);
    DECODES(t, " a", 263, 265);
    DECODES(t, "é", 198, 172);
    DECODES(t, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 198, 172, 198);
    DECODES(t, "\xEF\xBF\xBD ab", 198, 261);
    DECODES(t, "<unk> a</s>", 0, 259, 2);
    expect_saved(t);
    mega_tokenizer_destroy(t);
}

/* What NFC changes, and what it leaves alone; text that is not UTF-8 stays bytes. */
static void composed_characters(void **state)
{
    (void)state;
    mega_tokenizer *t = load_json(characters_json(LLAMA_ADDED, "{\"type\":\"NFC\"}", LLAMA_REST));
    if (t == NULL) fail_msg("%s", mega_error_message());
    ENCODES(t, "aéb", 1, 265, 268, 266);
    ENCODES(t, "ae\u0301b", 1, 265, 268, 266);
    ENCODES(t, "\u0301\xCC", 1, 207, 132, 207);
    expect_saved(t);
    mega_tokenizer_destroy(t);
}

static const char *write_model(int kind, bool fallback, bool dummy, bool remove_extra)
{
    static const char *const merged[] = {"▁a", "ab", "▁ab", "bc", "▁▁", "abc"}, *const one[] = {"▁", "a", "b", "c",
                                                                                                "é"};
    const char *path = mega_kit_path(mega_kit_temp_folder(), "test.model");
    mega_buffer b = {0}, spec = {0};
    put_model_piece(&b, "<unk>", 0, 2);
    put_model_piece(&b, "<s>", 0, 3);
    put_model_piece(&b, "</s>", 0, 3);
    for (int i = 0; i < 256 && fallback; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        put_model_piece(&b, name, 0, 6);
    }
    put_model_piece(&b, "<sep>", 0, 4);
    for (int i = 0; i < 6; i++) put_model_piece(&b, merged[i], (float)-i, 1);
    for (int i = 0; i < 5; i++) put_model_piece(&b, one[i], (float)(-10 - i), 1);
    put_value(&spec, 3, (uint64_t)kind);
    put_value(&spec, 35, fallback);
    put_bytes(&b, 2, spec.data, spec.size);
    spec.size = 0;
    put_value(&spec, 3, dummy);
    put_value(&spec, 4, remove_extra);
    put_bytes(&b, 3, spec.data, spec.size);
    assert_int_equal(mega_file_write_atomic(path, b.data, b.size), MEGA_OK);
    mega_buffer_fini(&b);
    mega_buffer_fini(&spec);
    return path;
}

static mega_tokenizer *load_model(const char *type, const char *path, int64_t extra_ids)
{
    const mega_tokenizer_options o = {.type = type, .model = path, .extra_ids = extra_ids};
    mega_tokenizer *t = NULL;
    if (mega_tokenizer_create(&o, &t) != MEGA_OK) fail_msg("%s", mega_error_message());
    return t;
}

static void sentencepiece_models(void **state)
{
    (void)state;
    mega_tokenizer *t = load_model("GPTSentencePieceTokenizer", write_model(2, true, true, false), 0);
    assert_int_equal(mega_tokenizer_size(t), 271);
    ENCODES(t, "abc ab", 262, 269, 262);
    ENCODES(t, "  a<sep>bz é", 264, 260, 259, 268, 125, 266, 270);
    ENCODES(t, "\n a b ", 266, 13, 260, 266, 268, 266);
    DECODES(t, "  a<sep>bz é", 264, 260, 259, 268, 125, 266, 270);
    DECODES(t, "abc ab", 1, 262, 269, 262, 2);
    expect_saved(t);
    mega_tokenizer_destroy(t);
    t = load_model("Llama2Tokenizer", write_model(2, false, true, true), 0);
    assert_int_equal(mega_tokenizer_eod(t), 2);
    ENCODES(t, "  a<sep>bz é", 1, 4, 3, 12, 0, 10, 14);
    ENCODES(t, "\n a b ", 1, 10, 0, 4, 10, 12);
    DECODES(t, "a<sep>b \xE2\x81\x87  é", 4, 3, 12, 0, 10, 14);
    expect_saved(t);
    mega_tokenizer_destroy(t);
    t = load_model("SentencePieceTokenizer", write_model(2, false, true, true), 2);
    assert_int_equal(mega_tokenizer_size(t), 22); /* <CLS> <SEP> <EOD> <MASK>, <PAD>, two <extra_id_N> */
    assert_int_equal(mega_tokenizer_eod(t), 17);
    ENCODES(t, "ab<EOD>c<extra_id_1></s>", 6, 17, 10, 13, 21, 2);
    expect_saved(t);
    expect_made(t, "ab<EOD>  abc  a <extra_id_1></s>", 19);
    mega_tokenizer_destroy(t);
    t = load_model("SentencePieceTokenizer", write_model(1, true, false, false), 2);
    expect_saved(t);
    expect_made(t, "ab <extra_id_0>  abc  z ", 19 + 256);
    mega_tokenizer_destroy(t);
}

static void refused_models(void **state)
{
    (void)state;
    mega_tokenizer *t;
    const char *path = write_model(3, false, true, true);
    assert_int_not_equal(mega_tokenizer_load(path, &t), MEGA_OK);
    assert_non_null(strstr(mega_error_message(), "model_type is WORD"));
    char *bytes;
    size_t n;
    assert_int_equal(mega_file_read(write_model(2, false, true, true), &bytes, &n), MEGA_OK);
    const char *cut = mega_kit_path(mega_kit_temp_folder(), "cut.model");
    for (size_t k = 0; k < n; k += k < 40 ? 1 : 7) { /* a file that ends early is refused, or a smaller model */
        assert_int_equal(mega_file_write_atomic(cut, bytes, k), MEGA_OK);
        if (mega_tokenizer_load(cut, &t) == MEGA_OK) mega_tokenizer_destroy(t);
        else
            assert_non_null(strstr(mega_error_message(), "cut.model"));
    }
    mega_free(bytes);
}

static void tiktoken_file(void **state)
{
    (void)state;
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *path = mega_kit_path(mega_kit_temp_folder(), "tiktoken.json");
    mega_buffer b = {0};
    mega_tokenizer *t;
    mega_buffer_puts(&b, "[");
    for (int i = 0; i < 256; i++)
        mega_buffer_printf(&b, "{\"rank\": %d, \"token_bytes\": \"%c%c==\", \"token_str\": \"\"},", i, digits[i >> 2],
                           digits[(i & 3) << 4]);
    mega_buffer_puts(&b, "{\"rank\":256,\"token_bytes\":\"YWI=\",\"token_str\":\"ab\"}," /* ab, abc, Ab */
                         "{\"rank\":257,\"token_bytes\":\"YWJj\"},{\"rank\":258,\"token_bytes\":\"QWI=\"}]");
    mega_kit_write(path, b.data);
    mega_tokenizer_options o = {
        .type = "TikTokenizer", .model = path, .vocab_size = 267, .tiktoken_special = 8, .tiktoken_pattern = "v2"};
    if (mega_tokenizer_create(&o, &t) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_int_equal(mega_tokenizer_eod(t), 2);
    ENCODES(t, "abcAb12<s>x<SPECIAL_7>", 265, 266, 8 + '1', 8 + '2', 1, 8 + 'x', 7);
    DECODES(t, "abc</s>", 265, 2);
    expect_saved(t);
    mega_tokenizer_destroy(t);
    o.tiktoken_pattern = "v1";
    assert_int_equal(mega_tokenizer_create(&o, &t), MEGA_OK);
    ENCODES(t, "abcAb", 265, 266);
    mega_tokenizer_destroy(t);
    o.vocab_size = 300;
    assert_int_equal(mega_tokenizer_create(&o, &t), MEGA_ERR_FORMAT);
    assert_non_null(strstr(mega_error_message(), "found 259 tokens, expected 292"));
    mega_buffer_fini(&b);
}

static void refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *normalizer, *rest, *message;
    } rows[] = {
        {"{\"type\":\"ByteLevel\"}", LLAMA_REST, "normalizer ByteLevel is not supported; expected one of NFC"},
        {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\p{Greek}\"},\"content\":\"\"}", LLAMA_REST,
         "'\\p{Greek}' at character 1: only general categories"},
        {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"x\"}", LLAMA_REST,
         "the \"String\" of the \"pattern\" is empty"},
        {"null", "\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}", "pre_tokenizer UnicodeScripts is not supported"},
        {"null", "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":\"Isolated\"}",
         "the \"String\" of the \"pattern\" is empty"},
        {"null", "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\\\\b\"},\"behavior\":\"Isolated\"}",
         "'\\b' at character 2: this escape is not supported"},
        {"null", "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"None\"}",
         "behavior None is not supported"},
        {"null",
         "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]}",
         "pre_tokenizer Digits after ByteLevel"},
        {"null", "\"decoder\":{\"type\":\"CTC\"}", "decoder CTC is not supported"},
        {"null", "\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}", "after Fuse"},
        {"null",
         "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}]}",
         "has no \"special_tokens\""},
        {"null", "\"post_processor\":{\"type\":\"Nothing\"}", "post_processor Nothing is not supported"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mega_tokenizer *t = load_json(characters_json("", rows[i].normalizer, rows[i].rest));
        assert_null(t);
        if (strstr(mega_error_message(), rows[i].message) == NULL ||
            strstr(mega_error_message(), "tokenizer.json line 1 column ") == NULL)
            fail_msg("row %zu: found '%s', wanted '%s'", i, mega_error_message(), rows[i].message);
    }
    assert_null(load_json(characters_json("{\"id\":-1,\"content\":\"ab\"}", "null", LLAMA_REST)));
    assert_non_null(strstr(mega_error_message(), "\"id\" of an added token is -1; expected 0 or more"));
    assert_null(load_json("{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}"));
    assert_non_null(strstr(mega_error_message(), "the vocabulary is empty"));
}

static void expressions(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text, *matches; /* matches, each in brackets */
    } rows[] = {
        {"\\p{N}{1,3}", "a²12345", "[²12][345]"},           {"[^(\\s|[.,!]\\p{Lu}-]+", "ab.Cd|e-f", "[ab][d][e][f]"},
        {"\\P{L}|\\x41|\\u00e9", "bAé1", "[A][é][1]"},      {"(?i:'s|x)+(?=y)", "'Sxy'ſy's", "['Sx]['ſ]"},
        {"a{,2}b|{|c{x", "aabab{c{x", "[aab][ab][{][c{x]"}, {"^b|\\w\\d\\S$", "b\nb c1x", "[b][b][c1x]"},
        {"[]a-c]+|[\\]\\-\\\\]", "]ab-\\", "[]ab][-][\\]"},
    };
    mega_regex_match *match;
    assert_int_equal(mega_regex_match_create(&match), MEGA_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mega_regex *r;
        mega_buffer found = {0};
        const size_t n = strlen(rows[i].text);
        if (mega_regex_compile(rows[i].pattern, strlen(rows[i].pattern), &r) != MEGA_OK)
            fail_msg("%s", mega_error_message());
        for (size_t begin = 0, end = 0; end < n;) {
            bool more;
            assert_int_equal(mega_regex_find(r, match, (const uint8_t *)rows[i].text, n, end, &more, &begin, &end),
                             MEGA_OK);
            if (!more) break;
            mega_buffer_printf(&found, "[%.*s]", (int)(end - begin), rows[i].text + begin);
        }
        if (strcmp(found.data, rows[i].matches) != 0)
            fail_msg("%s in '%s': %s, expected %s", rows[i].pattern, rows[i].text, found.data, rows[i].matches);
        mega_buffer_fini(&found);
        mega_regex_destroy(r);
    }
    mega_regex_match_destroy(match);
    static const char *const bad[] = {"(?P<a>b)", "[a&&b]", "[[:alpha:]]", "\\1", "a\\",
                                      "[a",       "[b-a]",  "\\p{L",       "(a",  "\\x{110000}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        mega_regex *r;
        assert_int_not_equal(mega_regex_compile(bad[i], strlen(bad[i]), &r), MEGA_OK);
        assert_non_null(strstr(mega_error_message(), "regular expression"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_with_byte_fallback),
        cmocka_unit_test(composed_characters),
        cmocka_unit_test(sentencepiece_models),
        cmocka_unit_test(refused_models),
        cmocka_unit_test(tiktoken_file),
        cmocka_unit_test(refused_by_name),
        cmocka_unit_test(expressions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
