/* The characters that have a part in Punkt's rules, for each language; letter case as Python has it. */
#include "punkt_impl.h"
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

/* ---- the rules of languages ---- */

#define NO_START     "(\"`{[:;&#*@)}]-,"
#define NON_WORD     ")\";}]*:@'({[\u2018\u2019\u201c\u201d\u00ab\u00bb"
#define CLOSES       "\"')]}\u2019\u201d\u00ab\u00bb"
#define CJK_CLOSERS  "\u300d\u300f\uff09\uff3d\uff5d\u3015\u3009\u300b\u201d\u2019"
#define CJK_OPENERS  "\u300c\u300e\uff08\uff3b\uff5b\u3014\u3008\u300a\u201c\u2018"
#define CJK_ENDS     "\u3002\uff01\uff1f\u2026!?"
#define CJK_NO_START NO_START "!?\u3002\uff01\uff1f\u2026\u3001\uff0c\uff1b\uff1a" CJK_CLOSERS CJK_OPENERS
#define CJK_CLOSES   ")]}\u2019\u201d\u00bb" CJK_CLOSERS
#define INDIC        "\u0964\u0965|"
/* ends of sentences as in English */
#define EUROPEAN                                                                                                      \
    " english en german de french fr spanish es italian it portuguese pt dutch nl danish da swedish sv norwegian no " \
    "nb nn finnish fi estonian et latvian lv lithuanian lt polish pl czech cs slovak sk slovene slovenian sl "        \
    "croatian hr serbian sr bosnian bs hungarian hu romanian ro bulgarian bg macedonian mk russian ru ukrainian uk "  \
    "belarusian be turkish tr albanian sq icelandic is irish ga welsh cy catalan ca galician gl basque eu maltese "   \
    "mt luxembourgish lb afrikaans af indonesian id malay ms vietnamese vi swahili sw tagalog tl esperanto eo latin " \
    "la "

typedef struct language_rules {
    const char *names; /* each between two spaces */
    const char *ends, *internal, *no_start, *non_word, *closes, *quotes;
    bool spaced, is_unambiguous;
} language_rules;

static const language_rules languages[] = {
    {" chinese zh ", CJK_ENDS, "\uff0c\u3001\uff1b\uff1a", CJK_NO_START, NON_WORD CJK_CLOSERS CJK_OPENERS, CJK_CLOSES,
     "\"'", false, true},
    {" japanese ja ", CJK_ENDS, "\u3001\uff0c\uff1b\uff1a", CJK_NO_START, NON_WORD CJK_CLOSERS CJK_OPENERS, CJK_CLOSES,
     "\"'", false, true},
    {" korean ko ", ".!?\u3002\uff01\uff1f", ",:;\u3001\uff0c", CJK_NO_START, NON_WORD CJK_CLOSERS CJK_OPENERS,
     CJK_CLOSES, "\"'", true, false},
    {" greek el ", ".;\u00b7!", ",:;", NO_START, NON_WORD, CLOSES, "", true, false},
    {" thai th ", ".!?", ",:;", NO_START, NON_WORD, CLOSES, "", false, false},
    {" hindi hi bengali bn marathi mr nepali ne gujarati gu punjabi pa odia or assamese as sanskrit sa tamil ta telugu "
     "te "
     "kannada kn malayalam ml sinhala si ",
     INDIC ".!?", ",;:", NO_START INDIC, NON_WORD INDIC, CLOSES, "", true, false},
    {" urdu ur ", "\u06d4\u061f!.", "\u060c\u061b,;:", NO_START "\u06d4\u061f\u060c",
     NON_WORD "\u06d4\u061f\u060c\u061b", CLOSES, "", true, false},
    {EUROPEAN, ".?!", ",:;", NO_START, NON_WORD, CLOSES, "", true, false},
    {"", ".?!", ",:;", NO_START, NON_WORD, CLOSES, "", true, false}};

static const language_rules *punkt_language_rules(const char *language)
{
    const language_rules *l = languages;
    const size_t n = language != NULL ? strlen(language) : 0;
    for (; l->names[0] != '\0'; l++) {
        for (const char *name = l->names; n > 0 && *name != '\0'; name++)
            if (name[0] == ' ' && strncasecmp(name + 1, language, n) == 0 && name[1 + n] == ' ') return l;
    }
    return l;
}

bool mega_punkt_knows(const char *language)
{
    return punkt_language_rules(language)->names[0] != '\0';
}

bool mega_punkt_needs_none(const char *language)
{
    return punkt_language_rules(language)->is_unambiguous;
}

