#include "unicode_forms.h"
#include "megalith/utf8.h"
#include <string.h>
#include <utf8proc.h>

/* Appends the normal form of valid UTF-8. The library's own function would allocate with malloc. */
static mega_status put_form(mega_form form, const uint8_t *text, size_t n, mega_buffer *out)
{
    static const utf8proc_option_t options[] = {
        [MEGA_FORM_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [MEGA_FORM_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [MEGA_FORM_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [MEGA_FORM_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    const utf8proc_ssize_t points = utf8proc_decompose(text, (utf8proc_ssize_t)n, NULL, 0, options[form]);
    utf8proc_int32_t *buffer = points < 0 ? NULL : mega_malloc(((size_t)points + 1) * sizeof *buffer);
    if (buffer == NULL) {
        out->failed = true;
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory to normalize a text of %zu bytes", n);
    }
    const utf8proc_ssize_t made = utf8proc_decompose(text, (utf8proc_ssize_t)n, buffer, points, options[form]);
    /* the code points are replaced by their UTF-8, in place */
    const utf8proc_ssize_t bytes = made < 0 ? made : utf8proc_reencode(buffer, made, options[form]);
    if (bytes > 0) mega_buffer_append(out, buffer, (size_t)bytes);
    mega_free(buffer);
    return MEGA_OK;
}

mega_status mega_unicode_form(mega_form form, const uint8_t *text, size_t n, mega_buffer *out)
{
    for (size_t at = 0; at < n;) {
        const size_t valid = mega_utf8_valid_bytes((const char *)text + at, n - at);
        if (valid > 0) MEGA_TRY(put_form(form, text + at, valid, out));
        at += valid;
        if (at < n) mega_buffer_append(out, text + at++, 1);
    }
    return MEGA_OK;
}

/* Whether a character may change under NFC, or change what is before it: it has a canonical decomposition, is a mark, or is
 * the second of a pair that is composed. Characters below U+0300 are none of these as long as no such character follows. */
static bool may_change(uint32_t cp)
{
    if (cp < 0x300) return false;
    if (cp >= 0x1100 && cp < 0x1200) return true; /* Hangul is composed by arithmetic */
    if (cp >= 0xAC00 && cp < 0xD7A4) return false;
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
    return p->combining_class != 0 || (p->decomp_seqindex != UINT16_MAX && p->decomp_type == 0) ||
           (p->comb_index != UINT16_MAX && p->comb_index >= 0x8000);
}

/* Returns where the next character that may change begins, n if there is none; *before is the character in front of it. */
static size_t next_change(const uint8_t *text, size_t at, size_t n, size_t *before)
{
    *before = at;
    while (at < n) {
        uint32_t cp = 0;
        uint64_t eight = 0;
        if (n - at > 8) {
            memcpy(&eight, text + at, 8);
            if ((eight & 0x8080808080808080u) == 0) { /* ASCII; its last character may be in front of a mark */
                *before = at + 7;
                at += 8;
                continue;
            }
        }
        const int length = text[at] < 0x80 ? 1 : mega_utf8_decode(text + at, n - at, &cp);
        if (text[at] >= 0xCC && length > 1 && may_change(cp)) return at; /* 0xCC begins U+0300 */
        *before = at;
        at += length > 0 ? (size_t)length : 1;
    }
    return n;
}

bool mega_unicode_is_nfc(const uint8_t *text, size_t n)
{
    size_t before;
    return next_change(text, 0, n, &before) == n;
}

void mega_unicode_nfc(const uint8_t *text, size_t n, mega_buffer *out)
{
    for (size_t at = 0; at < n;) {
        size_t begin, end = next_change(text, at, n, &begin);
        if (end == n) begin = n;
        mega_buffer_append(out, text + at, begin - at);
        while (end < n) { /* the characters that may change, one after another */
            uint32_t cp = 0;
            const int length = mega_utf8_decode(text + end, n - end, &cp);
            if (length == 0 || !may_change(cp)) break;
            end += (size_t)length;
        }
        if (end > begin && mega_unicode_form(MEGA_FORM_NFC, text + begin, end - begin, out) != MEGA_OK) return;
        at = end;
    }
}

void mega_unicode_lower(const uint8_t *text, size_t n, mega_buffer *out)
{
    for (size_t at = 0; at < n;) {
        uint32_t cp = 0;
        char lower[4];
        const int length = mega_utf8_decode(text + at, n - at, &cp);
        if (length == 0) {
            mega_buffer_append(out, text + at++, 1);
            continue;
        }
        at += (size_t)length;
        if (cp == 0x130) mega_buffer_append(out, "i\xCC\x87", 3); /* the only one that becomes two */
        else
            mega_buffer_append(out, lower, (size_t)mega_utf8_encode((uint32_t)utf8proc_tolower((int32_t)cp), lower));
    }
}
