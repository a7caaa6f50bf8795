/* Byte-pair encoding of one word: the adjacent pair of lowest rank is merged, the leftmost first where ranks are equal,
 * until no pair of the table is left. */
#ifndef MEGALITH_TEXT_BPE_H
#define MEGALITH_TEXT_BPE_H

#include "vocabulary.h"

/* Memory for words of up to `capacity` symbols. Zero-initialised is valid and empty. */
typedef struct mega_bpe {
    int32_t *symbol;      /* in: ids of the bytes; out: ids of the tokens */
    uint64_t *pair;       /* by position: rank << 32 | id of symbol[i] with its right neighbour */
    int32_t *prev, *next; /* long words only, as is the heap */
    uint64_t *heap;       /* rank << 32 | position */
    int64_t capacity, long_capacity;
} mega_bpe;

mega_status mega_bpe_reserve(mega_bpe *b, int64_t symbols);
void mega_bpe_fini(mega_bpe *b);

/* Merges symbol[0..n) in place and returns how many are left. n <= capacity. Both give the same; `scan` takes n^2 steps
 * and is faster for usual words, `heap` n log n and may fail for want of memory (-1, with the record set). */
int64_t mega_bpe_merge_scan(mega_bpe *b, const mega_merges *merges, int64_t n);
int64_t mega_bpe_merge_heap(mega_bpe *b, const mega_merges *merges, int64_t n);
int64_t mega_bpe_merge(mega_bpe *b, const mega_merges *merges, int64_t n);

#endif