static void add_kind(punkt_rules *r, const char *characters, uint16_t kind)
{
    const size_t n = strlen(characters);
    for (size_t at = 0; at < n;) {
        uint32_t cp = 0;
        const uint8_t *text = (const uint8_t *)characters + at;
        at += (size_t)mega_utf8_decode(text, n - at, &cp);
        if (kind & PUNKT_END) r->may_end[*text] = true;
        if (cp < PUNKT_NEAR) {
            r->near[cp] |= kind;
            continue;
        }
        int i = 0;
        while (i < r->specials && r->special[i].cp < cp) i++;
        if (i == r->specials || r->special[i].cp != cp) {
            memmove(&r->special[i + 1], &r->special[i], (size_t)(r->specials++ - i) * sizeof *r->special);
            r->special[i].cp = cp;
            r->special[i].kind = 0;
        }
        r->special[i].kind |= kind;
    }
}

static uint16_t punkt_kind_at(uint32_t cp);

void punkt_rules_init(punkt_rules *r, const char *language)
{
    const language_rules *l = punkt_language_rules(language);
    *r = (punkt_rules){.spaced = l->spaced, .closes_one = l->quotes[0] != '\0'};
    for (uint32_t cp = 0; cp < PUNKT_NEAR; cp++) r->near[cp] = punkt_kind_at(cp);
    add_kind(r, l->ends, PUNKT_END | PUNKT_NON_WORD);
    add_kind(r, l->internal, PUNKT_INTERNAL);
    add_kind(r, l->no_start, PUNKT_NO_START);
    add_kind(r, l->non_word, PUNKT_NON_WORD);
    add_kind(r, l->closes, PUNKT_CLOSES);
    add_kind(r, l->quotes, PUNKT_QUOTE);
    r->near['.'] &= (uint16_t)~PUNKT_NON_WORD; /* a period may belong to its word */
}

/* ---- characters beyond ASCII ---- */

/* Characters with the properties Other_Lowercase and Other_Uppercase of Unicode. */
static const struct {
    uint32_t first, last;
    uint16_t kind;
} other_case[] = {{0xaa, 0xaa, PUNKT_LOWER},       {0xba, 0xba, PUNKT_LOWER},       {0x2b0, 0x2b8, PUNKT_LOWER},
                  {0x2c0, 0x2c1, PUNKT_LOWER},     {0x2e0, 0x2e4, PUNKT_LOWER},     {0x345, 0x345, PUNKT_LOWER},
                  {0x37a, 0x37a, PUNKT_LOWER},     {0x10fc, 0x10fc, PUNKT_LOWER},   {0x1d2c, 0x1d6a, PUNKT_LOWER},
                  {0x1d78, 0x1d78, PUNKT_LOWER},   {0x1d9b, 0x1dbf, PUNKT_LOWER},   {0x2071, 0x2071, PUNKT_LOWER},
                  {0x207f, 0x207f, PUNKT_LOWER},   {0x2090, 0x209c, PUNKT_LOWER},   {0x2160, 0x216f, PUNKT_UPPER},
                  {0x2170, 0x217f, PUNKT_LOWER},   {0x24b6, 0x24cf, PUNKT_UPPER},   {0x24d0, 0x24e9, PUNKT_LOWER},
                  {0x2c7c, 0x2c7d, PUNKT_LOWER},   {0xa69c, 0xa69d, PUNKT_LOWER},   {0xa770, 0xa770, PUNKT_LOWER},
                  {0xa7f8, 0xa7f9, PUNKT_LOWER},   {0xab5c, 0xab5f, PUNKT_LOWER},   {0x10780, 0x10780, PUNKT_LOWER},
                  {0x10783, 0x10785, PUNKT_LOWER}, {0x10787, 0x107b0, PUNKT_LOWER}, {0x107b2, 0x107ba, PUNKT_LOWER},
                  {0x1f130, 0x1f149, PUNKT_UPPER}, {0x1f150, 0x1f169, PUNKT_UPPER}, {0x1f170, 0x1f189, PUNKT_UPPER}};

static uint16_t case_of(uint32_t cp, utf8proc_category_t category)
{
    if (category == UTF8PROC_CATEGORY_LU) return PUNKT_UPPER;
    if (category == UTF8PROC_CATEGORY_LL) return PUNKT_LOWER;
    if (category != UTF8PROC_CATEGORY_LM && category != UTF8PROC_CATEGORY_LO && category != UTF8PROC_CATEGORY_NL &&
        category != UTF8PROC_CATEGORY_SO && cp != 0x345)
        return 0;
    for (size_t i = 0; i < sizeof other_case / sizeof *other_case && cp >= other_case[i].first; i++)
        if (cp <= other_case[i].last) return other_case[i].kind;
    return 0;
}

