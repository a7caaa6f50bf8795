/* The encoder's fast path: words by GPT-2's split, found by looking at 32 bytes at once; each from the cache, or merged
 * anew with ranks of 16 bits. It is compared with its definition, mega_word_end and mega_bpe_merge, by
 * tests/test_encode_fast.c. Compiled once for each instruction set: encode_*.c. */
#include "encode_vector.h"
#include "encoder.h"
#include "pretokenize.h"
#include "unicode.h"

enum {
    MARGIN = 40, /* bytes behind a place that scans may read */
    FLAT = 64,   /* symbols merged without blocks */
    BATCH = 16   /* words whose cache lines are fetched at once */
};

/* Bit pairs of the classes of ASCII, 16 characters a word. */
static inline int ascii_class(uint8_t c)
{
    static const uint8_t class[128] = {
        [9] = 3,   [10] = 3,  [11] = 3,  [12] = 3,  [13] = 3,  [' '] = 3, ['0'] = 2, ['1'] = 2, ['2'] = 2, ['3'] = 2,
        ['4'] = 2, ['5'] = 2, ['6'] = 2, ['7'] = 2, ['8'] = 2, ['9'] = 2, ['A'] = 1, ['B'] = 1, ['C'] = 1, ['D'] = 1,
        ['E'] = 1, ['F'] = 1, ['G'] = 1, ['H'] = 1, ['I'] = 1, ['J'] = 1, ['K'] = 1, ['L'] = 1, ['M'] = 1, ['N'] = 1,
        ['O'] = 1, ['P'] = 1, ['Q'] = 1, ['R'] = 1, ['S'] = 1, ['T'] = 1, ['U'] = 1, ['V'] = 1, ['W'] = 1, ['X'] = 1,
        ['Y'] = 1, ['Z'] = 1, ['a'] = 1, ['b'] = 1, ['c'] = 1, ['d'] = 1, ['e'] = 1, ['f'] = 1, ['g'] = 1, ['h'] = 1,
        ['i'] = 1, ['j'] = 1, ['k'] = 1, ['l'] = 1, ['m'] = 1, ['n'] = 1, ['o'] = 1, ['p'] = 1, ['q'] = 1, ['r'] = 1,
        ['s'] = 1, ['t'] = 1, ['u'] = 1, ['v'] = 1, ['w'] = 1, ['x'] = 1, ['y'] = 1, ['z'] = 1,
    };
    return class[c];
}

/* p has 4 bytes. */
static inline int class_at(const uint8_t *p, int *length)
{
    if (*p < 0x80) {
        *length = 1;
        return ascii_class(*p);
    }
    uint32_t cp;
    const int n = utf8_decode(p, 4, &cp);
    *length = n == 0 ? 1 : n;
    return n == 0 ? MEGA_CLASS_OTHER : unicode_class(cp);
}

/* End of the run of one class that goes on at p; NULL when it comes near the end of the text. */
static inline const uint8_t *run_end(const uint8_t *p, const uint8_t *safe, int class)
{
    int length;
    while (p < safe) {
        if (class == MEGA_CLASS_LETTER && *p < 0x80) {
            const unsigned n = letters(p);
            p += n;
            if (n == 32) continue;
            if (*p < 0x80) return p;
        }
        if (class_at(p, &length) != class) return p;
        p += length;
    }
    return NULL;
}

/* A run of white space gives its last character to the next word, unless it is that one character. */
static inline const uint8_t *space_end(const uint8_t *begin, const uint8_t *safe)
{
    const uint8_t *p = begin, *last = begin;
    for (int length; p < safe; p += length) {
        if (*p == ' ') {
            const unsigned n = same_bytes(p, ' ');
            p += n;
            last = p - 1;
            if (p >= safe) return NULL;
        }
        if (class_at(p, &length) != MEGA_CLASS_SPACE) return last == begin ? p : last;
        last = p;
    }
    return NULL;
}

