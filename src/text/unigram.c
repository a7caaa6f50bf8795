/* Unigram: of all ways to write a text in tokens, the one with the greatest sum of scores.
 *
 * SentencePiece adds the scores of a whole text in float, so that two ways of nearly the same sum are told apart by the
 * rounding of all that is before them. To give the same ids with a cache of words, each word is cached with a limit, which follows
 * from the distance of its best way from the next best: while sums are below it, rounding cannot choose another way. Elsewhere
 * the word is searched again, with the sum that it begins with. Few words are, so the sum is kept as a bound alone, and computed
 * when it is needed. No token crosses from one word to the next: words begin at marks, and beside a sign of ASCII that no token
 * has next to its neighbour. */
#include "block_scan.h"
#include "encoder.h"
#include "megalith/utf8.h"
#include <math.h>
#include <string.h>

enum {
    UNKNOWN = INT32_MAX, /* in place of an id: a character that is no token */
    LEAST_SUM = -100000, /* SentencePiece: where a sum is less, it begins anew */
    FOUND = 64, /* words that are found before the first is looked up, so that their lines of the cache are there */
    MOST_FOUND = FOUND + SCAN_BLOCK + 1,
};

static size_t character_bytes(const uint8_t *p, size_t n)
{
    uint32_t cp;
    const int length = *p < 0x80 ? 1 : mega_utf8_decode(p, n, &cp);
    return length > 0 ? (size_t)length : 1;
}

static inline double rounded(double x, bool narrow)
{
    return narrow ? (double)(float)x : x;
}

/* A later way counts only if it is better: of equal ones, that whose last token is longest. */
static inline void offer(mega_best_path *to, double score, int32_t id, size_t begin, bool narrow)
{
    score = rounded(score, narrow);
    if (to->id >= 0 && score <= to->score) {
        to->second = score > to->second ? score : to->second;
        return;
    }
    to->second = to->id >= 0 ? to->score : -INFINITY;
    *to = (mega_best_path){score, to->second, id, (uint32_t)begin};
}

/* Counts all sums from that of a place on, to keep them small. */
static void begin_anew(mega_best_path *path, size_t at, size_t far)
{
    const double sum = path[at].score;
    for (size_t i = at; i <= far; i++)
        if (i == at || path[i].id >= 0) path[i].score = rounded(path[i].score - sum, true);
}

/* Finds the best way to every character of a word that begins with the sum `from`. Returns n, or where a character is that is no
 * token, if there is no unknown token: `tokenizers` refuses such a text, even if a longer token has the character. */
static inline __attribute__((always_inline)) size_t search(const mega_pipeline *p, mega_best_path *path,
                                                           const uint8_t *word, size_t n, double from, bool narrow)
{
    const mega_trie_unit *unit = p->trie.unit;
    size_t far = 0; /* no way goes beyond */
    for (size_t i = 0; i <= n; i++) path[i].id = -1;
    path[0].score = from;
    for (size_t at = 0; at < n;) {
        const size_t one = character_bytes(word + at, n - at);
        if (narrow && path[at].score < LEAST_SUM) begin_anew(path, at, far);
        const double here = path[at].score;
        bool known = false;
        uint32_t node = MEGA_TRIE_ROOT;
        for (size_t i = at; i < n; i++) {
            const uint32_t next = unit[node].base ^ word[i];
            if (unit[next].parent != node) break;
            node = next;
            const int32_t id = unit[node].id;
            if (id < 0) continue;
            offer(&path[i + 1], here + p->score[id], id, at, narrow);
            far = i + 1 > far ? i + 1 : far;
            known = known || i + 1 - at == one;
        }
        if (!known) {
            mega_best_path *to = &path[at + one];
            const double score = here + p->unknown_score;
            if (p->unknown < 0 && (to->id < 0 || score > to->score)) return at;
            offer(to, score, UNKNOWN, at, narrow);
            far = at + one > far ? at + one : far;
        }
        at += one;
    }
    return n;
}

static size_t search_narrow(const mega_pipeline *p, mega_best_path *path, const uint8_t *word, size_t n, double from)
{
    return search(p, path, word, n, from, true);
}

