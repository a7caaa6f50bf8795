#include "char_set.h"
#include "unicode.h"
#include <stdlib.h>
#include <string.h>

void mega_char_set_fini(mega_char_set *s)
{
    mega_free(s->range);
    *s = (mega_char_set){0};
}

void mega_char_set_add(mega_char_set *s, uint32_t first, uint32_t last)
{
    if (!mega_array_reserve(&s->range, &s->capacity, s->count + 1, sizeof *s->range)) {
        s->failed = true;
        return;
    }
    s->range[s->count++] = (mega_char_range){first, last};
}

bool mega_char_set_add_category(mega_char_set *s, const char *name, size_t n)
{
    static const char names[] = MEGA_CATEGORY_NAMES;
    bool found = false;
    if (n != 1 && n != 2) return false;
    for (int i = 0; i < mega_unicode_ranges_count; i++) {
        const char *category = names + 2 * (mega_unicode_ranges[i] & 31);
        if (memcmp(category, name, n) != 0) continue;
        const uint32_t next = i + 1 < mega_unicode_ranges_count ? mega_unicode_ranges[i + 1] >> 5 : MEGA_CODE_POINTS;
        mega_char_set_add(s, mega_unicode_ranges[i] >> 5, next - 1);
        found = true;
    }
    return found;
}

void mega_char_set_add_space(mega_char_set *s)
{
    static const uint32_t spaces[][2] = {{0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                         {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                         {0x205F, 0x205F}, {0x3000, 0x3000}};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) mega_char_set_add(s, spaces[i][0], spaces[i][1]);
}

/* The symbols at the end are letters in circles and squares: alphabetic, but of category So. */
void mega_char_set_add_word(mega_char_set *s)
{
    static const char *const names[] = {"L", "M", "Nd", "Nl", "Pc"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        mega_char_set_add_category(s, names[i], strlen(names[i]));
    mega_char_set_add(s, 0x24B6, 0x24E9);
    mega_char_set_add(s, 0x1F130, 0x1F149);
    mega_char_set_add(s, 0x1F150, 0x1F169);
    mega_char_set_add(s, 0x1F170, 0x1F189);
}

void mega_char_set_join(mega_char_set *s, const mega_char_set *other)
{
    for (int64_t i = 0; i < other->count; i++) mega_char_set_add(s, other->range[i].first, other->range[i].last);
    s->failed = s->failed || other->failed;
}

static int compare_ranges(const void *a, const void *b)
{
    const uint32_t x = ((const mega_char_range *)a)->first, y = ((const mega_char_range *)b)->first;
    return (x > y) - (x < y);
}

void mega_char_set_order(mega_char_set *s)
{
    if (s->count == 0) return;
    qsort(s->range, (size_t)s->count, sizeof *s->range, compare_ranges);
    int64_t kept = 0;
    for (int64_t i = 1; i < s->count; i++) {
        mega_char_range *last = &s->range[kept];
        if (s->range[i].first > last->last + 1) s->range[++kept] = s->range[i];
        else if (s->range[i].last > last->last)
            last->last = s->range[i].last;
    }
    s->count = kept + 1;
}

void mega_char_set_negate(mega_char_set *s)
{
    mega_char_set out = {.failed = s->failed};
    uint32_t next = 0;
    mega_char_set_order(s);
    for (int64_t i = 0; i < s->count; i++) {
        if (s->range[i].first > next) mega_char_set_add(&out, next, s->range[i].first - 1);
        next = s->range[i].last + 1;
    }
    if (next < MEGA_CODE_POINTS) mega_char_set_add(&out, next, MEGA_CODE_POINTS - 1);
    mega_char_set_fini(s);
    *s = out;
}

bool mega_char_set_has(const mega_char_set *s, uint32_t cp)
{
    int64_t low = 0, high = s->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (s->range[middle].last < cp) low = middle + 1;
        else
            high = middle;
    }
    return low < s->count && s->range[low].first <= cp;
}
