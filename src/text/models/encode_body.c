/* The encoder's fast path: finds words by GPT-2's split, 64 bytes at once, and takes each from the cache or merges it
 * with ranks of 16 bits. tests/test_encode_fast.c compares it with its definition, mega_word_end and mega_bpe_merge.
 * Compiled once for each instruction set: encode_*.c. */
#include "encode_merge.h"
#include "encode_scan.h"
#include "encoder.h"
#include "pretokenize.h"

enum {
    BATCH = 128,       /* words found before they are looked up, so that their cache lines are fetched together */
    MOST = BATCH + 64, /* the last 64 bytes may contain this many more */
    SHORT_JOB = 16     /* longest word, in bytes, that is merged in one block */
};

_Static_assert(MEGA_SCRATCH_IDS >= MOST * LANE_BYTES + 4, "the space reserved for the ids of a batch");

int word_ends(mega_split split, const uint8_t *text, size_t at, size_t n, size_t *end, int max);
int word_ends(mega_split split, const uint8_t *text, size_t at, size_t n, size_t *end, int max)
{
    int i = 0;
    while (i < max && at < n) {
        uint64_t starts =
            n - at >= SCAN_BYTES ? split_starts(split, text + at, false) : last_split_starts(split, text + at, n - at);
        if (starts == 0) at = end[i++] = mega_split_end(split, text, at, n);
        const size_t begin = at;
        for (; i < max && starts != 0; starts &= starts - 1) at = end[i++] = begin + (size_t)__builtin_ctzll(starts);
    }
    return i;
}

static inline uint32_t pair_of(const mega_pair_table *t, const mega_symbols16 *s, int at)
{
    return mega_pair_table_find(t, s->id[at], s->id[s->next[at]]);
}

static inline void set_pair(mega_symbols16 *s, int at, uint32_t pair)
{
    s->made[at] = (uint16_t)(pair >> 16);
    s->rank[at] = (uint16_t)pair;
}

/* Replaces the pair at `at` by one symbol; symbols keep their positions, and removed ones have no rank. Returns the
 * position of the previous symbol, or -1. */
static inline int merge_at(const mega_pair_table *t, mega_symbols16 *s, int n, int at)
{
    const int gone = s->next[at], after = s->next[gone], before = s->prev[at];
    s->id[at] = s->made[at];
    s->next[at] = (uint16_t)after;
    s->rank[gone] = MEGA_NO_RANK;
    s->prev[after] = (uint16_t)at;
    set_pair(s, at, after < n ? pair_of(t, s, at) : MEGA_NO_PAIR);
    if (at == 0) return -1;
    set_pair(s, before, pair_of(t, s, before));
    return before;
}

/* Keeps the least rank of each block of 16, so that a merge examines n / 256 blocks. */
static int merge_blocks(const mega_pair_table *t, mega_symbols16 *s, int n)
{
    const int blocks = (n + 15) / 16, groups = (blocks + 15) / 16;
    for (int i = 0; i < groups * 16; i++) s->least[i] = i < blocks ? (uint16_t)least16(s->rank + 16 * i) : MEGA_NO_RANK;
    int left = n;
    for (int block, at; least(s->least, groups, &block) != MEGA_NO_RANK; left--) {
        least(s->rank + 16 * block, 1, &at);
        at += 16 * block;
        const int gone = s->next[at] / 16, before = merge_at(t, s, n, at);
        s->least[block] = (uint16_t)least16(s->rank + 16 * block);
        if (gone != block) s->least[gone] = (uint16_t)least16(s->rank + 16 * gone);
        if (before >= 0 && before / 16 != block)
            s->least[before / 16] = (uint16_t)least16(s->rank + 16 * (before / 16));
    }
    return left;
}

static int merge_word16(const mega_pair_table *t, mega_symbols16 *s, const uint8_t *word, int n, int32_t *out)
{
    for (int i = 0; i < n; i++) {
        s->id[i] = t->id[word[i]];
        s->next[i] = (uint16_t)(i + 1);
        s->prev[i] = (uint16_t)(i - 1);
    }
    for (int i = 0; i + 1 < n; i++) set_pair(s, i, t->byte[word[i] << 8 | word[i + 1]]);
    for (int i = n - 1; i < (n + 15) / 16 * 16; i++) s->rank[i] = MEGA_NO_RANK;
    const int left = merge_blocks(t, s, n);
    for (int i = 0, at = 0; i < left; i++, at = s->next[at]) out[i] = s->id[at];
    return left;
}

/* For a word that is not in the cache: merges it, caches it and appends its ids. */
static __attribute__((noinline)) mega_status merge_new(mega_encoder *e, const uint64_t key[2], const uint8_t *word,
                                                       size_t n, size_t begin, int32_t *out, size_t *count)
{
    if (e->tokenizer->pairs.slot != NULL && n <= MEGA_SYMBOLS16) {
        *count = (size_t)merge_word16(&e->tokenizer->pairs, e->symbols, word, (int)n, out);
    } else {
        int64_t left;
        MEGA_TRY(mega_encoder_merge(e, word, n, begin, &left));
        memcpy(out, e->bpe.symbol, (size_t)left * sizeof *out);
        *count = (size_t)left;
    }
    mega_word_cache_put(&e->cache, key, word, n, out, *count);
    return MEGA_OK;
}

