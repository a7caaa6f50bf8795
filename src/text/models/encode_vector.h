/* The vector operations of encode_body.c: with AVX-512 or AVX2 if the file is compiled for it, otherwise in plain C. */
#ifndef MEGALITH_TEXT_ENCODE_VECTOR_H
#define MEGALITH_TEXT_ENCODE_VECTOR_H

#include "pair_table.h"
#include <stdint.h>
#include <string.h>

/* A bit for each of 64 bytes. `space` is ASCII white space, `blank` is ' ', `line` is CR or LF, `wide` is everything
 * that is not ASCII. */
typedef struct byte_classes {
    uint64_t letter, number, space, blank, line, quote, wide;
} byte_classes;

/* For the bytes that are not ASCII: those inside a character, those that begin one of three or more bytes, or of
 * four. */
typedef struct wide_bytes {
    uint64_t inside, three, four;
} wide_bytes;

#ifdef __AVX512BW__
#include <immintrin.h>

static inline byte_classes classify(const uint8_t *p)
{
    const __m512i x = _mm512_loadu_si512(p);
    const __m512i letter = _mm512_sub_epi8(_mm512_or_si512(x, _mm512_set1_epi8(0x20)), _mm512_set1_epi8('a'));
    const uint64_t blank = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(' '));
    return (byte_classes){
        .letter = _mm512_cmplt_epu8_mask(letter, _mm512_set1_epi8(26)),
        .number = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(x, _mm512_set1_epi8('0')), _mm512_set1_epi8(10)),
        .space = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(x, _mm512_set1_epi8('\t')), _mm512_set1_epi8(5)) | blank,
        .blank = blank,
        .line = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8('\n')) | _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8('\r')),
        .quote = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8('\'')),
        .wide = _mm512_movepi8_mask(x),
    };
}

static inline wide_bytes classify_wide(const uint8_t *p, uint64_t wide)
{
    const __m512i x = _mm512_loadu_si512(p);
    return (wide_bytes){
        .inside = wide & _mm512_cmplt_epu8_mask(x, _mm512_set1_epi8((char)0xC0)),
        .three = _mm512_cmpge_epu8_mask(x, _mm512_set1_epi8((char)0xE0)),
        .four = _mm512_cmpge_epu8_mask(x, _mm512_set1_epi8((char)0xF0)),
    };
}

#elif defined(__AVX2__)
#include <immintrin.h>

static inline uint64_t mask_of(__m256i low, __m256i high)
{
    return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
}

/* Marks bytes from `first` to `first` + count - 1. */
static inline __m256i in_range(__m256i x, char first, char count)
{
    const __m256i d = _mm256_sub_epi8(x, _mm256_set1_epi8(first));
    return _mm256_cmpeq_epi8(_mm256_min_epu8(d, _mm256_set1_epi8((char)(count - 1))), d);
}

static inline __m256i at_least(__m256i x, int least)
{
    return _mm256_cmpeq_epi8(_mm256_max_epu8(x, _mm256_set1_epi8((char)least)), x);
}

static inline byte_classes classify(const uint8_t *p)
{
    const __m256i a = _mm256_loadu_si256((const __m256i *)p), b = _mm256_loadu_si256((const __m256i *)(p + 32));
    const __m256i lf = _mm256_set1_epi8('\n'), cr = _mm256_set1_epi8('\r');
    const __m256i lower = _mm256_set1_epi8(0x20), blank = _mm256_set1_epi8(' '), quote = _mm256_set1_epi8('\'');
    const uint64_t blanks = mask_of(_mm256_cmpeq_epi8(a, blank), _mm256_cmpeq_epi8(b, blank));
    return (byte_classes){
        .letter = mask_of(in_range(_mm256_or_si256(a, lower), 'a', 26), in_range(_mm256_or_si256(b, lower), 'a', 26)),
        .number = mask_of(in_range(a, '0', 10), in_range(b, '0', 10)),
        .space = mask_of(in_range(a, '\t', 5), in_range(b, '\t', 5)) | blanks,
        .blank = blanks,
        .line = mask_of(_mm256_or_si256(_mm256_cmpeq_epi8(a, lf), _mm256_cmpeq_epi8(a, cr)),
                        _mm256_or_si256(_mm256_cmpeq_epi8(b, lf), _mm256_cmpeq_epi8(b, cr))),
        .quote = mask_of(_mm256_cmpeq_epi8(a, quote), _mm256_cmpeq_epi8(b, quote)),
        .wide = mask_of(a, b),
    };
}

