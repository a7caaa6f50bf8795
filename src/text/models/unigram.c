/* Unigram: of all ways to write a text in tokens, the one with the greatest sum of scores.
 *
 * SentencePiece adds the scores of a whole text in float, so that two ways of nearly the same sum are told apart by the
 * rounding of all that is before them. To give the same ids with a cache of words, each word is cached with a limit,
 * which follows from the distance of its best way from the next best: while sums are below it, rounding cannot choose
 * another way. Elsewhere the word is searched again, with the sum that it begins with. Few words are, so the sum is
 * kept as a bound alone, and computed when it is needed. No token crosses from one word to the next: words begin at
 * marks, and beside a sign of ASCII that no token has next to its neighbour. */
#include "encoder.h"
#include "megalith/utf8.h"
#include "unigram_scan.h"
#include <math.h>
#include <string.h>

enum {
    UNKNOWN = MEGA_UNIGRAM_UNKNOWN,
    LEAST_SUM = -100000, /* SentencePiece: where a sum is less, it begins anew */
    CACHED = 48,         /* bytes of the longest word that is cached: longer ones seldom come again */
    FOUND = 64, /* words that are found before the first is looked up, so that their lines of the cache are there */
    MOST_FOUND = FOUND + SCAN_BLOCK + 2,
};

static inline size_t character_bytes(const uint8_t *p, size_t n)
{
    uint32_t cp;
    const int length = *p < 0x80 ? 1 : mega_utf8_decode(p, n, &cp);
    return length > 0 ? (size_t)length : 1;
}

static inline double rounded(double x, bool narrow)
{
    return narrow ? (double)(float)x : x;
}

/* A later way counts only if it is better: of equal ones, that whose last token is longest. Without branches, as
 * nothing foretells which is better. */
static inline void offer(mega_best_path *to, double score, uint64_t last, bool narrow)
{
    score = rounded(score, narrow);
    const double best = to->score;
    const uint64_t better = -(uint64_t)(score > best);
    const double worse = score < best ? score : best;
    to->last = (last & better) | (to->last & ~better);
    to->score = score > best ? score : best;
    if (!narrow) to->second = worse > to->second ? worse : to->second;
}

/* Counts all sums from that of a place on, to keep them small. */
static void begin_anew(mega_best_path *path, size_t at, size_t far)
{
    const double sum = path[at].score;
    for (size_t i = at; i <= far; i++) path[i].score = rounded(path[i].score - sum, true);
}

/* Finds the best way to every character of a word that begins with the sum `from`; narrow: without the second best.
 * Returns n, or where a character is that is no token, if there is no unknown token: `tokenizers` refuses such a text,
 * even if a longer token has the character. */