static size_t search_wide(const mega_pipeline *p, mega_best_path *path, const uint8_t *word, size_t n, double from)
{
    return search(p, path, word, n, from, false);
}

/* Writes the tokens of the best way; each unknown character is one. *margin: how much better it is than any other way. */
static int64_t trace(const mega_best_path *path, size_t n, int32_t *out, double *margin)
{
    int64_t count = 0;
    *margin = INFINITY;
    for (size_t at = n; at > 0; at = path[at].begin) {
        const double distance = path[at].score - path[at].second;
        out[count++] = path[at].id;
        *margin = distance < *margin ? distance : *margin;
    }
    for (int64_t i = 0, j = count - 1; i < j; i++, j--) {
        const int32_t id = out[i];
        out[i] = out[j];
        out[j] = id;
    }
    return count;
}

/* ---- what is cached of a word, in front of its ids ---- */

/* Two numbers of 16 bits, the upper half of a float: the limit, rounded down, and the sum of the sizes of its scores, rounded up. */
typedef struct word_head {
    uint16_t limit, size;
} word_head;

enum { HAS_UNKNOWN = 0x8000 }; /* in `limit` */
#define LARGEST_SIZE  10000.0  /* sums below the limit are above LEAST_SUM, also after a word of this size */
#define LARGEST_LIMIT (-2.0 * LEAST_SUM - LARGEST_SIZE)

