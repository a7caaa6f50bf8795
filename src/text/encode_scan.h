/* Finds where words begin, for 64 bytes at once: one bit per byte for each class of characters, and GPT-2's split as
 * arithmetic on these masks. Part of encode_body.c, compiled for each instruction set. */
#ifndef MEGALITH_TEXT_ENCODE_SCAN_H
#define MEGALITH_TEXT_ENCODE_SCAN_H

#include "encode_vector.h"
#include "megalith/utf8.h"
#include "unicode.h"

enum {
    /* a word that begins at byte 1..60 of the 64 is found, because all that it depends on has been read */
    SCAN_KNOWN = 60,
    SCAN_BYTES = 68 /* bytes read: a character that begins in the last of the 64 may extend over four more */
};

static inline uint64_t bit_of(int place)
{
    return (uint64_t)1 << place;
}

/* Adds the bytes of one character. `classes` is indexed by MEGA_CLASS_*. */
static inline void add_character(uint64_t classes[4], uint32_t cp, uint32_t least, int at, int length)
{
    const int class = cp < least ? MEGA_CLASS_OTHER : unicode_class(cp);
    classes[class] |= (bit_of(length) - 1) << at;
}

/* Classifies malformed UTF-8 byte by byte. A byte that belongs to no character has no class. */
static __attribute__((noinline)) void add_malformed(uint64_t classes[4], const uint8_t *p, uint64_t wide)
{
    while (wide != 0) {
        const int at = __builtin_ctzll(wide);
        uint32_t cp;
        const int length = mega_utf8_decode(p + at, 4, &cp), bytes = length == 0 ? 1 : length;
        add_character(classes, length == 0 ? UINT32_MAX : cp, 0, at, bytes);
        wide &= ~((bit_of(bytes) - 1) << at);
    }
}

/* Classifies the characters that are not ASCII. A sequence that is well formed but encodes an invalid code point has no
 * class, as its bytes would have. */
static inline void add_wide(uint64_t classes[4], const uint8_t *p, uint64_t wide, uint64_t *inside)
{
    const wide_bytes w = classify_wide(p, wide);
    *inside = w.inside;
    const uint64_t lead = wide & ~w.inside;
    if (((lead << 1) | (w.three << 2) | (w.four << 3)) != w.inside) {
        add_malformed(classes, p, wide);
        return;
    }
    for (uint64_t left = lead & ~w.three; left != 0; left &= left - 1) {
        const int at = __builtin_ctzll(left);
        add_character(classes, (uint32_t)(p[at] & 0x1F) << 6 | (p[at + 1] & 0x3F), 0x80, at, 2);
    }
    for (uint64_t left = w.three & ~w.four; left != 0; left &= left - 1) {
        const int at = __builtin_ctzll(left);
        const uint32_t high = (uint32_t)(p[at] & 0x0F) << 12 | (uint32_t)(p[at + 1] & 0x3F) << 6;
        add_character(classes, high | (p[at + 2] & 0x3F), 0x800, at, 3);
    }
    for (uint64_t left = w.four; left != 0; left &= left - 1) {
        const int at = __builtin_ctzll(left);
        const uint32_t high = (uint32_t)(p[at] & 0x0F) << 18 | (uint32_t)(p[at + 1] & 0x3F) << 12;
        add_character(classes, high | (uint32_t)(p[at + 2] & 0x3F) << 6 | (p[at + 3] & 0x3F), 0x10000, at, 4);
    }
}

/* Length of the contraction at p, which points to an apostrophe; 0: none. */
static inline int contraction(const uint8_t *p)
{
    if (p[1] == 's' || p[1] == 't' || p[1] == 'm' || p[1] == 'd') return 2;
    return (p[2] == 'e' && (p[1] == 'r' || p[1] == 'v')) || (p[1] == 'l' && p[2] == 'l') ? 3 : 0;
}

/* Finds where words begin after p, where one begins: bits 1..SCAN_KNOWN, the others are 0. p has SCAN_BYTES bytes. */
static inline uint64_t word_starts(const uint8_t *p)
{
    const byte_classes c = classify(p);
    uint64_t classes[4] = {
        [MEGA_CLASS_LETTER] = c.letter, [MEGA_CLASS_NUMBER] = c.number, [MEGA_CLASS_SPACE] = c.space};
    uint64_t inside = 0;
    if (c.wide != 0) add_wide(classes, p, c.wide, &inside);
    const uint64_t letter = classes[MEGA_CLASS_LETTER], number = classes[MEGA_CLASS_NUMBER];
    const uint64_t space = classes[MEGA_CLASS_SPACE], other = ~(letter | number | space);
    /* A run of one class begins a word, unless the blank before it belongs to that word. */
    const uint64_t runs = (letter & ~(letter << 1)) | (number & ~(number << 1)) | (other & ~(other << 1));
    /* The last character of a run of white space belongs to the next word. */
    uint64_t last = space & ~(space >> 1);
    if ((space & inside) != 0)
        for (int i = 0; i < 2; i++) last = (last & ~inside) | (last & inside) >> 1;
    uint64_t starts = (runs & ~(c.blank << 1)) | (space & ~(space << 1)) | (last & space << 1);
    for (uint64_t left = c.quote & (starts | 1); left != 0; left &= left - 1) {
        const int at = __builtin_ctzll(left), length = at <= SCAN_KNOWN ? contraction(p + at) : 0;
        if (length > 0) starts = (starts & ~bit_of(at + 1)) | bit_of(at + length);
    }
    return starts & (bit_of(SCAN_KNOWN + 1) - 2);
}

/* The same for the last `left` bytes of the text, which end with a word. */
static inline uint64_t last_word_starts(const uint8_t *p, size_t left)
{
    uint8_t copy[SCAN_BYTES];
    memset(copy, ' ', sizeof copy); /* padding with blanks keeps white space at the end one word */
    memcpy(copy, p, left < SCAN_BYTES ? left : SCAN_BYTES);
    const uint64_t starts = word_starts(copy);
    return left > SCAN_KNOWN ? starts : (starts & (bit_of((int)left) - 1)) | bit_of((int)left);
}

#endif
