/* The vector operations of encode_body.c: with AVX2 where the file is compiled for it, else in plain C. */
#ifndef MEGALITH_TEXT_ENCODE_VECTOR_H
#define MEGALITH_TEXT_ENCODE_VECTOR_H

#include <stdint.h>
#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>

/* How many of the 32 bytes at p are ASCII letters, up to the first that is not. */
static inline unsigned letters(const uint8_t *p)
{
    const __m256i x = _mm256_or_si256(_mm256_loadu_si256((const __m256i *)p), _mm256_set1_epi8(0x20));
    const __m256i d = _mm256_sub_epi8(x, _mm256_set1_epi8('a'));
    const __m256i in = _mm256_cmpeq_epi8(_mm256_min_epu8(d, _mm256_set1_epi8(25)), d);
    const uint32_t out = ~(uint32_t)_mm256_movemask_epi8(in);
    return out == 0 ? 32 : (unsigned)__builtin_ctz(out);
}

/* The same for one byte. */
static inline unsigned same_bytes(const uint8_t *p, uint8_t byte)
{
    const __m256i x = _mm256_loadu_si256((const __m256i *)p);
    const uint32_t out = ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, _mm256_set1_epi8((char)byte)));
    return out == 0 ? 32 : (unsigned)__builtin_ctz(out);
}

/* The least of 16 numbers. */
static inline uint32_t least16(const uint16_t *p)
{
    const __m128i a = _mm_loadu_si128((const __m128i *)p), b = _mm_loadu_si128((const __m128i *)(p + 8));
    return (uint32_t)_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_min_epu16(a, b))) & 0xFFFF;
}

/* The least of blocks * 16 numbers; out: its first place. */
static inline uint32_t least(const uint16_t *p, int blocks, int *out)
{
    __m256i m = _mm256_loadu_si256((const __m256i *)p);
    for (int i = 1; i < blocks; i++) m = _mm256_min_epu16(m, _mm256_loadu_si256((const __m256i *)(p + 16 * i)));
    const __m128i half = _mm_min_epu16(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    const uint32_t value = (uint32_t)_mm_cvtsi128_si32(_mm_minpos_epu16(half)) & 0xFFFF;
    const __m256i wanted = _mm256_set1_epi16((short)value);
    for (int i = 0;; i++) {
        const __m256i x = _mm256_loadu_si256((const __m256i *)(p + 16 * i));
        const uint32_t found = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi16(x, wanted));
        if (found != 0) {
            *out = 16 * i + __builtin_ctz(found) / 2;
            return value;
        }
    }
}

#else

static inline unsigned letters(const uint8_t *p)
{
    unsigned n = 0;
    while (n < 32 && (uint8_t)((p[n] | 0x20) - 'a') < 26) n++;
    return n;
}

static inline unsigned same_bytes(const uint8_t *p, uint8_t byte)
{
    unsigned n = 0;
    while (n < 32 && p[n] == byte) n++;
    return n;
}

static inline uint32_t least16(const uint16_t *p)
{
    uint32_t value = p[0];
    for (int i = 1; i < 16; i++) value = p[i] < value ? p[i] : value;
    return value;
}

static inline uint32_t least(const uint16_t *p, int blocks, int *out)
{
    int at = 0;
    for (int i = 1; i < 16 * blocks; i++) at = p[i] < p[at] ? i : at;
    *out = at;
    return p[at];
}

#endif

#endif
