/* Finds where words begin, for 64 bytes at once: one bit per byte for each class of characters, and GPT-2's split as
 * arithmetic on these masks. Part of encode_body.c, compiled for each instruction set. */
#ifndef MEGALITH_TEXT_ENCODE_SCAN_H
#define MEGALITH_TEXT_ENCODE_SCAN_H

#include "encode_vector.h"
#include "megalith/utf8.h"
#include "pretokenize.h"
#include "unicode/unicode.h"

enum {
    /* a word that begins at byte 1..60 of the 64 is found, because all that it depends on has been read */
    SCAN_KNOWN = 60,
    SCAN_BYTES = 68 /* bytes read: a character that begins in the last of the 64 may extend over four more */
};

static inline uint64_t bit_of(int place)
{
    return (uint64_t)1 << place;
}

/* Adds the bytes of one character. `classes` is indexed by MEGA_CLASS_*. An invalid code point has no class, and its
 * bytes are characters of their own, which are not inside of another. */
static inline void add_character(uint64_t classes[4], uint64_t *inside, uint32_t cp, uint32_t least, int at, int length)
{
    const int class = cp < least ? MEGA_CLASS_OTHER : unicode_class(cp);
    const uint64_t bytes = (bit_of(length) - 1) << at;
    classes[class] |= bytes;
    if (class == MEGA_CLASS_OTHER && (cp < least || (cp >= 0xD800 && cp < 0xE000) || cp > 0x10FFFF)) *inside &= ~bytes;
}

/* Classifies malformed UTF-8 byte by byte. A byte that belongs to no character has no class. */
static __attribute__((noinline)) void add_malformed(uint64_t classes[4], uint64_t *inside, const uint8_t *p,
                                                    uint64_t wide)
{
    while (wide != 0) {
        const int at = __builtin_ctzll(wide);
        uint32_t cp;
        const int length = mega_utf8_decode(p + at, 4, &cp), bytes = length == 0 ? 1 : length;
        add_character(classes, inside, length == 0 ? UINT32_MAX : cp, 0, at, bytes);
        wide &= ~((bit_of(bytes) - 1) << at);
    }
}

/* Classifies the characters that are not ASCII. */
static inline void add_wide(uint64_t classes[4], const uint8_t *p, uint64_t wide, uint64_t *inside)
{
    const wide_bytes w = classify_wide(p, wide);
    *inside = w.inside;
    const uint64_t lead = wide & ~w.inside;
    if (((lead << 1) | (w.three << 2) | (w.four << 3)) != w.inside) {
        add_malformed(classes, inside, p, wide);
        return;
    }
    for (uint64_t left = lead & ~w.three; left != 0; left &= left - 1) {
        const int at = __builtin_ctzll(left);
        add_character(classes, inside, (uint32_t)(p[at] & 0x1F) << 6 | (p[at + 1] & 0x3F), 0x80, at, 2);
    }
    for (uint64_t left = w.three & ~w.four; left != 0; left &= left - 1) {
        const int at = __builtin_ctzll(left);
        const uint32_t high = (uint32_t)(p[at] & 0x0F) << 12 | (uint32_t)(p[at + 1] & 0x3F) << 6;
        add_character(classes, inside, high | (p[at + 2] & 0x3F), 0x800, at, 3);
    }
    for (uint64_t left = w.four; left != 0; left &= left - 1) {
        const int at = __builtin_ctzll(left);
        const uint32_t high = (uint32_t)(p[at] & 0x0F) << 18 | (uint32_t)(p[at + 1] & 0x3F) << 12;
        add_character(classes, inside, high | (uint32_t)(p[at + 2] & 0x3F) << 6 | (p[at + 3] & 0x3F), 0x10000, at, 4);
    }
}

/* Length of the contraction at p, which points to an apostrophe; 0: none. */
static inline int contraction(const uint8_t *p)
{
    if (p[1] == 's' || p[1] == 't' || p[1] == 'm' || p[1] == 'd') return 2;
    return (p[2] == 'e' && (p[1] == 'r' || p[1] == 'v')) || (p[1] == 'l' && p[2] == 'l') ? 3 : 0;
}

/* The classes of 64 bytes, each byte of a character marked with it. */
typedef struct scan_masks {
    byte_classes ascii;
    uint64_t letter, number, space, other, inside;
} scan_masks;

static inline scan_masks scan(const uint8_t *p)
{
    const byte_classes c = classify(p);
    uint64_t classes[4] = {
        [MEGA_CLASS_LETTER] = c.letter, [MEGA_CLASS_NUMBER] = c.number, [MEGA_CLASS_SPACE] = c.space};
    uint64_t inside = 0;
    if (c.wide != 0) add_wide(classes, p, c.wide, &inside);
    const uint64_t letter = classes[MEGA_CLASS_LETTER], number = classes[MEGA_CLASS_NUMBER];
    const uint64_t space = classes[MEGA_CLASS_SPACE];
    return (scan_masks){c, letter, number, space, ~(letter | number | space), inside};
}

static inline uint64_t run_begins(uint64_t mask)
{
    return mask & ~(mask << 1);
}

/* Moves marks from the last byte of a character to its first. White space has at most three bytes. */
static inline uint64_t to_first_byte(uint64_t last, uint64_t inside)
{
    for (int i = 0; i < 2; i++) last = (last & ~inside) | (last & inside) >> 1;
    return last;
}

/* Finds where words begin after p, where one begins: bits 1..SCAN_KNOWN, the others are 0. p has SCAN_BYTES bytes.
 * digits: every number is a word by itself, and ends the text before it. */
