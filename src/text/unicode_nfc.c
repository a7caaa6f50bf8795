/* NFC of texts that are in it already, nearly always. A bitmap has the characters that may change or change others; all
 * others end what came before them, and are skipped. */
#include "megalith/utf8.h"
#include "unicode_forms.h"
#include <string.h>
#include <utf8proc.h>

enum { TABLE_POINTS = 0x10000 };

struct mega_nfc {
    uint64_t special[TABLE_POINTS / 64];
};

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

mega_status mega_nfc_create(mega_nfc **out)
{
    mega_nfc *nfc = mega_calloc(1, sizeof *nfc);
    if (nfc == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer: no memory for the table of NFC");
    for (uint32_t cp = 0; cp < TABLE_POINTS; cp++) {
        const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
        if (p->combining_class != 0 || is_second(p) || is_hangul_second(cp) || changes_alone(cp, p))
            nfc->special[cp / 64] |= (uint64_t)1 << cp % 64;
    }
    *out = nfc;
    return MEGA_OK;
}

void mega_nfc_destroy(mega_nfc *nfc)
{
    mega_free(nfc);
}

static bool is_special(const mega_nfc *nfc, uint32_t cp)
{
    if (cp < TABLE_POINTS) return (nfc->special[cp / 64] >> cp % 64 & 1) != 0;
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
    return p->combining_class != 0 || is_second(p) || has_decomposition(p);
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

/* Returns where the next character that may change begins, n if there is none. What is in front of *before does not
 * change with it. */
static size_t next_change(const mega_nfc *nfc, const uint8_t *text, size_t at, size_t n, size_t *before)
{
    int class = 0;
    *before = at;
    while (at < n) {
        uint32_t cp = 0;
        uint64_t eight = 0;
        if (n - at >= 8 && (memcpy(&eight, text + at, 8), (eight & 0x8080808080808080u) == 0)) {
            *before = at + 7; /* ASCII; its last character may be in front of a mark */
            at += 8;
            class = 0;
            continue;
        }
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
