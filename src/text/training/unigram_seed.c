/* The seeds of a Unigram model: which strings repeat in the words, from an array of all suffixes in order. Only the
 * first characters of a suffix count, because no piece is longer. */
#include "megalith/utf8.h"
#include "unicode/unicode.h"
#include "unigram_train.h"
#include <stdlib.h>
#include <utf8proc.h>

enum { LONGEST = 16, MOST_SEEDS = 1000000, MARK = 0x2581, UNCOVERED = 1 };

typedef struct seed_suffix {
    const uint32_t *at; /* ends with 0 */
    int64_t count;
} seed_suffix;

typedef struct seed {
    const uint32_t *at;
    int64_t weight, order;
    int length;
} seed;

typedef struct seeder {
    mega_unigram *u;
    uint32_t limit; /* all code points of the text are below */
    int64_t *count; /* by code point; 0: it is not covered */
    uint32_t *text; /* the words, each with 0 at its end */
    seed_suffix *suffix;
    int64_t suffixes;
    int64_t *sum;    /* of the counts of the suffixes before */
    int64_t *bucket; /* where the suffixes of each first character begin */
    int64_t buckets;
    seed *found;
    int64_t seeds, capacity;
} seeder;

/* Takes the next character of a word; UNCOVERED for a byte that is not UTF-8, and for what stands for something else
 * here. */
static uint32_t next_character(const mega_unigram_word *w, uint32_t *at)
{
    uint32_t cp = 0;
    const int length = mega_utf8_decode((const uint8_t *)w->text + *at, w->size - *at, &cp);
    *at += length > 0 ? (uint32_t)length : 1;
    return length > 0 && cp > UNCOVERED ? cp : UNCOVERED;
}

/* ---- characters ---- */

typedef struct character_count {
    int64_t count;
    uint32_t cp;
} character_count;

static int compare_characters(const void *a, const void *b)
{
    const character_count *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return (x->cp > y->cp) - (x->cp < y->cp);
}

/* Sorts the characters by how often they occur, and keeps the first that make up the wanted share of the text. */
static mega_status choose_covered(seeder *s, character_count *all)
{
    mega_unigram *u = s->u;
    int64_t total = 0, count = 0, sum = 0, kept = 0;
    for (uint32_t cp = UNCOVERED + 1; cp < s->limit; cp++) {
        if (s->count[cp] == 0) continue;
        all[count++] = (character_count){s->count[cp], cp};
        total += s->count[cp];
    }
    if (count > 0) qsort(all, (size_t)count, sizeof *all, compare_characters);
    while (kept < count && (double)sum < u->coverage * (double)total) sum += all[kept++].count;
    u->covered = mega_malloc(((size_t)kept + 1) * sizeof *u->covered);
    if (u->covered == NULL) return TRAIN_NO_MEMORY("the characters of the text");
    for (int64_t i = 0; i < kept; i++) u->covered[i] = all[i].cp;
    for (int64_t i = kept; i < count; i++) s->count[all[i].cp] = 0;
    s->count[UNCOVERED] = 0;
    u->num_covered = kept;
    return MEGA_OK;
}

static mega_status count_covered(seeder *s)
{
    const mega_unigram *u = s->u;
    s->limit = UNCOVERED + 1;
    for (int64_t i = 0; i < u->words; i++)
        for (uint32_t at = 0; at < u->word[i].size;) {
            const uint32_t cp = next_character(&u->word[i], &at);
            s->limit = cp < s->limit ? s->limit : cp + 1;
        }
    character_count *all = mega_malloc(s->limit * sizeof *all);
    s->count = mega_calloc(s->limit, sizeof *s->count);
    if (all == NULL || s->count == NULL) {
        mega_free(all);
        return TRAIN_NO_MEMORY("the characters of the text");
    }
    for (int64_t i = 0; i < u->words; i++)
        for (uint32_t at = 0; at < u->word[i].size;) s->count[next_character(&u->word[i], &at)] += u->word[i].count;
    const mega_status st = choose_covered(s, all);
    mega_free(all);
    return st;
}

/* ---- what may be a piece ---- */

enum { COMMON, INHERITED, LATIN, GREEK, CYRILLIC, ARMENIAN, HEBREW, ARABIC, GEORGIAN, ETHIOPIC, HANGUL, HAN, OTHERS };

