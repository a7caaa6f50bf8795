#include "word_counts.h"
#include "megalith/threads.h"
#include "models/encoder.h"
#include <string.h>

enum { FIRST = 4096, BATCH = 16 };

static inline uint64_t counts_place_of(const uint64_t key[2], size_t n)
{
    return mega_word_hash(key[0] + n, key[1]);
}

static inline bool same_word(const mega_word_counts *w, const mega_word_slot *s, const uint64_t key[2],
                             const char *word, size_t n)
{
    if (((s->key[0] ^ key[0]) | (s->key[1] ^ key[1]) | (s->size ^ n)) != 0) return false;
    return n <= MEGA_CACHE_SHORT || memcmp(w->bytes.data + w->word[s->word].begin, word, n) == 0;
}

static mega_status counts_grow(mega_word_counts *w)
{
    if (w->size < w->capacity) return MEGA_OK;
    const int64_t capacity = w->capacity == 0 ? FIRST : w->capacity * 2;
    if (capacity > INT32_MAX / 4)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "more than %lld different words; train on a part of the text",
                         (long long)w->size);
    mega_word_count *word = mega_realloc(w->word, (size_t)capacity * sizeof *word);
    if (word != NULL) w->word = word;
    mega_word_slot *slot = mega_malloc((size_t)capacity * 2 * sizeof *slot);
    if (word == NULL || slot == NULL) {
        mega_free(slot);
        return TRAIN_NO_MEMORY("more different words");
    }
    const uint64_t slots = (uint64_t)capacity * 2;
    for (uint64_t s = 0; s < slots; s++) slot[s].word = -1;
    for (uint64_t old = 0; old < w->slots; old++) {
        const mega_word_slot *from = &w->slot[old];
        if (from->word < 0) continue;
        uint64_t s = counts_place_of(from->key, from->size) & (slots - 1);
        while (slot[s].word >= 0) s = (s + 1) & (slots - 1);
        slot[s] = *from;
    }
    mega_free(w->slot);
    w->slot = slot;
    w->slots = slots;
    w->capacity = capacity;
    return MEGA_OK;
}

static mega_status add_new(mega_word_counts *w, mega_word_slot *s, const uint64_t key[2], const char *word, size_t n,
                           int64_t count)
{
    const size_t begin = w->bytes.size;
    mega_buffer_append(&w->bytes, word, n);
    MEGA_TRY(mega_buffer_check(&w->bytes, "different words of the text"));
    w->word[w->size] = (mega_word_count){.begin = begin, .size = (uint32_t)n};
    *s = (mega_word_slot){{key[0], key[1]}, count, (uint32_t)n, (int32_t)w->size++};
    return MEGA_OK;
}

static inline mega_status add_key(mega_word_counts *w, const uint64_t key[2], const char *word, size_t n, int64_t count)
{
    MEGA_TRY(counts_grow(w));
    uint64_t s = counts_place_of(key, n) & (w->slots - 1);
    for (; w->slot[s].word >= 0; s = (s + 1) & (w->slots - 1))
        if (same_word(w, &w->slot[s], key, word, n)) {
            w->slot[s].count += count;
            return MEGA_OK;
        }
    return add_new(w, &w->slot[s], key, word, n, count);
}

/* `readable`: bytes that may be read from the word's first byte on. */
static inline mega_status counts_make_key(uint64_t key[2], const uint8_t *word, size_t n, size_t readable)
{
    if (n > INT32_MAX / 4)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "found a word of %zu bytes without a blank; expected at most %d bytes",
                         n, INT32_MAX / 4);
    if (n > MEGA_CACHE_SHORT) {
        mega_word_key_long(key, word, n);
    } else if (readable >= MEGA_CACHE_SHORT) {
        mega_word_key_short(key, word, n);
    } else {
        uint8_t copy[MEGA_CACHE_SHORT] = {0};
        memcpy(copy, word, n);
        mega_word_key_short(key, copy, n);
    }
    return MEGA_OK;
}

mega_status mega_word_counts_add_text(mega_word_counts *w, const char *text, size_t n)
{
    mega_word_ends *const ends = mega_encode_set_for(mega_cpu_isa()).ends;
    const uint8_t *bytes = (const uint8_t *)text;
    size_t end[BATCH];
    uint64_t key[BATCH][2];
    for (size_t at = 0; at < n;) {
        const int words = ends(MEGA_SPLIT_GPT2, bytes, at, n, end, BATCH);
        MEGA_TRY(counts_grow(w));
        size_t begin = at;
        for (int i = 0; i < words; begin = end[i++]) {
            MEGA_TRY(counts_make_key(key[i], bytes + begin, end[i] - begin, n - begin));
            __builtin_prefetch(&w->slot[counts_place_of(key[i], end[i] - begin) & (w->slots - 1)]);
        }
        for (int i = 0; i < words; at = end[i++]) MEGA_TRY(add_key(w, key[i], text + at, end[i] - at, 1));
    }
    return MEGA_OK;
}

mega_status mega_word_counts_add(mega_word_counts *w, const char *word, size_t n)
{
    uint64_t key[2];
    MEGA_TRY(counts_make_key(key, (const uint8_t *)word, n, n));
    return add_key(w, key, word, n, 1);
}

mega_status mega_word_counts_join(mega_word_counts *w, const mega_word_counts *other)
{
    for (uint64_t i = 0; i < other->slots; i++) {
        const mega_word_slot *s = &other->slot[i];
        if (s->word < 0) continue;
        MEGA_TRY(add_key(w, s->key, other->bytes.data + other->word[s->word].begin, s->size, s->count));
    }
    return MEGA_OK;
}

void mega_word_counts_finish(mega_word_counts *w)
{
    for (uint64_t i = 0; i < w->slots; i++)
        if (w->slot[i].word >= 0) w->word[w->slot[i].word].count = w->slot[i].count;
    mega_free(w->slot);
    w->slot = NULL;
    w->slots = 0;
}

void mega_word_counts_fini(mega_word_counts *w)
{
    mega_buffer_fini(&w->bytes);
    MEGA_FREE(w->word, w->slot);
    *w = (mega_word_counts){0};
}
