/* Learns merges: each word is a list of symbols in one flat array. For every pair we keep how often it occurs and in
 * which words, so that a merge touches only these words; a heap gives the most frequent pair. Counts in the heap may be
 * stale, but only too high (a count rises only in the step in which its newer symbol is created, and is queued again in
 * that step), so an entry that still agrees with its pair is the maximum.
 *
 * A merge of (a, b) to c changes pairs only next to it: in x a b, (x, a) becomes (x, c), and in a b y, (b, y) becomes
 * (c, y). So a step first counts these neighbours by symbol in plain arrays, and looks up each pair only once. */
#include "bpe_train.h"
#include "megalith/utf8.h"
#include <string.h>

/* BLOCK: positions in a block of memory. AHEAD: how many positions ahead of the loop words are prefetched. */
enum { BLOCK = 1 << 18, AHEAD = 12 };

typedef struct train_pair {
    int32_t left, right; /* left -1: a free slot */
    int64_t count;
    int32_t *word;       /* indices of its words, inside a block; a word may stay listed after it has lost the pair */
    int32_t words, last; /* last: of the words that are counted at the start */
} train_pair;

typedef struct train_entry {
    int64_t count;
    int32_t left, right;
} train_entry;

typedef struct train_word {
    size_t begin; /* index of its first symbol */
    int64_t count;
    int32_t length; /* number of symbols now */
} train_word;

/* How often one symbol was next to the merged pairs of a step. */
typedef struct train_neighbour {
    int64_t count;
    int32_t words, last; /* number of different words; the latest of them */
    int32_t *list;
} train_neighbour;

typedef struct train_place {
    int32_t symbol, word;
} train_place;

/* The neighbours on one side. */
typedef struct train_side {
    train_neighbour *neighbour; /* by symbol; `words` is 0 between steps */
    int32_t *seen;              /* symbols with words > 0 */
    int64_t num_seen;
    train_place *place;
    int64_t places, capacity;
} train_side;

typedef struct train_block {
    struct train_block *next;
    int32_t list[];
} train_block;

typedef struct trainer_state {
    train_word *word;
    int32_t *symbol; /* the symbols of all words */
    train_pair *pair;
    uint64_t slots, used;
    train_entry *heap;
    int64_t queued, heap_capacity, min_frequency;
    size_t inner; /* bytes in front of a symbol that does not begin a word */
    train_side before, after;
    train_block *block; /* holds the lists of pairs; all are freed at the end */
    size_t block_used, block_size;
} trainer_state;

static train_pair *pair_slot_of(train_pair *pair, uint64_t slots, int32_t left, int32_t right)
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
    if (pair == NULL) return TRAIN_NO_MEMORY("pairs");
    for (uint64_t s = 0; s < slots; s++) pair[s].left = -1;
    for (uint64_t s = 0; s < t->slots; s++)
        if (t->pair[s].left >= 0) *pair_slot_of(pair, slots, t->pair[s].left, t->pair[s].right) = t->pair[s];
    mega_free(t->pair);
    t->pair = pair;
    t->slots = slots;
    return MEGA_OK;
}

static mega_status new_list(trainer_state *t, size_t n, int32_t **out)
{
    if (t->block == NULL || t->block_size - t->block_used < n) {
        const size_t size = n > BLOCK ? n : BLOCK;
        train_block *block = mega_malloc(sizeof *block + size * sizeof *block->list);
        if (block == NULL) return TRAIN_NO_MEMORY("the positions of pairs");
        block->next = t->block;
        t->block = block;
        t->block_size = size;
        t->block_used = 0;
    }
    *out = t->block->list + t->block_used;
    t->block_used += n;
    return MEGA_OK;
}

