/* NFC that looks only where a text may change, against NFC of the whole text. */
#include "kit.h"
#include "megalith/utf8.h"
#include "unicode/unicode_forms.h"
#include <string.h>

static void put(mega_buffer *text, uint32_t cp)
{
    char bytes[4];
    mega_buffer_append(text, bytes, (size_t)mega_utf8_encode(cp, bytes));
}

/* Returns whether there was something to change. */
static bool compare(const mega_nfc *nfc, const mega_buffer *text, uint32_t origin)
{
    mega_buffer whole = {0}, made = {0};
    const uint8_t *bytes = (const uint8_t *)text->data;
    assert_int_equal(mega_unicode_form(MEGA_FORM_NFC, bytes, text->size, &whole), MEGA_OK);
    const bool changed = mega_unicode_nfc(nfc, bytes, text->size, &made);
    const mega_buffer *result = changed ? &made : text;
    if (!changed) assert_int_equal(made.size, 0);
    if (result->size != whole.size || (whole.size > 0 && memcmp(result->data, whole.data, whole.size) != 0))
        fail_msg("another NFC of the text of %x", origin);
    mega_buffer_fini(&whole);
    mega_buffer_fini(&made);
    return changed;
}

/* Every character of the planes that have any with a decomposition: alone, after a letter, before and after marks. */
static void characters(void **state)
{
    mega_nfc *nfc;
    mega_buffer text = {0};
    (void)state;
    assert_int_equal(mega_nfc_create(&nfc), MEGA_OK);
    for (uint32_t block = 0; block < 0x30000; block += 64) {
        if (block >= 0x20000 && block < 0x2F800) continue; /* ideographs */
        for (int way = 0; way < 4; way++) {
            text.size = 0;
            for (uint32_t cp = block; cp < block + 64; cp++) {
                if (cp >= 0xD800 && cp < 0xE000) continue;
                if (way == 1) put(&text, 'e');
                if (way == 2) put(&text, 0x9C7);
                if (way == 3) put(&text, 0x345);
                put(&text, cp);
                if (way > 0) put(&text, way == 2 ? 0x9BE : 0x323);
                put(&text, '\n');
            }
            compare(nfc, &text, block);
        }
    }
    mega_buffer_fini(&text);
    mega_nfc_destroy(nfc);
}

/* Firsts and seconds of pairs, marks of several classes, Hangul, characters that change alone, and bytes that are no
 * characters. */
static void random_texts(void **state)
{
    static const uint32_t from[] = {'a',    'E',    0xE9,   0x300,  0x301,  0x323,   0x345,   0x338,   0x3B1,
                                    0x3AC,  0x1FBC, 0x418,  0x439,  0x306,  0x915,   0x928,   0x93C,   0x94D,
                                    0x9C7,  0x9BE,  0x9D7,  0xBC6,  0xBBE,  0xDD9,   0xDCF,   0xDCA,   0xDDC,
                                    0xE01,  0xE38,  0xE48,  0x1100, 0x1161, 0x11A8,  0xAC00,  0xAC01,  0x304B,
                                    0x304C, 0x3099, 0x1EA1, 0x212B, 0xF900, 0x1D15E, 0x11099, 0x110BA, 0x2F800};
    mega_nfc *nfc;
    mega_buffer text = {0};
    uint64_t random = 1;
    int changed = 0;
    (void)state;
    assert_int_equal(mega_nfc_create(&nfc), MEGA_OK);
    for (uint32_t round = 0; round < 20000; round++) {
        text.size = 0;
        for (int i = 0; i < (int)(round % 14) + 1; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
            const uint32_t r = (uint32_t)(random >> 33);
            const char byte = (char)(r >> 8);
            if (r % 16 == 0) mega_buffer_append(&text, &byte, 1);
            else
                put(&text, from[(r >> 8) % (sizeof from / sizeof from[0])]);
        }
        changed += compare(nfc, &text, round);
    }
    assert_true(changed > 1000 && changed < 19000);
    mega_buffer_fini(&text);
    mega_nfc_destroy(nfc);
}

/* Texts as they are written must not be normalized at all: that is what makes this fast. */
static void usual_texts(void **state)
{
    static const char *const texts[] = {
        "an English text, with caf\u00E9 and na\u00EFve",
        "\u0439 \u0451 \u0419\u043E\u0434",                                          /* Russian */
        "\u03AC\u03AD\u03AE \u1FC3",                                                 /* Greek */
        "ti\u1EBFng Vi\u1EC7t",                                                      /* Vietnamese */
        "\u304C\u304E \u30D1 \u4E2D\u6587 \uD55C\uAD6D\uC5B4",                       /* Japanese, Chinese, Korean */
        "\u0939\u093F\u0928\u094D\u0926\u0940 \u0915\u093C",                         /* Hindi, with a nukta */
        "\u09AC\u09BE\u0982\u09B2\u09BE \u0BA4\u0BAE\u0BBF\u0BB4\u0BCD\u0BA8\u0BBE", /* Bengali and Tamil */
        "\u0E20\u0E32\u0E29\u0E32\u0E44\u0E17\u0E22 \u0E01\u0E38\u0E48",             /* Thai, two marks */
        "\u05D0\u05B8\u05BC \u0639\u064E\u0651",                                     /* Hebrew and Arabic, with marks */
    };
    mega_nfc *nfc;
    mega_buffer out = {0};
    (void)state;
    assert_int_equal(mega_nfc_create(&nfc), MEGA_OK);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (mega_unicode_nfc(nfc, (const uint8_t *)texts[i], strlen(texts[i]), &out)) fail_msg("%s", texts[i]);
    mega_buffer_fini(&out);
    mega_nfc_destroy(nfc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters),
        cmocka_unit_test(random_texts),
        cmocka_unit_test(usual_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
