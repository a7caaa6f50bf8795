/* Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a function from
 * a 128-bit counter and a 64-bit key to 128 random bits. It has no state, so a random value is addressed by logical
 * coordinates and depends neither on the layout of ranks nor on the number of threads. */
#ifndef MEGALITH_PHILOX_H
#define MEGALITH_PHILOX_H

#include <math.h>
#include <stdint.h>

typedef struct mega_philox {
    uint32_t v[4];
} mega_philox;

static inline mega_philox mega_philox4x32(mega_philox c, uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * c.v[0];
        const uint64_t b = (uint64_t)0xCD9E8D57u * c.v[2];
        const mega_philox next = {
            {(uint32_t)(b >> 32) ^ c.v[1] ^ key0, (uint32_t)b, (uint32_t)(a >> 32) ^ c.v[3] ^ key1, (uint32_t)a}};
        c = next;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

/* The addressing rule of every dropout: returns 128 bits for eight elements of the logical tensor at `site` (the
 * address of the dropout in the model, mega_dropout_site) of sample `sample` in optimizer step `step`. For rows of
 * activations these are elements 8*block … 8*block+7; for attention see mega_dropout_block_of_keys. */
static inline mega_philox mega_philox_dropout(uint32_t seed, uint32_t site, uint32_t step, uint32_t sample,
                                              uint64_t block)
{
    const mega_philox counter = {{(uint32_t)block, (uint32_t)(block >> 32), sample, step}};
    return mega_philox4x32(counter, seed, site);
}
/* The block that holds keys 8*(key/8) … 8*(key/8)+7 of one row of probabilities; row = head * (queries of a sequence) +
 * query. */
static inline uint64_t mega_dropout_block_of_keys(uint32_t row, uint64_t key)
{
    return row | key >> 3 << 32;
}
/* The 16 bits of element i (0 to 7) of the block. */
static inline uint32_t mega_dropout_bits(mega_philox r, int i)
{
    return r.v[i >> 1] >> (i & 1) * 16 & 0xffffu;
}
/* An element is kept if its bits are >= threshold; p is rounded to a multiple of 2^-16 below 1. */
static inline uint32_t mega_dropout_threshold(double p)
{
    const double t = p * 65536.0 + 0.5;
    return t >= 65535.0 ? 65535u : (uint32_t)t;
}
/* Elements that are kept are multiplied by 1/(1-p), with the same rounded p. */
static inline double mega_dropout_scale(double p)
{
    return 65536.0 / (65536.0 - (double)mega_dropout_threshold(p));
}

/* Initial weight: a draw from N(0,1) in double for element `index` of the logical parameter whose name hashes to
 * `name_hash` (Box-Muller on two words of one counter; element i uses counter i/2, pair half i%2). */
static inline double mega_philox_normal(uint32_t seed, uint32_t name_hash, uint64_t index)
{
    const uint64_t block = index >> 1;
    const mega_philox counter = {{(uint32_t)block, (uint32_t)(block >> 32), 0x494e4954u, 0}};
    const mega_philox r = mega_philox4x32(counter, seed, name_hash);
    const double u = ((double)r.v[0] + 0.5) * (1.0 / 4294967296.0);
    const double w = (double)r.v[1] * (6.283185307179586476925 / 4294967296.0);
    const double radius = sqrt(-2.0 * log(u));
    return (index & 1) ? radius * sin(w) : radius * cos(w);
}
/* FNV-1a over the bytes of a name. */
static inline uint32_t mega_name_hash(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name != '\0'; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}
/* The address of a dropout: the hash of its path in the model. The last byte of a path reaches only the low bits of
 * FNV-1a, so a bijection (the 32-bit finalizer of MurmurHash3) mixes every bit into every other. */
static inline uint32_t mega_dropout_site(const char *path)
{
    uint32_t h = mega_name_hash(path);
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

#endif
