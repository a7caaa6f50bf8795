/* Counts how often each word occurs: the input of training. */
#ifndef MEGALITH_TEXT_WORD_COUNTS_H
#define MEGALITH_TEXT_WORD_COUNTS_H

#include "megalith/memory.h"
#include "megalith/status.h"
#include <stdint.h>

#define TRAIN_NO_MEMORY(what) \
    MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer training: no memory for %s; train on a part of the text", what)

typedef struct mega_word_count {
    size_t begin;  /* offset in the bytes */
    int64_t count; /* set by mega_word_counts_finish */
    uint32_t size;
} mega_word_count;

typedef struct mega_word_slot {
    uint64_t key[2]; /* as in word_cache.h: a word of up to 16 bytes is its own key */
    int64_t count;
    uint32_t size;
    int32_t word; /* -1: free */
} mega_word_slot;

/* Zero-initialised is valid and empty. */
typedef struct mega_word_counts {
    mega_buffer bytes;
    mega_word_count *word; /* in the order of first occurrence */
    int64_t size, capacity;
    mega_word_slot *slot; /* open addressing */
    uint64_t slots;
} mega_word_counts;

/* Counts every word of a text, by GPT-2's split. */
mega_status mega_word_counts_add_text(mega_word_counts *w, const char *text, size_t n);
/* Counts one word. */
mega_status mega_word_counts_add(mega_word_counts *w, const char *word, size_t n);
mega_status mega_word_counts_join(mega_word_counts *w, const mega_word_counts *other);
/* Fills in the counts. Nothing can be added afterwards. */
void mega_word_counts_finish(mega_word_counts *w);
void mega_word_counts_fini(mega_word_counts *w);

#endif
