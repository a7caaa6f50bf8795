/* Rounds of EM over the counted words, and the choice of pieces. Sums over the words are made in a fixed number of
 * parts, each in the order of the words, and added in order of the parts: so they do not depend on the number of
 * threads.
 *
 * Probabilities of the ways to write a word are sums of products and not of logarithms. So that those of long words
 * stay within a double, each piece has a factor for its bytes, which is the same for all ways and cancels. */
#include "unigram_train.h"
#include "megalith/utf8.h"
#include "models/trie.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MARK        "\xE2\x96\x81"
#define BYTE_FACTOR 2.0  /* logarithm of the factor: about what a byte of text costs */
#define LEAST_COUNT 0.5  /* pieces that are expected less often go */
#define KEPT        0.75 /* of the pieces, in a round */
#define MORE        1.1  /* the rounds end with this many times the pieces wanted */
#define UNKNOWN     10.0 /* how much worse than the least score a character is that is no piece */
enum {
    PARTS = 8,
    ROUNDS = 2, /* of EM before pieces are chosen */
    PLACES = MEGA_UNIGRAM_LONGEST_WORD + 1,
    MOST_WAYS =
        MEGA_UNIGRAM_LONGEST_WORD * 18, /* from each character: pieces of 1 to 16 characters, and an unknown one */
};

/* A piece at a place of a word; id -1: an unknown character. */
typedef struct way {
    int32_t id;
    uint16_t begin, end;
} way;

typedef struct word_scratch {
    double forward[PLACES], backward[PLACES];
    way ways[MOST_WAYS];
    way best[PLACES]; /* the last piece of the best way to a place */
} word_scratch;

typedef struct em {
    mega_unigram *u;
    mega_trie trie;
    double *chance;    /* [pieces] probability of each, times the factor */
    double unknown[5]; /* the same, by the number of bytes */
    double unknown_score;
    double *expected;      /* by part and piece */
    double *loss;          /* by piece: INFINITY if it stays, -INFINITY if it goes */
    double total;          /* of the words */
    word_scratch *scratch; /* by part */
    int64_t arrays;        /* room for this many pieces */
} em;

mega_status mega_unigram_add_piece(mega_unigram *u, const char *bytes, size_t n, double score)
{
    const size_t begin = u->bytes.size;
    mega_buffer_append(&u->bytes, bytes, n);
    MEGA_TRY(mega_buffer_check(&u->bytes, "the pieces"));
    if (!mega_array_reserve(&u->piece, &u->capacity, u->pieces + 1, sizeof *u->piece)) return TRAIN_NO_MEMORY("pieces");
    u->piece[u->pieces++] = (mega_unigram_piece){begin, (uint32_t)n, score};
    return MEGA_OK;
}

/* ---- words ---- */

static mega_status count_part(const char *word, size_t n, bool begins, mega_buffer *scratch, mega_word_counts *out)
{
    scratch->size = 0;
    if (begins) mega_buffer_puts(scratch, MARK);
    mega_buffer_append(scratch, word, n);
    MEGA_TRY(mega_buffer_check(scratch, "a word"));
    return mega_word_counts_add(out, scratch->data, scratch->size);
}

static bool unigram_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

mega_status mega_unigram_count(const char *text, size_t n, mega_buffer *scratch, mega_word_counts *out)
{
    enum { MOST = MEGA_UNIGRAM_LONGEST_WORD - 3 };
    for (size_t at = 0, end; at < n; at = end) {
        end = at + 1;
        if (unigram_is_blank(text[at])) continue;
        while (end < n && !unigram_is_blank(text[end])) end++;
        bool begins = true;
        while (end - at > MOST) {
            size_t cut = MOST;
            while (cut > MOST - 4 && ((uint8_t)text[at + cut] & 0xC0) == 0x80) cut--;
            MEGA_TRY(count_part(text + at, cut, begins, scratch, out));
            at += cut;
            begins = false;
        }
        MEGA_TRY(count_part(text + at, end - at, begins, scratch, out));
    }
    return MEGA_OK;
}

static int compare_words(const void *a, const void *b)
{
    const mega_unigram_word *x = a, *y = b;
    const int order = memcmp(x->text, y->text, x->size < y->size ? x->size : y->size);
    return order != 0 ? order : (x->size > y->size) - (x->size < y->size);
}

