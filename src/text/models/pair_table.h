/* A fast hash table of the merges of byte-pair encoding: 8 bytes per merge, so GPT-2's 50,000 take 1 MiB; pairs of
 * single bytes have a direct table. A bucket of four slots is half a cache line. Only for vocabularies whose ids and
 * ranks have 16 bits. */
#ifndef MEGALITH_TEXT_PAIR_TABLE_H
#define MEGALITH_TEXT_PAIR_TABLE_H

#include "tokenizer/vocabulary.h"

enum { MEGA_NO_RANK = 0xFFFF, MEGA_PAIR_BUCKET = 4, MEGA_PAIR_FILTER = 2 /* log2 of the filter's bits per slot */ };
#define MEGA_NO_PAIR UINT32_MAX /* its low half is MEGA_NO_RANK */

typedef struct mega_pair_table {
    void *block;      /* holds all tables: one huge page */
    uint64_t *slot;   /* left << 48 | right << 32 | id << 16 | rank; all ones: free. NULL: the table does not exist */
    uint32_t *filter; /* one bit per hash value; 0: no pair has it. Fits into a core's cache */
    uint32_t *byte;   /* by first byte << 8 | second byte: id << 16 | rank, or MEGA_NO_PAIR */
    uint16_t id[256];
    int shift; /* 32 - log2 of the number of slots */
} mega_pair_table;

/* Call it after the merges are sealed. Leaves the table empty, which is not an error, if the merges do not fit it or a
 * byte has no id. */
mega_status mega_pair_table_init(mega_pair_table *t, const mega_merges *merges, const int32_t byte_id[256]);
size_t mega_pair_table_bytes(const mega_pair_table *t);
void mega_pair_table_fini(mega_pair_table *t);

/* Returns the first slot of a pair's bucket, or slot 0 if the filter excludes the pair, as it does for most pairs:
 * their bucket then need not be loaded from memory. */
static inline uint32_t mega_pair_table_bucket(const mega_pair_table *t, uint32_t key)
{
    const uint32_t hash = key * 0x9E3779B1u, bit = hash >> (t->shift - MEGA_PAIR_FILTER);
    const uint32_t bucket = hash >> t->shift & ~(uint32_t)(MEGA_PAIR_BUCKET - 1);
    return bucket & -(t->filter[bit / 32] >> bit % 32 & 1);
}

/* Returns id << 16 | rank of the merged pair, or MEGA_NO_PAIR. Searches a bucket without a branch per slot, and
 * continues to the next bucket only if this one is full, so that no branch depends on which pair it is. */
static inline uint32_t mega_pair_table_find_at(const mega_pair_table *t, uint32_t key, uint32_t bucket)
{
    const uint32_t mask = UINT32_MAX >> t->shift;
    for (uint32_t s = bucket;; s = (s + MEGA_PAIR_BUCKET) & mask) {
        const uint64_t *slot = t->slot + s;
        uint32_t found = MEGA_NO_PAIR;
        for (int i = 0; i < MEGA_PAIR_BUCKET; i++) found = (uint32_t)(slot[i] >> 32) == key ? (uint32_t)slot[i] : found;
        /* `&` instead of `&&`: one branch, almost never taken */
        const int full = slot[MEGA_PAIR_BUCKET - 1] != UINT64_MAX;
        if (__builtin_expect((found == MEGA_NO_PAIR) & full, 0) == 0) return found;
    }
}

static inline uint32_t mega_pair_table_find(const mega_pair_table *t, uint32_t left, uint32_t right)
{
    const uint32_t key = left << 16 | right;
    return mega_pair_table_find_at(t, key, mega_pair_table_bucket(t, key));
}

#endif
