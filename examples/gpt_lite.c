/* Trains a GPT on a text, byte by byte, in any layout of ranks:
 *
 *     cc -std=c17 -O2 gpt_lite.c -o gpt_lite $(pkg-config --cflags --libs megalith)
 *     mpirun -n 2 ./gpt_lite shakespeare.txt --zero-stage 3        or --pipeline-model-parallel-size 2, ...
 *     mpirun -n 2 ./gpt_lite shakespeare.txt --deepspeed_config ds_config.json
 *
 * Sizes are set when it is compiled, such as -DLAYERS=2. */
#include <megalith/megalith.h>
#include <stdio.h>

#ifndef LAYERS
#define LAYERS 12
#endif
#ifndef WIDTH
#define WIDTH 768
#endif
#ifndef HEADS
#define HEADS 12
#endif
#ifndef SEQ
#define SEQ 2048
#endif
#ifndef STEPS
#define STEPS 1000
#endif
#ifndef DROPOUT
#define DROPOUT 0.1
#endif
#ifndef RECOMPUTE /* number of layers in each group that is computed again in the backward pass; 0: none */
#define RECOMPUTE 0
#endif
enum { BYTES = 256 };

/* ---- the model (Radford et al. 2019) ---- */

#define INIT                                       \
    {                                              \
        .init = MEGA_INIT_NORMAL, .init_std = 0.02 \
    }
static const mega_param_options table = INIT;
static const mega_linear_options linear = {.weight = INIT};

static void embed(const mega_builder *b, const void *self, mega_flow *f)
{
    (void)self;
    f->x = mega_vocab_embedding(b, "wte", mega_input(b, "tokens", MEGA_I32, b->positions, 0), BYTES, WIDTH, &table);
    f->x = mega_dropout(b, "drop", mega_position_embedding(b, "wpe", f->x, SEQ, &table), DROPOUT);
}

static void block(const mega_builder *b, const void *self, mega_flow *f)
{
    const mega_attention_options *attention = (const mega_attention_options *)self;
    mega_tensor h = mega_self_attention(b, "attn", mega_norm(b, "ln_1", f->x, MEGA_LAYER_NORM, 1e-5), attention);
    f->x = mega_dropout_add(b, "attn_drop", h, f->x, DROPOUT);
    h = mega_column_linear(b, "mlp.c_fc", mega_norm(b, "ln_2", f->x, MEGA_LAYER_NORM, 1e-5), 4 * WIDTH, &linear);
    h = mega_row_linear(b, "mlp.c_proj", mega_activation(b, h, MEGA_ACT_GELU_TANH), WIDTH, &linear);
    f->x = mega_dropout_add(b, "mlp_drop", h, f->x, DROPOUT);
}

/* The name "wte" ties it to the embedding. */
static void head(const mega_builder *b, const void *self, mega_flow *f)
{
    const mega_tensor labels = mega_input(b, "labels", MEGA_I32, b->positions, 0);
    const mega_tensor mask = mega_input(b, "loss_mask", MEGA_F32, b->positions, 0);
    f->x = mega_norm(b, "ln_f", f->x, MEGA_LAYER_NORM, 1e-5);
    mega_loss_add(b, "lm loss",
                  mega_vocab_loss(b, "wte", f->x, labels, mask, (const mega_vocab_loss_options *)self).loss, 1.0);
}

static const mega_attention_options attention = {
    .num_heads = HEADS, .is_causal = true, .dropout = DROPOUT, .qkv = &linear, .out = &linear};
static const mega_vocab_loss_options vocab = {.vocab_size = BYTES, .table = INIT};
static const mega_layer layers[] = {
    {.path = "transformer", .describe = embed, .type = "embed"},
    {.path = "transformer.h.%d", .describe = block, .self = &attention, .repeat = LAYERS, .type = "block"},
    {.path = "transformer", .describe = head, .self = &vocab, .type = "head"}};
static const mega_model model = {.name = "gpt-lite",
                                 .layer = layers,
                                 .num_layers = 3,
                                 .positions = SEQ,
                                 .partition = MEGA_PARTITION_TYPE,
                                 .partition_type = "block",
                                 .recompute_interval = RECOMPUTE};

/* ---- the data ---- */

/* The bytes from index * SEQ on, as one text. */
static mega_status read_text(void *user, int64_t index, mega_sample *s)
{
    const unsigned char *text = (const unsigned char *)user + index * SEQ;
    int32_t token[SEQ], label[SEQ], position[SEQ], begin[SEQ];
    for (int i = 0; i < SEQ; i++) token[i] = text[i], label[i] = text[i + 1], position[i] = i, begin[i] = 0;
    float mask[SEQ];
    for (int i = 0; i < SEQ; i++) mask[i] = 1.0f;
    MEGA_TRY(mega_sample_set_i32(s, "tokens", token, SEQ));
    MEGA_TRY(mega_sample_set_f32(s, "loss_mask", mask, SEQ));
    MEGA_TRY(mega_sample_set_i32(s, "labels", label, SEQ));
    MEGA_TRY(mega_sample_set_i32(s, "position_ids", position, SEQ));
    return mega_sample_set_i32(s, "key_begin", begin, SEQ);
}

/* ---- the training ---- */

/* What the command line leaves open. A JSON has all settings itself. */
static const mega_setting defaults[] = {
    {"micro_batch_size", "1"}, {"global_batch_size", "4"}, {"lr", "6e-4"}, {NULL, NULL}};

/* The library prints nothing itself. This prints its warnings, such as that a rank has not answered for 10 seconds. */
static void print_warning(void *user, mega_log_level level, const char *line)
{
    (void)user;
    if (level <= MEGA_LOG_WARN) fprintf(stderr, "warning: %s\n", line);
}

static mega_status train(mega_engine *e)
{
    mega_step_result r;
    mega_log_set_sink(print_warning, NULL);
    while (mega_engine_global_steps(e) < STEPS) {
        MEGA_TRY(mega_engine_train_batch(e, &r));
        if (mega_engine_is_main_process(e)) printf("step %d: loss %.4f\n", (int)mega_engine_global_steps(e), r.loss);
    }
    return mega_engine_save_checkpoint(e, "gpt-lite", NULL, NULL);
}

int main(int argc, char **argv)
{
    char *text = NULL;
    const int skipped = argc > 1; /* the name of the text */
    size_t bytes = 0;
    mega_engine *e = NULL;
    if (mega_show_help(argc, argv, "gpt_lite [TEXT] [options]")) return 0;
    mega_status st = mega_file_read(argc > 1 ? argv[1] : "tinyshakespeare.txt", &text, &bytes);
    const mega_dataset data = {.count = ((int64_t)bytes - 1) / SEQ, .read = read_text, .user = text};
    const mega_setup setup = {
        .model = &model, .training_data = &data, .argc = argc - skipped, .argv = argv + skipped, .defaults = defaults};
    if (st == MEGA_OK) st = mega_initialize(&setup, &e);
    if (st == MEGA_OK) st = train(e);
    if (st != MEGA_OK) fprintf(stderr, "gpt_lite: %s\n", mega_error_message());
    mega_engine_destroy(e);
    mega_free(text);
    return st == MEGA_OK ? 0 : 1;
}
