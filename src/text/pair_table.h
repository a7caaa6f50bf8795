/* The merges of byte-pair encoding in a table made for speed: 8 bytes a merge, so that GPT-2's 50,000 lie in 1 MiB, and
 * the pairs of single bytes apart, without a search. A bucket of four is half a cache line. Only for vocabularies whose
 * ids and ranks have 16 bits. */
#ifndef MEGALITH_TEXT_PAIR_TABLE_H
#define MEGALITH_TEXT_PAIR_TABLE_H

#include "vocabulary.h"

enum { MEGA_NO_RANK = 0xFFFF, MEGA_PAIR_BUCKET = 4, MEGA_PAIR_FILTER = 2 /* log2 of bits a slot */ };
#define MEGA_NO_PAIR UINT32_MAX /* its low half is MEGA_NO_RANK */

typedef struct mega_pair_table {
    void *block;      /* all tables: one huge page */
    uint64_t *slot;   /* left << 48 | right << 32 | id << 16 | rank; all ones: free. NULL: there is no such table */
    uint32_t *filter; /* a bit a hash value; 0: no pair has it. Small enough to stay in the cache of a core */
    uint32_t *byte;   /* by first byte << 8 | second byte: id << 16 | rank, or MEGA_NO_PAIR */
    uint16_t id[256];
    int shift; /* 32 - log2 of the number of slots */
} mega_pair_table;

/* Leaves the table empty, which is no failure, when the merges do not fit it or a byte has no id. After the seal. */
mega_status mega_pair_table_init(mega_pair_table *t, const mega_merges *merges, const int32_t byte_id[256]);
size_t mega_pair_table_bytes(const mega_pair_table *t);
void mega_pair_table_fini(mega_pair_table *t);

/* First slot of the bucket where a pair is looked for; the first of all where the filter knows that it is nowhere,
 * which most pairs are: their bucket need not come from memory. */
static inline uint32_t mega_pair_table_bucket(const mega_pair_table *t, uint32_t key)
{
    const uint32_t hash = key * 0x9E3779B1u, bit = hash >> (t->shift - MEGA_PAIR_FILTER);
    const uint32_t bucket = hash >> t->shift & ~(uint32_t)(MEGA_PAIR_BUCKET - 1);
    return bucket & -(t->filter[bit / 32] >> bit % 32 & 1);
}

/* id << 16 | rank of what the pair becomes, or MEGA_NO_PAIR. A bucket is searched without asking where in it the pair
 * stands, and only a full one has a next: that there is one pair and not another is nothing to guess right. */
static inline uint32_t mega_pair_table_find_at(const mega_pair_table *t, uint32_t key, uint32_t bucket)
{
    const uint32_t mask = UINT32_MAX >> t->shift;
    for (uint32_t s = bucket;; s = (s + MEGA_PAIR_BUCKET) & mask) {
        const uint64_t *slot = t->slot + s;
        uint32_t found = MEGA_NO_PAIR;
        for (int i = 0; i < MEGA_PAIR_BUCKET; i++) found = (uint32_t)(slot[i] >> 32) == key ? (uint32_t)slot[i] : found;
        const int full = slot[MEGA_PAIR_BUCKET - 1] != UINT64_MAX; /* `&`: one branch, nearly never taken */
        if (__builtin_expect((found == MEGA_NO_PAIR) & full, 0) == 0) return found;
    }
}

static inline uint32_t mega_pair_table_find(const mega_pair_table *t, uint32_t left, uint32_t right)
{
    const uint32_t key = left << 16 | right;
    return mega_pair_table_find_at(t, key, mega_pair_table_bucket(t, key));
}

#endif
