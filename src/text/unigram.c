/* Unigram: of all ways to write a text in tokens, the one with the greatest sum of scores.
 *
 * SentencePiece adds the scores of a whole text in float, so that two ways of nearly the same sum are told apart by the
 * rounding of all that is before them. To give the same ids with a cache of words, each word is cached with the distance of
 * its best way from the next best. Where that is more than rounding can change, the cached ids are right; elsewhere the
 * word is searched again, with the sum that it begins with. No token crosses from one word to the next. */
#include "encoder.h"
#include "megalith/utf8.h"
#include <math.h>
#include <string.h>

#define MARK "\xE2\x96\x81"
enum {
    UNKNOWN = INT32_MAX, /* in place of an id: a character that is no token */
    LEAST_SUM = -100000, /* SentencePiece: where a sum is less, it begins anew */
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

/* Finds the best way to every character of a word that begins with the sum `from`. */
static void search(const mega_pipeline *p, mega_best_path *path, const uint8_t *word, size_t n, double from,
                   bool narrow)
{
    const mega_trie *t = &p->trie;
    size_t far = 0; /* no way goes beyond */
    for (size_t i = 0; i <= n; i++) path[i].id = -1;
    path[0].score = from;
    for (size_t at = 0; at < n;) {
        const size_t one = character_bytes(word + at, n - at);
        if (narrow && path[at].score < LEAST_SUM) begin_anew(path, at, far);
        const double here = path[at].score;
        bool known = false;
        uint32_t node = MEGA_TRIE_ROOT;
        for (size_t i = at; i < n && mega_trie_step(t, &node, word[i]); i++) {
            const int32_t id = t->unit[node].id;
            if (id < 0) continue;
            offer(&path[i + 1], here + p->score[id], id, at, narrow);
            far = i + 1 > far ? i + 1 : far;
            known = known || i + 1 - at == one;
        }
        if (!known) {
            offer(&path[at + one], here + p->unknown_score, UNKNOWN, at, narrow);
            far = at + one > far ? at + one : far;
        }
        at += one;
    }
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

static double add_scores(const mega_pipeline *p, double sum, const int32_t *id, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sum = rounded(sum + (id[i] == UNKNOWN ? p->unknown_score : p->score[id[i]]), p->narrow);
    return sum;
}

/* Whether rounding cannot have chosen another way: both have at most a token for each byte, and each addition errs by half a
 * unit of the last place. */
static bool is_certain(const mega_pipeline *p, double margin, double before, double after, int64_t count, size_t n)
{
    if (!p->narrow && before == 0) return true; /* then it was computed like this */
    if (p->narrow && (before < LEAST_SUM || after < LEAST_SUM)) return false;
    const double unit = p->narrow ? 0x1p-23 : 0x1p-52;
    return margin > (double)(count + (int64_t)n) * unit * (fabs(before) + fabs(after));
}

/* The text so far, and where its ids go. */
typedef struct unigram_run {
    double sum;
    bool after_unknown;
    const uint8_t *unknown; /* `tokenizers`: where a row of unknown characters begins; NULL: not in one */
    mega_ids *out;
} unigram_run;

/* Ends a row of unknown characters, which `tokenizers` looks up as one token. */
static mega_status end_row(mega_encoder *e, unigram_run *r, const uint8_t *end, size_t begin)
{
    const mega_pipeline *p = e->tokenizer->pipe;
    const uint8_t *row = r->unknown;
    if (row == NULL) return MEGA_OK;
    const size_t n = (size_t)(end - row);
    r->unknown = NULL;
    MEGA_TRY(mega_ids_reserve(r->out, (int64_t)n));
    const int32_t whole = mega_vocabulary_find(&e->tokenizer->vocabulary, (const char *)row, n, false);
    bool bytes = whole < 0 && p->byte_fallback;
    for (size_t i = 0; i < n && bytes; i++) bytes = p->byte_token[row[i]] >= 0;
    for (size_t i = 0; i < n && bytes; i++) r->out->id[r->out->count++] = p->byte_token[row[i]];
    if (bytes) return MEGA_OK;
    if (whole < 0 && p->unknown < 0)
        return MEGA_FAIL(MEGA_ERR_FORMAT,
                         "character '%.*s' near byte %zu of the text is not in the vocabulary of %s, which has no "
                         "unk_id either",
                         (int)character_bytes(row, n), (const char *)row, begin, e->tokenizer->name);
    r->out->id[r->out->count++] = whole >= 0 ? whole : p->unknown;
    return MEGA_OK;
}

/* Appends the tokens of a word that has unknown ones among them. */
static mega_status put_unknown(mega_encoder *e, unigram_run *r, const uint8_t *word, size_t n, size_t begin,
                               const int32_t *id, int64_t count)
{
    const mega_tokenizer *t = e->tokenizer;
    const mega_pipeline *p = t->pipe;
    const uint8_t *at = word;
    for (int64_t i = 0; i < count; i++) {
        const bool unknown = id[i] == UNKNOWN || id[i] == p->unknown;
        const size_t size = id[i] == UNKNOWN ? character_bytes(at, (size_t)(word + n - at))
                                             : mega_vocabulary_get(&t->vocabulary, id[i])->size;
        MEGA_TRY(mega_ids_reserve(r->out, (int64_t)size));
        if (!unknown) {
            MEGA_TRY(end_row(e, r, at, begin));
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

static mega_status put_word(mega_encoder *e, unigram_run *r, const uint8_t *word, size_t n, size_t begin,
                            const int32_t *id, int64_t count)
{
    const int32_t unknown = e->tokenizer->pipe->unknown;
    int64_t known = 0;
    while (known < count && id[known] != UNKNOWN && id[known] != unknown) known++;
    if (known < count || r->unknown != NULL) return put_unknown(e, r, word, n, begin, id, count);
    MEGA_TRY(mega_ids_reserve(r->out, count));
    memcpy(r->out->id + r->out->count, id, (size_t)count * sizeof *id);
    r->out->count += count;
    r->after_unknown = false;
    return MEGA_OK;
}

/* Returns the ids of a cached word, after a first number: the margin as a float. NULL: it is not cached. */
static const int32_t *look_up(const mega_encoder *e, const uint64_t key[2], const uint8_t *word, size_t n,
                              int64_t *count)
{
    const mega_cached_word *w = mega_word_cache_line(&e->cache, key);
    w += w->key[0] != key[0] || w->key[1] != key[1];
    if (w->key[0] != key[0] || w->key[1] != key[1] || w->size != n) return NULL;
    *count = w->count;
    if (n <= MEGA_CACHE_SHORT && w->count <= MEGA_CACHE_IDS) return w->id;
    const int32_t *record = mega_word_cache_record(&e->cache, w);
    if (record == NULL || n <= MEGA_CACHE_SHORT) return record;
    return memcmp(record, word, n) == 0 ? record + (n + 3) / 4 : NULL;
}

/* Searches a word by itself, and caches what is found. Returns it as look_up does. */
static const int32_t *search_alone(mega_encoder *e, const uint64_t key[2], const uint8_t *word, size_t n,
                                   int64_t *count)
{
    double margin;
    int32_t *found = e->bpe.symbol;
    search(e->tokenizer->pipe, e->path, word, n, 0, false);
    *count = 1 + trace(e->path, n, found + 1, &margin);
    const float shown = (float)margin * 0.999f; /* not more than it is */
    memcpy(found, &shown, sizeof shown);
    mega_word_cache_put(&e->cache, key, word, n, found, (size_t)*count);
    return found;
}

static void make_key(uint64_t key[2], const uint8_t *word, size_t n, size_t readable)
{
    uint8_t copy[MEGA_CACHE_SHORT] = {0};
    if (n > MEGA_CACHE_SHORT) mega_word_key_long(key, word, n);
    else if (readable >= MEGA_CACHE_SHORT)
        mega_word_key_short(key, word, n);
    else {
        memcpy(copy, word, n);
        mega_word_key_short(key, copy, n);
    }
}

static mega_status encode_word(mega_encoder *e, unigram_run *r, const uint8_t *word, size_t n, const uint64_t key[2],
                               size_t begin)
{
    const mega_pipeline *p = e->tokenizer->pipe;
    double margin;
    if (!mega_array_reserve(&e->path, &e->path_capacity, (int64_t)n + 1, sizeof *e->path))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory to encode a word of %zu bytes", n);
    MEGA_TRY(mega_bpe_reserve(&e->bpe, (int64_t)n + 1));
    if (n <= MEGA_CACHE_LONG) {
        int64_t count = 0;
        float shown;
        const int32_t *found = look_up(e, key, word, n, &count);
        if (found == NULL) found = search_alone(e, key, word, n, &count);
        memcpy(&shown, found, sizeof shown);
        const double after = add_scores(p, r->sum, found + 1, count - 1);
        if (is_certain(p, (double)shown, r->sum, after, count - 1, n)) {
            r->sum = after;
            return put_word(e, r, word, n, begin, found + 1, count - 1);
        }
    }
    search(p, e->path, word, n, r->sum, p->narrow);
    const int64_t count = trace(e->path, n, e->bpe.symbol, &margin);
    r->sum = e->path[n].score;
    return put_word(e, r, word, n, begin, e->bpe.symbol, count);
}

/* Returns where the next word begins: at a mark that follows another character. */
static size_t word_end(const uint8_t *text, size_t at, size_t n)
{
    for (size_t i = at + 1; i + 2 < n; i++)
        if (text[i] == 0xE2 && text[i + 1] == 0x96 && text[i + 2] == 0x81 &&
            (i < at + 3 || memcmp(text + i - 3, MARK, 3) != 0))
            return i;
    return n;
}

/* Words that were found but not looked up yet: their lines of the cache are being fetched. */
enum { FOUND = 64 };
typedef struct found_words {
    size_t at[FOUND + 1];
    uint64_t key[FOUND][2];
} found_words;

static int find_words(const mega_encoder *e, found_words *f, const uint8_t *text, size_t at, size_t n)
{
    const bool marks = e->tokenizer->pipe->splits_at_mark;
    int count = 0;
    f->at[0] = at;
    for (; count < FOUND && at < n; at = f->at[++count]) {
        const size_t end = marks ? word_end(text, at, n) : n;
        f->at[count + 1] = end;
        if (end - at > MEGA_CACHE_LONG) continue;
        make_key(f->key[count], text + at, end - at, n - at);
        __builtin_prefetch(mega_word_cache_line(&e->cache, f->key[count]));
    }
    return count;
}

mega_status mega_encoder_unigram(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, mega_ids *out)
{
    unigram_run r = {.out = out};
    found_words f;
    if (n >= UINT32_MAX) return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "a text of %zu bytes; at most 4 GiB are encoded", n);
    for (size_t at = 0; at < n;) {
        const int count = find_words(e, &f, text, at, n);
        for (int i = 0; i < count; i++)
            MEGA_TRY(encode_word(e, &r, text + f.at[i], f.at[i + 1] - f.at[i], f.key[i], begin + f.at[i]));
        at = f.at[count];
    }
    return end_row(e, &r, text + n, begin);
}
