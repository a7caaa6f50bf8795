/* The steps that change a text before it is split. */
#include "block_scan.h"
#include "megalith/utf8.h"
#include "tokenizer/pipeline.h"
#include "unicode/unicode.h"
#include "unicode/unicode_forms.h"
#include <string.h>
#include <utf8proc.h>

static void normalize_put(mega_buffer *out, const void *bytes, size_t n)
{
    mega_buffer_append(out, bytes, n);
}

static void replace_string(const mega_normalize_step *s, mega_span in, mega_buffer *out)
{
    const uint8_t *at = in.text, *const end = in.text + in.n;
    const size_t n = s->from.size;
    if (n == 0) {
        normalize_put(out, in.text, in.n);
        return;
    }
    while (at < end) {
        const uint8_t *found =
            n == 1 ? memchr(at, s->from.data[0], (size_t)(end - at)) : memmem(at, (size_t)(end - at), s->from.data, n);
        normalize_put(out, at, (size_t)((found != NULL ? found : end) - at));
        if (found == NULL) break;
        normalize_put(out, s->to.data, s->to.size);
        at = found + n;
    }
}

static mega_status replace_regex(const mega_normalize_step *s, mega_regex_match *match, mega_span in, mega_buffer *out)
{
    for (size_t at = 0; at < in.n;) {
        const size_t valid = mega_utf8_valid_bytes((const char *)in.text + at, in.n - at);
        const uint8_t *text = in.text + at;
        for (size_t done = 0, from = 0; done < valid;) {
            bool found = false;
            size_t begin = 0, end = 0;
            if (from <= valid) MEGA_TRY(mega_regex_find(s->regex, match, text, valid, from, &found, &begin, &end));
            normalize_put(out, text + done, (found ? begin : valid) - done);
            if (!found) break;
            normalize_put(out, s->to.data, s->to.size);
            done = end;
            from = end > begin ? end : end + 1; /* after an empty match, the next character */
            while (from < valid && (text[from] & 0xC0) == 0x80) from++;
        }
        at += valid;
        if (at < in.n) normalize_put(out, in.text + at++, 1);
    }
    return MEGA_OK;
}

static mega_span strip(const mega_normalize_step *s, mega_span in)
{
    uint32_t cp = 0;
    int length;
    while (s->left && in.n > 0 && (length = mega_utf8_decode(in.text, in.n, &cp)) > 0 &&
           unicode_class(cp) == MEGA_CLASS_SPACE) {
        in.text += length;
        in.n -= (size_t)length;
    }
    while (s->right && in.n > 0) {
        size_t begin = in.n - 1;
        while (begin > 0 && in.n - begin < 4 && (in.text[begin] & 0xC0) == 0x80) begin--;
        if (mega_utf8_decode(in.text + begin, in.n - begin, &cp) != (int)(in.n - begin) ||
            unicode_class(cp) != MEGA_CLASS_SPACE)
            break;
        in.n = begin;
    }
    return in;
}

static bool is_plain(const mega_pipeline *p, const mega_charsmap *m, uint8_t byte)
{
    return byte < 0x80 && (m->units == 0 || m->plain[byte]) && !p->kept_begins[byte];
}

/* Whether all printable ASCII stays as it is. */
static bool printable_is_plain(const mega_pipeline *p, const mega_charsmap *m)
{
    bool all = true;
    for (int i = ' '; i < 0x7F; i++) all = all && is_plain(p, m, (uint8_t)i);
    return all;
}

/* Returns how many bytes from the begin are ASCII that stays as it is, whatever follows them. */
static size_t plain_run(const mega_pipeline *p, const mega_charsmap *m, mega_span in, bool printable)
{
    size_t n = 0;
    while (printable && in.n - n >= SCAN_SHORT && scan_printable(in.text + n) == SCAN_SHORT) n += SCAN_SHORT;
    while (n < in.n && is_plain(p, m, in.text[n])) n++;
    return n > 0 && n < in.n && in.text[n] >= 0x80 ? n - 1 : n;
}

