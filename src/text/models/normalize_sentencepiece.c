/* What a SentencePiece model does with a text before its segmentation. Most characters stay as they are; take_prefix
 * defines what becomes of the others. A blank is marked by U+2581 or, if the pipeline has blank marks, U+2581 by a
 * blank. */
#include "block_scan.h"
#include "megalith/utf8.h"
#include "tokenizer/pipeline.h"
#include <string.h>

#define MARK "\xE2\x96\x81" /* U+2581 */
enum { MARK_BYTES = 3 };

static void spm_normalize_put(mega_buffer *out, const void *bytes, size_t n)
{
    mega_buffer_append(out, bytes, n);
}

/* Returns the length of the longest text at the begin that is left alone. */
static size_t kept_prefix(const mega_pipeline *p, const uint8_t *text, size_t n)
{
    size_t longest = 0;
    for (int i = 0; i < p->num_kept; i++) {
        const mega_text *k = &p->kept[i];
        if (k->size > longest && k->size <= n && memcmp(k->data, text, k->size) == 0) longest = k->size;
    }
    return longest;
}

/* Takes the next character of a text as SentencePiece does: its replacement, or itself, or U+FFFD for a bad byte. */
static size_t take_prefix(const mega_pipeline *p, const uint8_t *text, size_t n, const char **to, size_t *to_size)
{
    uint32_t cp = 0;
    const size_t kept = p->kept_begins[text[0]] ? kept_prefix(p, text, n) : 0;
    if (kept > 0) {
        *to = (const char *)text;
        *to_size = kept;
        return kept;
    }
    const size_t replaced = mega_charsmap_find(&p->charsmap, text, n, false, to);
    if (replaced > 0) {
        *to_size = strlen(*to);
        return replaced;
    }
    const int length = mega_utf8_decode(text, n, &cp);
    *to = length > 0 ? (const char *)text : "\xEF\xBF\xBD";
    *to_size = length > 0 ? (size_t)length : 3;
    return length > 0 ? (size_t)length : 1;
}

static void put_mark(const mega_pipeline *p, mega_buffer *out)
{
    if (p->blank_marks) spm_normalize_put(out, " ", 1);
    else
        spm_normalize_put(out, MARK, MARK_BYTES);
}

static void put_marked(const mega_pipeline *p, const char *text, size_t n, mega_buffer *out)
{
    const size_t size = p->blank_marks ? MARK_BYTES : 1;
    for (const char *end = text + n; text < end;) {
        const char *found = memmem(text, (size_t)(end - text), p->blank_marks ? MARK : " ", size);
        spm_normalize_put(out, text, (size_t)((found != NULL ? found : end) - text));
        if (found == NULL) break;
        put_mark(p, out);
        text = found + size;
    }
}

/* The same for a model that only marks blanks. */
static void mark_blanks(const mega_pipeline *p, mega_span in, mega_buffer *out)
{
    if (p->dummy_prefix) put_mark(p, out);
    for (size_t at = 0; at < in.n;) {
        const size_t valid = mega_utf8_valid_bytes((const char *)in.text + at, in.n - at);
        put_marked(p, (const char *)in.text + at, valid, out);
        at += valid;
        if (at < in.n) spm_normalize_put(out, "\xEF\xBF\xBD", 3);
        at++;
    }
}

/* A text being copied. The last character may begin a sequence that is replaced; then it is taken back if what follows
 * can be its second one. */
typedef struct same_copy {
    size_t at;
    char *to;
    bool blank; /* further blanks are left out */
} same_copy;

/* Copies printable ASCII of more than 16 bytes, up to a blank that is marked or left out. Returns how many bytes. */
static inline size_t copy_printable(const mega_pipeline *p, const uint8_t *text, same_copy *c, same_copy *last)
{
    const uint32_t blanks = scan_blanks(text), after = blanks << 1 | c->blank;
    const uint32_t stops = p->blank_marks ? (p->remove_extra ? blanks & after : 0) : blanks;
    const size_t n = (size_t)__builtin_ctz(stops | 1u << scan_printable(text));
    memcpy(c->to, text, SCAN_SHORT);
    if (n == 0) return 0;
    *last = (same_copy){c->at + n - 1, c->to + n - 1, p->remove_extra && (after >> (n - 1) & 1) != 0};
    *c = (same_copy){c->at + n, c->to + n, p->remove_extra && (blanks >> (n - 1) & 1) != 0};
    return n;
}

/* Copies characters of three bytes that stay as they are, without marks. */
static inline size_t copy_of_three(const uint8_t *kinds, const uint8_t *text, size_t n, same_copy *c, same_copy *last,
                                   bool *begins)
{
    size_t i = 0;
    for (; n - i >= 3; i += 3) {
        const uint8_t *b = text + i;
        const uint32_t cp = (uint32_t)(b[0] & 0x0F) << 12 | (uint32_t)(b[1] & 0x3F) << 6 | (b[2] & 0x3F);
        if ((b[0] & 0xF0) != 0xE0 || (b[1] & 0xC0) != 0x80 || (b[2] & 0xC0) != 0x80 || cp < 0x800) break;
        const uint8_t kind = kinds[cp];
        if ((kind & MEGA_CHAR_REPLACED) != 0 || (*begins && (kind & MEGA_CHAR_FOLLOWS) != 0)) break;
        *begins = (kind & MEGA_CHAR_BEGINS) != 0;
    }
    if (i == 0) return 0;
    memcpy(c->to, text, i);
    *last = (same_copy){c->at + i - 3, c->to + i - 3, c->blank && i == 3};
    *c = (same_copy){c->at + i, c->to + i, false};
    return i;
}