static inline __attribute__((always_inline)) size_t search(const mega_pipeline *p, mega_best_path *path,
                                                           const uint8_t *word, size_t n, double from, bool narrow)
{
    const mega_unigram_node *const node = p->node;
    for (size_t i = 0; i <= n; i++) path[i] = (mega_best_path){-INFINITY, -INFINITY, MEGA_TRIE_ROOT};
    path[0].score = from;
    for (size_t at = 0, end; at < n; at = end) {
        if (narrow && path[at].score < LEAST_SUM) begin_anew(path, at, n - at < p->longest ? n : at + p->longest);
        const double here = path[at].score;
        const uint64_t begin = (uint64_t)at << 32;
        uint32_t to = MEGA_TRIE_ROOT, next;
        size_t i = at;
        end = at + character_bytes(word + at, n - at);
        for (; i < end; i++, to = next)
            if (node[next = node[to].base ^ word[i]].parent != to) break;
        if (i == end && node[to].score > -INFINITY) {
            offer(&path[end], here + node[to].score, begin | to, narrow);
        } else {
            if (p->unknown < 0 && !(path[end].score >= here + p->unknown_score)) return at;
            offer(&path[end], here + p->unknown_score, begin | MEGA_TRIE_ROOT, narrow);
            if (i < end) continue;
        }
        for (; i < n; to = next) {
            if (node[next = node[to].base ^ word[i]].parent != to) break;
            offer(&path[++i], here + node[next].score, begin | next, narrow);
        }
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

/* Writes the ids of the best way in front of `end`; each unknown character is one. Returns the first. */
static inline int32_t *trace(const mega_pipeline *p, const mega_best_path *path, size_t n, int32_t *end)
{
    for (size_t at = n; at > 0; at = (size_t)(path[at].last >> 32)) *--end = p->node_id[(uint32_t)path[at].last];
    return end;
}

/* ---- what is cached of a word, in front of its ids ---- */

/* Two numbers of 16 bits, the upper half of a float: the limit, rounded down, and the sum of the sizes of its scores,
 * rounded up. */
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

/* Writes a word's ids and in front of them its head before `end`; returns its place.
 *
 * Rounding cannot have chosen another way while the distance to the next best is more than it can change: both ways
 * have at most a token for each byte, and each addition errs by half a unit of the last place of a sum. */
static int32_t *trace_with_head(const mega_pipeline *p, const mega_best_path *path, size_t n, int32_t *end)
{
    const double unit = p->narrow ? 0x1p-24 : 0x1p-53;
    double size = 0, distance = INFINITY;
    bool unknown = false;
    int32_t *id = end;
    for (size_t at = n, before; at > 0; at = before) {
        const double apart = path[at].score - path[at].second;
        before = (size_t)(path[at].last >> 32);
        *--id = p->node_id[(uint32_t)path[at].last];
        unknown = unknown || *id == UNKNOWN || *id == p->unknown;
        size += fabs(path[at].score - path[before].score);
        distance = apart < distance ? apart : distance;
    }
    double limit = 0.999 * distance / ((double)((size_t)(end - id) + n) * unit);
    if (p->narrow) limit = size > LARGEST_SIZE ? 0 : limit < LARGEST_LIMIT ? limit : LARGEST_LIMIT;
    const word_head head = {(uint16_t)(bits_of(limit) >> 16 | (unknown ? HAS_UNKNOWN : 0)),
                            (uint16_t)((bits_of(1.00001 * size) + 0xFFFF) >> 16)};
    memcpy(--id, &head, sizeof head);
    return id;
}

/* ---- a text ---- */

/* The text so far, and where its ids go. */
typedef struct unigram_run {
    mega_encoder *e;
    const uint8_t *text;
    size_t size, begin; /* begin: of the text in that of the user, for messages */
    double sum;         /* of the ids before `summed` */
    int64_t summed;     /* the ids after these are known tokens, whose scores are not in the sum yet */
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

/* Returns how many bytes a token has in the text. */
static size_t token_bytes(const mega_tokenizer *t, int32_t id)
{
    const mega_token *token = mega_vocabulary_get(&t->vocabulary, id);
    const char *bytes = mega_token_bytes(&t->vocabulary, token);
    size_t n = token->size;
    for (size_t i = 0; t->pipe->blank_marks && i + 3 <= token->size; i++)
        if (memcmp(bytes + i, "\xE2\x96\x81", 3) == 0) n -= 2;
    return n;
}

/* Appends the tokens of a word that has unknown ones among them. */
static mega_status put_unknown(unigram_run *r, const uint8_t *word, size_t n, const int32_t *id, int64_t count)
{
    const mega_tokenizer *t = r->e->tokenizer;
    const mega_pipeline *p = t->pipe;
    const uint8_t *at = word;
    for (int64_t i = 0; i < count; i++) {
        const bool unknown = id[i] == UNKNOWN || id[i] == p->unknown;
        const size_t size = id[i] == UNKNOWN ? character_bytes(at, (size_t)(word + n - at)) : token_bytes(t, id[i]);
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

/* Appends a row of characters that no token has: each is unknown. */
static void put_strange(unigram_run *r, const uint8_t *text, size_t n, size_t characters)
{
    const mega_pipeline *p = r->e->tokenizer->pipe;
    compute_sum(r);
    if (p->narrow) {
        const float unknown = (float)p->unknown_score;
        float sum = (float)r->sum;
        for (size_t i = 0; i < characters; i++) sum = (sum < LEAST_SUM ? 0 : sum) + unknown;
        r->sum = (double)sum;
    } else {
        for (size_t i = 0; i < characters; i++) r->sum += p->unknown_score;
    }
    if (!p->narrow) {
        if (r->unknown == NULL) r->unknown = text;
    } else if (p->byte_fallback) {
        for (size_t i = 0; i < n; i++) r->out->id[r->out->count++] = p->byte_token[text[i]];
    } else if (!r->after_unknown) {
        r->out->id[r->out->count++] = p->unknown;
    }
    r->after_unknown = true;
    r->summed = r->out->count;
    r->bound = fabs(r->sum);
}

/* ---- words ---- */

typedef struct unigram_word {
    const uint8_t *text;
    size_t size;
    union {
        uint64_t key[2];
        size_t characters; /* of a strange word */
    };
    bool first;   /* of a piece */
    bool strange; /* it consists of characters that no token has */
} unigram_word;

typedef struct found_words {
    unigram_word word[MOST_FOUND];
    int count;
} found_words;

static inline const mega_cached_word *cached_word(const mega_encoder *e, const uint64_t key[2])
{
    const mega_cached_word *w = mega_word_cache_line(&e->cache, key);
    return w + (((w[1].key[0] ^ key[0]) | (w[1].key[1] ^ key[1])) == 0);
}

/* Asks for the record of a word, if it seems to have one. */
static inline void ask_for_record(const mega_encoder *e, const unigram_word *u)
{
    const mega_cached_word *w = cached_word(e, u->key);
    if (w->size > MEGA_CACHE_SHORT || w->count > MEGA_CACHE_IDS)
        __builtin_prefetch(e->cache.ring + (uint32_t)w->id[0] % MEGA_CACHE_RING);
}

/* Returns what the cache has of a word: its head, and its ids. NULL: it is not cached. */
static inline const int32_t *look_up(const mega_encoder *e, const unigram_word *u, int64_t *count)
{
    const mega_cached_word *w = cached_word(e, u->key);
    if (((w->key[0] ^ u->key[0]) | (w->key[1] ^ u->key[1]) | (w->size ^ u->size)) != 0) return NULL;
    *count = w->count;
    if (u->size <= MEGA_CACHE_SHORT && w->count <= MEGA_CACHE_IDS) return w->id;
    const int32_t *record = mega_word_cache_record(&e->cache, w);
    if (record == NULL || u->size <= MEGA_CACHE_SHORT) return record;
    return memcmp(record, u->text, u->size) == 0 ? record + (u->size + 3) / 4 : NULL;
}

/* Makes room for the ways through a word, and for two numbers more than its ids. */
static inline mega_status reserve_word(mega_encoder *e, size_t n)
{
    if ((int64_t)n + 2 <= e->bpe.capacity && (int64_t)n + 1 <= e->path_capacity) return MEGA_OK;
    if (!mega_array_reserve(&e->path, &e->path_capacity, (int64_t)n + 1, sizeof *e->path))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory to encode a word of %zu bytes", n);
    return mega_bpe_reserve(&e->bpe, (int64_t)n + 2);
}

/* Searches a word by itself, and caches what is found. */
static __attribute__((noinline)) mega_status search_alone(unigram_run *r, const unigram_word *u, const int32_t **out,
                                                          int64_t *count)
{
    mega_encoder *e = r->e;
    const mega_pipeline *p = e->tokenizer->pipe;
    MEGA_TRY(reserve_word(e, u->size));
    const size_t known = search_wide(p, e->path, u->text, u->size, 0);
    if (known < u->size) return refuse_character(r, u->text + known);
    int32_t *end = e->bpe.symbol + u->size + 1;
    *out = trace_with_head(p, e->path, u->size, end);
    *count = end - *out;
    mega_word_cache_put(&e->cache, u->key, u->text, u->size, *out, (size_t)*count);
    return MEGA_OK;
}

/* Searches a word with the sum of all that is before it. */
static mega_status search_here(unigram_run *r, const unigram_word *u)
{
    mega_encoder *e = r->e;
    const mega_pipeline *p = e->tokenizer->pipe;
    compute_sum(r);
    MEGA_TRY(reserve_word(e, u->size));
    const size_t known = (p->narrow ? search_narrow : search_wide)(p, e->path, u->text, u->size, r->sum);
    if (known < u->size) return refuse_character(r, u->text + known);
    const int32_t *end = e->bpe.symbol + u->size, *id = trace(p, e->path, u->size, e->bpe.symbol + u->size);
    r->sum = e->path[u->size].score;
    return put_summed(r, u->text, u->size, id, end - id);
}

static inline void put_known(mega_ids *out, const int32_t *id, int64_t count)
{
    int32_t *to = out->id + out->count;
    memcpy(to, id, 2 * sizeof *id);
    for (int64_t i = 2; i < count; i++) to[i] = id[i];
    out->count += count;
}

static inline mega_status encode_word(unigram_run *r, const unigram_word *u)
{
    const mega_pipeline *p = r->e->tokenizer->pipe;
    word_head head;
    if (u->strange) {
        put_strange(r, u->text, u->size, u->characters);
        return MEGA_OK;
    }
    if (u->size > CACHED) return search_here(r, u);
    int64_t count = 0;
    const int32_t *found = look_up(r->e, u, &count);
    if (__builtin_expect(found == NULL, 0)) MEGA_TRY(search_alone(r, u, &found, &count));
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
    for (int i = 0; i < f->count; i++)
        if (!f->word[i].strange && f->word[i].size <= CACHED) ask_for_record(r->e, &f->word[i]);
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

static inline void unigram_add_word(const unigram_run *r, found_words *f, const uint8_t *word, size_t n, bool first)
{
    unigram_word *u = &f->word[f->count++];
    u->text = word;
    u->size = n;
    u->first = first;
    u->strange = false;
    if (n > CACHED) return;
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

/* Adds the strange characters from the begin as one word; returns its size. */
static size_t add_strange(const mega_pipeline *p, found_words *f, const uint8_t *text, size_t n, bool first)
{
    unigram_word *u = &f->word[f->count++];
    u->text = text;
    u->size = strange_bytes(p, text, n, &u->characters);
    u->first = first;
    u->strange = true;
    return u->size;
}

/* Adds the words that begin in a block and the one that is open; *open: where it begins, *strange: it has strange
 * characters. */
static inline void unigram_add_words(unigram_run *r, found_words *f, piece_scan *s, size_t at, size_t *open,
                                     bool *strange)
{
    for (; s->starts != 0; s->starts &= s->starts - 1) {
        const size_t end = at + (size_t)__builtin_ctzll(s->starts);
        const uint8_t *word = s->text + *open;
        if (*strange) add_strange(r->e->tokenizer->pipe, f, word, end - *open, *open == 0);
        else
            unigram_add_word(r, f, word, end - *open, *open == 0);
        *open = end;
        *strange = (s->strange & s->starts & -s->starts) != 0;
    }
}

/* Adds the words of a piece. */
static mega_status unigram_add_piece(unigram_run *r, found_words *f, const uint8_t *text, size_t n)
{
    const mega_pipeline *p = r->e->tokenizer->pipe;
    piece_scan s = {.text = text, .size = n};
    size_t open = 0;
    bool strange = false;
    for (size_t at = 0; at < n;) {
        find_starts(p, &s, at);
        if (f->count >= FOUND) MEGA_TRY(encode_found(r, f));
        if (at == s.begin) strange = (s.strange & 1) != 0;
        unigram_add_words(r, f, &s, at, &open, &strange);
        at += s.end;
        if (s.end == SCAN_BLOCK) continue;
        if (at > open) unigram_add_word(r, f, text + open, at - open, open == 0);
        at += add_strange(p, f, text + at, n - at, at == 0);
        s = (piece_scan){.text = text, .size = n, .begin = at};
        open = at;
    }
    if (n > open) unigram_add_word(r, f, text + open, n - open, open == 0);
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
            MEGA_TRY(unigram_add_piece(&r, &f, text + piece[i].begin, piece[i].end - piece[i].begin));
    MEGA_TRY(encode_found(&r, &f));
    return end_row(&r, r.end);
}
