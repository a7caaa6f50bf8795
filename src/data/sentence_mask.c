/* Which tokens of a sample are predicted: groups of whole words, drawn as Megatron-LM draws them. BERT takes groups of
 * up to 3 words, and replaces a token by the mask, by itself or by a random token; T5 takes groups of up to 10 words
 * with lengths of a geometric distribution, and replaces each group by a sentinel. */
#include "data_impl.h"
#include <math.h>

enum { BERT_GROUP = 3, T5_GROUP = 10 };
static const double group_ends = 0.2; /* T5: probability that a group ends after a word */

/* Numbers the words. A token that continues a word belongs to the word before it, even across a separator. */
static int32_t find_words(const mega_sentence_vocabulary *v, mega_sentence_mask *m)
{
    int32_t words = 0;
    for (int32_t i = 0; i < m->count; i++) {
        const int32_t token = m->token[i];
        m->label[i] = -1;
        m->after[i] = 0;
        m->word[i] = -1;
        if (token == v->cls || token == v->sep) continue;
        if (words == 0 || v->continues == NULL || !v->continues[token]) m->begins[words++] = i;
        m->word[i] = words - 1;
    }
    m->begins[words] = (int32_t)m->count;
    return words;
}

typedef struct group {
    int32_t begin, end; /* positions; those without a word do not belong to it */
    int32_t tokens;
    bool is_taken; /* one of its tokens is masked already */
} group;

static group group_of(const mega_sentence_mask *m, int32_t word, int32_t count, int32_t words)
{
    const int32_t last = word + count < words ? word + count : words;
    group g = {.begin = m->begins[word], .end = m->begins[last]};
    for (int32_t i = g.begin; i < g.end; i++) {
        if (m->word[i] < 0) continue;
        g.tokens++;
        g.is_taken = g.is_taken || m->label[i] >= 0;
    }
    while (g.end > g.begin && m->word[g.end - 1] < 0) g.end--;
    return g;
}

static int32_t draw_words(const mega_sentence_options *o, mega_mt19937 *random)
{
    const double u = mega_mt19937_double(random);
    if (o->kind == MEGA_SENTENCES_T5) {
        const double n = ceil(log1p(-u) / log(1 - group_ends));
        return n < 1 ? 1 : n > T5_GROUP ? T5_GROUP : (int32_t)n;
    }
    /* weights 1, 1/2, 1/3, normalised and summed up in the order of Megatron and NumPy */
    double weight[BERT_GROUP] = {1, 1. / 2, 1. / 3};
    for (int pass = 0; pass < 2; pass++) {
        const double sum = weight[0] + weight[1] + weight[2];
        for (int i = 0; i < BERT_GROUP; i++) weight[i] /= sum;
    }
    const double upto[BERT_GROUP] = {weight[0], weight[0] + weight[1], weight[0] + weight[1] + weight[2]};
    int32_t n = 0;
    while (n < BERT_GROUP - 1 && u >= upto[n] / upto[BERT_GROUP - 1]) n++;
    return n + 1;
}

static int32_t replacement(const mega_sentence_options *o, int32_t token, mega_mt19937 *random)
{
    const mega_sentence_vocabulary *v = o->vocabulary;
    if (o->kind == MEGA_SENTENCES_T5 || mega_mt19937_double(random) < 0.8) return v->mask;
    if (mega_mt19937_double(random) < 0.5) return token;
    return (int32_t)mega_mt19937_interval(random, (uint64_t)v->size - 1);
}

static void mask_group(const mega_sentence_options *o, const group *g, mega_mt19937 *random, mega_sentence_mask *m)
{
    for (int32_t i = g->begin; i < g->end; i++) {
        if (m->word[i] < 0) continue;
        m->label[i] = m->token[i];
        m->token[i] = replacement(o, m->token[i], random);
    }
    m->after[g->begin] = g->end;
    m->masked += g->tokens;
    m->spans++;
}

void mega_sentence_mask_draw(const mega_sentence_options *o, int64_t target, mega_mt19937 *random,
                             mega_sentence_mask *m)
{
    const int32_t words = find_words(o->vocabulary, m);
    const double rounded = nearbyint((double)m->count * o->mask_prob), most = o->mask_prob * (double)target;
    const double wanted = fmin(most, fmax(1, rounded));
    m->masked = m->spans = 0;
    for (int32_t i = 0; i < words; i++) m->order[i] = i;
    mega_mt19937_shuffle_i32(random, m->order, words, NULL);
    for (int32_t i = 0; i < words && (double)m->masked < wanted; i++) {
        int32_t n = draw_words(o, random);
        group g = group_of(m, m->order[i], n, words);
        while (n > 1 && (double)(m->masked + g.tokens) > wanted) g = group_of(m, m->order[i], --n, words);
        if ((double)(m->masked + g.tokens) <= wanted && !g.is_taken) mask_group(o, &g, random, m);
    }
}
