#include "bert.h"
#include "megalith/utf8.h"
#include "unicode/char_set.h"
#include "unicode/unicode.h"
#include "unicode/unicode_forms.h"
#include <string.h>
#include <utf8proc.h>

enum { LONGEST = 12 }; /* bytes that a character may become */

static bool is_category(const char *name, const char *wanted)
{
    return strncmp(name, wanted, strlen(wanted)) == 0;
}

static void set_kind(mega_bert *b, uint32_t first, uint32_t last, int kind)
{
    for (uint32_t c = first; c <= last; c++) b->kind[c] |= (uint8_t)kind;
}

/* The kinds that a general category decides. `tokenizers` counts private use among the control characters, and has
 * white space where Megatron has separators of category Zs. */
static int kind_of_category(const mega_bert_rules *r, const char *name)
{
    int kind = 0;
    const bool control = is_category(name, "Cc") || is_category(name, "Cf");
    if (r->clean && (control || (!r->megatron && is_category(name, "Co")))) kind |= MEGA_BERT_DROP;
    if (r->clean && (is_category(name, "Zs") || (!r->megatron && is_category(name, "Z")))) kind |= MEGA_BERT_BLANK;
    if (is_category(name, "Z")) kind |= MEGA_BERT_WHITE;
    if (is_category(name, "P")) kind |= MEGA_BERT_PUNCTUATION;
    if (is_category(name, "Mn")) kind |= MEGA_BERT_MARK;
    return kind;
}

static void set_category(mega_bert *b, uint32_t first, uint32_t last, const char *category)
{
    const int kind = kind_of_category(&b->rules, category);
    if (kind != 0) set_kind(b, first, last, kind);
}

/* `tokenizers` decides some kinds by the categories of Unicode 8. */
static void apply_exceptions(mega_bert *b)
{
    const int decided = MEGA_BERT_DROP | MEGA_BERT_PUNCTUATION | MEGA_BERT_MARK;
    for (int i = 0; i < mega_bert_exceptions_count; i++) {
        const mega_bert_exception *e = &mega_bert_exceptions[i];
        for (uint32_t c = e->first; c < e->first + e->count; c++)
            b->kind[c] = (uint8_t)((b->kind[c] & ~decided) | (e->kind & (b->rules.clean ? decided : ~MEGA_BERT_DROP)));
    }
}

static void find_changes(mega_bert *b, uint32_t first, uint32_t last, const char *category)
{
    if (is_category(category, "Cn") || is_category(category, "Co") || is_category(category, "Cs")) return;
    const mega_bert_rules *r = &b->rules;
    for (uint32_t c = first; c <= last; c++) {
        const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)c);
        const bool hangul = c >= 0xAC00 && c < 0xD7A4;
        if (r->lower && (p->lowercase_seqindex != UINT16_MAX || c == 0x130)) b->kind[c] |= MEGA_BERT_CHANGES;
        if (r->strip &&
            (hangul || (b->kind[c] & MEGA_BERT_MARK) != 0 || (p->decomp_seqindex != UINT16_MAX && p->decomp_type == 0)))
            b->kind[c] |= MEGA_BERT_CHANGES;
        if (r->strip && p->combining_class != 0 && (b->kind[c] & MEGA_BERT_MARK) == 0) b->kind[c] |= MEGA_BERT_REORDERS;
    }
}

/* Calls `of` for each range of characters of one category. */
static void for_each_range(mega_bert *b, void (*of)(mega_bert *b, uint32_t first, uint32_t last, const char *category))
{
    static const char names[] = MEGA_CATEGORY_NAMES;
    for (int i = 0; i < mega_unicode_ranges_count; i++) {
        const uint32_t first = mega_unicode_ranges[i] >> 5;
        const uint32_t next = i + 1 < mega_unicode_ranges_count ? mega_unicode_ranges[i + 1] >> 5 : MEGA_CODE_POINTS;
        of(b, first, next - 1, names + 2 * (mega_unicode_ranges[i] & 31));
    }
}

