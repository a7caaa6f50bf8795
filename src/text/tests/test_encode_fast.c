/* Compares the fast encoder, for each instruction set that runs here, with its definition: the public patterns and the
 * merges, word by word, without a cache. Random and adversarial texts from a fixed seed. */
#include "kit.h"
#include "megalith/threads.h"
#include "megalith/tokenizer_train.h"
#include "megalith/utf8.h"
#include "models/encoder.h"
#include "models/pretokenize.h"
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 12000 };

static size_t put_code_point(uint8_t *to, uint32_t cp)
{
    char bytes[4];
    const int n = mega_utf8_encode(cp >= 0xD800 && cp < 0xE000 ? 0x4E00 : cp, bytes);
    memcpy(to, bytes, (size_t)n);
    return (size_t)n;
}

/* One piece of at most 8 bytes, of a kind that the split distinguishes. */
static size_t piece(uint8_t *to, uint64_t r, int kind)
{
    static const char *const likely[] = {" ",
                                         "  ",
                                         "\n",
                                         "\t",
                                         "\r\n",
                                         "\r",
                                         "\n\n",
                                         "'S",
                                         "'Re",
                                         "'\xC5\xBF",
                                         "“",
                                         "1",
                                         "12345",
                                         "'s",
                                         "'t",
                                         "'re",
                                         "'ve",
                                         "'ll",
                                         "'m",
                                         "'d",
                                         "'",
                                         "''",
                                         "the",
                                         " of",
                                         " a",
                                         "ing",
                                         "E",
                                         "42",
                                         "!",
                                         "_",
                                         "\xC2\xA0",
                                         "\xE3\x80\x80",
                                         "é",
                                         "日",
                                         "語",
                                         "٣",
                                         "²",
                                         "😀",
                                         "привет",
                                         "ا",
                                         "\xCC\x81",
                                         "\xFF",
                                         "\xC3",
                                         "\xE2\x80",
                                         "\xED\xA0\x80",
                                         "\xC0\x80",
                                         "\x80",
                                         "\xF4\x90\x80\x80",
                                         "",
                                         "\x1C"};
    static const uint32_t planes[][2] = {{0x20, 0x7F},        {0x80, 0x7FF},  {0x800, 0xFFFF},  {0x10000, 0x1FFFF},
                                         {0x20000, 0x10FFFF}, {0x400, 0x4FF}, {0x4E00, 0x9FFF}, {0x2000, 0x206F}};
    if (kind == 0) {
        const char *text = likely[r % (sizeof likely / sizeof likely[0])];
        const size_t n = strlen(text) < 8 ? strlen(text) : 8;
        memcpy(to, text, n);
        return n;
    }
    if (kind <= 8) {
        const uint32_t *plane = planes[kind - 1];
        return put_code_point(to, plane[0] + (uint32_t)(r % (plane[1] - plane[0] + 1)));
    }
    *to = kind == 9 ? (uint8_t)r : kind == 10 ? (uint8_t)('a' + r % 26) : (uint8_t)(r % 2 == 0 ? ' ' : '0' + r % 10);
    return 1;
}

/* Consecutive pieces of one kind, so that runs get long, and sometimes one piece many times. */
static size_t random_text(uint8_t *text, size_t wanted, uint64_t *state)
{
    size_t n = 0;
    while (n < wanted) {
        const int kind = (int)(mega_kit_next(state) % 12);
        const bool same = mega_kit_next(state) % 8 == 0;
        uint64_t r = mega_kit_next(state);
        for (uint64_t left = mega_kit_next(state) % (same ? 200 : 24) + 1; left > 0 && n < wanted; left--) {
            n += piece(text + n, r, kind);
            if (!same) r = mega_kit_next(state);
        }
    }
    return n;
}

static void compare_ends(const uint8_t *text, size_t n)
{
    const int sets = mega_cpu_isa() > MEGA_ISA_AVX512 ? MEGA_ISA_AVX512 : mega_cpu_isa();
    static int turn; /* GPT-2's pattern every time, the others one after another */
    const mega_split splits[] = {MEGA_SPLIT_GPT2, (mega_split)(MEGA_SPLIT_DIGITS + turn++ % 4)};
    for (int k = 0; k < 2; k++)
        for (int set = 0; set <= sets; set++)
            for (size_t at = 0, end[5]; at < n;) {
                const int words = mega_encode_set_for((mega_isa)set).ends(splits[k], text, at, n, end, 5);
                assert_in_range(words, 1, 5);
                for (int i = 0; i < words; at = end[i++]) {
                    const size_t expected = mega_split_end(splits[k], text, at, n);
                    if (end[i] != expected)
                        fail_msg("pattern %d, set %d: word at %zu ends at %zu, expected %zu: '%.*s'", splits[k], set,
                                 at, end[i], expected, n - at > 80 ? 80 : (int)(n - at), (const char *)text + at);
                }
            }
}

