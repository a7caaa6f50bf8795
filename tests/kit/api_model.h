/* A model of three layers, its samples and settings, for tests that use the engine as a C program does. Only for test
 * programs that link the room engine. */
#ifndef MEGALITH_TESTS_API_MODEL_H
#define MEGALITH_TESTS_API_MODEL_H

#include "megalith/engine_commands.h"
#include "megalith/layers.h"

enum { API_SEQ = 8, API_IDS = 16, API_WIDTH = 12, API_SAMPLES = 40 };

static const mega_param_options api_table = {.init = MEGA_INIT_NORMAL, .init_std = 0.4};
static const mega_linear_options api_linear = {.weight = {.init = MEGA_INIT_NORMAL, .init_std = 0.3}};

static inline void api_embed(const mega_builder *b, const void *self, mega_flow *f)
{
    (void)self;
    f->x = mega_vocab_embedding(b, "wte", mega_input(b, "tokens", MEGA_I32, b->positions, 0), API_IDS, API_WIDTH,
                                &api_table);
}

static inline void api_block(const mega_builder *b, const void *self, mega_flow *f)
{
    (void)self;
    mega_tensor h =
        mega_column_linear(b, "up", mega_norm(b, "ln", f->x, MEGA_LAYER_NORM, 1e-5), 4 * API_WIDTH, &api_linear);
    f->x = mega_row_linear(b, "down", mega_activation(b, h, MEGA_ACT_GELU_TANH), API_WIDTH, &api_linear);
}

static inline void api_head(const mega_builder *b, const void *self, mega_flow *f)
{
    static const mega_vocab_loss_options vocab = {.vocab_size = API_IDS,
                                                  .table = {.init = MEGA_INIT_NORMAL, .init_std = 0.4}};
    const mega_tensor labels = mega_input(b, "labels", MEGA_I32, b->positions, 0);
    const mega_tensor mask = mega_input(b, "loss_mask", MEGA_F32, b->positions, 0);
    (void)self;
    mega_loss_add(b, "loss", mega_vocab_loss(b, "wte", f->x, labels, mask, &vocab).loss, 1.0);
}

static const mega_layer api_layers[] = {{"net", api_embed, NULL, 1, "embed"},
                                        {"net.h.%d", api_block, NULL, 2, "block"},
                                        {"net", api_head, NULL, 1, "head"}};
static const mega_model api_model = {
    .name = "api", .layer = api_layers, .num_layers = 3, .positions = API_SEQ, .partition = MEGA_PARTITION_UNIFORM};

/* Reads a sample. user points to a bool that says whether to fail, or is NULL. */
static inline mega_status api_read(void *user, int64_t index, mega_sample *sample)
{
    int32_t token[API_SEQ], label[API_SEQ];
    if (user != NULL && *(const bool *)user) return MEGA_FAIL(MEGA_ERR_IO, "page %lld is torn", (long long)index);
    for (int i = 0; i < API_SEQ; i++) {
        token[i] = (int32_t)((index * 7 + i * (1 + index % 3)) % API_IDS);
        label[i] = (int32_t)((index * 7 + (i + 1) * (1 + index % 3)) % API_IDS);
    }
    float mask[API_SEQ];
    for (int i = 0; i < API_SEQ; i++) mask[i] = 1.0F;
    MEGA_TRY(mega_sample_set_i32(sample, "tokens", token, API_SEQ));
    MEGA_TRY(mega_sample_set_f32(sample, "loss_mask", mask, API_SEQ));
    return mega_sample_set_i32(sample, "labels", label, API_SEQ);
}

static const mega_dataset api_data = {.count = API_SAMPLES, .read = api_read};

/* Two micro-batches of one sample per rank of dp, in double; later words of argv override these. */
#define API_ARGV                                                                                                    \
    "program", "--micro-batch-size", "1", "--gradient-accumulation-steps", "2", "--lr", "0.01", "--fp64", "--seed", \
        "3", "--num-threads", "1"

#endif