/* Returns the end of what a reader takes for one character, from `at` on. Its characters are UTF-8. */
static size_t cluster_end(const uint8_t *text, size_t at, size_t n)
{
    uint32_t cp = 0, next = 0;
    utf8proc_int32_t state = 0;
    const int first = mega_utf8_decode(text + at, n - at, &cp);
    size_t end = at + (first > 0 ? (size_t)first : 1);
    for (int length; first > 0 && end < n; end += (size_t)length, cp = next) {
        length = mega_utf8_decode(text + end, n - end, &next);
        if (length == 0 || utf8proc_grapheme_break_stateful((utf8proc_int32_t)cp, (utf8proc_int32_t)next, &state))
            break;
    }
    return end;
}

/* `tokenizers` replaces a cluster of less than six bytes as a whole, if a sequence at its begin has a replacement, and
 * takes the shortest; otherwise each character by itself. */
static void precompiled(const mega_pipeline *p, const mega_charsmap *m, mega_span in, mega_buffer *out)
{
    enum { WHOLE = 6 };
    const bool printable = printable_is_plain(p, m);
    for (size_t at = 0, end; at < in.n; at = end) {
        const char *to = NULL;
        const size_t plain = plain_run(p, m, (mega_span){in.text + at, in.n - at}, printable);
        end = at + plain;
        if (plain > 0) {
            normalize_put(out, in.text + at, plain);
            continue;
        }
        end = cluster_end(in.text, at, in.n);
        if (end - at < WHOLE && mega_charsmap_find(m, in.text + at, end - at, true, &to) > 0) {
            normalize_put(out, to, strlen(to));
            continue;
        }
        for (size_t i = at, next; i < end; i = next) {
            uint32_t cp = 0;
            const int length = mega_utf8_decode(in.text + i, end - i, &cp);
            next = i + (length > 0 ? (size_t)length : 1);
            if (mega_charsmap_find(m, in.text + i, next - i, true, &to) > 0) normalize_put(out, to, strlen(to));
            else
                normalize_put(out, in.text + i, next - i);
        }
    }
}

/* Replaces each row of two or more blanks. */
static void replace_blanks(const mega_normalize_step *s, mega_span in, mega_buffer *out)
{
    for (size_t at = 0, end; at < in.n; at = end) {
        const uint8_t *two = memmem(in.text + at, in.n - at, "  ", 2);
        end = two != NULL ? (size_t)(two - in.text) : in.n;
        normalize_put(out, in.text + at, end - at);
        if (two == NULL) break;
        normalize_put(out, s->to.data, s->to.size);
        while (end < in.n && in.text[end] == ' ') end++;
    }
}

/* Combining marks: general categories M. */
static void strip_accents(mega_span in, mega_buffer *out)
{
    for (size_t at = 0, next; at < in.n; at = next) {
        uint32_t cp = 0;
        const int length = mega_utf8_decode(in.text + at, in.n - at, &cp);
        next = at + (length > 0 ? (size_t)length : 1);
        const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
        if (length < 2 || (c != UTF8PROC_CATEGORY_MN && c != UTF8PROC_CATEGORY_MC && c != UTF8PROC_CATEGORY_ME))
            normalize_put(out, in.text + at, next - at);
    }
}

/* What `tokenizers` does by its rules of machine translation. */
static void nmt(mega_span in, mega_buffer *out)
{
    for (size_t at = 0, next; at < in.n; at = next) {
        uint32_t c = 0;
        const int length = mega_utf8_decode(in.text + at, in.n - at, &c);
        next = at + (length > 0 ? (size_t)length : 1);
        const bool blank = (c >= 9 && c <= 13 && c != 11) || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                           c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
        const bool gone = (c >= 1 && c < 32) || c == 0x7F || c == 0x8F || c == 0x9F;
        if (length > 0 && blank) normalize_put(out, " ", 1);
        else if (length == 0 || !gone)
            normalize_put(out, in.text + at, next - at);
    }
}

