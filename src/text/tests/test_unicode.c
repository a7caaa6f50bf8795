/* Compares the table with the Unicode files of this machine. Characters of a version that is newer than theirs are not
 * in them; the others keep their category, with exceptions that are counted. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include "unicode/unicode.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CODE_POINTS = 0x110000 };

static const char *unicode_file(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "/usr/share/unicode/%s", name);
    if (!mega_file_exists(path)) mega_kit_skip("%s is not there (Debian package unicode-data)", path);
    return path;
}

static void mark(uint8_t *class, unsigned long from, unsigned long to, uint8_t value)
{
    for (unsigned long cp = from; cp <= to; cp++) class[cp] = value;
}

static void mark_categories(uint8_t *class, char *text)
{
    unsigned long first = 0;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        char *name = strchr(line, ';') + 1, *category = strchr(name, ';') + 1;
        const unsigned long cp = strtoul(line, NULL, 16);
        if (memcmp(category - 8, " First>;", 8) == 0) {
            first = cp;
            continue;
        }
        const uint8_t value = *category == 'L'   ? MEGA_CLASS_LETTER
                              : *category == 'N' ? MEGA_CLASS_NUMBER
                                                 : MEGA_CLASS_OTHER;
        mark(class, memcmp(category - 7, " Last>;", 7) == 0 ? first : cp, cp, value);
    }
}

static void mark_white_space(uint8_t *class, char *text)
{
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        const char *property = strstr(line, "; White_Space");
        if (property == NULL) continue;
        char *end;
        const unsigned long from = strtoul(line, &end, 16);
        mark(class, from, end[0] == '.' ? strtoul(end + 2, NULL, 16) : from, MEGA_CLASS_SPACE);
    }
}

static void classes_are_those_of_unicode(void **state)
{
    (void)state;
    char *data, *props;
    assert_int_equal(mega_file_read(unicode_file("PropList.txt"), &props, NULL), MEGA_OK);
    assert_int_equal(mega_file_read(unicode_file("UnicodeData.txt"), &data, NULL), MEGA_OK);
    uint8_t *class = mega_calloc(CODE_POINTS, 1);
    mark_categories(class, data);
    mark_white_space(class, props);
    int64_t counts[4] = {0};
    int newer = 0;
    for (uint32_t cp = 0; cp < CODE_POINTS; cp++) {
        counts[class[cp]]++;
        if (unicode_class(cp) == class[cp]) continue;
        if (class[cp] != MEGA_CLASS_OTHER) fail_msg("U+%04X: class %d, expected %d", cp, unicode_class(cp), class[cp]);
        newer++;
    }
    assert_true(newer < 20000);
    assert_int_equal(counts[MEGA_CLASS_SPACE], 25);
    assert_true(counts[MEGA_CLASS_LETTER] > 130000 && counts[MEGA_CLASS_NUMBER] > 1800);
    mega_free(class);
    mega_free(data);
    mega_free(props);
}

/* Always runs: characters whose class is often mistaken. */
static void known_classes(void **state)
{
    (void)state;
    static const struct {
        uint32_t cp;
        int class;
    } rows[] = {
        {'a', MEGA_CLASS_LETTER},     {'Z', MEGA_CLASS_LETTER},     {'0', MEGA_CLASS_NUMBER},
        {'_', MEGA_CLASS_OTHER},      {' ', MEGA_CLASS_SPACE},      {'\v', MEGA_CLASS_SPACE},
        {0x1C, MEGA_CLASS_OTHER},     {0x85, MEGA_CLASS_SPACE},     {0xA0, MEGA_CLASS_SPACE},
        {0xAA, MEGA_CLASS_LETTER},    {0xB2, MEGA_CLASS_NUMBER},    {0xBD, MEGA_CLASS_NUMBER},
        {0x301, MEGA_CLASS_OTHER},    {0x660, MEGA_CLASS_NUMBER},   {0x180E, MEGA_CLASS_OTHER},
        {0x200B, MEGA_CLASS_OTHER},   {0x2028, MEGA_CLASS_SPACE},   {0x2160, MEGA_CLASS_NUMBER},
        {0x3000, MEGA_CLASS_SPACE},   {0x3007, MEGA_CLASS_NUMBER},  {0x4E00, MEGA_CLASS_LETTER},
        {0x9FFF, MEGA_CLASS_LETTER},  {0xAC00, MEGA_CLASS_LETTER},  {0xFEFF, MEGA_CLASS_OTHER},
        {0xFFFD, MEGA_CLASS_OTHER},   {0x1D7D8, MEGA_CLASS_NUMBER}, {0x1F600, MEGA_CLASS_OTHER},
        {0x323AF, MEGA_CLASS_LETTER}, {0x323B0, MEGA_CLASS_OTHER},  {0x10FFFF, MEGA_CLASS_OTHER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (unicode_class(rows[i].cp) != rows[i].class)
            fail_msg("U+%04X: class %d", rows[i].cp, unicode_class(rows[i].cp));
}

static void categories_and_classes_agree(void **state)
{
    (void)state;
    static const char names[] = MEGA_CATEGORY_NAMES;
    uint32_t next = 0;
    for (int i = 0; i < mega_unicode_ranges_count; i++) {
        const uint32_t first = mega_unicode_ranges[i] >> 5, category = mega_unicode_ranges[i] & 31;
        const uint32_t end = i + 1 < mega_unicode_ranges_count ? mega_unicode_ranges[i + 1] >> 5 : CODE_POINTS;
        assert_int_equal(first, next);
        assert_true(end > first && category < 30);
        for (uint32_t cp = first; cp < end; cp++) {
            const int class = unicode_class(cp);
            assert_int_equal(names[2 * category] == 'L', class == MEGA_CLASS_LETTER);
            assert_int_equal(names[2 * category] == 'N', class == MEGA_CLASS_NUMBER);
        }
        next = end;
    }
    assert_int_equal(next, CODE_POINTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(categories_and_classes_agree),
        cmocka_unit_test(known_classes),
        cmocka_unit_test(classes_are_those_of_unicode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
