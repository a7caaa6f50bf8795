/* The patterns of the family of GPT-4, and StarCoder's, as state machines: the definitions of the fast path. */
#include "megalith/utf8.h"
#include "pretokenize.h"
#include "unicode/unicode.h"
#include <string.h>

typedef struct one_char {
    int class;
    size_t length;
} one_char;

/* Past the end a character is of class -1. */
static one_char char_at(const uint8_t *text, size_t at, size_t n)
{
    uint32_t cp = 0;
    if (at >= n) return (one_char){-1, 0};
    const int bytes = mega_utf8_decode(text + at, n - at, &cp);
    return bytes == 0 ? (one_char){MEGA_CLASS_OTHER, 1} : (one_char){unicode_class(cp), (size_t)bytes};
}

static bool is_line_end(uint8_t b)
{
    return b == '\r' || b == '\n';
}

static size_t class_end(const uint8_t *text, size_t at, size_t n, int class)
{
    for (one_char c = char_at(text, at, n); c.class == class; c = char_at(text, at, n)) at += c.length;
    return at;
}

/* Returns the length of a contraction after its apostrophe, in either case; 0: none. U+017F is an s in upper case. */
static size_t any_contraction(const uint8_t *p, size_t n)
{
    if (n >= 2 && p[0] == 0xC5 && p[1] == 0xBF) return 2;
    const uint8_t a = n >= 1 ? p[0] | 0x20 : 0, b = n >= 2 ? p[1] | 0x20 : 0;
    const bool letters = n >= 1 && p[0] >= 'A' && (n < 2 || p[1] >= 'A');
    if (n >= 1 && p[0] >= 'A' && (a == 's' || a == 't' || a == 'm' || a == 'd')) return 1;
    return letters && (((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l')) ? 2 : 0;
}

/* Up to the last line end of a run of white space; without one, the run leaves its last character to the next word,
 * unless it ends the text or has only one. */
static size_t white_end(const uint8_t *text, size_t at, size_t n)
{
    size_t end = at, last = at, line = 0;
    for (one_char c = char_at(text, at, n); c.class == MEGA_CLASS_SPACE; c = char_at(text, end, n)) {
        last = end;
        end += c.length;
        if (is_line_end(text[last])) line = end;
    }
    if (line > 0) return line;
    return end == n || last == at ? end : last;
}

static size_t lines_end(mega_split split, const uint8_t *text, size_t at, size_t n)
{
    if (split != MEGA_SPLIT_PLAIN1 && text[at] == '\'') {
        const size_t length = any_contraction(text + at + 1, n - at - 1);
        if (length > 0) return at + 1 + length;
    }
    const one_char c = char_at(text, at, n);
    if (c.class == MEGA_CLASS_LETTER) return class_end(text, at + c.length, n, MEGA_CLASS_LETTER);
    if (c.class == MEGA_CLASS_NUMBER) {
        size_t end = at + c.length;
        for (int i = 1; i < 3 && split == MEGA_SPLIT_LINES; i++) {
            const one_char next = char_at(text, end, n);
            if (next.class != MEGA_CLASS_NUMBER) break;
            end += next.length;
        }
        return end;
    }
    const one_char next = char_at(text, at + c.length, n);
    if (next.class == MEGA_CLASS_LETTER && !is_line_end(text[at]))
        return class_end(text, at + c.length, n, MEGA_CLASS_LETTER);
    if (c.class == MEGA_CLASS_OTHER || (text[at] == ' ' && next.class == MEGA_CLASS_OTHER)) {
        size_t end = class_end(text, at + (c.class == MEGA_CLASS_OTHER ? 0 : 1), n, MEGA_CLASS_OTHER);
        while (end < n && is_line_end(text[end])) end++;
        return end;
    }
    return white_end(text, at, n);
}

/* A number is a word by itself, and ends what is before it as the end of the text would. */
static size_t digits_end(const uint8_t *text, size_t at, size_t n)
{
    const one_char c = char_at(text, at, n);
    if (c.class == MEGA_CLASS_NUMBER) return at + c.length;
    const size_t word = mega_word_end(text, at, n);
    for (size_t i = at + c.length; i < word;) {
        const one_char next = char_at(text, i, n);
        if (next.class == MEGA_CLASS_NUMBER) return i;
        i += next.length;
    }
    const one_char after = char_at(text, word, n), second = char_at(text, at + c.length, word);
    if (c.class != MEGA_CLASS_SPACE || after.class != MEGA_CLASS_SPACE) return word;
    if (second.length > 0 && second.class != MEGA_CLASS_SPACE) return word;
    /* white space that GPT-2's pattern has cut before its last character, which a number follows */
    const one_char past = char_at(text, word + after.length, n);
    return past.class == MEGA_CLASS_NUMBER ? word + after.length : word;
}

size_t mega_split_end(mega_split split, const uint8_t *text, size_t at, size_t n)
{
    if (split == MEGA_SPLIT_GPT2) return mega_word_end(text, at, n);
    return split == MEGA_SPLIT_DIGITS ? digits_end(text, at, n) : lines_end(split, text, at, n);
}

#define CONTRACTIONS  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define CONTRACTIONS2 "(?i:[sdmt]|ll|ve|re)|"
#define REST          "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define REST2         "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define LETTERS       "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define LETTERS2      "[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+"

mega_split mega_split_of(const char *expression, size_t n)
{
    static const struct {
        const char *text;
        mega_split split;
    } known[] = {
        {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", MEGA_SPLIT_GPT2},
        {CONTRACTIONS LETTERS "|\\p{N}{1,3}" REST, MEGA_SPLIT_LINES},
        {CONTRACTIONS LETTERS2 "|\\p{N}{1,3}" REST2, MEGA_SPLIT_LINES},
        {"'" CONTRACTIONS2 LETTERS2 "|\\p{N}{1,3}" REST2, MEGA_SPLIT_LINES},
        {CONTRACTIONS LETTERS "|\\p{N}" REST, MEGA_SPLIT_LINES1},
        {LETTERS "|\\p{N}" REST, MEGA_SPLIT_PLAIN1},
        {LETTERS2 "|\\p{N}" REST2, MEGA_SPLIT_PLAIN1},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i].text) == n && memcmp(known[i].text, expression, n) == 0) return known[i].split;
    return MEGA_SPLIT_NONE;
}