static bool entry_before(const train_entry *a, const train_entry *b)
{
    if (a->count != b->count) return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static mega_status pair_queue(trainer_state *t, train_entry entry)
{
    if (!mega_array_reserve(&t->heap, &t->heap_capacity, t->queued + 1, sizeof *t->heap))
        return TRAIN_NO_MEMORY("the queue of pairs");
    int64_t i = t->queued++;
    for (; i > 0 && entry_before(&entry, &t->heap[(i - 1) / 2]); i = (i - 1) / 2) t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = entry;
    return MEGA_OK;
}

static train_entry pair_dequeue(trainer_state *t)
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

/* A pair below the minimum frequency is not queued until its count rises. */
static mega_status queue_pair(trainer_state *t, const train_pair *p)
{
    if (p->count < t->min_frequency) return MEGA_OK;
    return pair_queue(t, (train_entry){.count = p->count, .left = p->left, .right = p->right});
}

/* Adds `count` to the pair, which also occurs in `words` words that are not in its list yet; *list receives space for
 * these. */
static mega_status pair_gain(trainer_state *t, int32_t left, int32_t right, int64_t count, int32_t words,
                             int32_t **list)
{
    MEGA_TRY(grow_pairs(t));
    train_pair *p = pair_slot_of(t->pair, t->slots, left, right);
    if (p->left < 0) {
        *p = (train_pair){.left = left, .right = right};
        t->used++;
    }
    int32_t *all;
    MEGA_TRY(new_list(t, (size_t)p->words + (size_t)words, &all));
    if (p->words > 0) memcpy(all, p->word, (size_t)p->words * sizeof *all);
    *list = all + p->words;
    p->word = all;
    p->words += words;
    p->count += count;
    return MEGA_OK;
}

static void pair_lose(trainer_state *t, int32_t left, int32_t right, int64_t count)
{
    train_pair *p = pair_slot_of(t->pair, t->slots, left, right);
    if (p->left >= 0) p->count -= count;
}

/* ---- the first pairs: pairs of bytes ---- */

static mega_status make_words(trainer_state *t, const mega_vocabulary *v, const mega_word_counts *w)
{
    int32_t id[256];
    for (int b = 0; b < 256; b++) {
        const char byte = (char)b;
        id[b] = mega_vocabulary_find(v, &byte, 1, false);
    }
    t->symbol = mega_malloc(w->bytes.size * sizeof *t->symbol);
    t->word = mega_malloc((size_t)w->size * sizeof *t->word);
    if (w->size > 0 && (t->symbol == NULL || t->word == NULL)) return TRAIN_NO_MEMORY("the words");
    size_t at = 0;
    for (int64_t i = 0; i < w->size; i++) {
        const mega_word_count *word = &w->word[i];
        t->word[i] = (train_word){.begin = at, .count = word->count, .length = (int32_t)word->size};
        for (uint32_t k = 0; k < word->size; k++) t->symbol[at++] = id[(unsigned char)w->bytes.data[word->begin + k]];
    }
    return MEGA_OK;
}

/* Counts each pair of neighbours (twice in "aaa") in first[left * 256 + right]. With `fill` it fills their lists
 * instead. */
static void count_first(const trainer_state *t, int64_t words, train_neighbour *first, bool fill)
{
    for (int64_t i = 0; i < words; i++) {
        const int32_t *s = t->symbol + t->word[i].begin;
        for (int32_t k = 1; k < t->word[i].length; k++) {
            train_neighbour *f = &first[s[k - 1] * 256 + s[k]];
            if (!fill) f->count += t->word[i].count;
            if (f->last == (int32_t)i) continue;
            f->last = (int32_t)i;
            if (fill) *f->list++ = (int32_t)i;
            else
                f->words++;
        }
    }
}

static mega_status make_first(trainer_state *t, int64_t words, train_neighbour *first)
{
    for (int32_t i = 0; i < 1 << 16; i++) first[i].last = -1;
    count_first(t, words, first, false);
    for (int32_t i = 0; i < 1 << 16; i++) {
        first[i].last = -1;
        if (first[i].words == 0) continue;
        MEGA_TRY(pair_gain(t, i / 256, i % 256, first[i].count, first[i].words, &first[i].list));
        MEGA_TRY(queue_pair(t, pair_slot_of(t->pair, t->slots, i / 256, i % 256)));
    }
    count_first(t, words, first, true);
    return MEGA_OK;
}

static mega_status make_sides(trainer_state *t, int64_t vocab_size)
{
    for (int i = 0; i < 2; i++) {
        train_side *side = i == 0 ? &t->before : &t->after;
        side->neighbour = mega_calloc((size_t)vocab_size, sizeof *side->neighbour);
        side->seen = mega_malloc((size_t)vocab_size * sizeof *side->seen);
        if (side->neighbour == NULL || side->seen == NULL) return TRAIN_NO_MEMORY("symbols");
    }
    return MEGA_OK;
}

static mega_status begin_words(trainer_state *t, const mega_vocabulary *v, const mega_word_counts *w,
                               int64_t vocab_size)
{
    MEGA_TRY(make_words(t, v, w));
    MEGA_TRY(make_sides(t, vocab_size));
    train_neighbour *first = mega_calloc(1 << 16, sizeof *first);
    const mega_status st = first == NULL ? TRAIN_NO_MEMORY("pairs") : make_first(t, w->size, first);
    mega_free(first);
    return st;
}

/* ---- the first pairs: pairs of characters ---- */

/* Finds the symbol of a character. -1: it has none. */
static int32_t character_symbol(const mega_vocabulary *v, const char *inner, size_t inner_size, const char *character,
                                size_t n)
{
    enum { LONGEST_INNER = 16 };
    char text[LONGEST_INNER + 4];
    memcpy(text, inner, inner_size);
    memcpy(text + inner_size, character, n);
    return mega_vocabulary_find(v, text, inner_size + n, false);
}

static mega_status make_character_words(trainer_state *t, const mega_vocabulary *v, const char *inner,
                                        const mega_word_counts *w)
{
    t->symbol = mega_malloc((w->bytes.size + 1) * sizeof *t->symbol);
    t->word = mega_malloc(((size_t)w->size + 1) * sizeof *t->word);
    if (t->symbol == NULL || t->word == NULL) return TRAIN_NO_MEMORY("the words");
    size_t made = 0;
    for (int64_t i = 0; i < w->size; i++) {
        const mega_word_count *word = &w->word[i];
        const char *text = w->bytes.data + word->begin;
        t->word[i] = (train_word){.begin = made, .count = word->count};
        for (size_t at = 0, n; at < word->size; at += n) {
            uint32_t cp = 0;
            const int length = mega_utf8_decode((const uint8_t *)text + at, word->size - at, &cp);
            n = length > 0 ? (size_t)length : 1;
            const int32_t symbol = character_symbol(v, inner, at > 0 ? t->inner : 0, text + at, n);
            if (symbol >= 0) t->symbol[made++] = symbol;
        }
        t->word[i].length = (int32_t)(made - t->word[i].begin);
    }
    return MEGA_OK;
}

/* Counts each pair, and the words that have it. */
static mega_status count_character_pairs(trainer_state *t, int64_t words)
{
    for (int64_t i = 0; i < words; i++) {
        const int32_t *s = t->symbol + t->word[i].begin;
        for (int32_t k = 1; k < t->word[i].length; k++) {
            MEGA_TRY(grow_pairs(t));
            train_pair *p = pair_slot_of(t->pair, t->slots, s[k - 1], s[k]);
            if (p->left < 0) {
                *p = (train_pair){.left = s[k - 1], .right = s[k], .last = -1};
                t->used++;
            }
            p->count += t->word[i].count;
            p->words += p->last != (int32_t)i;
            p->last = (int32_t)i;
        }
    }
    return MEGA_OK;
}

/* Gives each pair the list of its words, and queues it. */
static mega_status list_character_pairs(trainer_state *t, int64_t words)
{
    for (uint64_t s = 0; s < t->slots; s++) {
        train_pair *p = &t->pair[s];
        if (p->left < 0) continue;
        MEGA_TRY(new_list(t, (size_t)p->words, &p->word));
        MEGA_TRY(queue_pair(t, p));
        p->words = 0;
        p->last = -1;
    }
    for (int64_t i = 0; i < words; i++) {
        const int32_t *s = t->symbol + t->word[i].begin;
        for (int32_t k = 1; k < t->word[i].length; k++) {
            train_pair *p = pair_slot_of(t->pair, t->slots, s[k - 1], s[k]);
            if (p->last == (int32_t)i) continue;
            p->last = (int32_t)i;
            p->word[p->words++] = (int32_t)i;
        }
    }
    return MEGA_OK;
}

/* ---- one merge ---- */

/* Reserves space for the neighbours of one word, so that recording them cannot fail. */
static mega_status reserve_places(train_side *side, int64_t n)
{
    return mega_array_reserve(&side->place, &side->capacity, side->places + n, sizeof *side->place)
               ? MEGA_OK
               : TRAIN_NO_MEMORY("the positions of pairs");
}

static inline void neighbour_note(train_side *side, int32_t symbol, int32_t word, int64_t count)
{
    train_neighbour *f = &side->neighbour[symbol];
    f->count += count;
    if (f->words > 0 && f->last == word) return;
    if (f->words++ == 0) side->seen[side->num_seen++] = symbol;
    f->last = word;
    side->place[side->places++] = (train_place){.symbol = symbol, .word = word};
}

/* Merges the pair wherever it occurs in a word, from the left, and records its neighbours. */
static mega_status merge_in_word(trainer_state *t, int32_t word, int32_t left, int32_t right, int32_t merged)
{
    train_word *w = &t->word[word];
    int32_t *s = t->symbol + w->begin;
    const int32_t n = w->length;
    MEGA_TRY(reserve_places(&t->before, n));
    MEGA_TRY(reserve_places(&t->after, n));
    int32_t from = 0;
    while (from + 1 < n && (s[from] != left || s[from + 1] != right)) from++;
    int32_t to = from;
    for (; from < n; from++) {
        if (s[from] != left || from + 1 >= n || s[from + 1] != right) {
            s[to++] = s[from];
            continue;
        }
        if (to > 0) neighbour_note(&t->before, s[to - 1], word, w->count);
        if (from + 2 < n) neighbour_note(&t->after, s[from + 2], word, w->count);
        s[to++] = merged;
        from++;
    }
    w->length = to;
    return MEGA_OK;
}

/* Creates the pairs that contain the merged symbol, with counts and lists. */
static mega_status gain_side(trainer_state *t, train_side *side, bool is_before, int32_t merged)
{
    for (int64_t i = 0; i < side->num_seen; i++) {
        const int32_t x = side->seen[i];
        train_neighbour *f = &side->neighbour[x];
        MEGA_TRY(pair_gain(t, is_before ? x : merged, is_before ? merged : x, f->count, f->words, &f->list));
    }
    for (int64_t i = 0; i < side->places; i++) *side->neighbour[side->place[i].symbol].list++ = side->place[i].word;
    return MEGA_OK;
}

static mega_status queue_side(trainer_state *t, train_side *side, bool is_before, int32_t merged)
{
    for (int64_t i = 0; i < side->num_seen; i++) {
        const int32_t x = side->seen[i];
        MEGA_TRY(queue_pair(t, pair_slot_of(t->pair, t->slots, is_before ? x : merged, is_before ? merged : x)));
        side->neighbour[x] = (train_neighbour){0};
    }
    side->num_seen = side->places = 0;
    return MEGA_OK;
}

/* Returns the new token's id. If an earlier merge already created the same bytes, that token is used again. */
static mega_status new_token(mega_vocabulary *v, size_t inner, int32_t left, int32_t right, int32_t *out)
{
    const mega_token *a = mega_vocabulary_get(v, left), *b = mega_vocabulary_get(v, right);
    mega_buffer bytes = {0};
    mega_buffer_append(&bytes, mega_token_bytes(v, a), a->size);
    mega_buffer_append(&bytes, mega_token_bytes(v, b) + inner, b->size - inner);
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
    train_pair *p = pair_slot_of(t->pair, t->slots, left, right);
    const int32_t *word = p->word, words = p->words; /* the pair occurs nowhere after this merge */
    p->word = NULL;
    p->words = 0;
    for (int32_t i = 0; i < words; i++) {
        if (i + 2 * AHEAD < words) __builtin_prefetch(&t->word[word[i + 2 * AHEAD]]);
        if (i + AHEAD < words) __builtin_prefetch(t->symbol + t->word[word[i + AHEAD]].begin);
        MEGA_TRY(merge_in_word(t, word[i], left, right, merged));
    }
    MEGA_TRY(gain_side(t, &t->before, true, merged));
    MEGA_TRY(gain_side(t, &t->after, false, merged));
    for (int64_t i = 0; i < t->before.num_seen; i++)
        pair_lose(t, t->before.seen[i], left, t->before.neighbour[t->before.seen[i]].count);
    for (int64_t i = 0; i < t->after.num_seen; i++)
        pair_lose(t, right, t->after.seen[i], t->after.neighbour[t->after.seen[i]].count);
    pair_slot_of(t->pair, t->slots, left, right)->count = 0;
    MEGA_TRY(queue_side(t, &t->before, true, merged));
    return queue_side(t, &t->after, false, merged);
}

static mega_status merge_learn(trainer_state *t, mega_vocabulary *v, mega_merges *merges, int64_t vocab_size,
                               mega_trainer_report *report, void *user)
{
    while (v->size < vocab_size && t->queued > 0) {
        train_entry best = pair_dequeue(t);
        const train_pair *p = pair_slot_of(t->pair, t->slots, best.left, best.right);
        if (p->count < best.count) {
            MEGA_TRY(queue_pair(t, p));
            continue;
        }
        int32_t merged;
        MEGA_TRY(new_token(v, t->inner, best.left, best.right, &merged));
        if (merges != NULL) MEGA_TRY(mega_merges_add(merges, best.left, best.right, merged));
        MEGA_TRY(merge_pair(t, best.left, best.right, merged));
        if (report != NULL && v->size % 64 == 0) report(user, v->size, vocab_size);
    }
    return MEGA_OK;
}

static void free_state(trainer_state *t)
{
    for (train_block *b = t->block, *next; b != NULL; b = next) {
        next = b->next;
        mega_free(b);
    }
    MEGA_FREE(t->pair, t->symbol, t->word, t->heap);
    for (int i = 0; i < 2; i++) {
        train_side *side = i == 0 ? &t->before : &t->after;
        MEGA_FREE(side->neighbour, side->seen, side->place);
    }
}

mega_status mega_bpe_train(mega_vocabulary *vocabulary, mega_merges *merges, const mega_word_counts *words,
                           int64_t vocab_size, int64_t min_frequency, mega_trainer_report *report, void *user)
{
    trainer_state t = {.min_frequency = min_frequency < 1 ? 1 : min_frequency};
    mega_status st = grow_pairs(&t);
    if (st == MEGA_OK) st = begin_words(&t, vocabulary, words, vocab_size);
    if (st == MEGA_OK) st = merge_learn(&t, vocabulary, merges, vocab_size, report, user);
    free_state(&t);
    return st;
}

mega_status mega_bpe_train_characters(mega_vocabulary *vocabulary, const char *inner, const mega_word_counts *words,
                                      int64_t vocab_size, int64_t min_frequency, mega_trainer_report *report,
                                      void *user)
{
    trainer_state t = {.min_frequency = min_frequency < 1 ? 1 : min_frequency, .inner = strlen(inner)};
    mega_status st = grow_pairs(&t);
    if (st == MEGA_OK) st = make_character_words(&t, vocabulary, inner, words);
    if (st == MEGA_OK) st = make_sides(&t, vocab_size);
    if (st == MEGA_OK) st = count_character_pairs(&t, words->size);
    if (st == MEGA_OK) st = list_character_pairs(&t, words->size);
    if (st == MEGA_OK) st = merge_learn(&t, vocabulary, NULL, vocab_size, report, user);
    free_state(&t);
    return st;
}
