/* Finds added tokens in a text. */
#include "megalith/utf8.h"
#include "tokenizer_impl.h"
#include "unicode/char_set.h"
#include "unicode/unicode.h"
#include <string.h>

/* Returns the longest added token of this pass that begins at p; -1: none. */
static int added_at(const mega_tokenizer *t, const uint8_t *p, size_t n, bool normalized, size_t *size)
{
    int best = -1;
    *size = 0;
    for (int i = 0; i < t->num_added; i++) {
        const mega_added_token *a = &t->added[i];
        const char *content = a->pattern.data != NULL ? a->pattern.data : a->content;
        const size_t bytes = a->pattern.data != NULL ? a->pattern.size : a->size;
        if (a->normalized == normalized && bytes > *size && bytes <= n && content[0] == (char)*p &&
            memcmp(content, p, bytes) == 0) {
            best = i;
            *size = bytes;
        }
    }
    return best;
}

static size_t space_before(const uint8_t *text, size_t at, size_t least)
{
    while (at > least) {
        size_t begin = at - 1;
        while (begin > least && at - begin < 4 && (text[begin] & 0xC0) == 0x80) begin--;
        uint32_t cp = 0;
        if (mega_utf8_decode(text + begin, at - begin, &cp) != (int)(at - begin) ||
            unicode_class(cp) != MEGA_CLASS_SPACE)
            break;
        at = begin;
    }
    return at;
}

static size_t space_after(const uint8_t *text, size_t at, size_t n)
{
    uint32_t cp = 0;
    int length;
    while (at < n && (length = mega_utf8_decode(text + at, n - at, &cp)) > 0 && unicode_class(cp) == MEGA_CLASS_SPACE)
        at += (size_t)length;
    return at;
}

/* Whether a character is one of a word: \w of Rust's expressions, which has the joiners, too. */
static bool is_of_word(uint32_t cp)
{
    mega_char_set words = {0};
    if (cp == 0x200C || cp == 0x200D) return true;
    mega_char_set_add_word(&words);
    mega_char_set_order(&words);
    const bool found = mega_char_set_has(&words, cp);
    mega_char_set_fini(&words);
    return found;
}

static bool touches_word(const uint8_t *text, size_t begin, size_t end, size_t n)
{
    uint32_t cp = 0;
    size_t last = begin;
    if (end < n && mega_utf8_decode(text + end, n - end, &cp) > 0 && is_of_word(cp)) return true;
    if (begin == 0) return false;
    for (last--; last > 0 && begin - last < 4 && (text[last] & 0xC0) == 0x80; last--) {
    }
    return mega_utf8_decode(text + last, begin - last, &cp) == (int)(begin - last) && is_of_word(cp);
}

int mega_added_find(const mega_tokenizer *t, const uint8_t *text, size_t n, size_t from, size_t done, int pass,
                    bool special, size_t *begin, size_t *end, size_t *next)
{
    const bool *begins = t->added_begins[pass == 1];
    const int only = t->added_only[pass == 1];
    for (size_t at = from; at < n && only != -1;) {
        if (only >= 0) {
            const uint8_t *found = memchr(text + at, only, n - at);
            if (found == NULL) break;
            at = (size_t)(found - text);
        } else if (!begins[text[at]]) {
            at++;
            continue;
        }
        size_t size;
        const int i = added_at(t, text + at, n - at, pass == 1, &size);
        const mega_added_token *a = &t->added[i < 0 ? 0 : i];
        if (i < 0 || (a->special && !special) || (a->single_word && touches_word(text, at, at + size, n))) {
            at += i < 0 ? 1 : size;
            continue;
        }
        *next = at + size;
        *begin = a->lstrip ? space_before(text, at, done < at ? done : at) : at;
        *end = a->rstrip ? space_after(text, at + size, n) : at + size;
        return i;
    }
    *next = n;
    return -1;
}