static uint32_t bits_of(double x)
{
    const float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline double of_upper_half(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* Rounding cannot have chosen another way while the distance is more than it can change: both ways have at most a token for each
 * byte, and each addition errs by half a unit of the last place of a sum. */
static int32_t make_head(const mega_pipeline *p, const int32_t *id, int64_t count, size_t n, double distance)
{
    const double unit = p->narrow ? 0x1p-23 : 0x1p-52;
    double size = 0, limit = 0.999 * distance / ((double)(count + (int64_t)n) * unit);
    bool unknown = false;
    for (int64_t i = 0; i < count; i++) {
        size += fabs(id[i] == UNKNOWN ? p->unknown_score : p->score[id[i]]);
        unknown = unknown || id[i] == UNKNOWN || id[i] == p->unknown;
    }
    if (p->narrow) limit = size > LARGEST_SIZE ? 0 : fmin(limit, LARGEST_LIMIT);
    const word_head head = {(uint16_t)(bits_of(limit) >> 16 | (unknown ? HAS_UNKNOWN : 0)),
                            (uint16_t)((bits_of(1.00001 * size) + 0xFFFF) >> 16)};
    int32_t out;
    memcpy(&out, &head, sizeof out);
    return out;
}

/* ---- a text ---- */

/* The text so far, and where its ids go. */
typedef struct unigram_run {
    mega_encoder *e;
    const uint8_t *text;
    size_t size, begin; /* begin: of the text in that of the user, for messages */
    double sum;         /* of the ids before `summed` */
    int64_t summed;     /* those behind are known tokens; their scores are not in the sum yet */
    double bound;       /* the sum of all ids is not larger, up to its sign */
    bool after_unknown;
    const uint8_t *unknown; /* `tokenizers`: where a row of unknown characters begins; NULL: not in one */
    const uint8_t *end;     /* of the last word */
    mega_ids *out;
} unigram_run;

static double add_scores(const mega_pipeline *p, double sum, const int32_t *id, int64_t count)
{
    if (p->narrow) { /* a sum in double that is rounded to float is the sum in float */
        float narrow = (float)sum;
        for (int64_t i = 0; i < count; i++) narrow += (float)(id[i] == UNKNOWN ? p->unknown_score : p->score[id[i]]);
        return (double)narrow;
    }
    for (int64_t i = 0; i < count; i++) sum += id[i] == UNKNOWN ? p->unknown_score : p->score[id[i]];
    return sum;
}

static void compute_sum(unigram_run *r)
{
    const mega_pipeline *p = r->e->tokenizer->pipe;
    r->sum = add_scores(p, r->sum, r->out->id + r->summed, r->out->count - r->summed);
    r->summed = r->out->count;
}

static mega_status refuse_character(const unigram_run *r, const uint8_t *at)
{
    const size_t place = (size_t)(at - r->text);
    return MEGA_FAIL(MEGA_ERR_FORMAT,
                     "character '%.*s' near byte %zu of the text is not in the vocabulary of %s, which has no unk_id "
                     "either",
                     (int)character_bytes(at, r->size - place), (const char *)at, r->begin + place,
                     r->e->tokenizer->name);
}

/* Ends a row of unknown characters, which `tokenizers` looks up as one token. */
static mega_status end_row(unigram_run *r, const uint8_t *end)
{
    const mega_tokenizer *t = r->e->tokenizer;
    const mega_pipeline *p = t->pipe;
    const uint8_t *row = r->unknown;
    if (row == NULL) return MEGA_OK;
    const size_t n = (size_t)(end - row);
    r->unknown = NULL;
    MEGA_TRY(mega_ids_reserve(r->out, (int64_t)n));
    const int32_t whole = mega_vocabulary_find(&t->vocabulary, (const char *)row, n, false);
    bool bytes = whole < 0 && p->byte_fallback;
    for (size_t i = 0; i < n && bytes; i++) bytes = p->byte_token[row[i]] >= 0;
    for (size_t i = 0; i < n && bytes; i++) r->out->id[r->out->count++] = p->byte_token[row[i]];
    if (!bytes) r->out->id[r->out->count++] = whole >= 0 ? whole : p->unknown;
    return MEGA_OK;
}

/* Appends the tokens of a word that has unknown ones among them. */
static mega_status put_unknown(unigram_run *r, const uint8_t *word, size_t n, const int32_t *id, int64_t count)
{
    const mega_tokenizer *t = r->e->tokenizer;
    const mega_pipeline *p = t->pipe;
    const uint8_t *at = word;
    for (int64_t i = 0; i < count; i++) {
        const bool unknown = id[i] == UNKNOWN || id[i] == p->unknown;
        const size_t size = id[i] == UNKNOWN ? character_bytes(at, (size_t)(word + n - at))
                                             : mega_vocabulary_get(&t->vocabulary, id[i])->size;
        MEGA_TRY(mega_ids_reserve(r->out, (int64_t)size));
        if (!unknown) {
            MEGA_TRY(end_row(r, at));
            MEGA_TRY(mega_ids_reserve(r->out, 1));
            r->out->id[r->out->count++] = id[i];
        } else if (!p->narrow) {
            if (r->unknown == NULL) r->unknown = at;
        } else if (p->byte_fallback) {
            for (size_t k = 0; k < size; k++) r->out->id[r->out->count++] = p->byte_token[at[k]];
        } else if (!r->after_unknown) {
            r->out->id[r->out->count++] = p->unknown;
        }
        r->after_unknown = unknown;
        at += size;
    }
    return MEGA_OK;
}

/* Appends the tokens of a word whose scores are in the sum. */
static mega_status put_summed(unigram_run *r, const uint8_t *word, size_t n, const int32_t *id, int64_t count)
{
    MEGA_TRY(put_unknown(r, word, n, id, count));
    r->summed = r->out->count;
    r->bound = fabs(r->sum);
    return MEGA_OK;
}

/* ---- words ---- */

typedef struct unigram_word {
    const uint8_t *text;
    size_t size;
    uint64_t key[2];
    bool first; /* of a piece */
} unigram_word;

typedef struct found_words {
    unigram_word word[MOST_FOUND];
    int count;
} found_words;

/* Returns what the cache has of a word: its head, and its ids. NULL: it is not cached. */
static inline const int32_t *look_up(const mega_encoder *e, const unigram_word *u, int64_t *count)
{
    const uint64_t *key = u->key;
    const mega_cached_word *w = mega_word_cache_line(&e->cache, key);
    w += ((w[1].key[0] ^ key[0]) | (w[1].key[1] ^ key[1])) == 0;
    if (((w->key[0] ^ key[0]) | (w->key[1] ^ key[1]) | (w->size ^ u->size)) != 0) return NULL;
    *count = w->count;
    if (u->size <= MEGA_CACHE_SHORT && w->count <= MEGA_CACHE_IDS) return w->id;
    const int32_t *record = mega_word_cache_record(&e->cache, w);
    if (record == NULL || u->size <= MEGA_CACHE_SHORT) return record;
    return memcmp(record, u->text, u->size) == 0 ? record + (u->size + 3) / 4 : NULL;
}

static mega_status reserve_word(mega_encoder *e, size_t n)
{
    if (!mega_array_reserve(&e->path, &e->path_capacity, (int64_t)n + 1, sizeof *e->path))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory to encode a word of %zu bytes", n);
    return mega_bpe_reserve(&e->bpe, (int64_t)n + 1);
}

/* Searches a word by itself, and caches what is found. */
static mega_status search_alone(unigram_run *r, const unigram_word *u, const int32_t **out, int64_t *count)
{
    mega_encoder *e = r->e;
    const mega_pipeline *p = e->tokenizer->pipe;
    double distance;
    MEGA_TRY(reserve_word(e, u->size));
    int32_t *found = e->bpe.symbol;
    const size_t known = search_wide(p, e->path, u->text, u->size, 0);
    if (known < u->size) return refuse_character(r, u->text + known);
    *count = 1 + trace(e->path, u->size, found + 1, &distance);
    found[0] = make_head(p, found + 1, *count - 1, u->size, distance);
    mega_word_cache_put(&e->cache, u->key, u->text, u->size, found, (size_t)*count);
    *out = found;
    return MEGA_OK;
}

/* Searches a word with the sum of all that is before it. */
static mega_status search_here(unigram_run *r, const unigram_word *u)
{
    mega_encoder *e = r->e;
    const mega_pipeline *p = e->tokenizer->pipe;
    double distance;
    compute_sum(r);
    MEGA_TRY(reserve_word(e, u->size));
    const size_t known = (p->narrow ? search_narrow : search_wide)(p, e->path, u->text, u->size, r->sum);
    if (known < u->size) return refuse_character(r, u->text + known);
    const int64_t count = trace(e->path, u->size, e->bpe.symbol, &distance);
    r->sum = e->path[u->size].score;
    return put_summed(r, u->text, u->size, e->bpe.symbol, count);
}

static inline void put_known(mega_ids *out, const int32_t *id, int64_t count)
{
    int32_t *to = out->id + out->count;
    memcpy(to, id, 2 * sizeof *id);
    for (int64_t i = 2; i < count; i++) to[i] = id[i];
    out->count += count;
}

static mega_status encode_word(unigram_run *r, const unigram_word *u)
{
    const mega_pipeline *p = r->e->tokenizer->pipe;
    const int32_t *found;
    int64_t count = 0;
    word_head head;
    if (u->size > MEGA_CACHE_LONG) return search_here(r, u);
    if (__builtin_expect((found = look_up(r->e, u, &count)) == NULL, 0)) MEGA_TRY(search_alone(r, u, &found, &count));
    memcpy(&head, found, sizeof head);
    const double after = r->bound + of_upper_half(head.size);
    const bool is_certain = r->bound + after < of_upper_half(head.limit & (HAS_UNKNOWN - 1));
    /* a sum that begins with 0 in double was computed like this */
    if (!is_certain && (p->narrow || r->bound != 0)) return search_here(r, u);
    if (__builtin_expect((head.limit & HAS_UNKNOWN) == 0 && r->unknown == NULL, 1)) {
        put_known(r->out, found + 1, count - 1);
        r->bound = after;
        r->after_unknown = false;
        return MEGA_OK;
    }
    compute_sum(r);
    r->sum = add_scores(p, r->sum, found + 1, count - 1);
    return put_summed(r, u->text, u->size, found + 1, count - 1);
}

static mega_status encode_found(unigram_run *r, found_words *f)
{
    enum { EXCESS = 2 }; /* put_known writes two ids where one is needed */
    for (int i = 0; i < f->count; i++) {
        const unigram_word *u = &f->word[i];
        if (u->first) {
            MEGA_TRY(end_row(r, r->end));
            r->sum = r->bound = 0;
            r->summed = r->out->count;
        }
        if (r->out->capacity - r->out->count < (int64_t)u->size + EXCESS)
            MEGA_TRY(mega_ids_reserve(r->out, (int64_t)u->size + EXCESS));
        MEGA_TRY(encode_word(r, u));
        r->end = u->text + u->size;
    }
    f->count = 0;
    return MEGA_OK;
}

static inline void add_word(const unigram_run *r, found_words *f, const uint8_t *word, size_t n, bool first)
{
    unigram_word *u = &f->word[f->count++];
    u->text = word;
    u->size = n;
    u->first = first;
    if (n > MEGA_CACHE_LONG) return;
    if (n > MEGA_CACHE_SHORT) {
        mega_word_key_long(u->key, word, n);
    } else if (r->text + r->size - word >= MEGA_CACHE_SHORT) {
        mega_word_key_short(u->key, word, n);
    } else {
        uint8_t copy[MEGA_CACHE_SHORT] = {0};
        memcpy(copy, word, n);
        mega_word_key_short(u->key, copy, n);
    }
    __builtin_prefetch(mega_word_cache_line(&r->e->cache, u->key));
}

/* Finds where words begin in the block at `at`: at a mark that follows another character, and before and after a sign of ASCII where
 * no token has both bytes behind each other. *before: the last three marks and the last sign of the block before. */
static inline uint64_t find_starts(const mega_pipeline *p, const uint8_t *text, size_t at, size_t n,
                                   scanned_block *before)
{
    const scanned_block b = scan_block(text + at, n - at);
    uint64_t starts = p->splits_at_mark ? b.marks & ~(b.marks << 3 | before->marks) : 0;
    uint64_t changes = (b.signs ^ (b.signs << 1 | before->signs)) & ~starts;
    if (n - at < SCAN_BLOCK) changes &= (UINT64_C(1) << (n - at)) - 1;
    for (changes &= at == 0 ? ~UINT64_C(1) : ~UINT64_C(0); changes != 0; changes &= changes - 1) {
        const uint8_t *byte = text + at + __builtin_ctzll(changes);
        if (!mega_pipeline_joins(p, byte[-1], byte[0])) starts |= changes & -changes;
    }
    *before = (scanned_block){b.marks >> (SCAN_BLOCK - 3), b.signs >> (SCAN_BLOCK - 1)};
    return at == 0 ? starts & ~UINT64_C(1) : starts;
}

/* Adds the words of a piece. */
static mega_status add_piece(unigram_run *r, found_words *f, const uint8_t *text, size_t n)
{
    size_t open = 0; /* where the last word begins */
    scanned_block before = {0, 0};
    for (size_t at = 0; at < n; at += SCAN_BLOCK) {
        uint64_t starts = find_starts(r->e->tokenizer->pipe, text, at, n, &before);
        if (f->count >= FOUND) MEGA_TRY(encode_found(r, f));
        for (; starts != 0; starts &= starts - 1) {
            const size_t end = at + (size_t)__builtin_ctzll(starts);
            add_word(r, f, text + open, end - open, open == 0);
            open = end;
        }
    }
    add_word(r, f, text + open, n - open, open == 0);
    return f->count >= FOUND ? encode_found(r, f) : MEGA_OK;
}

mega_status mega_encoder_unigram(mega_encoder *e, const uint8_t *text, size_t n, const mega_piece *piece, int64_t count,
                                 size_t begin, mega_ids *out)
{
    unigram_run r = {.e = e, .text = text, .size = n, .begin = begin, .summed = out->count, .end = text, .out = out};
    found_words f;
    if (n >= UINT32_MAX) return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "a text of %zu bytes; at most 4 GiB are encoded", n);
    f.count = 0;
    for (int64_t i = 0; i < count; i++)
        if (piece[i].end > piece[i].begin)
            MEGA_TRY(add_piece(&r, &f, text + piece[i].begin, piece[i].end - piece[i].begin));
    MEGA_TRY(encode_found(&r, &f));
    return end_row(&r, r.end);
}