static mega_status sort_words(mega_unigram *u, const mega_word_counts *words)
{
    u->word = mega_malloc(((size_t)words->size + 1) * sizeof *u->word);
    if (u->word == NULL) return TRAIN_NO_MEMORY("words");
    for (int64_t i = 0; i < words->size; i++) {
        const mega_word_count *w = &words->word[i];
        u->word[i] = (mega_unigram_word){words->bytes.data + w->begin, w->size, w->count};
    }
    u->words = words->size;
    if (u->words > 0) qsort(u->word, (size_t)u->words, sizeof *u->word, compare_words);
    return MEGA_OK;
}

/* ---- what depends on the pieces ---- */

static mega_status build_trie(em *e)
{
    const mega_unigram *u = e->u;
    mega_trie_key *key = mega_malloc(((size_t)u->pieces + 1) * sizeof *key);
    if (key == NULL) return TRAIN_NO_MEMORY("pieces");
    for (int64_t i = 0; i < u->pieces; i++)
        key[i] = (mega_trie_key){mega_unigram_bytes(u, i), u->piece[i].size, (int32_t)i};
    mega_trie_fini(&e->trie);
    const mega_status st = mega_trie_build(&e->trie, key, u->pieces);
    mega_free(key);
    return st;
}

static mega_status unigram_prepare(em *e)
{
    const mega_unigram *u = e->u;
    double least = 0;
    for (int64_t i = 0; i < u->pieces; i++) {
        const mega_unigram_piece *p = &u->piece[i];
        least = p->score < least ? p->score : least;
        e->chance[i] = exp(p->score + BYTE_FACTOR * p->size);
    }
    e->unknown_score = least - UNKNOWN;
    for (int n = 0; n < 5; n++) e->unknown[n] = exp(e->unknown_score + BYTE_FACTOR * n);
    return build_trie(e);
}

static mega_status make_arrays(em *e)
{
    e->arrays = e->u->pieces;
    const size_t n = (size_t)e->arrays + 1;
    e->chance = mega_malloc(n * sizeof *e->chance);
    e->loss = mega_malloc(n * sizeof *e->loss);
    e->expected = mega_malloc(PARTS * n * sizeof *e->expected);
    e->scratch = mega_malloc(PARTS * sizeof *e->scratch);
    if (e->chance == NULL || e->loss == NULL || e->expected == NULL || e->scratch == NULL)
        return TRAIN_NO_MEMORY("the counts of pieces");
    for (int64_t i = 0; i < e->u->words; i++) e->total += (double)e->u->word[i].count;
    return MEGA_OK;
}

static void em_fini(em *e)
{
    mega_trie_fini(&e->trie);
    MEGA_FREE(e->chance, e->loss, e->expected, e->scratch);
}

/* ---- one word ---- */

static int em_character_bytes(const char *p, size_t n)
{
    uint32_t cp;
    const int length = mega_utf8_decode((const uint8_t *)p, n, &cp);
    return length > 0 ? length : 1;
}

/* Finds all pieces of a word except one, in order of where they begin. Returns their number. */
static int find_ways(const em *e, const char *word, int n, int32_t without, way *out)
{
    int count = 0;
    for (int at = 0, one; at < n; at += one) {
        uint32_t node = MEGA_TRIE_ROOT;
        bool known = false;
        one = em_character_bytes(word + at, (size_t)(n - at));
        for (int i = at; i < n && mega_trie_step(&e->trie, &node, (uint8_t)word[i]); i++) {
            const int32_t id = e->trie.unit[node].id;
            if (id < 0 || id == without) continue;
            out[count++] = (way){id, (uint16_t)at, (uint16_t)(i + 1)};
            known = known || i + 1 == at + one;
        }
        if (!known) out[count++] = (way){-1, (uint16_t)at, (uint16_t)(at + one)};
    }
    return count;
}

static inline double chance_of(const em *e, const way *w)
{
    return w->id >= 0 ? e->chance[w->id] : e->unknown[w->end - w->begin];
}

