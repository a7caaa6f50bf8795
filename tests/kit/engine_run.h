/* Training for tests of the engine: a small GPT, options for it, and samples that depend only on their number. Only for
 * test programs that link the rooms engine and model. */
#ifndef MEGALITH_TESTS_ENGINE_RUN_H
#define MEGALITH_TESTS_ENGINE_RUN_H

#include "gpt_describe.h"
#include "gpt_engine.h"
#include "megalith/gpt_data.h"
#include "megalith/philox.h"

enum { ENGINE_RUN_SEQ = 16, ENGINE_RUN_VOCAB = 50 };

/* Returns a GPT; the caller sets dropout, recomputation and the kind of loss. */
static inline mega_transformer engine_run_gpt(void)
{
    mega_transformer gpt = gpt_of((gpt_size){.layers = 2,
                                             .heads = 4,
                                             .head_dim = 8,
                                             .positions = ENGINE_RUN_SEQ,
                                             .vocab = ENGINE_RUN_VOCAB,
                                             .init_std = 0.2});
    gpt.recompute_uniform = true;
    gpt.recompute_layers = 1;
    return gpt;
}

static inline mega_engine_options engine_run_options(int64_t batch, int64_t micro_batch, double lr)
{
    return (mega_engine_options){.micro_batch = micro_batch,
                                 .seq = ENGINE_RUN_SEQ,
                                 .batch = {.global_batch = batch, .micro_step = micro_batch},
                                 .clip_grad = 1.0,
                                 .dropout_seed = 7,
                                 .optimizer = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
                                 .schedule = {.style = MEGA_LR_CONSTANT, .max_lr = lr, .decay = 100}};
}

/* Sets the optimizer, and what Lamb and Muon need besides. */
static inline void engine_run_optimizer(mega_optimizer_options *o, mega_optimizer_kind kind)
{
    o->kind = kind;
    o->min_coeff = 0.01;
    o->max_coeff = 10;
    o->muon_momentum = 0.9;
    o->muon_split = true;
    o->muon_steps = 5;
    o->muon_extra_scale = 0.2;
}

/* Sets row to the tokens of this sample, which are in 0 to 19. */
static inline void engine_run_sample(int32_t row[ENGINE_RUN_SEQ + 1], int64_t sample)
{
    for (int i = 0; i <= ENGINE_RUN_SEQ; i++)
        row[i] = (int32_t)(mega_philox4x32((mega_philox){{(uint32_t)i, (uint32_t)sample, 0, 0}}, 5, 6).v[0] % 20);
}

/* Fills row i of the batch with this sample, without a mask. */
static inline void engine_run_fill(mega_batch *b, int64_t i, int64_t sample)
{
    const mega_ltor_options o = {.eod = -1};
    int32_t row[ENGINE_RUN_SEQ + 1];
    engine_run_sample(row, sample);
    mega_ltor_sample(mega_batch_sample(b, i), row, ENGINE_RUN_SEQ, &o);
}

#endif
