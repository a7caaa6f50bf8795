/* Each word is a list of symbols in one flat array. For every pair we keep how often it occurs and in which words, so
 * that a merge touches only these words; a heap gives the most frequent pair. Counts in the heap may be out of date:
 * they are then too high (a count only rises in the step in which its newer symbol is made, and is queued again in that
 * step), so an entry that still agrees with its pair is the maximum. */
#include "bpe_train.h"
#include <string.h>

typedef struct train_pair {
    int32_t left, right; /* left -1: a free slot */
    int64_t count;
    int32_t *word; /* indices; a word may be listed though it lost the pair */
    int32_t words, capacity;
    int64_t queued_in; /* step in which its rise was last noted */
} train_pair;

typedef struct train_entry {
    int64_t count;
    int32_t left, right;
} train_entry;

typedef struct trainer_state {
    const mega_word_counts *words;
    int32_t *symbol; /* of all words */
    size_t *begin;   /* by word: place in symbol */
    int32_t *length; /* by word: symbols now */
    train_pair *pair;
    uint64_t slots, used;
    train_entry *heap;
    int64_t queued, heap_capacity;
    train_entry *risen; /* pairs that rose in this step; counts are read when they are queued */
    int64_t num_risen, risen_capacity;
    int64_t step;
} trainer_state;

static mega_status no_memory(const char *what)
{
    return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer training: no memory for %s; train on a part of the text", what);
}

static train_pair *slot_of(train_pair *pair, uint64_t slots, int32_t left, int32_t right)
{
    uint64_t s = mega_pair_hash(left, right) & (slots - 1);
    while (pair[s].left >= 0 && (pair[s].left != left || pair[s].right != right)) s = (s + 1) & (slots - 1);
    return &pair[s];
}

static mega_status grow_pairs(trainer_state *t)
{
    if (t->used * 2 < t->slots) return MEGA_OK;
    const uint64_t slots = t->slots == 0 ? 1 << 14 : t->slots * 2;
    train_pair *pair = mega_malloc(slots * sizeof *pair);
    if (pair == NULL) return no_memory("pairs");
    for (uint64_t s = 0; s < slots; s++) pair[s].left = -1;
    for (uint64_t s = 0; s < t->slots; s++)
        if (t->pair[s].left >= 0) *slot_of(pair, slots, t->pair[s].left, t->pair[s].right) = t->pair[s];
    mega_free(t->pair);
    t->pair = pair;
    t->slots = slots;
    return MEGA_OK;
}

static bool entry_before(const train_entry *a, const train_entry *b)
{
    if (a->count != b->count) return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static mega_status queue(trainer_state *t, train_entry entry)
{
    if (t->queued == t->heap_capacity) {
        const int64_t capacity = t->heap_capacity == 0 ? 1 << 14 : t->heap_capacity * 2;
        train_entry *heap = mega_realloc(t->heap, (size_t)capacity * sizeof *heap);
        if (heap == NULL) return no_memory("the queue of pairs");
        t->heap = heap;
        t->heap_capacity = capacity;
    }
    int64_t i = t->queued++;
    for (; i > 0 && entry_before(&entry, &t->heap[(i - 1) / 2]); i = (i - 1) / 2) t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = entry;
    return MEGA_OK;
}

static train_entry dequeue(trainer_state *t)
{
    const train_entry top = t->heap[0], last = t->heap[--t->queued];
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < t->queued; i = child) {
        if (child + 1 < t->queued && entry_before(&t->heap[child + 1], &t->heap[child])) child++;
        if (!entry_before(&t->heap[child], &last)) break;
        t->heap[i] = t->heap[child];
    }
    t->heap[i] = last;
    return top;
}

