/* Training from a program of your own, with the installed headers alone:
 *
 *     cc -std=c17 train_from_c.c -o train_from_c $(pkg-config --cflags --libs megalith)
 *
 * A GPT of one layer learns to count: after n comes n + 1, modulo 16. Prints the first loss and the last. */
#include <megalith/engine.h>
#include <megalith/gpt.h>
#include <megalith/gpt_data.h>
#include <stdio.h>

enum { SEQ = 16, IDS = 16, BATCH = 8, STEPS = 100 };

/* Every row counts from another number. */
static void fill(mega_batch *batch, int64_t first_sample)
{
    const mega_ltor_options options = {.eod = -1};
    for (int64_t r = 0; r < mega_batch_num_samples(batch); r++) {
        int32_t row[SEQ + 1];
        for (int i = 0; i <= SEQ; i++) row[i] = (int32_t)((first_sample + r) * 7 + i) % IDS;
        mega_ltor_sample(mega_batch_sample(batch, r), row, SEQ, &options);
    }
}

static mega_status train(mega_engine *engine)
{
    mega_step_result result;
    MEGA_TRY(mega_engine_allocate(engine));
    MEGA_TRY(mega_engine_initialize(engine, 1234));
    for (int i = 0; i < STEPS; i++) {
        fill(mega_engine_batch(engine), mega_engine_progress_get(engine)->consumed_samples);
        MEGA_TRY(mega_engine_train_batch(engine, &result));
        if (i == 0 || i == STEPS - 1) printf("step %3d: loss %.4f\n", i + 1, result.loss);
    }
    return MEGA_OK;
}

int main(void)
{
    const mega_gpt gpt = {.num_layers = 1,
                          .hidden = 32,
                          .ffn_hidden = 128,
                          .heads = 2,
                          .head_dim = 16,
                          .positions = SEQ,
                          .vocab = IDS,
                          .padded_vocab = IDS,
                          .norm_epsilon = 1e-5,
                          .init_std = 0.02};
    const mega_engine_options options = {
        .compute = MEGA_F32,
        .micro_batch = BATCH / 2, /* two micro-batches make a step */
        .seq = SEQ,
        .batch = {.global_batch = BATCH, .micro_step = BATCH / 2},
        .clip_grad = 1.0,
        .optimizer = {.kind = MEGA_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
        .schedule = {.style = MEGA_LR_COSINE, .max_lr = 1e-2, .min_lr = 1e-3, .decay = (double)STEPS * BATCH}};
    mega_engine *engine = NULL;
    mega_gpt_list layers;
    mega_status st = mega_gpt_list_create(&layers, &gpt, 1);
    if (st == MEGA_OK) {
        const mega_model model = mega_gpt_model(&layers);
        st = mega_engine_create(&(mega_setup){.model = &model, .options = &options}, &engine);
        mega_gpt_list_destroy(&layers);
    }
    if (st == MEGA_OK) st = train(engine);
    mega_engine_destroy(engine);
    if (st == MEGA_OK) return 0;
    fprintf(stderr, "%s\n", mega_error_message());
    return 1;
}
