/* Drawing the next token from a row of logits. */
#include "megalith/generate.h"
#include "megalith/philox.h"

#include <math.h>
#include <string.h>

/* Largest weight first; among equals the lower id first, so that the order is the same on every system. */
static bool goes_before(const mega_candidate *a, const mega_candidate *b)
{
    return a->weight != b->weight ? a->weight > b->weight : a->id < b->id;
}

/* Moves c[at] down a heap of n candidates whose last one in the order is at its root. */
static void sift(mega_candidate *c, int64_t n, int64_t at)
{
    const mega_candidate moved = c[at];
    for (int64_t child = 2 * at + 1; child < n; at = child, child = 2 * at + 1) {
        if (child + 1 < n && goes_before(&c[child], &c[child + 1])) child++;
        if (!goes_before(&moved, &c[child])) break;
        c[at] = c[child];
    }
    c[at] = moved;
}

/* Sorts in place: qsort may allocate memory. */
static void sort_candidates(mega_candidate *c, int64_t n)
{
    for (int64_t i = n / 2 - 1; i >= 0; i--) sift(c, n, i);
    for (int64_t last = n - 1; last > 0; last--) {
        const mega_candidate least = c[0];
        c[0] = c[last];
        c[last] = least;
        sift(c, last, 0);
    }
}

static int32_t sample_largest(const float *logits, int64_t vocab)
{
    int64_t best = 0;
    for (int64_t v = 1; v < vocab; v++) {
        if (logits[v] > logits[best]) best = v;
    }
    return (int32_t)best;
}

static double sample_uniform(uint32_t seed, uint64_t index, int64_t position)
{
    const mega_philox c = {{(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)position, 0}};
    const mega_philox r = mega_philox4x32(c, seed, 0x53414d50u);
    return ((double)(r.v[0] >> 5) * 67108864.0 + (double)(r.v[1] >> 6)) * (1.0 / 9007199254740992.0);
}

/* The number of sorted candidates that top_k keeps. */
static int64_t keep_top_k(const mega_candidate *c, int64_t n, int64_t k)
{
    if (k <= 0 || k >= n) return n;
    int64_t kept = k;
    while (kept < n && c[kept].weight == c[k - 1].weight) kept++;
    return kept;
}

/* The number of sorted candidates (weights are unnormalised probabilities) that top_p keeps. */
static int64_t keep_top_p(const mega_candidate *c, int64_t n, double p)
{
    if (p <= 0.0 || p >= 1.0) return n;
    double sum = 0.0, before = 0.0;
    for (int64_t i = 0; i < n; i++) sum += c[i].weight;
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 && before > p * sum) return i;
        before += c[i].weight;
    }
    return n;
}

/* The number of sorted candidates that are not less probable than p times the first one. */
static int64_t keep_min_p(const mega_candidate *c, int64_t n, double p)
{
    int64_t kept = n;
    while (kept > 1 && c[kept - 1].weight < p * c[0].weight) kept--;
    return kept;
}

/* Fills scratch with the logits, changed by the rules that come before the temperature. */
static void change_logits(const float *logits, int64_t vocab, const mega_sampling *s, const mega_draw *text,
                          mega_candidate *scratch)
{
    const double r = s->repetition_penalty;
    for (int64_t v = 0; v < vocab; v++) scratch[v] = (mega_candidate){(double)logits[v], (int32_t)v};
    for (int64_t i = 0; r > 0.0 && i < text->count; i++) { /* an id that occurs again gets the same value again */
        const int32_t id = text->history[i];
        if (id >= vocab) continue;
        scratch[id].weight = logits[id] > 0.0f ? (double)logits[id] / r : (double)logits[id] * r;
    }
    const bool is_forbidden = s->forbids && text->count > 0 && text->history[text->count - 1] == s->forbidden_after;
    if (is_forbidden && s->forbidden >= 0 && s->forbidden < vocab) scratch[s->forbidden].weight = -1e10;
}

static int32_t largest_candidate(const mega_candidate *c, int64_t n)
{
    int64_t best = 0;
    for (int64_t v = 1; v < n; v++)
        if (c[v].weight > c[best].weight) best = v;
    return (int32_t)best;
}