static inline wide_bytes classify_wide(const uint8_t *p, uint64_t wide)
{
    const __m256i a = _mm256_loadu_si256((const __m256i *)p), b = _mm256_loadu_si256((const __m256i *)(p + 32));
    return (wide_bytes){
        .inside = wide & ~mask_of(at_least(a, 0xC0), at_least(b, 0xC0)),
        .three = mask_of(at_least(a, 0xE0), at_least(b, 0xE0)),
        .four = mask_of(at_least(a, 0xF0), at_least(b, 0xF0)),
    };
}

#else

/* Gathers one bit of each of the 8 bytes. */
static inline uint64_t bits_of(uint64_t eight, int bit)
{
    return ((eight >> bit & 0x0101010101010101u) * 0x0102040810204080u) >> 56;
}

static inline byte_classes classify(const uint8_t *p)
{
    enum { L = 1, N = 2, S = 4, B = 12, Q = 16, W = 32, E = 68 };
    static const uint8_t table[256] = {
        ['\t'] = S, ['\n'] = E,        ['\v' ... '\f'] = S, ['\r'] = E,        [' '] = B,
        ['\''] = Q, ['0' ... '9'] = N, ['A' ... 'Z'] = L,   ['a' ... 'z'] = L, [0x80 ... 0xFF] = W,
    };
    byte_classes c = {0};
    for (int i = 0; i < 64; i += 8) {
        uint64_t eight = 0;
        for (int j = 0; j < 8; j++) eight |= (uint64_t)table[p[i + j]] << (8 * j);
        c.letter |= bits_of(eight, 0) << i;
        c.number |= bits_of(eight, 1) << i;
        c.space |= bits_of(eight, 2) << i;
        c.blank |= bits_of(eight, 3) << i;
        c.quote |= bits_of(eight, 4) << i;
        c.wide |= bits_of(eight, 5) << i;
        c.line |= bits_of(eight, 6) << i;
    }
    return c;
}

static inline wide_bytes classify_wide(const uint8_t *p, uint64_t wide)
{
    static const uint8_t table[256] = {[0x80 ... 0xBF] = 1, [0xE0 ... 0xEF] = 2, [0xF0 ... 0xFF] = 6};
    wide_bytes w = {0};
    for (int i = 0; i < 64; i += 8) {
        uint64_t eight = 0;
        if ((wide >> i & 0xFF) == 0) continue;
        for (int j = 0; j < 8; j++) eight |= (uint64_t)table[p[i + j]] << (8 * j);
        w.inside |= bits_of(eight, 0) << i;
        w.three |= bits_of(eight, 1) << i;
        w.four |= bits_of(eight, 2) << i;
    }
    return w;
}

#endif

#ifdef __AVX2__

/* Returns the least of 16 numbers. */
static inline uint32_t least16(const uint16_t *p)
{
    const __m128i a = _mm_loadu_si128((const __m128i *)p), b = _mm_loadu_si128((const __m128i *)(p + 8));
    return (uint32_t)_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_min_epu16(a, b))) & 0xFFFF;
}

/* Returns the least of blocks * 16 numbers; *out is its first position. */
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

