/* Where the words of a text begin for a Unigram model: no token has the characters on both sides of such a place. A
 * character that no token has is strange. */
#ifndef MEGALITH_TEXT_UNIGRAM_SCAN_H
#define MEGALITH_TEXT_UNIGRAM_SCAN_H

#include "block_scan.h"
#include "megalith/utf8.h"
#include "tokenizer/pipeline.h"

enum { ANY = MEGA_JOINS_BEFORE | MEGA_JOINS_AFTER | MEGA_IS_TOKEN };

static inline unsigned character_of(const mega_pipeline *p, const uint8_t *text, size_t n, size_t *length)
{
    uint32_t cp;
    const int decoded = mega_utf8_decode(text, n, &cp);
    *length = decoded > 0 ? (size_t)decoded : 1;
    if (decoded == 0) return 0;
    return cp < MEGA_CHARACTERS ? p->characters[cp] : p->wide_characters;
}

/* Returns the size of the strange characters from the begin, which no token has. */
static size_t strange_bytes(const mega_pipeline *p, const uint8_t *text, size_t n, size_t *characters)
{
    size_t at = 0, length = 0;
    for (*characters = 0; at < n; at += length, ++*characters) {
        for (; n - at >= 3 && text[at] >= 0xE0; at += 3, ++*characters) { /* most are of three bytes */
            const uint8_t *c = text + at;
            const uint32_t cp = (uint32_t)(c[0] & 0x0F) << 12 | (uint32_t)(c[1] & 0x3F) << 6 | (c[2] & 0x3F);
            if (c[0] >= 0xF0 || (c[1] & 0xC0) != 0x80 || (c[2] & 0xC0) != 0x80 || cp < 0x800 || p->characters[cp] != 0)
                break;
        }
        if (at == n || text[at] < 0x80 || character_of(p, text + at, n - at, &length) != 0) break;
    }
    return at;
}

/* A piece in which words are being found, block by block. */
typedef struct piece_scan {
    const uint8_t *text;
    size_t size, begin;                          /* words do not reach over `begin` */
    uint64_t after_mark, after_sign, after_high; /* the bits that the last block leaves for the next one */
    unsigned character;                          /* what tokens have of the last character above ASCII */
    uint64_t starts, strange; /* of a block: where words begin, and those of them that are strange characters */
    size_t end; /* SCAN_BLOCK; or, if the block ends inside a row of strange characters, where that row begins */
} piece_scan;

/* Finds where words begin before and after characters above ASCII: where no token contains both neighbours. A row of
 * strange characters is one word. */
static inline void find_at_characters(const mega_pipeline *p, piece_scan *s, size_t at, uint64_t places,
                                      uint64_t after_mark)
{
    while (places != 0) {
        const size_t i = at + (size_t)__builtin_ctzll(places);
        const uint64_t bit = places & -places;
        const uint8_t *text = s->text + i;
        const unsigned before = i == s->begin || text[-1] < 0x80 || (after_mark & bit) != 0 ? ANY : s->character;
        size_t n;
        const unsigned here = *text < 0x80 ? ANY : character_of(p, text, s->size - i, &n);
        places -= bit;
        if (*text >= 0x80) s->character = here;
        if (here == 0) {
            size_t characters;
            const size_t end = i - at + strange_bytes(p, text, s->size - i, &characters);
            if (end >= SCAN_BLOCK || at + end == s->size) {
                s->end = i - at;
                s->starts &= bit - 1;
                return;
            }
            s->starts |= bit | UINT64_C(1) << end;
            s->strange |= bit;
            places &= ~UINT64_C(0) << end;
        } else if ((before & MEGA_JOINS_AFTER) == 0 || (here & MEGA_JOINS_BEFORE) == 0 || i == s->begin ||
                   !mega_pipeline_joins(p, text[-1], *text)) {
            s->starts |= bit;
        }
    }
}

/* Finds where words begin in the block at `at`: at a mark that follows another character, before and after a sign of
 * ASCII where no token contains both bytes in a row, and at other characters. */
static inline void find_starts(const mega_pipeline *p, piece_scan *s, size_t at)
{
    const size_t n = s->size - at;
    const scanned_block b = scan_block(s->text + at, n, p->blank_marks);
    const uint64_t all = n < SCAN_BLOCK ? (UINT64_C(1) << n) - 1 : ~UINT64_C(0);
    const uint64_t inner = at == s->begin ? ~UINT64_C(1) : ~UINT64_C(0);
    const int width = p->blank_marks ? 1 : 3;
    const uint64_t marks = p->splits_at_mark ? b.marks : 0, after_mark = marks << width | s->after_mark;
    s->starts = marks & ~after_mark;
    s->strange = 0;
    s->end = SCAN_BLOCK;
    uint64_t changes = (b.signs ^ (b.signs << 1 | s->after_sign)) & ~s->starts & all & inner;
    for (; changes != 0; changes &= changes - 1) {
        const uint8_t *byte = s->text + at + __builtin_ctzll(changes);
        if (!mega_pipeline_joins(p, byte[-1], byte[0])) s->starts |= changes & -changes;
    }
    const uint64_t behind = ~b.high & (b.high << 1 | s->after_high) & ~after_mark;
    const uint64_t places = ((b.leads & ~marks) | behind) & all;
    if (places != 0 && p->characters != NULL) find_at_characters(p, s, at, places, after_mark);
    s->starts &= inner;
    s->after_mark = marks >> (SCAN_BLOCK - width);
    s->after_sign = b.signs >> (SCAN_BLOCK - 1);
    s->after_high = b.high >> (SCAN_BLOCK - 1);
}

#endif
