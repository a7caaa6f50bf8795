/* Classes of the bytes of a text, many at once: for pieces of SentencePiece, in which U+2581 (the mark) stands for a
 * blank. */
#ifndef MEGALITH_TEXT_BLOCK_SCAN_H
#define MEGALITH_TEXT_BLOCK_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* A block has a bit of a word for each byte. SCAN_SHORT bytes, one vector of SSE2, are looked at where runs are
 * short. */
enum { SCAN_BLOCK = 64, SCAN_READ = SCAN_BLOCK + 2, SCAN_SHORT = 16 };

/* A bit for each of 64 bytes: a mark begins there; a byte of ASCII that is neither a letter nor a mark; one of another
 * character; the first of such a character. */
typedef struct scanned_block {
    uint64_t marks, signs, high, leads;
} scanned_block;

/* Reads SCAN_READ bytes. blank: the mark is a blank, and not U+2581. */
static inline scanned_block scan_whole(const uint8_t *p, bool blank)
{
    scanned_block b = {0, 0, 0, 0};
#ifdef __SSE2__
    for (int i = 0; i < SCAN_BLOCK; i += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(p + i));
        __m128i mark = _mm_cmpeq_epi8(x, _mm_set1_epi8(blank ? ' ' : (char)0xE2));
        if (!blank) {
            const __m128i y = _mm_loadu_si128((const __m128i *)(p + i + 1)),
                          z = _mm_loadu_si128((const __m128i *)(p + i + 2));
            mark = _mm_and_si128(_mm_and_si128(mark, _mm_cmpeq_epi8(y, _mm_set1_epi8((char)0x96))),
                                 _mm_cmpeq_epi8(z, _mm_set1_epi8((char)0x81)));
        }
        const __m128i place = _mm_sub_epi8(_mm_or_si128(x, _mm_set1_epi8(0x20)), _mm_set1_epi8('a'));
        const __m128i letter = _mm_cmpeq_epi8(_mm_min_epu8(place, _mm_set1_epi8(25)), place);
        const __m128i lead = _mm_and_si128(x, _mm_cmpgt_epi8(x, _mm_set1_epi8((char)0xBF)));
        b.marks |= (uint64_t)(uint32_t)_mm_movemask_epi8(mark) << i;
        b.signs |= (uint64_t)(uint32_t)(_mm_movemask_epi8(_mm_or_si128(letter, x)) ^ 0xFFFF) << i;
        b.high |= (uint64_t)(uint32_t)_mm_movemask_epi8(x) << i;
        b.leads |= (uint64_t)(uint32_t)_mm_movemask_epi8(lead) << i;
    }
#else
    for (int i = 0; i < SCAN_BLOCK; i++) {
        const bool mark = blank ? p[i] == ' ' : p[i] == 0xE2 && p[i + 1] == 0x96 && p[i + 2] == 0x81;
        b.marks |= (uint64_t)mark << i;
        b.signs |= (uint64_t)(p[i] < 0x80 && (uint8_t)((p[i] | 0x20) - 'a') >= 26) << i;
        b.high |= (uint64_t)(p[i] >= 0x80) << i;
        b.leads |= (uint64_t)(p[i] >= 0xC0) << i;
    }
#endif
    b.signs &= ~b.marks;
    return b;
}

/* The same where only n bytes of the text are left. What follows them counts as no mark and no other character. */
static inline scanned_block scan_block(const uint8_t *p, size_t n, bool blank)
{
    uint8_t rest[SCAN_READ] = {0};
    if (n >= SCAN_READ) return scan_whole(p, blank);
    memcpy(rest, p, n);
    return scan_whole(rest, blank);
}

/* How many of 16 bytes are printable ASCII, before the first that is not. */
static inline unsigned scan_printable(const uint8_t *p)
{
#ifdef __SSE2__
    const __m128i x = _mm_loadu_si128((const __m128i *)p); /* as signed numbers, bytes above 0x7F are below ' ' too */
    const __m128i bad = _mm_or_si128(_mm_cmplt_epi8(x, _mm_set1_epi8(' ')), _mm_cmpeq_epi8(x, _mm_set1_epi8(0x7F)));
    return (unsigned)__builtin_ctz((unsigned)_mm_movemask_epi8(bad) | 1u << SCAN_SHORT);
#else
    unsigned n = 0;
    while (n < SCAN_SHORT && p[n] >= ' ' && p[n] < 0x7F) n++;
    return n;
#endif
}

/* A bit for each of 16 bytes that is a blank. */
static inline uint32_t scan_blanks(const uint8_t *p)
{
#ifdef __SSE2__
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)p), _mm_set1_epi8(' ')));
#else
    uint32_t found = 0;
    for (int i = 0; i < SCAN_SHORT; i++) found |= (uint32_t)(p[i] == ' ') << i;
    return found;
#endif
}

#endif
