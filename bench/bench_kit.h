/* What measurements share. */
#ifndef MEGALITH_BENCH_KIT_H
#define MEGALITH_BENCH_KIT_H

#include "megalith/engine.h"
#include "megalith/philox.h"
#include "megalith/pretrained.h"

#include <stdlib.h>

static inline int bench_ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts n figures: the first is the least, the one at n / 2 the median. */
static inline void bench_sort(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, bench_ascending);
}

/* A GPT of GPT-2's kind. */
static inline mega_gpt bench_gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t positions, int64_t vocab)
{
    return (mega_gpt){.num_layers = layers,
                      .hidden = hidden,
                      .ffn_hidden = 4 * hidden,
                      .heads = heads,
                      .head_dim = hidden / heads,
                      .positions = positions,
                      .vocab = vocab,
                      .padded_vocab = mega_vocab_pad(vocab, 128, 1),
                      .norm_epsilon = 1e-5,
                      .init_std = 0.02};
}

/* Random tokens, the same at every step: the loss falls, and that of a peer with the same tokens falls with it. Each
 * rank takes its samples of the step. */
static inline void bench_fill(const mega_engine *e, mega_batch *b, int64_t vocab)
{
    for (int64_t row = 0; row < b->rows; row++) {
        const int64_t sample = mega_engine_sample(e, row);
        for (int64_t i = 0; i < b->seq; i++) {
            const int64_t t = row * b->seq + i;
            const uint32_t at = (uint32_t)(sample * b->seq + i);
            const mega_philox r = mega_philox4x32((mega_philox){{at, 0, 0, 0}}, 1, 2);
            b->tokens[t] = (int32_t)(r.v[0] % (uint32_t)vocab);
            b->labels[t] = (int32_t)(r.v[1] % (uint32_t)vocab);
            b->position_ids[t] = (int32_t)i;
            b->segment_start[t] = 0;
            b->loss_mask[t] = 1.0f;
        }
        b->sample_id[row] = (uint32_t)sample;
    }
}

#endif
