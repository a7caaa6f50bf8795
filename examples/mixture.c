/* Trains a mixture of experts on a text, byte by byte, in any layout of ranks but expert parallelism:
 *
 *     cc -std=c17 -O2 mixture.c -o mixture $(pkg-config --cflags --libs megalith)
 *     mpirun -n 2 ./mixture shakespeare.txt --tensor-model-parallel-size 2
 *
 * Each token is computed by CHOICES of the EXPERTS of a layer. Sizes are set when it is compiled, such as
 * -DEXPERTS=8. */
#include <megalith/megalith.h>
#include <stdio.h>

#ifndef LAYERS
#define LAYERS 4
#endif
#ifndef WIDTH
#define WIDTH 128
#endif
#ifndef EXPERTS
#define EXPERTS 64
#endif
#ifndef CHOICES
#define CHOICES 4
#endif
#ifndef INSIDE /* the width inside an expert */
#define INSIDE 64
#endif
#ifndef SEQ
#define SEQ 128
#endif
#ifndef STEPS
#define STEPS 100
#endif
enum { BYTES = 256, HEADS = 4 };

/* ---- the model ---- */

#define INIT                                       \
    {                                              \
        .init = MEGA_INIT_NORMAL, .init_std = 0.02 \
    }
static const mega_param_options table = INIT;
static const mega_linear_options linear = {.no_bias = true, .weight = INIT};

static void embed(const mega_builder *b, const void *self, mega_flow *f)
{
    (void)self;
    f->x = mega_vocab_embedding(b, "tokens", mega_input(b, "tokens", MEGA_I32, b->positions, 0), BYTES, WIDTH, &table);
}

/* What every expert does with the rows that chose it; # is the number of the expert. */
static mega_tensor expert(const mega_builder *b, const mega_experts *e, mega_tensor x, const void *self)
{
    (void)self;
    x = mega_activation(b, mega_experts_column_linear(b, e, "experts.#.up", x, INSIDE, &linear), MEGA_ACT_GELU_TANH);
    return mega_experts_row_linear(b, e, "experts.#.down", x, WIDTH, &linear);
}

static void block(const mega_builder *b, const void *self, mega_flow *f)
{
    static const mega_moe_options moe = {.num_experts = EXPERTS,
                                         .router = {.route = {.choices = CHOICES, .normalized = true}, .weight = INIT}};
    mega_tensor h = mega_norm(b, "norm_1", f->x, MEGA_RMS_NORM, 1e-5);
    f->x = mega_add(b, f->x, mega_self_attention(b, "attention", h, (const mega_attention_options *)self));
    h = mega_norm(b, "norm_2", f->x, MEGA_RMS_NORM, 1e-5);
    f->x = mega_add(b, f->x, mega_moe(b, "experts", h, &moe, expert, NULL, NULL));
}

static void head(const mega_builder *b, const void *self, mega_flow *f)
{
    const mega_tensor labels = mega_input(b, "labels", MEGA_I32, b->positions, 0);
    const mega_tensor mask = mega_input(b, "loss_mask", MEGA_F32, b->positions, 0);
    const mega_tensor x = mega_norm(b, "norm", f->x, MEGA_RMS_NORM, 1e-5);
    mega_loss_add(b, "lm loss", mega_vocab_loss(b, "head", x, labels, mask, (const mega_vocab_loss_options *)self).loss,
                  1.0);
}

static const mega_rope rope = {.theta = 10000.0};
static const mega_attention_options attention = {
    .num_heads = HEADS, .is_causal = true, .key_begin = "", .rope = &rope, .qkv = &linear, .out = &linear};
static const mega_vocab_loss_options vocab = {.vocab_size = BYTES, .table = INIT};
static const mega_layer layers[] = {
    {.path = "", .describe = embed, .type = "embed"},
    {.path = "blocks.%d", .describe = block, .self = &attention, .repeat = LAYERS, .type = "block"},
    {.path = "", .describe = head, .self = &vocab, .type = "head"}};
static const mega_model model = {.name = "mixture",
                                 .layer = layers,
                                 .num_layers = 3,
                                 .positions = SEQ,
                                 .partition = MEGA_PARTITION_TYPE,
                                 .partition_type = "block"};

/* ---- the data ---- */

/* The bytes from index * SEQ on. */
static mega_status read_text(void *user, int64_t index, mega_sample *s)
{
    const unsigned char *text = (const unsigned char *)user + index * SEQ;
    int32_t token[SEQ], label[SEQ], position[SEQ];
    float mask[SEQ];
    for (int i = 0; i < SEQ; i++) token[i] = text[i], label[i] = text[i + 1], position[i] = i, mask[i] = 1.0f;
    MEGA_TRY(mega_sample_set_i32(s, "tokens", token, SEQ));
    MEGA_TRY(mega_sample_set_i32(s, "position_ids", position, SEQ));
    MEGA_TRY(mega_sample_set_f32(s, "loss_mask", mask, SEQ));
    return mega_sample_set_i32(s, "labels", label, SEQ);
}

/* ---- the training ---- */

static const mega_setting defaults[] = {
    {"micro_batch_size", "4"}, {"global_batch_size", "16"}, {"lr", "1e-3"}, {NULL, NULL}};

static mega_status train(mega_engine *e)
{
    mega_step_result r;
    while (mega_engine_global_steps(e) < STEPS) {
        MEGA_TRY(mega_engine_train_batch(e, &r));
        if (mega_engine_is_main_process(e)) printf("step %d: loss %.4f\n", (int)mega_engine_global_steps(e), r.loss);
    }
    return mega_engine_save_checkpoint(e, "mixture-of-experts", NULL, NULL);
}

int main(int argc, char **argv)
{
    char *text = NULL;
    const int skipped = argc > 1; /* the name of the text */
    size_t bytes = 0;
    mega_engine *e = NULL;
    if (mega_show_help(argc, argv, "mixture [TEXT] [options]")) return 0;
    mega_status st = mega_file_read(argc > 1 ? argv[1] : "tinyshakespeare.txt", &text, &bytes);
    const mega_dataset data = {.count = ((int64_t)bytes - 1) / SEQ, .read = read_text, .user = text};
    const mega_setup setup = {
        .model = &model, .training_data = &data, .argc = argc - skipped, .argv = argv + skipped, .defaults = defaults};
    if (st == MEGA_OK) st = mega_initialize(&setup, &e);
    if (st == MEGA_OK) st = train(e);
    if (st != MEGA_OK) fprintf(stderr, "mixture: %s\n", mega_error_message());
    mega_engine_destroy(e);
    mega_free(text);
    return st == MEGA_OK ? 0 : 1;
}
