#include "word_counts.h"
#include "megalith/hash.h"
#include <stdlib.h>
#include <string.h>

static uint64_t find_slot(const mega_word_counts *w, const char *word, size_t n, uint32_t hash)
{
    uint64_t s = hash & (w->slots - 1);
    for (;; s = (s + 1) & (w->slots - 1)) {
        if (w->slot[s] < 0) return s;
        const mega_word_count *seen = &w->word[w->slot[s]];
        if (seen->hash == hash && seen->size == n && memcmp(w->bytes.data + seen->begin, word, n) == 0) return s;
    }
}

static mega_status grow(mega_word_counts *w)
{
    if (w->size < w->capacity) return MEGA_OK;
    const int64_t capacity = w->capacity == 0 ? 4096 : w->capacity * 2;
    if (capacity > INT32_MAX / 4)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "more than %lld different words; train on a part of the text",
                         (long long)w->size);
    mega_word_count *word = mega_realloc(w->word, (size_t)capacity * sizeof *word);
    if (word != NULL) w->word = word;
    int32_t *slot = mega_malloc((size_t)capacity * 2 * sizeof *slot);
    if (word == NULL || slot == NULL) {
        mega_free(slot);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory to count more than %lld different words", (long long)w->size);
    }
    mega_free(w->slot);
    w->slot = slot;
    w->slots = (uint64_t)capacity * 2;
    w->capacity = capacity;
    memset(slot, 0xFF, w->slots * sizeof *slot);
    for (int64_t i = 0; i < w->size; i++) {
        uint64_t s = w->word[i].hash & (w->slots - 1);
        while (slot[s] >= 0) s = (s + 1) & (w->slots - 1);
        slot[s] = (int32_t)i;
    }
    return MEGA_OK;
}

mega_status mega_word_counts_add(mega_word_counts *w, const char *word, size_t n, int64_t count)
{
    if (n > INT32_MAX / 4)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "a word of %zu bytes without a blank; words may have %d", n,
                         INT32_MAX / 4);
    MEGA_TRY(grow(w));
    const uint64_t wide = mega_hash64(MEGA_HASH_START, word, n);
    const uint32_t hash = (uint32_t)(wide ^ wide >> 32);
    const uint64_t s = find_slot(w, word, n, hash);
    if (w->slot[s] >= 0) {
        w->word[w->slot[s]].count += count;
        return MEGA_OK;
    }
    const size_t begin = w->bytes.size;
    mega_buffer_append(&w->bytes, word, n);
    MEGA_TRY(mega_buffer_check(&w->bytes, "different words of the text"));
    w->word[w->size] = (mega_word_count){.begin = begin, .size = (uint32_t)n, .hash = hash, .count = count};
    w->slot[s] = (int32_t)w->size++;
    return MEGA_OK;
}

static int compare_words(const void *a, const void *b, void *bytes)
{
    const mega_word_count *x = a, *y = b;
    const size_t n = x->size < y->size ? x->size : y->size;
    const int order = memcmp((const char *)bytes + x->begin, (const char *)bytes + y->begin, n);
    return order != 0 ? order : (x->size > y->size) - (x->size < y->size);
}

void mega_word_counts_sort(mega_word_counts *w)
{
    if (w->size > 1) qsort_r(w->word, (size_t)w->size, sizeof *w->word, compare_words, w->bytes.data);
    mega_free(w->slot);
    w->slot = NULL;
    w->slots = 0;
}

void mega_word_counts_fini(mega_word_counts *w)
{
    mega_buffer_fini(&w->bytes);
    mega_free(w->word);
    mega_free(w->slot);
    *w = (mega_word_counts){0};
}