static mega_status note_rise(trainer_state *t, train_pair *p)
{
    if (p->queued_in == t->step) return MEGA_OK;
    p->queued_in = t->step;
    if (t->num_risen == t->risen_capacity) {
        const int64_t capacity = t->risen_capacity == 0 ? 1024 : t->risen_capacity * 2;
        train_entry *risen = mega_realloc(t->risen, (size_t)capacity * sizeof *risen);
        if (risen == NULL) return no_memory("pairs");
        t->risen = risen;
        t->risen_capacity = capacity;
    }
    t->risen[t->num_risen++] = (train_entry){.left = p->left, .right = p->right};
    return MEGA_OK;
}

/* One more place of the pair in a word that occurs `count` times. */
static mega_status gain(trainer_state *t, int32_t left, int32_t right, int32_t word, int64_t count)
{
    MEGA_TRY(grow_pairs(t));
    train_pair *p = slot_of(t->pair, t->slots, left, right);
    if (p->left < 0) {
        *p = (train_pair){.left = left, .right = right, .queued_in = -1};
        t->used++;
    }
    p->count += count;
    if (p->words == 0 || p->word[p->words - 1] != word) {
        if (p->words == p->capacity) {
            const int32_t capacity = p->capacity == 0 ? 4 : p->capacity * 2;
            int32_t *list = mega_realloc(p->word, (size_t)capacity * sizeof *list);
            if (list == NULL) return no_memory("the places of pairs");
            p->word = list;
            p->capacity = capacity;
        }
        p->word[p->words++] = word;
    }
    return note_rise(t, p);
}

static void lose(trainer_state *t, int32_t left, int32_t right, int64_t count)
{
    slot_of(t->pair, t->slots, left, right)->count -= count;
}

static mega_status queue_risen(trainer_state *t)
{
    for (int64_t i = 0; i < t->num_risen; i++) {
        train_entry entry = t->risen[i];
        entry.count = slot_of(t->pair, t->slots, entry.left, entry.right)->count;
        if (entry.count > 0) MEGA_TRY(queue(t, entry));
    }
    t->num_risen = 0;
    t->step++;
    return MEGA_OK;
}

/* The first symbols are bytes, and each pair of neighbours counts, "aaa" twice. */
static mega_status begin_words(trainer_state *t, const mega_vocabulary *v)
{
    const mega_word_counts *w = t->words;
    int32_t id[256];
    for (int b = 0; b < 256; b++) {
        const char byte = (char)b;
        id[b] = mega_vocabulary_find(v, &byte, 1, false);
    }
    t->symbol = mega_malloc(w->bytes.size * sizeof *t->symbol);
    t->begin = mega_malloc((size_t)w->size * sizeof *t->begin);
    t->length = mega_malloc((size_t)w->size * sizeof *t->length);
    if (w->size > 0 && (t->symbol == NULL || t->begin == NULL || t->length == NULL)) return no_memory("the words");
    size_t at = 0;
    for (int64_t i = 0; i < w->size; i++) {
        const mega_word_count *word = &w->word[i];
        t->begin[i] = at;
        t->length[i] = (int32_t)word->size;
        for (uint32_t k = 0; k < word->size; k++) t->symbol[at + k] = id[(unsigned char)w->bytes.data[word->begin + k]];
        for (uint32_t k = 1; k < word->size; k++)
            MEGA_TRY(gain(t, t->symbol[at + k - 1], t->symbol[at + k], (int32_t)i, word->count));
        at += word->size;
    }
    return queue_risen(t);
}

/* Merges the pair wherever it stands in a word, from the left, and keeps the counts of the neighbouring pairs right.
 * The pair's own count is left to the caller. */