/* Adds how often each piece is expected in a word. One whose probability a double cannot hold is left out. */
static void expect_word(const em *e, word_scratch *s, const mega_unigram_word *w, double *expected)
{
    const int n = (int)w->size, count = find_ways(e, w->text, n, -1, s->ways);
    for (int i = 0; i <= n; i++) s->forward[i] = s->backward[i] = 0;
    s->forward[0] = s->backward[n] = 1;
    for (int i = 0; i < count; i++)
        s->forward[s->ways[i].end] += s->forward[s->ways[i].begin] * chance_of(e, &s->ways[i]);
    if (!(s->forward[n] > 1e-280 && s->forward[n] < 1e280)) return;
    const double scale = (double)w->count / s->forward[n];
    for (int i = count - 1; i >= 0; i--) {
        const way *one = &s->ways[i];
        const double rest = chance_of(e, one) * s->backward[one->end];
        s->backward[one->begin] += rest;
        if (one->id >= 0) expected[one->id] += s->forward[one->begin] * rest * scale;
    }
}

/* Finds the best way to write a text; returns its score. best[n] is its last piece, and best of that one's begin the
 * piece before. Of equal ways, the one whose last piece is longest. */
static double best_way(const em *e, word_scratch *s, const char *text, int n, int32_t without)
{
    const int count = find_ways(e, text, n, without, s->ways);
    for (int i = 1; i <= n; i++) s->forward[i] = -INFINITY;
    s->forward[0] = 0;
    for (int i = 0; i < count; i++) {
        const way *one = &s->ways[i];
        const double score = s->forward[one->begin] + (one->id >= 0 ? e->u->piece[one->id].score : e->unknown_score);
        if (score <= s->forward[one->end]) continue;
        s->forward[one->end] = score;
        s->best[one->end] = *one;
    }
    return s->forward[n];
}

static void count_best(const em *e, word_scratch *s, const mega_unigram_word *w, double *times)
{
    const int n = (int)w->size;
    best_way(e, s, w->text, n, -1);
    for (int at = n; at > 0; at = s->best[at].begin)
        if (s->best[at].id >= 0) times[s->best[at].id] += (double)w->count;
}

/* ---- all words ---- */

typedef void word_work(const em *e, word_scratch *s, const mega_unigram_word *w, double *sums);

typedef struct word_pass {
    em *e;
    word_work *work;
} word_pass;

static void run_parts(void *user, int thread, int64_t begin, int64_t end)
{
    const word_pass *p = user;
    em *e = p->e;
    const mega_unigram *u = e->u;
    (void)thread;
    for (int64_t part = begin; part < end; part++) {
        double *sums = e->expected + part * u->pieces;
        memset(sums, 0, (size_t)u->pieces * sizeof *sums);
        for (int64_t i = u->words * part / PARTS; i < u->words * (part + 1) / PARTS; i++)
            p->work(e, &e->scratch[part], &u->word[i], sums);
    }
}

/* Leaves the sums over all words in the first part. */
static void sum_words(em *e, word_work *work)
{
    word_pass pass = {e, work};
    const int64_t n = e->u->pieces;
    mega_team_for(e->u->team, PARTS, 1, run_parts, &pass);
    for (int64_t part = 1; part < PARTS; part++)
        for (int64_t i = 0; i < n; i++) e->expected[i] += e->expected[part * n + i];
}

/* The derivative of the logarithm of the gamma function: its series for large numbers, to which small ones are
 * raised. */
static double digamma(double x)
{
    double sum = 0;
    for (; x < 7; x++) sum -= 1 / x;
    x -= 0.5;
    const double r = 1 / (x * x);
    return sum + log(x) + r * (1.0 / 24 - r * (7.0 / 960 - r * (31.0 / 8064 - r * 127.0 / 30720)));
}

/* Keeps the pieces that are expected, with the scores of a Bayesian estimate, which makes rare ones rarer. */
static void maximize(em *e)
{
    mega_unigram *u = e->u;
    int64_t kept = 0;
    double sum = 0;
    for (int64_t i = 0; i < u->pieces; i++) {
        if (e->expected[i] < LEAST_COUNT) continue;
        sum += e->expected[i];
        u->piece[kept] = u->piece[i];
        u->piece[kept++].score = digamma(e->expected[i]);
    }
    u->pieces = kept;
    const double all = kept > 0 ? digamma(sum) : 0;
    for (int64_t i = 0; i < kept; i++) u->piece[i].score -= all;
}

/* ---- which pieces stay ---- */

