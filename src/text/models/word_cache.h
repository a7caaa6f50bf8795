/* A cache of words and their ids. Two entries of 32 bytes share a cache line and a hash; a new word takes the first
 * entry and displaces the older of the two, so the memory is bounded, and results never depend on the content. Words of
 * up to 16 bytes are stored in their entry; longer ones, and lists of more than three ids, in a ring that overwrites
 * its oldest records. */
#ifndef MEGALITH_TEXT_WORD_CACHE_H
#define MEGALITH_TEXT_WORD_CACHE_H

#include "megalith/memory.h"
#include <string.h>

enum {
    MEGA_CACHE_LOG2 = 16, /* log2 of the number of lines */
    MEGA_CACHE_SHORT = 16,
    MEGA_CACHE_LONG = 96,      /* longest cached word, in bytes */
    MEGA_CACHE_IDS = 3,        /* ids stored in an entry */
    MEGA_CACHE_RING = 1 << 20, /* in 32-bit words */
};

typedef struct mega_cached_word {
    uint64_t key[2];            /* a short word, zero-filled; two hashes of a long one */
    int32_t id[MEGA_CACHE_IDS]; /* or in id[0] the ring position of the bytes of a long word, followed by its ids */
    uint16_t size, count;       /* size 0: empty */
} mega_cached_word;

typedef struct mega_word_cache {
    mega_cached_word (*line)[2]; /* NULL: no cache */
    int32_t *ring;
    uint32_t head; /* position of the next record; positions keep growing, and are taken modulo the ring's size */
} mega_word_cache;

mega_status mega_word_cache_init(mega_word_cache *c, const char *what);
void mega_word_cache_fini(mega_word_cache *c);
/* Caches a word unless it is too long; `key` is made by the functions below. */
void mega_word_cache_put(mega_word_cache *c, const uint64_t key[2], const uint8_t *word, size_t n, const int32_t *id,
                         size_t count);

static inline uint64_t mega_word_hash(uint64_t a, uint64_t b)
{
    const unsigned __int128 m = (unsigned __int128)(a ^ 0x9E3779B97F4A7C15ull) * (b ^ 0xD6E8FEB86659FD93ull);
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline mega_cached_word *mega_word_cache_line(const mega_word_cache *c, const uint64_t key[2])
{
    return c->line[mega_word_hash(key[0], key[1]) >> (64 - MEGA_CACHE_LOG2)];
}

/* The key of a word of n <= 16 bytes; 16 bytes must be readable. */
static inline void mega_word_key_short(uint64_t key[2], const uint8_t *word, size_t n)
{
    memcpy(key, word, 16);
    const uint64_t ones = ~0ull;
    key[0] &= n >= 8 ? ones : ~(ones << (8 * n));
    key[1] &= n <= 8 ? 0 : ones >> (8 * (16 - n));
}

/* n > 16 */
static inline void mega_word_key_long(uint64_t key[2], const uint8_t *word, size_t n)
{
    uint64_t a, b, h = n;
    for (size_t i = 0; i + 16 < n; i += 16) {
        memcpy(&a, word + i, 8);
        memcpy(&b, word + i + 8, 8);
        h = mega_word_hash(a ^ h, b);
    }
    memcpy(&a, word + n - 16, 8);
    memcpy(&b, word + n - 8, 8);
    key[0] = mega_word_hash(a ^ h, b);
    key[1] = a + b * 0xC2B2AE3D27D4EB4Full;
}

/* Returns the record of an entry, or NULL if the ring has overwritten it. */
static inline const int32_t *mega_word_cache_record(const mega_word_cache *c, const mega_cached_word *w)
{
    const uint32_t at = (uint32_t)w->id[0];
    return c->head - at > MEGA_CACHE_RING ? NULL : c->ring + at % MEGA_CACHE_RING;
}

#endif
