/* Drawing the next token from a row of logits. */
#include "megalith/generate.h"
#include "megalith/philox.h"

#include <math.h>
#include <stdlib.h>

/* Largest weight first; among equals the lower id first, so that the order is the same on every system. */
static int by_weight(const void *left, const void *right)
{
    const mega_candidate *a = left, *b = right;
    if (a->weight != b->weight) return a->weight < b->weight ? 1 : -1;
    return (a->id > b->id) - (a->id < b->id);
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

int32_t mega_sample_token(const float *logits, int64_t vocab, const mega_sampling *s, uint64_t index, int64_t position,
                          mega_candidate *scratch)
{
    const int32_t best = sample_largest(logits, vocab);
    if (s->greedy || s->top_k == 1) return best;
    for (int64_t v = 0; v < vocab; v++) {
        scratch[v] = (mega_candidate){exp(((double)logits[v] - (double)logits[best]) / s->temperature), (int32_t)v};
    }
    int64_t kept = vocab;
    if (s->top_k > 0 || s->top_p > 0.0) {
        qsort(scratch, (size_t)vocab, sizeof *scratch, by_weight);
        kept = keep_top_p(scratch, keep_top_k(scratch, vocab, s->top_k), s->top_p);
    }
    double sum = 0.0;
    for (int64_t i = 0; i < kept; i++) sum += scratch[i].weight;
    double rest = sample_uniform(s->seed, index, position) * sum;
    for (int64_t i = 0; i < kept; i++) {
        rest -= scratch[i].weight;
        if (rest < 0.0) return scratch[i].id;
    }
    return best; /* reached only through rounding errors of the sums */
}