static inline unsigned contraction(const uint8_t *p)
{
    if (p[1] == 's' || p[1] == 't' || p[1] == 'm' || p[1] == 'd') return 2;
    return (p[2] == 'e' && (p[1] == 'r' || p[1] == 'v')) || (p[1] == 'l' && p[2] == 'l') ? 3 : 0;
}

/* mega_word_end for a word that begins before `safe`; NULL when it may end behind. */
static inline const uint8_t *word_end(const uint8_t *p, const uint8_t *safe)
{
    const uint8_t first = *p;
    const unsigned blank = first == ' ', n = letters(p + blank);
    const uint8_t *end = p + blank + n;
    if (n > 0 && n < 32 && *end < 0x80) return end; /* by far the most words */
    if (first == '\'') {
        const unsigned length = contraction(p);
        if (length > 0) return p + length;
    }
    int length, class = class_at(p + blank, &length);
    return class == MEGA_CLASS_SPACE ? space_end(p, safe) : run_end(p + blank + length, safe, class);
}

int word_ends(const uint8_t *text, size_t at, size_t n, size_t *end, int max);
int word_ends(const uint8_t *text, size_t at, size_t n, size_t *end, int max)
{
    const uint8_t *const safe = n > MARGIN ? text + n - MARGIN : text;
    int i = 0;
    for (; i < max && at < n; at = end[i++]) {
        const uint8_t *next = text + at < safe ? word_end(text + at, safe) : NULL;
        end[i] = next != NULL ? (size_t)(next - text) : mega_word_end(text, at, n);
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

/* The pair at `at` becomes one symbol; symbols keep their places, ranks of those that are gone are none. Returns the
 * place of the one before, or -1. */
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

static int merge_flat(const mega_pair_table *t, mega_symbols16 *s, int n)
{
    const int blocks = (n + 15) / 16;
    int left = n;
    for (int at; least(s->rank, blocks, &at) != MEGA_NO_RANK; left--) merge_at(t, s, n, at);
    return left;
}

/* With the least rank of each block of 16, a merge looks at n / 256 of them. */
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

int merge_word16(const mega_pair_table *t, mega_symbols16 *s, const uint8_t *word, int n, int32_t *out);
int merge_word16(const mega_pair_table *t, mega_symbols16 *s, const uint8_t *word, int n, int32_t *out)
{
    for (int i = 0; i < n; i++) {
        s->id[i] = t->id[word[i]];
        s->next[i] = (uint16_t)(i + 1);
        s->prev[i] = (uint16_t)(i - 1);
    }
    for (int i = 0; i + 1 < n; i++) set_pair(s, i, t->byte[word[i] << 8 | word[i + 1]]);
    for (int i = n - 1; i < (n + 15) / 16 * 16; i++) s->rank[i] = MEGA_NO_RANK;
    const int left = n <= FLAT ? merge_flat(t, s, n) : merge_blocks(t, s, n);
    for (int i = 0, at = 0; i < left; i++, at = s->next[at]) out[i] = s->id[at];
    return left;
}

/* Not in the cache: merged, kept, appended. */
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

/* A word that was found and is not looked up yet: its line of the cache is on its way from memory. */
typedef struct found_word {
    const uint8_t *word;
    size_t size;
    uint64_t key[2];
} found_word;

/* Ids of a word of up to 16 bytes; out has room for its size + 4. */
static inline mega_status encode_short(mega_encoder *e, const found_word *f, size_t begin, int32_t *out, size_t *count)
{
    const mega_cached_word *w = mega_word_cache_line(&e->cache, f->key);
    for (int i = 0; i < 2; i++, w++) {
        if (((w->key[0] ^ f->key[0]) | (w->key[1] ^ f->key[1]) | (w->size ^ f->size)) != 0) continue;
        *count = w->count;
        if (__builtin_expect(w->count <= MEGA_CACHE_IDS, 1)) {
            memcpy(out, w->id, 16); /* one move; what is too much will be overwritten */
            return MEGA_OK;
        }
        const int32_t *record = mega_word_cache_record(&e->cache, w);
        if (record == NULL) break;
        memcpy(out, record, w->count * sizeof *out);
        return MEGA_OK;
    }
    return merge_new(e, f->key, f->word, f->size, begin, out, count);
}

static mega_status encode_long(mega_encoder *e, const found_word *f, size_t begin, int32_t *out, size_t *count)
{
    const mega_cached_word *w = mega_word_cache_line(&e->cache, f->key);
    for (int i = 0; i < 2 && f->size <= MEGA_CACHE_LONG; i++, w++) {
        if (w->key[0] != f->key[0] || w->key[1] != f->key[1] || w->size != f->size) continue;
        const int32_t *record = mega_word_cache_record(&e->cache, w);
        if (record == NULL || memcmp(record, f->word, f->size) != 0) continue;
        *count = w->count;
        memcpy(out, record + (f->size + 3) / 4, w->count * sizeof *out);
        return MEGA_OK;
    }
    return merge_new(e, f->key, f->word, f->size, begin, out, count);
}

/* Fills `found` with the words from `at` on and returns where the next one begins. */
static inline const uint8_t *find_words(const mega_encoder *e, const uint8_t *text, const uint8_t *p, size_t n,
                                        found_word *found, int *count)
{
    const uint8_t *const last = text + n, *const safe = n > MARGIN ? last - MARGIN : text;
    int i = 0;
    for (const uint8_t *next; i < BATCH && p < last; p = next, i++) {
        next = p < safe ? word_end(p, safe) : NULL;
        if (next == NULL) next = text + mega_word_end(text, (size_t)(p - text), n);
        found_word *f = &found[i];
        f->word = p;
        f->size = (size_t)(next - p);
        if (__builtin_expect(f->size > MEGA_CACHE_SHORT, 0)) {
            f->key[0] = f->key[1] = 0;
            if (f->size <= MEGA_CACHE_LONG) mega_word_key_long(f->key, p, f->size);
        } else if (__builtin_expect(p < safe, 1)) {
            mega_word_key_short(f->key, p, f->size);
        } else {
            uint8_t copy[MEGA_CACHE_SHORT] = {0};
            memcpy(copy, p, f->size);
            mega_word_key_short(f->key, copy, f->size);
        }
        __builtin_prefetch(mega_word_cache_line(&e->cache, f->key));
    }
    *count = i;
    return p;
}

/* Room for the ids of the next words: never more than they have bytes. */
static __attribute__((noinline)) mega_status make_room(mega_ids *out, int32_t **to, int32_t **end, size_t n)
{
    out->count = *to == NULL ? out->count : *to - out->id;
    MEGA_TRY(mega_ids_reserve(out, (int64_t)n + 256));
    *to = out->id + out->count;
    *end = out->id + out->capacity;
    return MEGA_OK;
}

mega_status encode_words(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, mega_ids *out)
{
    int32_t *to = NULL, *end = NULL;
    for (const uint8_t *p = text; p < text + n;) {
        found_word found[BATCH];
        int words;
        const uint8_t *const from = p;
        p = find_words(e, text, p, n, found, &words);
        if ((size_t)(end - to) < (size_t)(p - from) + 4) MEGA_TRY(make_room(out, &to, &end, (size_t)(p - from)));
        for (int i = 0; i < words; i++) {
            const found_word *f = &found[i];
            const size_t at = begin + (size_t)(f->word - text);
            size_t count;
            if (__builtin_expect(f->size <= MEGA_CACHE_SHORT, 1)) MEGA_TRY(encode_short(e, f, at, to, &count));
            else
                MEGA_TRY(encode_long(e, f, at, to, &count));
            to += count;
        }
    }
    out->count = to == NULL ? out->count : to - out->id;
    return MEGA_OK;
}
