/* NFC of texts that are in it already, nearly always. A bitmap has the characters that may change or change others; all
 * others end what came before them, and are skipped. */
#include "megalith/utf8.h"
#include "unicode_forms.h"
#include <string.h>
#include <utf8proc.h>

enum { TABLE_POINTS = 0x10000, SKIP_BYTES = 16, SKIP_READS = 18 };

struct mega_nfc {
    uint64_t special[TABLE_POINTS / 64];
    bool skips; /* what is_skipped says is true of the library's characters */
};

typedef uint8_t skip_bytes __attribute__((vector_size(SKIP_BYTES)));

/* Characters of Latin, Cyrillic, Japanese, Chinese and Korean, and their punctuation, none of which is special. */
static bool is_skipped(uint32_t cp)
{
    if (cp >= 0x3000 && cp < 0x4000) return !((cp >= 0x302A && cp < 0x3030) || cp == 0x3099 || cp == 0x309A);
    return cp < 0x300 || (cp >= 0x400 && cp < 0x480) || (cp >= 0x1E80 && cp < 0x1F00) ||
           (cp >= 0x2002 && cp < 0x2040) || (cp >= 0x4000 && cp < 0xA000) || (cp >= 0xB000 && cp < 0xE000);
}

/* Returns whether all characters that begin in SKIP_BYTES bytes are of these, by their first bytes and, of some blocks,
 * the next two. SKIP_READS bytes are read. */
static inline bool all_skipped(const uint8_t *p)
{
    skip_bytes a, b, c;
    memcpy(&a, p, sizeof a);
    memcpy(&b, p + 1, sizeof b);
    memcpy(&c, p + 2, sizeof c);
    const skip_bytes marks = (skip_bytes)(((b == 0x80) & (c - 0xAA < 6)) | ((b == 0x82) & (c - 0x99 < 2)));
    const skip_bytes whole = (skip_bytes)((a < 0xCC) | (a - 0xD0 < 2) | ((a - 0xE4 < 10) & (a != 0xEA)));
    const skip_bytes kana = (skip_bytes)(a == 0xE3) & ~marks;
    const skip_bytes some =
        (skip_bytes)(((a == 0xE2) & (b == 0x80) & (c > 0x81)) | ((a == 0xE1) & ((b & 0xFE) == 0xBA)));
    const skip_bytes bad = ~(whole | kana | some);
    uint64_t half[2];
    memcpy(half, &bad, sizeof half);
    return (half[0] | half[1]) == 0;
}

static bool has_decomposition(const utf8proc_property_t *p)
{
    return p->decomp_seqindex != UINT16_MAX && p->decomp_type == 0;
}

/* Whether it is composed with a character before it: by the library's table or, in Hangul, by arithmetic. */
static bool is_hangul_second(uint32_t cp)
{
    return cp >= 0x1160 && cp < 0x1200;
}

static bool is_second(const utf8proc_property_t *p)
{
    return p->comb_index != UINT16_MAX && p->comb_index >= 0x8000;
}

/* Whether a character has a canonical decomposition that is not composed again. */
static bool changes_alone(uint32_t cp, const utf8proc_property_t *p)
{
    utf8proc_int32_t points[8];
    int boundary = 0;
    if (!has_decomposition(p)) return false;
    utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)cp, points, 8, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &boundary);
    if (n < 1 || n > 8) return true;
    n = utf8proc_normalize_utf32(points, n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    return n != 1 || points[0] != (utf8proc_int32_t)cp;
}

static bool is_special(const mega_nfc *nfc, uint32_t cp)
{
    if (cp < TABLE_POINTS) return (nfc->special[cp / 64] >> cp % 64 & 1) != 0;
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
    return p->combining_class != 0 || is_second(p) || has_decomposition(p);
}

mega_status mega_nfc_create(mega_nfc **out)
{
    mega_nfc *nfc = mega_calloc(1, sizeof *nfc);
    if (nfc == NULL) return MEGA_NO_MEMORY("tokenizer", "the table of NFC");
    for (uint32_t cp = 0; cp < TABLE_POINTS; cp++) {
        const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
        if (p->combining_class != 0 || is_second(p) || is_hangul_second(cp) || changes_alone(cp, p))
            nfc->special[cp / 64] |= (uint64_t)1 << cp % 64;
    }
    nfc->skips = true;
    for (uint32_t cp = 0; cp < TABLE_POINTS; cp++) nfc->skips = nfc->skips && !(is_skipped(cp) && is_special(nfc, cp));
    *out = nfc;
    return MEGA_OK;
}

