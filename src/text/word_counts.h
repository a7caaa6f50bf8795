/* How often each word was seen: the input of BPE training. */
#ifndef MEGALITH_TEXT_WORD_COUNTS_H
#define MEGALITH_TEXT_WORD_COUNTS_H

#include "megalith/memory.h"
#include "megalith/status.h"
#include <stdint.h>

typedef struct mega_word_count {
    size_t begin; /* in bytes */
    uint32_t size, hash;
    int64_t count;
} mega_word_count;

/* Zero-initialised is valid and empty. */
typedef struct mega_word_counts {
    mega_buffer bytes;
    mega_word_count *word;
    int64_t size, capacity;
    int32_t *slot; /* open addressing: index into word, or -1 */
    uint64_t slots;
} mega_word_counts;

mega_status mega_word_counts_add(mega_word_counts *w, const char *word, size_t n, int64_t count);
/* Bytewise, so that what follows does not depend on the order of the documents. No add after this. */
void mega_word_counts_sort(mega_word_counts *w);
void mega_word_counts_fini(mega_word_counts *w);

#endif