/* Returns the kinds of the first character. What the table does not have may be of any kind. */
static inline int spm_kind_of(const mega_pipeline *p, const uint8_t *text, size_t n, size_t *length)
{
    uint32_t cp = *text;
    const int decoded = cp < 0x80 ? 1 : mega_utf8_decode(text, n, &cp);
    *length = (size_t)decoded;
    if (decoded == 0) return MEGA_CHAR_REPLACED | MEGA_CHAR_FOLLOWS;
    int kind = cp < MEGA_CHARSMAP_KINDS ? p->charsmap.kind[cp] : MEGA_CHAR_FOLLOWS;
    if (cp >= MEGA_CHARSMAP_KINDS && p->charsmap.begins[*text]) kind |= MEGA_CHAR_REPLACED;
    if (p->kept_begins[*text] && kept_prefix(p, text, n) > 0) kind |= MEGA_CHAR_REPLACED;
    return kind;
}

/* Appends the characters from the begin that stay as they are, with marks for blanks; *blank: further blanks are left
 * out. Returns how many bytes it has taken, not all that it could of a long text. */
static size_t put_same(const mega_pipeline *p, mega_span in, bool *blank, mega_buffer *out)
{
    enum { MOST = 1 << 16 };
    const size_t most = in.n < MOST ? in.n : MOST;
    const uint8_t *kinds = p->charsmap.kind;
    if (!mega_buffer_reserve(out, MARK_BYTES * most + SCAN_SHORT)) {
        out->failed = true;
        return in.n;
    }
    same_copy c = {0, out->data + out->size, *blank}, last = c;
    bool begins = false;
    while (c.at < most) {
        const uint8_t *text = in.text + c.at;
        const size_t left = in.n - c.at;
        size_t n;
        if (*text < 0x80 && left > SCAN_SHORT && p->printable_stays && (n = copy_printable(p, text, &c, &last)) > 0) {
            begins = (kinds[text[n - 1]] & MEGA_CHAR_BEGINS) != 0;
            continue;
        }
        if (*text >= 0xE0 && !p->kept_begins[*text] && copy_of_three(kinds, text, most - c.at, &c, &last, &begins) > 0)
            continue;
        const int kind = spm_kind_of(p, text, left, &n);
        if (begins && (kind & MEGA_CHAR_FOLLOWS) != 0) break;
        begins = false;
        if ((kind & MEGA_CHAR_REPLACED) != 0) break;
        begins = (kind & MEGA_CHAR_BEGINS) != 0;
        last = c;
        c.at += n;
        if (*text == ' ' && c.blank) continue;
        c.blank = *text == ' ' && p->remove_extra;
        const bool marked = *text == ' ' && !p->blank_marks;
        for (size_t k = 0; k < (marked ? MARK_BYTES : n); k++) *c.to++ = marked ? MARK[k] : (char)text[k];
    }
    if (begins && c.at < in.n) c = last;
    *blank = c.blank;
    out->size = (size_t)(c.to - out->data);
    return c.at;
}

void mega_sentencepiece_normalize(const mega_pipeline *p, mega_span in, mega_buffer *out)
{
    const char *to = NULL;
    size_t n = 0;
    if (p->charsmap.units == 0 && !p->remove_extra && p->num_kept == 0) {
        mark_blanks(p, in, out);
        return;
    }
    while (p->remove_extra && in.n > 0) {
        const size_t taken = take_prefix(p, in.text, in.n, &to, &n);
        if (n != 1 || to[0] != ' ') break;
        in.text += taken;
        in.n -= taken;
    }
    if (in.n == 0) return;
    if (p->dummy_prefix) put_mark(p, out);
    for (bool after_blank = p->remove_extra; in.n > 0;) {
        const size_t same = put_same(p, in, &after_blank, out);
        in.text += same;
        in.n -= same;
        if (in.n == 0) break;
        const size_t taken = take_prefix(p, in.text, in.n, &to, &n);
        while (after_blank && n > 0 && to[0] == ' ') {
            to++;
            n--;
        }
        put_marked(p, to, n, out);
        if (n > 0) after_blank = p->remove_extra && to[n - 1] == ' ';
        in.text += taken;
        in.n -= taken;
    }
    const char *mark = p->blank_marks ? " " : MARK;
    const size_t size = p->blank_marks ? 1 : MARK_BYTES;
    while (p->remove_extra && out->size >= size && memcmp(out->data + out->size - size, mark, size) == 0)
        out->size -= size;
}