void mega_nfc_destroy(mega_nfc *nfc)
{
    mega_free(nfc);
}

/* Returns whether a special character may change, or change what is before it. `before`: the last character that is not
 * special; *class: the combining class of the character in front, and then of this one. */
static bool may_change(uint32_t cp, const uint8_t *before, size_t left, int *class)
{
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
    uint32_t first = 0;
    if (has_decomposition(p) || is_hangul_second(cp)) return true;
    if (p->combining_class != 0 && p->combining_class < *class) return true; /* marks are out of order */
    *class = p->combining_class;
    if (!is_second(p) || mega_utf8_decode(before, left, &first) == 0) return false;
    /* it may be composed with a first of the library's table, which is no second, or with what that is composed of */
    p = utf8proc_get_property((utf8proc_int32_t)first);
    return p->comb_index < 0x8000 || has_decomposition(p);
}

/* Returns the length of the character at the begin if it is one below U+10000 that is not special; else 0. */
static inline size_t ordinary(const mega_nfc *nfc, const uint8_t *p, size_t left)
{
    const uint8_t a = p[0];
    if (a < 0x80) return 1;
    if (left < 3 || a < 0xC2 || a >= 0xF0 || (p[1] & 0xC0) != 0x80) return 0;
    if (a < 0xE0) return (nfc->special[a & 0x1F] >> (p[1] & 0x3F) & 1) != 0 ? 0 : 2;
    if ((p[2] & 0xC0) != 0x80) return 0;
    return (nfc->special[(size_t)(a & 0x0F) << 6 | (p[1] & 0x3F)] >> (p[2] & 0x3F) & 1) != 0 ? 0 : 3;
}

/* Returns how many bytes may be skipped: ASCII, or up to the begin of a character that is not special; 0: none. */
static inline size_t skip_unchanged(const uint8_t *p)
{
    uint64_t low, high;
    size_t last = SKIP_BYTES - 1;
    memcpy(&low, p, sizeof low);
    memcpy(&high, p + sizeof low, sizeof high);
    if (((low | high) & 0x8080808080808080u) == 0) return SKIP_BYTES;
    if (!all_skipped(p)) return 0;
    while (last > SKIP_BYTES - 4 && (p[last] & 0xC0) == 0x80) last--;
    return last;
}

/* Returns where the next character that may change begins, n if there is none. What is in front of *before does not
 * change with it. */
static size_t next_change(const mega_nfc *nfc, const uint8_t *text, size_t at, size_t n, size_t *before)
{
    int class = 0;
    *before = at;
    for (size_t looked = at; at < n;) { /* up to `looked` there is something that cannot be skipped */
        const size_t skipped = at >= looked && nfc->skips && n - at >= SKIP_READS ? skip_unchanged(text + at) : 0;
        uint32_t cp = 0;
        if (skipped > 0) {
            at += skipped;
            *before = at - 1; /* ASCII, or what follows is not special and becomes it */
            class = 0;
            continue;
        }
        if (at >= looked) looked = at + SKIP_BYTES;
        size_t length = ordinary(nfc, text + at, n - at);
        if (length == 0) {
            length = (size_t)mega_utf8_decode(text + at, n - at, &cp);
            if (length > 0 && is_special(nfc, cp)) {
                if (may_change(cp, text + *before, n - *before, &class)) return at;
                at += length;
                continue;
            }
        }
        *before = at;
        class = 0;
        at += length > 0 ? length : 1;
    }
    return n;
}

bool mega_unicode_nfc(const mega_nfc *nfc, const uint8_t *text, size_t n, mega_buffer *out)
{
    size_t begin, end = next_change(nfc, text, 0, n, &begin);
    if (end == n) return false;
    for (size_t at = 0; at < n;) {
        mega_buffer_append(out, text + at, (end < n ? begin : n) - at);
        if (end == n) break;
        for (int length = 1; end < n && length > 0;) { /* the special characters, one after another */
            uint32_t cp = 0;
            length = mega_utf8_decode(text + end, n - end, &cp);
            if (length > 0 && !is_special(nfc, cp)) break;
            end += (size_t)length;
        }
        if (mega_unicode_form(MEGA_FORM_NFC, text + begin, end - begin, out) != MEGA_OK) break;
        at = end;
        end = next_change(nfc, text, at, n, &begin);
    }
    return true;
}