/* What the text loses without a piece: its best replacement is counted in its place. */
static double loss_of(const em *e, word_scratch *s, int64_t i, double sum)
{
    const mega_unigram_piece *p = &e->u->piece[i];
    const double times = e->expected[i];
    if (times == 0) return -INFINITY;
    const double other = best_way(e, s, mega_unigram_bytes(e->u, i), (int)p->size, (int32_t)i);
    if (other > p->score) return -INFINITY;
    int parts = 0;
    double replaced = 0;
    for (int at = (int)p->size; at > 0; at = s->best[at].begin, parts++) {
        if (s->best[at].id < 0) return INFINITY; /* it cannot be replaced */
        replaced += log(e->expected[s->best[at].id] + times);
    }
    replaced -= parts * log(sum + times * (parts - 1));
    return times / e->total * (log(times) - log(sum) - replaced);
}

typedef struct loss_pass {
    em *e;
    double sum;
} loss_pass;

/* A range of pieces has the scratch of its place among the parts. */
static void find_losses(void *user, int thread, int64_t begin, int64_t end)
{
    const loss_pass *p = user;
    em *e = p->e;
    (void)thread;
    for (int64_t part = begin; part < end; part++)
        for (int64_t i = e->u->pieces * part / PARTS; i < e->u->pieces * (part + 1) / PARTS; i++)
            e->loss[i] = loss_of(e, &e->scratch[part], i, p->sum);
}

typedef struct loss_order {
    double loss;
    int64_t piece;
} loss_order;

static int compare_losses(const void *a, const void *b)
{
    const loss_order *x = a, *y = b;
    if (x->loss != y->loss) return x->loss > y->loss ? -1 : 1;
    return (x->piece > y->piece) - (x->piece < y->piece);
}

/* Keeps the pieces of the greatest losses; those that no way needs go in any case. */
static mega_status prune(em *e, int64_t wanted)
{
    mega_unigram *u = e->u;
    loss_pass pass = {e, 0};
    sum_words(e, count_best);
    for (int64_t i = 0; i < u->pieces; i++) pass.sum += e->expected[i];
    mega_team_for(u->team, PARTS, 1, find_losses, &pass);
    loss_order *order = mega_malloc(((size_t)u->pieces + 1) * sizeof *order);
    if (order == NULL) return TRAIN_NO_MEMORY("the losses of pieces");
    int64_t count = 0, kept = 0;
    for (int64_t i = 0; i < u->pieces; i++)
        if (e->loss[i] > -INFINITY) order[count++] = (loss_order){e->loss[i], i};
    if (count > 0) qsort(order, (size_t)count, sizeof *order, compare_losses);
    const int64_t part = (int64_t)(KEPT * (double)u->pieces), most = part > wanted ? part : wanted;
    for (int64_t i = 0; i < u->pieces; i++) e->loss[i] = 0;
    for (int64_t i = 0; i < count && (i < most || isinf(order[i].loss)); i++) e->loss[order[i].piece] = 1;
    for (int64_t i = 0; i < u->pieces; i++)
        if (e->loss[i] > 0) u->piece[kept++] = u->piece[i];
    u->pieces = kept;
    mega_free(order);
    return MEGA_OK;
}

static void normalize_seeds(mega_unigram *u)
{
    double sum = 0;
    for (int64_t i = 0; i < u->pieces; i++) sum += u->piece[i].score;
    for (int64_t i = 0; i < u->pieces; i++) u->piece[i].score = log(u->piece[i].score) - log(sum);
}

static mega_status learn_pieces(em *e, int64_t wanted, mega_trainer_report *report, void *user)
{
    mega_unigram *u = e->u;
    const int64_t enough = (int64_t)(MORE * (double)wanted), first = u->pieces;
    MEGA_TRY(make_arrays(e));
    for (;;) {
        for (int i = 0; i < ROUNDS; i++) {
            MEGA_TRY(unigram_prepare(e));
            sum_words(e, expect_word);
            maximize(e);
        }
        if (u->pieces <= enough) break;
        const int64_t before = u->pieces;
        MEGA_TRY(unigram_prepare(e));
        MEGA_TRY(prune(e, enough));
        if (report != NULL) report(user, first - u->pieces, first - enough);
        if (u->pieces == before) break; /* none of them can be replaced */
    }
    return unigram_prepare(e);
}

/* ---- the final choice ---- */

typedef struct final_order {
    double score;
    const char *text;
    uint32_t size;
    int64_t piece;
} final_order;