/* Controls are no white space here, except those that `keeps` has. */
static void fill_ascii(mega_bert *b)
{
    const mega_bert_rules *r = &b->rules;
    for (int c = 0; c < 128; c++) {
        const bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z', number = c >= '0' && c <= '9';
        const bool line = c == '\t' || c == '\n' || c == '\r';
        if (c == ' ' || (c >= '\t' && c <= '\r')) b->kind[c] |= MEGA_BERT_WHITE;
        if (c > ' ' && c < 127 && !letter && !number) b->kind[c] |= MEGA_BERT_PUNCTUATION;
        b->ascii[c] = (uint8_t)(r->clean && line ? ' ' : r->lower && c >= 'A' && c <= 'Z' ? c + 32 : c);
        b->keeps[c] = !r->clean || line || (c >= ' ' && c < 127);
    }
}

static void fill_kinds(mega_bert *b)
{
    const mega_bert_rules *r = &b->rules;
    /* `tokenizers` has the third but last begin at U+2B920, Megatron at U+2B820 */
    const uint32_t chinese[][2] = {{0x3400, 0x4DBF},
                                   {0x4E00, 0x9FFF},
                                   {0xF900, 0xFAFF},
                                   {0x20000, 0x2A6DF},
                                   {0x2A700, 0x2B73F},
                                   {0x2B740, 0x2B81F},
                                   {r->megatron ? 0x2B820 : 0x2B920, 0x2CEAF},
                                   {0x2F800, 0x2FA1F}};
    for_each_range(b, set_category);
    if (!r->megatron) apply_exceptions(b);
    if (r->lower || r->strip) for_each_range(b, find_changes);
    for (size_t i = 0; i < sizeof chinese / sizeof chinese[0] && r->chinese; i++)
        set_kind(b, chinese[i][0], chinese[i][1], MEGA_BERT_CHINESE);
    set_kind(b, 0x85, 0x85, MEGA_BERT_WHITE);
    if (r->clean) set_kind(b, 0xFFFD, 0xFFFD, MEGA_BERT_DROP);
    fill_ascii(b);
}

mega_status mega_bert_create(const mega_bert_rules *rules, mega_bert **out)
{
    mega_bert *b = mega_calloc(1, sizeof *b);
    uint8_t *kind = mega_calloc(MEGA_CODE_POINTS, 1);
    if (b == NULL || kind == NULL) {
        MEGA_FREE(b, kind);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a table of characters");
    }
    b->rules = *rules;
    b->kind = kind;
    fill_kinds(b);
    *out = b;
    return MEGA_OK;
}

void mega_bert_destroy(mega_bert *b)
{
    if (b == NULL) return;
    MEGA_FREE(b->kind, b);
}

size_t mega_bert_bytes(const mega_bert *b)
{
    return b == NULL ? 0 : sizeof *b + MEGA_CODE_POINTS;
}

static uint8_t *bert_put_point(uint8_t *to, uint32_t cp)
{
    return to + mega_utf8_encode(cp, (char *)to);
}

static uint32_t lower_of(uint32_t cp)
{
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

/* The name of a category, of two letters; others follow it. */
static const char *category_of(uint32_t cp)
{
    static const char names[] = MEGA_CATEGORY_NAMES;
    int low = 0, high = mega_unicode_ranges_count;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (mega_unicode_ranges[middle] >> 5 <= cp) low = middle;
        else
            high = middle;
    }
    return names + 2 * (mega_unicode_ranges[low] & 31);
}

static bool in_list(uint32_t cp, const uint32_t (*list)[2], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (cp >= list[i][0] && cp <= list[i][1]) return true;
    return false;
}

/* Case_Ignorable of Unicode: marks, modifiers, formats, and punctuation inside words. */
static bool is_case_ignorable(uint32_t cp)
{
    static const uint32_t inside[][2] = {{0x27, 0x27},     {0x2E, 0x2E},     {0x3A, 0x3A},     {0xB7, 0xB7},
                                         {0x387, 0x387},   {0x55F, 0x55F},   {0x5F4, 0x5F4},   {0x2018, 0x2019},
                                         {0x2024, 0x2024}, {0x2027, 0x2027}, {0xFE13, 0xFE13}, {0xFE52, 0xFE52},
                                         {0xFE55, 0xFE55}, {0xFF07, 0xFF07}, {0xFF0E, 0xFF0E}, {0xFF1A, 0xFF1A}};
    const char *name = category_of(cp);
    return is_category(name, "Mn") || is_category(name, "Me") || is_category(name, "Cf") || is_category(name, "Lm") ||
           is_category(name, "Sk") || in_list(cp, inside, sizeof inside / sizeof inside[0]);
}