static inline uint64_t word_starts(const uint8_t *p, bool digits)
{
    const scan_masks m = scan(p);
    const byte_classes c = m.ascii;
    /* A run of one class begins a word, unless the blank before it belongs to that word. */
    uint64_t runs = (run_begins(m.letter) | run_begins(m.other)) & ~(c.blank << 1);
    runs |= digits ? m.number & ~m.inside : run_begins(m.number) & ~(c.blank << 1);
    /* The last character of a run of white space belongs to the next word. */
    uint64_t last = m.space & ~(m.space >> 1);
    if (digits) last &= ~(m.number >> 1);
    if ((m.space & m.inside) != 0) last = to_first_byte(last, m.inside);
    uint64_t starts = runs | run_begins(m.space) | (last & m.space << 1);
    for (uint64_t left = c.quote & (starts | 1); left != 0; left &= left - 1) {
        const int at = __builtin_ctzll(left), length = at <= SCAN_KNOWN ? contraction(p + at) : 0;
        if (length > 0) starts = (starts & ~bit_of(at + 1)) | bit_of(at + length);
    }
    return starts & (bit_of(SCAN_KNOWN + 1) - 2);
}

/* The same for contractions in either case. U+017F is an s in upper case. */
static inline int contraction_of_any_case(const uint8_t *p)
{
    const uint8_t a = p[1] | 0x20, b = p[2] | 0x20;
    if (p[1] < 'A') return 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (p[1] == 0xC5 && p[2] == 0xBF) return 3;
    return p[2] >= 'A' && (((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l')) ? 3 : 0;
}

/* Every third character of a run of numbers begins a word. */
static inline uint64_t number_starts(uint64_t number, uint64_t inside)
{
    uint64_t starts = 0;
    for (uint64_t left = run_begins(number); left != 0; left &= left - 1)
        for (int at = __builtin_ctzll(left), count = 0; at < 64 && (number >> at & 1) != 0; at++)
            if ((inside >> at & 1) == 0 && count++ % 3 == 0) starts |= bit_of(at);
    return starts;
}

/* White space other than line ends that follows the last line end of its run begins a word. `whole`: the text ends
 * here, so that a run that reaches the end of the mask has ended. */
static inline uint64_t after_last_line(uint64_t white, uint64_t line, bool whole)
{
    uint64_t starts = 0;
    for (uint64_t left = run_begins(white) & line << 1; left != 0; left &= left - 1) {
        const int at = __builtin_ctzll(left);
        const uint64_t rest = ~(white >> at);
        const int end = rest == 0 ? 64 : at + __builtin_ctzll(rest);
        const bool known = end <= SCAN_KNOWN ? (line >> end & 1) == 0 : whole;
        if (known) starts |= bit_of(at);
    }
    return starts;
}

/* The same as word_starts for the patterns of the family of GPT-4 (MEGA_SPLIT_LINES and others in pretokenize.h). */
static inline uint64_t lines_starts(const uint8_t *p, mega_split split, bool whole)
{
    const scan_masks m = scan(p);
    const byte_classes c = m.ascii;
    const uint64_t white = m.space & ~c.line;
    /* punctuation, with the blank before it */
    const uint64_t other = run_begins(m.other) & ~(c.blank << 1);
    /* letters belong to the white space before them, and to one character of punctuation that no blank precedes */
    const uint64_t single = m.other & (other | m.inside);
    const uint64_t joined = (single + other) & ~single;
    uint64_t starts = other | (run_begins(m.letter) & ~(white << 1) & ~joined);
    starts |= split == MEGA_SPLIT_LINES ? number_starts(m.number, m.inside) : m.number & ~m.inside;
    /* line ends belong to the punctuation before them; what is left of a run of white space begins a word */
    const uint64_t taken = c.line & ~(c.line + (run_begins(c.line) & m.other << 1));
    const uint64_t space = m.space & ~taken;
    starts |= run_begins(space) | after_last_line(white, c.line & ~taken, whole);
    uint64_t last = white & ~(m.space >> 1);
    if ((m.space & m.inside) != 0) last = to_first_byte(last, m.inside);
    starts |= last;
    const uint64_t quotes = split == MEGA_SPLIT_PLAIN1 ? 0 : c.quote & other;
    for (uint64_t left = quotes; left != 0; left &= left - 1) {
        const int at = __builtin_ctzll(left), length = at <= SCAN_KNOWN ? contraction_of_any_case(p + at) : 0;
        if (length > 0) starts |= bit_of(at + length);
    }
    return starts & (bit_of(SCAN_KNOWN + 1) - 2);
}

static inline uint64_t split_starts(mega_split split, const uint8_t *p, bool whole)
{
    if (split == MEGA_SPLIT_GPT2) return word_starts(p, false);
    return split == MEGA_SPLIT_DIGITS ? word_starts(p, true) : lines_starts(p, split, whole);
}

/* The same for the last `left` bytes of the text, which end with a word. */
static __attribute__((noinline)) uint64_t last_split_starts(mega_split split, const uint8_t *p, size_t left)
{
    uint8_t copy[SCAN_BYTES];
    memset(copy, ' ', sizeof copy); /* padding with blanks keeps white space at the end one word */
    memcpy(copy, p, left < SCAN_BYTES ? left : SCAN_BYTES);
    const uint64_t starts = split_starts(split, copy, left <= SCAN_KNOWN);
    return left > SCAN_KNOWN ? starts : (starts & (bit_of((int)left) - 1)) | bit_of((int)left);
}

#endif