static mega_status merge_in_word(trainer_state *t, int32_t word, int32_t left, int32_t right, int32_t merged)
{
    int32_t *s = t->symbol + t->begin[word];
    const int32_t n = t->length[word];
    const int64_t count = t->words->word[word].count;
    int32_t to = 0;
    for (int32_t from = 0; from < n; from++) {
        if (s[from] != left || from + 1 >= n || s[from + 1] != right) {
            s[to++] = s[from];
            continue;
        }
        if (to > 0) {
            lose(t, s[to - 1], left, count);
            MEGA_TRY(gain(t, s[to - 1], merged, word, count));
        }
        if (from + 2 < n) {
            lose(t, right, s[from + 2], count);
            MEGA_TRY(gain(t, merged, s[from + 2], word, count));
        }
        s[to++] = merged;
        from++;
    }
    t->length[word] = to;
    return MEGA_OK;
}

/* The new token's id. The same bytes may have been made by another merge before; that token then serves again. */
static mega_status new_token(mega_vocabulary *v, int32_t left, int32_t right, int32_t *out)
{
    const mega_token *a = mega_vocabulary_get(v, left), *b = mega_vocabulary_get(v, right);
    mega_buffer bytes = {0};
    mega_buffer_append(&bytes, mega_token_bytes(v, a), a->size);
    mega_buffer_append(&bytes, mega_token_bytes(v, b), b->size);
    mega_status st = mega_buffer_check(&bytes, "a new token");
    if (st == MEGA_OK) {
        *out = mega_vocabulary_find(v, bytes.data, bytes.size, false);
        if (*out < 0) {
            *out = (int32_t)v->size;
            st = mega_vocabulary_add(v, bytes.data, bytes.size, *out, 0);
        }
    }
    mega_buffer_fini(&bytes);
    return st;
}

static mega_status merge_pair(trainer_state *t, int32_t left, int32_t right, int32_t merged)
{
    train_pair *p = slot_of(t->pair, t->slots, left, right);
    int32_t *word = p->word; /* ours now: gain may move the table, and the pair occurs nowhere afterwards */
    const int32_t words = p->words;
    p->word = NULL;
    p->words = p->capacity = 0;
    mega_status st = MEGA_OK;
    for (int32_t i = 0; i < words && st == MEGA_OK; i++) st = merge_in_word(t, word[i], left, right, merged);
    mega_free(word);
    if (st == MEGA_OK) {
        slot_of(t->pair, t->slots, left, right)->count = 0;
        st = queue_risen(t);
    }
    return st;
}

static mega_status learn(trainer_state *t, mega_vocabulary *v, mega_merges *merges, int64_t vocab_size,
                         int64_t min_frequency, mega_trainer_report *report, void *user)
{
    while (v->size < vocab_size && t->queued > 0) {
        train_entry best = dequeue(t);
        const int64_t count = slot_of(t->pair, t->slots, best.left, best.right)->count;
        if (count < best.count) {
            best.count = count;
            if (count > 0) MEGA_TRY(queue(t, best));
            continue;
        }
        if (best.count < min_frequency) break;
        int32_t merged;
        MEGA_TRY(new_token(v, best.left, best.right, &merged));
        MEGA_TRY(mega_merges_add(merges, best.left, best.right, merged));
        MEGA_TRY(merge_pair(t, best.left, best.right, merged));
        if (report != NULL && v->size % 64 == 0) report(user, v->size, vocab_size);
    }
    return MEGA_OK;
}

mega_status mega_bpe_train(mega_vocabulary *vocabulary, mega_merges *merges, const mega_word_counts *words,
                           int64_t vocab_size, int64_t min_frequency, mega_trainer_report *report, void *user)
{
    trainer_state t = {.words = words};
    mega_status st = grow_pairs(&t);
    if (st == MEGA_OK) st = begin_words(&t, vocabulary);
    if (st == MEGA_OK) st = learn(&t, vocabulary, merges, vocab_size, min_frequency, report, user);
    for (uint64_t s = 0; s < t.slots; s++)
        if (t.pair[s].left >= 0) mega_free(t.pair[s].word);
    mega_free(t.pair);
    mega_free(t.symbol);
    mega_free(t.begin);
    mega_free(t.length);
    mega_free(t.heap);
    mega_free(t.risen);
    return st;
}
