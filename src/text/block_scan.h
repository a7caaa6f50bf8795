/* Classes of the bytes of a text, many at once: for pieces of SentencePiece, in which U+2581 (the mark) stands for a blank. */
#ifndef MEGALITH_TEXT_BLOCK_SCAN_H
#define MEGALITH_TEXT_BLOCK_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { SCAN_BLOCK = 64, SCAN_READ = SCAN_BLOCK + 2, SCAN_SHORT = 16 };

/* A bit for each of 64 bytes: a mark begins there; a byte of ASCII that is no letter. */
typedef struct scanned_block {
    uint64_t marks, signs;
} scanned_block;

/* Reads SCAN_READ bytes. */
static inline scanned_block scan_whole(const uint8_t *p)
{
    scanned_block b = {0, 0};
#ifdef __SSE2__
    for (int i = 0; i < SCAN_BLOCK; i += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(p + i)), y = _mm_loadu_si128((const __m128i *)(p + i + 1)),
                      z = _mm_loadu_si128((const __m128i *)(p + i + 2));
        const __m128i mark = _mm_and_si128(
            _mm_and_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8((char)0xE2)), _mm_cmpeq_epi8(y, _mm_set1_epi8((char)0x96))),
            _mm_cmpeq_epi8(z, _mm_set1_epi8((char)0x81)));
        const __m128i place = _mm_sub_epi8(_mm_or_si128(x, _mm_set1_epi8(0x20)), _mm_set1_epi8('a'));
        const __m128i letter = _mm_cmpeq_epi8(_mm_min_epu8(place, _mm_set1_epi8(25)), place);
        b.marks |= (uint64_t)(uint32_t)_mm_movemask_epi8(mark) << i;
        b.signs |= (uint64_t)(uint32_t)(_mm_movemask_epi8(_mm_or_si128(letter, x)) ^ 0xFFFF) << i;
    }
#else
    for (int i = 0; i < SCAN_BLOCK; i++) {
        b.marks |= (uint64_t)(p[i] == 0xE2 && p[i + 1] == 0x96 && p[i + 2] == 0x81) << i;
        b.signs |= (uint64_t)(p[i] < 0x80 && (uint8_t)((p[i] | 0x20) - 'a') >= 26) << i;
    }
#endif
    return b;
}

/* The same for a text of which n bytes are left; behind it are no marks. */
static inline scanned_block scan_block(const uint8_t *p, size_t n)
{
    uint8_t rest[SCAN_READ] = {0};
    if (n >= SCAN_READ) return scan_whole(p);
    memcpy(rest, p, n);
    return scan_whole(rest);
}

/* Whether 16 bytes are all printable ASCII. */
static inline bool scan_printable(const uint8_t *p)
{
#ifdef __SSE2__
    const __m128i x = _mm_loadu_si128((const __m128i *)p); /* as signed numbers, bytes above 0x7F are below ' ' too */
    const __m128i bad = _mm_or_si128(_mm_cmplt_epi8(x, _mm_set1_epi8(' ')), _mm_cmpeq_epi8(x, _mm_set1_epi8(0x7F)));
    return _mm_movemask_epi8(bad) == 0;
#else
    for (int i = 0; i < SCAN_SHORT; i++)
        if (p[i] < ' ' || p[i] >= 0x7F) return false;
    return true;
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