static int compare_final(const void *a, const void *b)
{
    const final_order *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    const int order = memcmp(x->text, y->text, x->size < y->size ? x->size : y->size);
    return order != 0 ? order : (x->size > y->size) - (x->size < y->size);
}

/* Finds the pieces of the covered characters, and adds those that are none any more, each a little better than the one
 * before. Marks them in `needed`. */
static mega_status keep_covered(em *e, bool *needed)
{
    mega_unigram *u = e->u;
    double score = e->unknown_score + UNKNOWN;
    for (int64_t i = 0; i < u->num_covered; i++) {
        char text[4];
        const int n = mega_utf8_encode(u->covered[i], text);
        uint32_t node = MEGA_TRIE_ROOT;
        int at = 0;
        while (at < n && mega_trie_step(&e->trie, &node, (uint8_t)text[at])) at++;
        const int32_t id = at == n ? e->trie.unit[node].id : -1;
        needed[id >= 0 ? id : u->pieces] = true;
        if (id >= 0) continue;
        MEGA_TRY(mega_unigram_add_piece(u, text, (size_t)n, score));
        score += 0.0001;
    }
    return MEGA_OK;
}

static mega_status choose_final(em *e, int64_t wanted, bool *needed, final_order *order)
{
    mega_unigram *u = e->u;
    int64_t kept = 0;
    MEGA_TRY(keep_covered(e, needed));
    for (int64_t i = 0; i < u->pieces; i++)
        order[i] = (final_order){u->piece[i].score, mega_unigram_bytes(u, i), u->piece[i].size, i};
    if (u->pieces > 0) qsort(order, (size_t)u->pieces, sizeof *order, compare_final);
    mega_unigram_piece *piece = mega_malloc(((size_t)u->pieces + 1) * sizeof *piece);
    if (piece == NULL) return TRAIN_NO_MEMORY("pieces");
    int64_t others = wanted - u->num_covered;
    for (int64_t i = 0; i < u->pieces; i++) {
        const bool is_needed = needed[order[i].piece];
        if (!is_needed && others <= 0) continue;
        others -= !is_needed;
        piece[kept++] = u->piece[order[i].piece];
    }
    mega_free(u->piece);
    u->piece = piece;
    u->pieces = u->capacity = kept;
    return MEGA_OK;
}

static mega_status finish_pieces(em *e, int64_t wanted)
{
    const size_t most = (size_t)(e->u->pieces + e->u->num_covered) + 1;
    bool *needed = mega_calloc(most, sizeof *needed);
    final_order *order = mega_malloc(most * sizeof *order);
    const mega_status st =
        needed != NULL && order != NULL ? choose_final(e, wanted, needed, order) : TRAIN_NO_MEMORY("pieces");
    MEGA_FREE(needed, order);
    return st;
}

static mega_status train_all(em *e, const mega_word_counts *words, int64_t wanted, int workers,
                             mega_trainer_report *report, void *user)
{
    mega_unigram *u = e->u;
    MEGA_TRY(mega_team_create(workers < PARTS ? workers : PARTS, &u->team));
    MEGA_TRY(sort_words(u, words));
    MEGA_TRY(mega_unigram_seed(u));
    if (u->num_covered > wanted)
        return MEGA_MISTAKE(
            "--vocab-size: the text has %lld characters that are pieces, besides <pad>, </s> and <unk>; "
            "give %lld or more, or a lower --character-coverage",
            (long long)u->num_covered, (long long)u->num_covered + 3);
    normalize_seeds(u);
    MEGA_TRY(learn_pieces(e, wanted, report, user));
    return finish_pieces(e, wanted);
}

mega_status mega_unigram_train(const mega_word_counts *words, int64_t wanted, double coverage, int workers,
                               mega_trainer_report *report, void *user, mega_unigram *out)
{
    out->coverage = coverage;
    em e = {.u = out};
    const mega_status st = train_all(&e, words, wanted, workers < 1 ? 1 : workers, report, user);
    em_fini(&e);
    mega_team_destroy(out->team);
    out->team = NULL;
    return st;
}

void mega_unigram_fini(mega_unigram *u)
{
    MEGA_FREE(u->word, u->covered);
    mega_buffer_fini(&u->bytes);
    mega_free(u->piece);
    mega_team_destroy(u->team);
    *u = (mega_unigram){0};
}
