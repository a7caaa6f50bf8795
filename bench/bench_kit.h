/* Shared by the benchmarks. */
#ifndef MEGALITH_BENCH_KIT_H
#define MEGALITH_BENCH_KIT_H

#include "../tests/kit/gpt_engine.h"
#include "megalith/batch.h"
#include "megalith/family.h"
#include "megalith/layers.h"
#include "megalith/philox.h"
#include "megalith/transformer.h"

#include <stdlib.h>

static inline int bench_ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts n figures: the first is the smallest, the one at n / 2 the median. */
static inline void bench_sort(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, bench_ascending);
}

/* Returns a GPT of GPT-2's architecture. */
static inline mega_transformer bench_gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t positions,
                                         int64_t vocab)
{
    return (mega_transformer){.num_layers = layers,
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

/* Turns a GPT into a model of the architecture of Llama 2 and 3 (rotary positions, RMS norm, SwiGLU, untied, no
 * biases). */
static inline void bench_make_llama(mega_transformer *m, int64_t kv_heads, int64_t ffn_hidden)
{
    m->ffn_hidden = ffn_hidden;
    m->net = (mega_network_shape){.family = mega_family_find("llama"),
                                  .positions = MEGA_POSITIONS_ROPE,
                                  .rope = {.theta = 10000.0},
                                  .kv_heads = kv_heads,
                                  .head_dim = m->head_dim,
                                  .no_qkv_bias = true,
                                  .no_out_bias = true,
                                  .no_mlp_bias = true,
                                  .rms = true,
                                  .activation = MEGA_ACT_SILU,
                                  .gated = true,
                                  .untied = true};
}

/* Returns the 160M parameters of a small Llama: 12 layers 768 wide, 12 heads that share 4 of keys and values. */
static inline mega_transformer bench_llama(int64_t positions)
{
    mega_transformer m = bench_gpt(12, 768, 12, positions, 32000);
    bench_make_llama(&m, 4, 3072);
    return m;
}

/* Returns the FLOP per sample, forward and backward. */
static inline double bench_flops(const mega_engine *e)
{
    mega_engine_cost cost;
    mega_engine_cost_get(e, &cost);
    return cost.flops;
}

static inline int32_t bench_token(int64_t at, int which, int64_t vocab)
{
    return (int32_t)(mega_philox4x32((mega_philox){{(uint32_t)at, 0, 0, 0}}, 1, 2).v[which] % (uint32_t)vocab);
}

/* Fills the batch with random tokens that are the same in every step: the loss falls, and so does that of a peer with
 * the same tokens. Each rank takes its own samples of the step. */
static inline void bench_fill(const mega_engine *e, mega_batch *b, int64_t seq, int64_t vocab)
{
    for (int64_t row = 0; row < mega_batch_num_samples(b); row++) {
        mega_sample *s = mega_batch_sample(b, row);
        const int64_t first = mega_engine_sample(e, row) * seq;
        int32_t *tokens = mega_sample_i32(s, "tokens", seq), *labels = mega_sample_i32(s, "labels", seq);
        int32_t *positions = mega_sample_i32(s, "position_ids", seq), *segments = mega_sample_i32(s, "key_begin", seq);
        int32_t *types = mega_sample_i32(s, "token_types", seq), *ends = mega_sample_i32(s, "key_end", seq);
        int32_t *pair = mega_sample_i32(s, "is_random", 1);           /* an encoder has the last three */
        int32_t *targets = mega_sample_i32(s, "decoder_tokens", seq); /* of a T5, which reads its text twice here */
        int32_t *source_ends = mega_sample_i32(s, "cross_key_end", seq);
        float *mask = mega_sample_f32(s, "loss_mask", seq);
        if (pair != NULL) pair[0] = (int32_t)(mega_engine_sample(e, row) % 2);
        for (int64_t i = 0; i < seq; i++) {
            if (tokens != NULL) tokens[i] = bench_token(first + i, 0, vocab);
            if (labels != NULL) labels[i] = bench_token(first + i, 1, vocab);
            if (positions != NULL) positions[i] = (int32_t)i;
            if (segments != NULL) segments[i] = 0;
            if (types != NULL) types[i] = i >= seq / 2;
            if (ends != NULL) ends[i] = (int32_t)seq;
            if (targets != NULL) targets[i] = bench_token(first + i, 0, vocab);
            if (source_ends != NULL) source_ends[i] = (int32_t)seq;
            if (mask != NULL) mask[i] = 1.0f;
        }
    }
}

#endif