static void compare(mega_encoder *fast, mega_encoder *plain, const uint8_t *text, size_t n)
{
    /* a block of exactly this size, so that a sanitizer detects a read past the end */
    uint8_t *exact = malloc(n);
    assert_true(exact != NULL || n == 0);
    if (n > 0) memcpy(exact, text, n);
    compare_ends(exact, n);
    mega_ids a = {0}, b = {0};
    assert_int_equal(fast->words(fast, exact, n, 0, &a), MEGA_OK);
    assert_int_equal(mega_encode_words_plain(plain, exact, n, 0, &b), MEGA_OK);
    assert_int_equal(a.count, b.count);
    if (a.count > 0) assert_memory_equal(a.id, b.id, (size_t)a.count * sizeof *a.id);
    mega_ids_fini(&a);
    mega_ids_fini(&b);
    free(exact);
}

static void fuzz(const mega_tokenizer *t, int rounds)
{
    const int part = getenv("MEGA_UNDER_VALGRIND") != NULL ? 10 : 1;
    const int sets = mega_cpu_isa() > MEGA_ISA_AVX512 ? MEGA_ISA_AVX512 : mega_cpu_isa();
    uint8_t *text = malloc(LIMIT + 8);
    assert_non_null(text);
    for (int set = 0; set <= sets; set++) {
        uint64_t state = 88172645463325252ull;
        mega_encoder *fast, *plain;
        assert_int_equal(mega_encoder_create(t, &fast), MEGA_OK);
        assert_int_equal(mega_encoder_create(t, &plain), MEGA_OK);
        fast->words = mega_encode_set_for((mega_isa)set).words;
        for (int round = 0; round < rounds / part; round++) {
            const size_t limit = round % 64 == 0 ? LIMIT : round % 4 == 0 ? 600 : 90;
            compare(fast, plain, text, random_text(text, mega_kit_next(&state) % limit, &state));
        }
        memset(text, 'a', LIMIT); /* one long word, above the limit for ids of 16 bits too */
        compare(fast, plain, text, LIMIT);
        compare(fast, plain, text, MEGA_SYMBOLS16);
        compare(fast, plain, text, MEGA_SYMBOLS16 + 1);
        /* positions in the ring are about to wrap around */
        fast->cache.head = UINT32_MAX - 3 * (uint32_t)MEGA_CACHE_RING;
        for (int round = 0; round < 50; round += part) {
            compare(fast, plain, text, random_text(text, 5000, &state));
            fast->cache.head += (uint32_t)(part * MEGA_CACHE_RING / 20);
        }
        mega_encoder_destroy(fast);
        mega_encoder_destroy(plain);
    }
    free(text);
}

static void trained(void **unused)
{
    (void)unused;
    mega_trainer *trainer;
    mega_tokenizer *t;
    uint64_t state = 1234567;
    uint8_t *text = malloc(LIMIT + 8);
    assert_non_null(text);
    const mega_trainer_options o = {.type = "GPT2BPETokenizer", .vocab_size = 1500};
    assert_int_equal(mega_trainer_create(&o, &trainer), MEGA_OK);
    for (int i = 0; i < 8; i++)
        assert_int_equal(mega_trainer_add(trainer, (char *)text, random_text(text, LIMIT, &state)), MEGA_OK);
    assert_int_equal(mega_trainer_finish(trainer, &t), MEGA_OK);
    fuzz(t, 4000);
    mega_pair_table_fini(&t->pairs); /* like a vocabulary whose ids need more than 16 bits */
    fuzz(t, 1000);
    mega_tokenizer_destroy(t);
    mega_trainer_destroy(trainer);
    free(text);
}

static void gpt2(void **unused)
{
    (void)unused;
    const char *vocab = mega_kit_need_data("gpt2/vocab.json"), *merges = mega_kit_need_data("gpt2/merges.txt");
    const mega_tokenizer_options o = {.type = "GPT2BPETokenizer", .vocab_file = vocab, .merge_file = merges};
    mega_tokenizer *t;
    assert_int_equal(mega_tokenizer_create(&o, &t), MEGA_OK);
    fuzz(t, 4000);
    mega_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(trained), cmocka_unit_test(gpt2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
