/* GPT-2's pattern as a state machine. It needs no backtracking: the class of the next character decides whether a blank
 * belongs to the next word, and whether the last character of a run of white space is left over. */
#include "pretokenize.h"
#include "megalith/utf8.h"
#include "unicode/unicode.h"

static int class_at(const uint8_t *text, size_t at, size_t n, size_t *length)
{
    uint32_t cp;
    const int bytes = mega_utf8_decode(text + at, n - at, &cp);
    *length = bytes == 0 ? 1 : (size_t)bytes;
    return bytes == 0 ? MEGA_CLASS_OTHER : unicode_class(cp);
}

/* Returns the length of a contraction after its apostrophe, 0 if there is none. Lower case only, as in GPT-2. */
static size_t contraction_length(const uint8_t *p, size_t n)
{
    if (n >= 1 && (p[0] == 's' || p[0] == 't' || p[0] == 'm' || p[0] == 'd')) return 1;
    if (n < 2) return 0;
    if ((p[0] == 'r' || p[0] == 'v') && p[1] == 'e') return 2;
    return p[0] == 'l' && p[1] == 'l' ? 2 : 0;
}

static size_t run_end(const uint8_t *text, size_t at, size_t n, int class)
{
    size_t length;
    while (at < n && class_at(text, at, n, &length) == class) at += length;
    return at;
}

/* A run of white space leaves its last character to the next word, unless the run ends the text or has only one
 * character. */
static size_t space_end(const uint8_t *text, size_t at, size_t n)
{
    size_t end = at, last = at, length;
    while (end < n && class_at(text, end, n, &length) == MEGA_CLASS_SPACE) {
        last = end;
        end += length;
    }
    return end == n || last == at ? end : last;
}

size_t mega_word_end(const uint8_t *text, size_t at, size_t n)
{
    if (text[at] == '\'') {
        const size_t length = contraction_length(text + at + 1, n - at - 1);
        if (length > 0) return at + 1 + length;
    }
    size_t length;
    int class = class_at(text, at, n, &length);
    if (class == MEGA_CLASS_SPACE) {
        if (text[at] != ' ' || at + 1 == n) return space_end(text, at, n);
        class = class_at(text, at + 1, n, &length);
        if (class == MEGA_CLASS_SPACE) return space_end(text, at, n);
        length += 1;
    }
    return run_end(text, at + length, n, class);
}