/* The script of a letter by its place in Unicode. Elsewhere each block of 128 counts as one. Kana count as Han. */
static int letter_script(uint32_t cp)
{
    static const struct {
        uint32_t first, last;
        int script;
    } ranges[] = {
        {0x41, 0x2AF, LATIN},       {0x1E00, 0x1EFF, LATIN},  {0x2C60, 0x2C7F, LATIN},    {0xA720, 0xA7FF, LATIN},
        {0xAB30, 0xAB6F, LATIN},    {0xFB00, 0xFB06, LATIN},  {0xFF21, 0xFF5A, LATIN},    {0x370, 0x3FF, GREEK},
        {0x1F00, 0x1FFF, GREEK},    {0x400, 0x52F, CYRILLIC}, {0x1C80, 0x1C8F, CYRILLIC}, {0xA640, 0xA69F, CYRILLIC},
        {0x531, 0x588, ARMENIAN},   {0x591, 0x5F4, HEBREW},   {0x600, 0x6FF, ARABIC},     {0x750, 0x77F, ARABIC},
        {0x8A0, 0x8FF, ARABIC},     {0xFB50, 0xFDFF, ARABIC}, {0xFE70, 0xFEFE, ARABIC},   {0x10A0, 0x10FF, GEORGIAN},
        {0x1200, 0x139F, ETHIOPIC}, {0x1100, 0x11FF, HANGUL}, {0x3131, 0x318E, HANGUL},   {0xA960, 0xA97F, HANGUL},
        {0xAC00, 0xD7FF, HANGUL},   {0xFFA0, 0xFFDC, HANGUL}, {0x3005, 0x3007, HAN},      {0x3041, 0x30FF, HAN},
        {0x31F0, 0x31FF, HAN},      {0x3400, 0x9FFF, HAN},    {0xF900, 0xFAFF, HAN},      {0xFF66, 0xFF9D, HAN},
        {0x20000, 0x3FFFF, HAN},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (cp >= ranges[i].first && cp <= ranges[i].last) return ranges[i].script;
    return OTHERS + (int)(cp >> 7);
}

static int script_of(uint32_t cp)
{
    if (unicode_class(cp) == MEGA_CLASS_LETTER) return letter_script(cp);
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    if (c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME) return INHERITED;
    return c == UTF8PROC_CATEGORY_MC ? letter_script(cp) : COMMON;
}

/* A piece has one script, and a blank only at its begin. */
static bool may_be_piece(const seeder *s, const uint32_t *at, int length)
{
    int script = -1;
    for (int i = 0; i < length; i++) {
        if (s->count[at[i]] == 0 || (i > 0 && at[i] == MARK)) return false;
        const int one = at[i] == MARK ? INHERITED : script_of(at[i]);
        if (one == INHERITED) continue;
        if (script >= 0 && script != one) return false;
        script = one;
    }
    return true;
}

/* ---- suffixes ---- */

/* Equal ones keep their order in the text. */
static int compare_suffixes(const void *a, const void *b)
{
    const uint32_t *x = ((const seed_suffix *)a)->at, *y = ((const seed_suffix *)b)->at;
    for (int i = 0; i <= LONGEST; i++) {
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
        if (x[i] == 0) break;
    }
    return (x > y) - (x < y);
}

/* How many characters two suffixes share, up to one more than a piece may have. */
static int shared(const seed_suffix *a, const seed_suffix *b)
{
    int n = 0;
    while (n <= LONGEST && a->at[n] != 0 && a->at[n] == b->at[n]) n++;
    return n;
}

static int suffix_length(const seed_suffix *a)
{
    int n = 0;
    while (n <= LONGEST && a->at[n] != 0) n++;
    return n;
}

static mega_status write_text(seeder *s)
{
    const mega_unigram *u = s->u;
    size_t bytes = 0, to = 0;
    for (int64_t i = 0; i < u->words; i++) bytes += (size_t)u->word[i].size + 1;
    s->text = mega_malloc((bytes + 1) * sizeof *s->text);
    s->suffix = mega_malloc((bytes + 1) * sizeof *s->suffix);
    s->bucket = mega_calloc((size_t)s->limit + 1, sizeof *s->bucket);
    if (s->text == NULL || s->suffix == NULL || s->bucket == NULL) return TRAIN_NO_MEMORY("the suffixes of words");
    for (int64_t i = 0; i < u->words; i++) {
        for (uint32_t at = 0; at < u->word[i].size;) {
            const uint32_t cp = next_character(&u->word[i], &at);
            s->text[to++] = cp;
            s->bucket[cp]++;
            s->suffixes++;
        }
        s->text[to++] = 0;
    }
    return MEGA_OK;
}

/* Sorts by the first character, and notes where those of each begin. */
static void fill_buckets(seeder *s)
{
    const mega_unigram *u = s->u;
    const uint32_t *at = s->text;
    int64_t begin = 0;
    for (uint32_t cp = 0; cp < s->limit; cp++) {
        const int64_t n = s->bucket[cp];
        s->bucket[cp] = begin;
        begin += n;
    }
    for (int64_t i = 0; i < u->words; i++) {
        for (; *at != 0; at++) s->suffix[s->bucket[*at]++] = (seed_suffix){at, u->word[i].count};
        at++;
    }
    begin = 0; /* bucket[cp] is its end now */
    for (uint32_t cp = 0; cp < s->limit; cp++) {
        const int64_t end = s->bucket[cp];
        if (end == begin) continue;
        s->bucket[s->buckets++] = begin;
        begin = end;
    }
    s->bucket[s->buckets] = begin;
}

static void sort_buckets(void *user, int thread, int64_t begin, int64_t end)
{
    const seeder *s = user;
    (void)thread;
    for (int64_t b = begin; b < end; b++)
        qsort(s->suffix + s->bucket[b], (size_t)(s->bucket[b + 1] - s->bucket[b]), sizeof *s->suffix, compare_suffixes);
}

/* ---- strings that repeat ---- */

/* Notes the first characters of the suffixes from `begin` to `end`, if these may be a piece. */
static mega_status note_seed(seeder *s, int64_t begin, int64_t end, int length)
{
    const int64_t times = s->sum[end] - s->sum[begin];
    const uint32_t *at = s->suffix[begin].at;
    if (length < 2 || length > LONGEST || times < 2 || !may_be_piece(s, at, length)) return MEGA_OK;
    if (!mega_array_reserve(&s->found, &s->capacity, s->seeds + 1, sizeof *s->found)) return TRAIN_NO_MEMORY("seeds");
    s->found[s->seeds] = (seed){.at = at, .weight = times * length, .order = s->seeds, .length = length};
    s->seeds++;
    return MEGA_OK;
}

/* Finds every string that is followed by two different characters, or ends a word: the inner nodes of the tree of
 * suffixes, from the lengths that neighbours share; and the ends of words that only one word has. */
static mega_status find_seeds(seeder *s)
{
    struct {
        int64_t begin;
        int length;
    } open[LONGEST + 3] = {{0, 0}};
    int depth = 0, before = 0;
    for (int64_t i = 1; i <= s->suffixes; i++) {
        const int after = i < s->suffixes ? shared(&s->suffix[i - 1], &s->suffix[i]) : 0;
        const int whole = suffix_length(&s->suffix[i - 1]);
        int64_t begin = i - 1;
        if (whole > before && whole > after) MEGA_TRY(note_seed(s, i - 1, i, whole));
        for (; open[depth].length > after; depth--) {
            begin = open[depth].begin;
            MEGA_TRY(note_seed(s, begin, i, open[depth].length));
        }
        if (open[depth].length < after) {
            depth++;
            open[depth].begin = begin;
            open[depth].length = after;
        }
        before = after;
    }
    return MEGA_OK;
}

static int compare_seeds(const void *a, const void *b)
{
    const seed *x = a, *y = b;
    if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static mega_status add_code_points(mega_unigram *u, const uint32_t *at, int length, double weight)
{
    char text[4 * LONGEST];
    size_t n = 0;
    for (int i = 0; i < length; i++) n += (size_t)mega_utf8_encode(at[i], text + n);
    return mega_unigram_add_piece(u, text, n, weight);
}

static mega_status add_seeds(seeder *s)
{
    mega_unigram *u = s->u;
    for (int64_t i = 0; i < u->num_covered; i++)
        MEGA_TRY(add_code_points(u, &u->covered[i], 1, (double)s->count[u->covered[i]]));
    if (s->seeds > 0) qsort(s->found, (size_t)s->seeds, sizeof *s->found, compare_seeds);
    for (int64_t i = 0; i < s->seeds && i < MOST_SEEDS; i++)
        MEGA_TRY(add_code_points(u, s->found[i].at, s->found[i].length, (double)s->found[i].weight));
    return MEGA_OK;
}

static mega_status seed_all(seeder *s)
{
    MEGA_TRY(count_covered(s));
    MEGA_TRY(write_text(s));
    fill_buckets(s);
    mega_team_for(s->u->team, s->buckets, 1, sort_buckets, s);
    s->sum = mega_malloc(((size_t)s->suffixes + 1) * sizeof *s->sum);
    if (s->sum == NULL) return TRAIN_NO_MEMORY("the suffixes of words");
    s->sum[0] = 0;
    for (int64_t i = 0; i < s->suffixes; i++) s->sum[i + 1] = s->sum[i] + s->suffix[i].count;
    MEGA_TRY(find_seeds(s));
    return add_seeds(s);
}

mega_status mega_unigram_seed(mega_unigram *u)
{
    seeder s = {.u = u};
    const mega_status st = seed_all(&s);
    MEGA_FREE(s.count, s.text, s.suffix, s.sum, s.bucket, s.found);
    return st;
}