/* Words that were found but not looked up yet: their cache entries are being prefetched. */
typedef struct found_words {
    const uint8_t *at[MOST + 1]; /* one more entry: where the last word ends */
    uint64_t key[MOST][2];
    int count;
} found_words;

/* Finds at least BATCH words from p on, if the text has that many. Compiled for each kind of pattern. */
static inline __attribute__((always_inline)) void find_words(mega_split split, found_words *f, const uint8_t *text,
                                                             const uint8_t *p, size_t n)
{
    const uint8_t *const last = text + n;
    int count = 0;
    f->at[0] = p;
    while (count < BATCH && p < last) {
        const size_t left = (size_t)(last - p);
        uint64_t starts = left >= SCAN_BYTES ? split_starts(split, p, false) : last_split_starts(split, p, left);
        if (__builtin_expect(starts == 0, 0)) {
            p = text + mega_split_end(split, text, (size_t)(p - text), n);
            f->at[++count] = p;
            continue;
        }
        const uint8_t *const from = p;
        p += 63 - __builtin_clzll(starts);
        /* Writes eight at a time without checking how many there are; excess ones are overwritten. */
        const int words = __builtin_popcountll(starts);
        for (int i = 0; i < words; i += 8)
            for (int j = 1; j <= 8; j++, starts &= starts - 1)
                f->at[count + i + j] = from + (__builtin_ctzll(starts | bit_of(63)));
        count += words;
    }
    f->count = count;
}

/* The same for words that are found one by one. */
static inline void find_words_singly(mega_encoder *e, found_words *f, const uint8_t *text, const uint8_t *p, size_t n)
{
    int count = 0;
    f->at[0] = p;
    while (count < BATCH && p < text + n) {
        p = text + mega_encoder_word_end(e, text, (size_t)(p - text), n);
        f->at[++count] = p;
    }
    f->count = count;
}

/* Computes the key of a word that ends at or before `last`. */
static inline void cache_make_key(uint64_t key[2], const uint8_t *word, size_t n, const uint8_t *last)
{
    if (__builtin_expect(n > MEGA_CACHE_SHORT, 0)) {
        key[0] = key[1] = 0;
        if (n <= MEGA_CACHE_LONG) mega_word_key_long(key, word, n);
    } else if (__builtin_expect(last - word >= MEGA_CACHE_SHORT, 1)) {
        mega_word_key_short(key, word, n);
    } else {
        uint8_t copy[MEGA_CACHE_SHORT] = {0};
        memcpy(copy, word, n);
        mega_word_key_short(key, copy, n);
    }
}

static inline void ask_for_words(const mega_encoder *e, found_words *f, const uint8_t *last)
{
    for (int i = 0; i < f->count; i++) {
        cache_make_key(f->key[i], f->at[i], (size_t)(f->at[i + 1] - f->at[i]), last);
        __builtin_prefetch(mega_word_cache_line(&e->cache, f->key[i]));
    }
}

/* Address of the ids of a word; 16 bytes may be read there, whatever the count. */
typedef struct word_ids {
    const int32_t *id;
    uint32_t count;
} word_ids;

/* Returns false if the cache does not have the word. */
static inline bool look_up(const mega_encoder *e, const uint64_t key[2], const uint8_t *word, size_t n, word_ids *out)
{
    const mega_cached_word *w = mega_word_cache_line(&e->cache, key);
    w += ((w[1].key[0] ^ key[0]) | (w[1].key[1] ^ key[1])) == 0;
    if (((w->key[0] ^ key[0]) | (w->key[1] ^ key[1]) | (w->size ^ n)) != 0) return false;
    *out = (word_ids){w->id, w->count};
    if (__builtin_expect(n <= MEGA_CACHE_SHORT && w->count <= MEGA_CACHE_IDS, 1)) return true;
    if (n > MEGA_CACHE_LONG) return false;
    out->id = mega_word_cache_record(&e->cache, w);
    if (out->id == NULL || n <= MEGA_CACHE_SHORT) return out->id != NULL;
    if (memcmp(out->id, word, n) != 0) return false;
    out->id += (n + 3) / 4;
    return true;
}

/* The words of a batch: their ids, and the words missing in the cache, which are merged together. Ids are written when
 * all are known, and new words are cached after that, because reading what was just written would stall. */
typedef struct batch {
    const found_words *found;
    word_ids ids[MOST];
    merge_job job[MOST];
    uint16_t word[MOST]; /* the word of each job */
    int jobs, written;   /* words before `written` have their ids in the output */
    int32_t *scratch;
} batch;