/* mega_pair_table_find_at, comparing a whole bucket at once. */
static inline uint32_t find_pair(const mega_pair_table *t, uint32_t key, uint32_t bucket)
{
    const uint32_t mask = UINT32_MAX >> t->shift;
    for (uint32_t s = bucket;; s = (s + MEGA_PAIR_BUCKET) & mask) {
        const __m256i slots = _mm256_load_si256((const __m256i *)(t->slot + s));
        const __m256i same = _mm256_srli_epi64(_mm256_cmpeq_epi32(slots, _mm256_set1_epi32((int)key)), 32);
        const __m256i kept = _mm256_or_si256(slots, _mm256_xor_si256(same, _mm256_set1_epi32(-1)));
        const __m128i half = _mm_and_si128(_mm256_castsi256_si128(kept), _mm256_extracti128_si256(kept, 1));
        const uint32_t found = (uint32_t)_mm_cvtsi128_si32(_mm_and_si128(half, _mm_unpackhi_epi64(half, half)));
        /* `&` instead of `&&`: one branch, almost never taken */
        const int full = t->slot[s + MEGA_PAIR_BUCKET - 1] != UINT64_MAX;
        if (__builtin_expect((found == MEGA_NO_PAIR) & full, 0) == 0) return found;
    }
}

/* Returns the least of 16 or 64 numbers and its first position, without a branch. */
static inline uint32_t least_of_16(const uint16_t *p, int *out)
{
    const __m256i x = _mm256_loadu_si256((const __m256i *)p);
    const __m128i half = _mm_minpos_epu16(_mm_min_epu16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
    const __m256i found = _mm256_cmpeq_epi16(x, _mm256_broadcastw_epi16(half));
    *out = __builtin_ctz((uint32_t)_mm256_movemask_epi8(found)) / 2;
    return (uint32_t)_mm_cvtsi128_si32(half) & 0xFFFF;
}

static inline uint32_t places_of(__m256i low, __m256i high, __m256i wanted)
{
    const __m256i found = _mm256_packs_epi16(_mm256_cmpeq_epi16(low, wanted), _mm256_cmpeq_epi16(high, wanted));
    return (uint32_t)_mm256_movemask_epi8(_mm256_permute4x64_epi64(found, 0xD8));
}

static inline uint32_t least_of_64(const uint16_t *p, int *out)
{
    const __m256i a = _mm256_loadu_si256((const __m256i *)p), b = _mm256_loadu_si256((const __m256i *)(p + 16));
    const __m256i c = _mm256_loadu_si256((const __m256i *)(p + 32)), d = _mm256_loadu_si256((const __m256i *)(p + 48));
    const __m256i m = _mm256_min_epu16(_mm256_min_epu16(a, b), _mm256_min_epu16(c, d));
    const __m128i half = _mm_minpos_epu16(_mm_min_epu16(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1)));
    const __m256i wanted = _mm256_broadcastw_epi16(half);
    *out = __builtin_ctzll(places_of(a, b, wanted) | (uint64_t)places_of(c, d, wanted) << 32);
    return (uint32_t)_mm_cvtsi128_si32(half) & 0xFFFF;
}

/* p[at] = value, by reading and writing a whole block of 16: a wide load after a narrower store to the same place would
 * stall. */
static inline void put16(uint16_t *p, int at, uint32_t value)
{
    __m256i *block = (__m256i *)(p + (at & ~15));
#ifdef __AVX512BW__
    const __mmask16 one = (__mmask16)(1u << (at & 15));
    _mm256_storeu_si256(block, _mm256_mask_set1_epi16(_mm256_loadu_si256(block), one, (short)value));
#else
    static const uint16_t one[31] = {[15] = 0xFFFF};
    const __m256i mask = _mm256_loadu_si256((const __m256i *)(one + 15 - (at & 15)));
    _mm256_storeu_si256(block, _mm256_blendv_epi8(_mm256_loadu_si256(block), _mm256_set1_epi16((short)value), mask));
#endif
}

#else

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

static inline uint32_t find_pair(const mega_pair_table *t, uint32_t key, uint32_t bucket)
{
    return mega_pair_table_find_at(t, key, bucket);
}

static inline uint32_t least_of_16(const uint16_t *p, int *out)
{
    return least(p, 1, out);
}

static inline uint32_t least_of_64(const uint16_t *p, int *out)
{
    return least(p, 4, out);
}

static inline void put16(uint16_t *p, int at, uint32_t value)
{
    p[at] = (uint16_t)value;
}

#endif

#endif
