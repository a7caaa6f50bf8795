/* Byte-pair encoding of one word: repeatedly merges the adjacent pair of lowest rank, the leftmost if ranks are equal,
 * until no pair is in the table. */
#ifndef MEGALITH_TEXT_BPE_H
#define MEGALITH_TEXT_BPE_H

#include "tokenizer/vocabulary.h"

/* Memory for words of up to `capacity` symbols. Zero-initialised is valid and empty. */
typedef struct mega_bpe {
    int32_t *symbol;      /* in: ids of the bytes; out: ids of the tokens */
    uint64_t *pair;       /* by position: rank << 32 | id of symbol[i] with its right neighbour */
    int32_t *prev, *next; /* used for long words only, as is the heap */
    uint64_t *heap;       /* rank << 32 | position */
    int64_t capacity, long_capacity;
} mega_bpe;

mega_status mega_bpe_reserve(mega_bpe *b, int64_t symbols);
void mega_bpe_fini(mega_bpe *b);

/* Merge symbol[0..n) in place and return how many symbols are left. n <= capacity. Both give the same result; `scan`
 * takes n^2 steps and is faster for ordinary words; `heap` takes n log n and returns -1, with the error recorded, when
 * memory is short. */
int64_t mega_bpe_merge_scan(mega_bpe *b, const mega_merges *merges, int64_t n);
int64_t mega_bpe_merge_heap(mega_bpe *b, const mega_merges *merges, int64_t n);
int64_t mega_bpe_merge(mega_bpe *b, const mega_merges *merges, int64_t n);

#endif