static mega_status normalize_step(const mega_pipeline *p, const mega_normalize_step *s, mega_regex_match *match,
                                  mega_span in, mega_buffer *out)
{
    switch (s->kind) {
    case MEGA_NORMALIZE_NFD: return mega_unicode_form(MEGA_FORM_NFD, in.text, in.n, out);
    case MEGA_NORMALIZE_NFKC: return mega_unicode_form(MEGA_FORM_NFKC, in.text, in.n, out);
    case MEGA_NORMALIZE_NFKD: return mega_unicode_form(MEGA_FORM_NFKD, in.text, in.n, out);
    case MEGA_NORMALIZE_LOWERCASE: mega_unicode_lower(in.text, in.n, out); break;
    case MEGA_NORMALIZE_PREPEND:
        normalize_put(out, s->to.data, s->to.size);
        normalize_put(out, in.text, in.n);
        break;
    case MEGA_NORMALIZE_REPLACE: replace_string(s, in, out); break;
    case MEGA_NORMALIZE_REPLACE_REGEX:
        if (strcmp(s->from.data, " {2,}") != 0) return replace_regex(s, match, in, out);
        replace_blanks(s, in, out);
        break;
    case MEGA_NORMALIZE_BERT: return mega_bert_normalize(s->bert != NULL ? s->bert : p->bert, in.text, in.n, out);
    case MEGA_NORMALIZE_NMT: nmt(in, out); break;
    case MEGA_NORMALIZE_STRIP_ACCENTS: strip_accents(in, out); break;
    case MEGA_NORMALIZE_PRECOMPILED: precompiled(p, s->charsmap != NULL ? s->charsmap : &p->charsmap, in, out); break;
    case MEGA_NORMALIZE_SENTENCEPIECE: mega_sentencepiece_normalize(p, in, out); break;
    case MEGA_NORMALIZE_NFC:
    case MEGA_NORMALIZE_STRIP: break; /* these make no new text, or did already */
    }
    return MEGA_OK;
}

mega_status mega_pipeline_normalize(const mega_pipeline *p, mega_regex_match *match, mega_span text,
                                    mega_buffer buffers[2], mega_span *result)
{
    *result = text;
    int next = 0;
    for (int i = 0; i < p->num_normalize && result->n > 0; i++) {
        const mega_normalize_step *s = &p->normalize[i];
        if (s->kind == MEGA_NORMALIZE_STRIP) {
            *result = strip(s, *result);
            continue;
        }
        mega_buffer *out = &buffers[next];
        out->size = 0;
        if (s->kind == MEGA_NORMALIZE_NFC && !mega_unicode_nfc(s->nfc, result->text, result->n, out)) continue;
        next = 1 - next;
        MEGA_TRY(normalize_step(p, s, match, *result, out));
        MEGA_TRY(mega_buffer_check(out, "a normalized text"));
        *result = (mega_span){(const uint8_t *)(out->size > 0 ? out->data : ""), out->size};
    }
    return MEGA_OK;
}

mega_status mega_pipeline_drops_first(const mega_pipeline *p, mega_regex_match *match, mega_span text,
                                      mega_buffer buffers[2], bool *drops)
{
    bool marks = false;
    uint32_t cp = 0;
    for (int i = 0; i < p->num_pre; i++)
        marks = marks || (p->pre[i].kind == MEGA_PRE_METASPACE && p->pre[i].prepend == MEGA_PREPEND_FIRST);
    *drops = false;
    if (!marks || p->num_normalize == 0 || text.n == 0) return MEGA_OK;
    const int length = mega_utf8_decode(text.text, text.n, &cp);
    mega_span made;
    text.n = length > 0 ? (size_t)length : 1;
    MEGA_TRY(mega_pipeline_normalize(p, match, text, buffers, &made));
    *drops = made.n == 0;
    return MEGA_OK;
}