/* Cased of Unicode, without what is ignorable, too. */
static bool is_cased(uint32_t cp)
{
    static const uint32_t others[][2] = {{0xAA, 0xAA},       {0xBA, 0xBA},       {0x2160, 0x217F},  {0x24B6, 0x24E9},
                                         {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
    const char *name = category_of(cp);
    return is_category(name, "Lu") || is_category(name, "Ll") || is_category(name, "Lt") ||
           in_list(cp, others, sizeof others / sizeof others[0]);
}

/* Whether the sigma at text[at..at + 2) ends a word: a cased letter is before it, and none after it. What the cleaning
 * drops is not there. */
static bool is_final_sigma(const mega_bert *b, const uint8_t *text, size_t at, size_t n)
{
    uint32_t cp = 0;
    bool cased = false;
    for (size_t begin = at, end = at; end > 0; end = begin) {
        begin = end - 1;
        while (begin > 0 && end - begin < 4 && (text[begin] & 0xC0) == 0x80) begin--;
        if (mega_utf8_decode(text + begin, end - begin, &cp) != (int)(end - begin)) {
            begin = end - 1; /* not UTF-8 */
            continue;
        }
        if ((b->kind[cp] & MEGA_BERT_DROP) != 0 || is_case_ignorable(cp)) continue;
        cased = is_cased(cp);
        break;
    }
    for (size_t i = at + 2; i < n && cased;) {
        const int length = mega_utf8_decode(text + i, n - i, &cp);
        i += length > 0 ? (size_t)length : 1;
        if (length == 0 || (b->kind[cp] & MEGA_BERT_DROP) != 0 || is_case_ignorable(cp)) continue;
        return !is_cased(cp);
    }
    return cased;
}

/* Writes the lower case of a character, which is one character or, for U+0130, two. Returns their number. */
static int lower_points(const mega_bert *b, uint32_t cp, const uint8_t *text, size_t at, size_t n, uint32_t out[2])
{
    out[0] = lower_of(cp);
    out[1] = 0x307;
    if (cp == 0x130) out[0] = 'i';
    if (cp == 0x3A3 && b->rules.megatron && is_final_sigma(b, text, at, n)) out[0] = 0x3C2;
    return cp == 0x130 ? 2 : 1;
}

/* Writes a character without its marks. */
static uint8_t *put_stripped(const mega_bert *b, uint32_t cp, bool lower, uint8_t *to)
{
    utf8proc_int32_t parts[8];
    int last = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char((utf8proc_int32_t)cp, parts, 8, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &last);
    for (utf8proc_ssize_t i = 0; i < count && i < 8; i++) {
        const uint32_t part = (uint32_t)parts[i];
        if ((b->kind[part] & MEGA_BERT_MARK) == 0) to = bert_put_point(to, lower ? lower_of(part) : part);
    }
    return to;
}

/* Writes the character at `at` in its new form, which is at most LONGEST bytes long. */
static uint8_t *put_changed(const mega_bert *b, uint32_t cp, const uint8_t *text, size_t at, size_t n, uint8_t *to)
{
    const mega_bert_rules *r = &b->rules;
    uint32_t lower[2];
    if (r->strip && !r->megatron) return put_stripped(b, cp, r->lower, to);
    const int count = lower_points(b, cp, text, at, n, lower);
    if (!r->lower) return put_stripped(b, cp, false, to);
    for (int i = 0; i < count; i++) to = r->strip ? put_stripped(b, lower[i], false, to) : bert_put_point(to, lower[i]);
    return to;
}

mega_status mega_bert_normalize(const mega_bert *b, const uint8_t *text, size_t n, mega_buffer *out)
{
    enum { SHARE = 3 }; /* a character becomes at most three times as long; two blanks may be around it */
    if (n > SIZE_MAX / 8 || !mega_buffer_reserve(out, SHARE * n + LONGEST + 2))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory to normalize a text of %zu bytes", n);
    uint8_t *to = (uint8_t *)out->data + out->size;
    for (size_t at = 0; at < n;) {
        uint32_t cp = text[at];
        if (cp < 0x80) {
            *to = b->ascii[cp];
            to += b->keeps[cp];
            at++;
            continue;
        }
        const int length = mega_utf8_decode(text + at, n - at, &cp);
        const int kind = length > 0 ? b->kind[cp] & MEGA_BERT_ACTS : MEGA_BERT_DROP;
        if ((kind & MEGA_BERT_REORDERS) != 0) return mega_bert_normalize_plain(b, text, n, out);
        if (kind == 0) {
            memcpy(to, text + at, (size_t)length);
            to += length;
        } else if ((kind & MEGA_BERT_BLANK) != 0) {
            *to++ = ' ';
        } else if ((kind & MEGA_BERT_DROP) == 0) {
            const bool chinese = (kind & MEGA_BERT_CHINESE) != 0;
            if (chinese) *to++ = ' ';
            to = (kind & MEGA_BERT_CHANGES) != 0 ? put_changed(b, cp, text, at, n, to) : bert_put_point(to, cp);
            if (chinese) *to++ = ' ';
        }
        at += length > 0 ? (size_t)length : 1;
    }
    out->size = (size_t)(to - (uint8_t *)out->data);
    out->data[out->size] = '\0';
    return MEGA_OK;
}

static void append_point(mega_buffer *out, uint32_t cp)
{
    char bytes[4];
    mega_buffer_append(out, bytes, (size_t)mega_utf8_encode(cp, bytes));
}

/* Cleaning, blanks around Chinese characters, and Megatron's lower case. */
static void first_steps(const mega_bert *b, const uint8_t *text, size_t n, mega_buffer *out)
{
    for (size_t at = 0, next; at < n; at = next) {
        uint32_t cp = 0, lower[2];
        const int length = mega_utf8_decode(text + at, n - at, &cp);
        next = at + (length > 0 ? (size_t)length : 1);
        const int kind = length > 0 ? b->kind[cp] : MEGA_BERT_DROP;
        const bool dropped = cp < 128 ? b->keeps[cp] == 0 : (kind & MEGA_BERT_DROP) != 0;
        if (length == 0 || dropped) continue;
        if ((kind & MEGA_BERT_CHINESE) != 0) append_point(out, ' ');
        if ((kind & MEGA_BERT_BLANK) != 0 || (b->rules.clean && (cp == '\t' || cp == '\n' || cp == '\r'))) cp = ' ';
        const bool lowers = b->rules.lower && b->rules.megatron;
        const int count = lowers ? lower_points(b, cp, text, at, n, lower) : 1;
        for (int i = 0; i < count; i++) append_point(out, lowers ? lower[i] : cp);
        if ((kind & MEGA_BERT_CHINESE) != 0) append_point(out, ' ');
    }
}

mega_status mega_bert_normalize_plain(const mega_bert *b, const uint8_t *text, size_t n, mega_buffer *out)
{
    mega_buffer clean = {0}, form = {0};
    const mega_bert_rules *r = &b->rules;
    mega_status st = MEGA_OK;
    first_steps(b, text, n, &clean);
    if (r->strip && clean.size > 0)
        st = mega_unicode_form(MEGA_FORM_NFD, (const uint8_t *)clean.data, clean.size, &form);
    const mega_buffer *in = r->strip ? &form : &clean;
    for (size_t at = 0; at < in->size && st == MEGA_OK;) {
        uint32_t cp = 0, lower[2];
        at += (size_t)mega_utf8_decode((const uint8_t *)in->data + at, in->size - at, &cp);
        if (r->strip && (b->kind[cp] & MEGA_BERT_MARK) != 0) continue;
        const bool lowers = r->lower && !r->megatron;
        const int count = lowers ? lower_points(b, cp, NULL, 0, 0, lower) : 1;
        for (int i = 0; i < count; i++) append_point(out, lowers ? lower[i] : cp);
    }
    out->failed = out->failed || clean.failed || form.failed;
    mega_buffer_fini(&clean);
    mega_buffer_fini(&form);
    return st == MEGA_OK ? mega_buffer_check(out, "a normalized text") : st;
}