/* The probability p of top_p after that many draws. */
static double top_p_after(const mega_sampling *s, int64_t draws)
{
    double p = s->top_p;
    if (s->top_p_decay <= 0.0) return p;
    for (int64_t i = 0; i < draws && p > s->top_p_bound; i++) {
        p *= s->top_p_decay;
        if (s->top_p_bound > 0.0 && p < s->top_p_bound) p = s->top_p_bound;
    }
    return p;
}

/* Sorts the candidates if a rule needs it. Returns how many are left. */
static int64_t filter_candidates(mega_candidate *c, int64_t n, const mega_sampling *s, int64_t draws)
{
    if (s->top_k <= 0 && s->top_p <= 0.0 && s->min_p <= 0.0) return n;
    sort_candidates(c, n);
    int64_t kept = keep_top_k(c, n, s->top_k);
    /* p may decay to less than any probability; the first candidate stays in any case */
    if (s->top_p > 0.0) kept = keep_top_p(c, kept, fmax(top_p_after(s, draws), 1e-300));
    return keep_min_p(c, kept, s->min_p);
}

int32_t mega_sample_token(const float *logits, int64_t vocab, const mega_sampling *s, const mega_draw *text,
                          mega_candidate *scratch)
{
    const bool changes = s->forbids || (s->repetition_penalty > 0.0 && s->repetition_penalty != 1.0);
    const bool is_greedy = s->greedy || s->top_k == 1;
    if (is_greedy && !changes) return sample_largest(logits, vocab);
    change_logits(logits, vocab, s, text, scratch);
    const int32_t best = largest_candidate(scratch, vocab);
    if (is_greedy) return best;
    const double most = scratch[best].weight;
    for (int64_t v = 0; v < vocab; v++) scratch[v].weight = exp((scratch[v].weight - most) / s->temperature);
    const int64_t kept = filter_candidates(scratch, vocab, s, text->drawn);
    double sum = 0.0;
    for (int64_t i = 0; i < kept; i++) sum += scratch[i].weight;
    double rest = sample_uniform(s->seed, text->index, text->count) * sum;
    for (int64_t i = 0; i < kept; i++) {
        rest -= scratch[i].weight;
        if (rest < 0.0) return scratch[i].id;
    }
    return best; /* reached only through rounding errors of the sums */
}

double mega_log_probability(const float *logits, int64_t vocab, int32_t id)
{
    const double most = (double)logits[sample_largest(logits, vocab)];
    double sum = 0.0;
    for (int64_t v = 0; v < vocab; v++) sum += exp((double)logits[v] - most);
    return (double)logits[id] - most - log(sum);
}

/* The exponent of NaN and of infinity consists of ones. */
bool mega_logits_are_finite(const float *logits, int64_t vocab)
{
    const uint32_t ones = 0x7f800000u;
    uint32_t found = 0;
    for (int64_t v = 0; v < vocab; v++) {
        uint32_t bits;
        memcpy(&bits, &logits[v], sizeof bits);
        found |= (uint32_t)((bits & ones) == ones);
    }
    return found == 0;
}

mega_status mega_sampling_check(const mega_sampling *s)
{
    const struct {
        const char *name, *expected;
        double value;
        bool is_right;
    } rows[] = {
        {"temperature", "more than 0", s->temperature, s->greedy || s->top_k == 1 || s->temperature > 0.0},
        {"top_k", "0 or more", (double)s->top_k, s->top_k >= 0},
        {"top_p", "0 to 1", s->top_p, s->top_p >= 0.0 && s->top_p <= 1.0},
        {"top_p_decay", "0 to 1", s->top_p_decay, s->top_p_decay >= 0.0 && s->top_p_decay <= 1.0},
        {"top_p_bound", "0 to top_p", s->top_p_bound, s->top_p_bound >= 0.0 && s->top_p_bound <= s->top_p},
        {"min_p", "0 to 1", s->min_p, s->min_p >= 0.0 && s->min_p <= 1.0},
        {"repetition_penalty", "more than 0, or 0: none", s->repetition_penalty, s->repetition_penalty >= 0.0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!rows[i].is_right)
            return MEGA_MISTAKE("generation: %s %g; expected %s", rows[i].name, rows[i].value, rows[i].expected);
    return MEGA_OK;
}
