/* The merges of byte-pair encoding in a table made for speed: 8 bytes a merge, so that GPT-2's 50,000 lie in 1 MiB, and
 * the pairs of single bytes apart, without a search. Only for vocabularies whose ids and ranks have 16 bits. */
#ifndef MEGALITH_TEXT_PAIR_TABLE_H
#define MEGALITH_TEXT_PAIR_TABLE_H

#include "vocabulary.h"

enum { MEGA_NO_RANK = 0xFFFF };
#define MEGA_NO_PAIR UINT32_MAX /* its low half is MEGA_NO_RANK */

typedef struct mega_pair_table {
    uint64_t *slot; /* left << 48 | right << 32 | id << 16 | rank; all ones: free. NULL: there is no such table */
    uint32_t *byte; /* by first byte << 8 | second byte: id << 16 | rank, or MEGA_NO_PAIR */
    uint16_t id[256];
    int shift; /* 32 - log2 of the number of slots */
} mega_pair_table;

/* Leaves the table empty, which is no failure, when the merges do not fit it or a byte has no id. After the seal. */
mega_status mega_pair_table_init(mega_pair_table *t, const mega_merges *merges, const int32_t byte_id[256]);
void mega_pair_table_fini(mega_pair_table *t);

/* id << 16 | rank of what the pair becomes, or MEGA_NO_PAIR. */
static inline uint32_t mega_pair_table_find(const mega_pair_table *t, uint32_t left, uint32_t right)
{
    const uint32_t key = left << 16 | right, mask = UINT32_MAX >> t->shift;
    for (uint32_t s = (key * 0x9E3779B1u) >> t->shift;; s = (s + 1) & mask) {
        const uint64_t entry = t->slot[s];
        /* A free slot reads as a key that no merge has (see the .c) with the value MEGA_NO_PAIR. */
        if ((uint32_t)(entry >> 32) == key || entry == UINT64_MAX) return (uint32_t)entry;
    }
}

#endif