static uint16_t punkt_kind_at(uint32_t cp)
{
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)cp);
    const uint16_t kind = case_of(cp, category);
    switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return kind | PUNKT_LETTER;
    case UTF8PROC_CATEGORY_ND: return PUNKT_DIGIT;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return PUNKT_SPACE;
    default: break;
    }
    return cp == 0x85 || (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp < 0x20) ? PUNKT_SPACE
           : cp == '_'                                                      ? PUNKT_LETTER
                                                                            : kind;
}

static uint16_t special_kind(const punkt_rules *r, uint32_t cp)
{
    for (int i = 0; i < r->specials && r->special[i].cp <= cp; i++)
        if (r->special[i].cp == cp) return r->special[i].kind;
    return 0;
}

uint16_t punkt_kind_beyond(const punkt_rules *r, const char *text, size_t n, int *length)
{
    uint32_t cp = 0;
    *length = mega_utf8_decode((const uint8_t *)text, n, &cp);
    if (*length == 0) {
        *length = 1;
        return 0;
    }
    if (cp < PUNKT_NEAR) return r->near[cp];
    if ((cp >= 0x4e00 && cp < 0x9fff) || (cp >= 0xac00 && cp < 0xd7a3)) return PUNKT_LETTER;
    return punkt_kind_at(cp) | special_kind(r, cp);
}

bool punkt_is_end(const punkt_rules *r, const char *text, size_t n, int *length)
{
    uint32_t cp = 0;
    *length = mega_utf8_decode((const uint8_t *)text, n, &cp);
    if (*length == 0) *length = 1;
    return (cp < PUNKT_NEAR ? r->near[cp] : cp < 0xff00 ? 0 : special_kind(r, cp)) & PUNKT_END;
}

/* ---- lower case ---- */

enum { SIGMA = 0x3a3, SMALL_SIGMA = 0x3c3, FINAL_SIGMA = 0x3c2, CAPITAL_I_WITH_DOT = 0x130 };

/* Characters that are passed over when looking whether a letter stands beside a sigma. */
static bool punkt_is_case_ignorable(uint32_t cp)
{
    static const uint32_t marks[] = {'\'',   '.',    ':',    '^',    '`',    0xb7,   0x387,  0x55f,  0x5f4, 0x2018,
                                     0x2019, 0x2024, 0x2027, 0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (cp == marks[i]) return true;
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF ||
           c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK;
}

static bool punkt_is_cased(uint32_t cp)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_LT || case_of(cp, c) != 0;
}

/* Returns whether a letter with case follows at `at`, or ends before it if back. */
static bool has_cased(const char *text, size_t n, size_t at, bool back)
{
    while (back ? at > 0 : at < n) {
        uint32_t cp = 0;
        if (back) {
            at--;
            while (at > 0 && ((uint8_t)text[at] & 0xc0) == 0x80) at--;
        }
        const int length = mega_utf8_decode((const uint8_t *)text + at, n - at, &cp);
        if (length == 0) return false;
        if (!punkt_is_case_ignorable(cp)) return punkt_is_cased(cp);
        if (!back) at += (size_t)length;
    }
    return false;
}

static void lower_beyond(const char *text, size_t n, size_t at, uint32_t cp, mega_buffer *out)
{
    char lower[4];
    uint32_t to = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
    if (cp == CAPITAL_I_WITH_DOT) {
        mega_buffer_append(out, "i\xcc\x87", 3);
        return;
    }
    if (cp == SIGMA)
        to = has_cased(text, n, at, true) && !has_cased(text, n, at + 2, false) ? FINAL_SIGMA : SMALL_SIGMA;
    mega_buffer_append(out, lower, (size_t)mega_utf8_encode(to, lower));
}

void punkt_lower(const char *text, size_t n, mega_buffer *out)
{
    if (!mega_buffer_reserve(out, n)) return;
    size_t at = 0;
    for (; at < n && (uint8_t)text[at] < 0x80; at++) {
        const char c = text[at];
        out->data[out->size++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    while (at < n) {
        uint32_t cp = 0;
        const int length = mega_utf8_decode((const uint8_t *)text + at, n - at, &cp);
        if (length <= 1) {
            const char c = text[at];
            const char small = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
            mega_buffer_append(out, &small, 1);
            at++;
            continue;
        }
        lower_beyond(text, n, at, cp, out);
        at += (size_t)length;
    }
    if (mega_buffer_reserve(out, 1)) out->data[out->size] = '\0';
}