static __attribute__((noinline)) void merge_missed(mega_encoder *e, batch *b)
{
    merge_job *one[MOST], *more[MOST];
    int ones = 0, mores = 0;
    one[0] = more[0] = b->job;
    for (int i = 0; i < b->jobs; i++) {
        if (b->job[i].size <= SHORT_JOB) one[ones++] = &b->job[i];
        else
            more[mores++] = &b->job[i];
    }
    merge_jobs(&e->tokenizer->pairs, one, ones, 1);
    merge_jobs(&e->tokenizer->pairs, more, mores, LANE_BYTES / 16);
    for (int i = 0; i < b->jobs; i++) b->ids[b->word[i]] = (word_ids){b->job[i].out, b->job[i].count};
}

/* Writes the ids of all words before `end`; returns the address after them. */
static inline int32_t *write_ids(mega_encoder *e, batch *b, int end, int32_t *to)
{
    if (b->jobs > 0) merge_missed(e, b);
    for (int i = b->written; i < end; i++) {
        const word_ids w = b->ids[i];
        memcpy(to, w.id, 16); /* one 16-byte move; excess ids are overwritten later */
        if (__builtin_expect(w.count > 4, 0)) memcpy(to + 4, w.id + 4, (w.count - 4) * sizeof *to);
        to += w.count;
    }
    for (int i = 0; i < b->jobs; i++) {
        const merge_job *job = &b->job[i];
        mega_word_cache_put(&e->cache, job->key, job->word, job->size, job->out, job->count);
    }
    b->jobs = 0;
    b->scratch = e->symbols != NULL ? e->symbols->scratch : NULL;
    b->written = end;
    return to;
}

static inline void add_job(mega_encoder *e, batch *b, int i, size_t n)
{
    const uint64_t *key = b->found->key[i];
    b->job[b->jobs] =
        (merge_job){.word = b->found->at[i], .out = b->scratch, .size = (uint32_t)n, .key = {key[0], key[1]}};
    b->word[b->jobs++] = (uint16_t)i;
    b->scratch += n;
    __builtin_prefetch(mega_word_cache_line(&e->cache, key), 1);
}

/* With `ignore_merges` a word that is in the vocabulary is its token, whatever the merges would make of it. */
static inline int32_t whole_word(const mega_encoder *e, const uint8_t *word, size_t n)
{
    const unsigned bit = mega_whole_bit(word, n);
    if ((e->tokenizer->pipe->whole[bit / 64] >> bit % 64 & 1) == 0) return -1;
    return mega_vocabulary_find(&e->tokenizer->vocabulary, (const char *)word, n, false);
}

/* Writes the ids of the found words to `to`, which has room for as many ids as they have bytes, and 4 more. */
static inline mega_status encode_found(mega_encoder *e, const found_words *f, const uint8_t *text, size_t begin,
                                       int32_t **out)
{
    const mega_tokenizer *t = e->tokenizer;
    const bool together = t->pairs.slot != NULL, whole_words = t->pipe != NULL && t->pipe->ignore_merges;
    int32_t *to = *out;
    batch b;
    b.found = f;
    b.jobs = b.written = 0;
    b.scratch = together ? e->symbols->scratch : NULL;
    for (int i = 0; i < f->count; i++) {
        const uint8_t *word = f->at[i];
        const size_t n = (size_t)(f->at[i + 1] - word);
        if (__builtin_expect(look_up(e, f->key[i], word, n, &b.ids[i]), 1)) continue;
        const int32_t whole = whole_words ? whole_word(e, word, n) : -1;
        if (whole >= 0) {
            to = write_ids(e, &b, i, to);
            *to++ = whole;
            mega_word_cache_put(&e->cache, f->key[i], word, n, &whole, 1);
            b.written = i + 1;
            continue;
        }
        if (together && n <= LANE_BYTES) {
            add_job(e, &b, i, n);
            continue;
        }
        size_t count;
        to = write_ids(e, &b, i, to);
        MEGA_TRY(merge_new(e, f->key[i], word, n, begin + (size_t)(word - text), to, &count));
        to += count;
        b.written = i + 1;
    }
    *out = write_ids(e, &b, f->count, to);
    return MEGA_OK;
}

mega_status encode_words(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, mega_ids *out)
{
    found_words found;
    for (const uint8_t *p = text; p < text + n; p = found.at[found.count]) {
        if (e->finder != MEGA_FIND_SPLIT) find_words_singly(e, &found, text, p, n);
        else if (e->split == MEGA_SPLIT_GPT2)
            find_words(MEGA_SPLIT_GPT2, &found, text, p, n);
        else if (e->split == MEGA_SPLIT_DIGITS)
            find_words(MEGA_SPLIT_DIGITS, &found, text, p, n);
        else
            find_words(e->split, &found, text, p, n);
        ask_for_words(e, &found, text + n);
        /* there are never more ids than bytes */
        MEGA_TRY(mega_ids_reserve(out, found.at[found.count] - p + 4));
        int32_t *to = out->id + out->count;
        MEGA_TRY(encode_found(e, &found, text, begin, &to));
        out->count = to - out->id;
    }
    return MEGA_OK;
}
