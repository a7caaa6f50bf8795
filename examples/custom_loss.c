/* Trains a GPT with a loss of its own: texts that contain key words count for more (after Accelerate's tutorial
 * on custom training steps, whose factor is 1 + ALPHA * number of key words). The loss of a text is its mean over
 * tokens, times ALPHA * (1 + number of key words).
 *
 *     cc -std=c17 -O2 custom_loss.c -o custom_loss $(pkg-config --cflags --libs megalith)
 *     mpirun -n 2 ./custom_loss shakespeare.txt --pipeline-model-parallel-size 2       or --zero-stage 3, ...
 *
 * Tokens are bytes and key words are single bytes, such as -DKEYWORDS='"?!"'. -DLAYERS=2 and the like set sizes. */
#include <megalith/megalith.h>
#include <stdio.h>
#include <string.h>

#ifndef LAYERS
#define LAYERS 4
#endif
#ifndef WIDTH
#define WIDTH 128
#endif
#ifndef SEQ
#define SEQ 128
#endif
#ifndef STEPS
#define STEPS 200
#endif
#ifndef ALPHA
#define ALPHA 1.0F
#endif
#ifndef KEYWORDS
#define KEYWORDS "?!"
#endif
enum { BYTES = 256, HEADS = 4 };

/* ---- the model ---- */

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
    f->x = mega_position_embedding(b, "wpe", f->x, SEQ, &table);
}

static void block(const mega_builder *b, const void *self, mega_flow *f)
{
    const mega_attention_options *attention = (const mega_attention_options *)self;
    mega_tensor h = mega_self_attention(b, "attn", mega_norm(b, "ln_1", f->x, MEGA_LAYER_NORM, 1e-5), attention);
    f->x = mega_add(b, h, f->x);
    h = mega_column_linear(b, "mlp.c_fc", mega_norm(b, "ln_2", f->x, MEGA_LAYER_NORM, 1e-5), 4 * WIDTH, &linear);
    h = mega_row_linear(b, "mlp.c_proj", mega_activation(b, h, MEGA_ACT_GELU_TANH), WIDTH, &linear);
    f->x = mega_add(b, h, f->x);
}

/* A loss is a sum and the weight by which the library divides it. The sum of mega_vocab_loss is weighted by token; its
 * own weight would be the sum of these weights, and Accelerate divides by the number of tokens. */
static void head(const mega_builder *b, const void *self, mega_flow *f)
{
    const mega_tensor labels = mega_input(b, "labels", MEGA_I32, b->positions, 0);
    const mega_tensor weights = mega_input(b, "weights", MEGA_F32, b->positions, 0);
    const mega_vocab_loss_options *vocab = (const mega_vocab_loss_options *)self;
    f->x = mega_norm(b, "ln_f", f->x, MEGA_LAYER_NORM, 1e-5);
    const mega_tensor num_tokens = mega_sum(b, f->x, mega_none()).weight;
    mega_loss loss = mega_vocab_loss(b, "wte", f->x, labels, weights, vocab).loss;
    loss.weight = num_tokens;
    mega_loss_add(b, "keyword loss", loss, 1.0);
}

static const mega_attention_options attention = {.num_heads = HEADS, .is_causal = true, .qkv = &linear, .out = &linear};
static const mega_vocab_loss_options vocab = {.vocab_size = BYTES, .table = INIT};
static const mega_layer layers[] = {
    {.path = "transformer", .describe = embed, .type = "embed"},
    {.path = "transformer.h.%d", .describe = block, .self = &attention, .repeat = LAYERS, .type = "block"},
    {.path = "transformer", .describe = head, .self = &vocab, .type = "head"}};
static const mega_model model = {.name = "custom-loss",
                                 .layer = layers,
                                 .num_layers = 3,
                                 .positions = SEQ,
                                 .partition = MEGA_PARTITION_TYPE,
                                 .partition_type = "block"};

/* ---- the data ---- */

/* The bytes from index * SEQ on. The weight of a text depends on its bytes alone, so that it is an input. */
static mega_status read_text(void *user, int64_t index, mega_sample *s)
{
    const char *text = (const char *)user + index * SEQ;
    int32_t token[SEQ], label[SEQ], position[SEQ], begin[SEQ];
    float weight[SEQ], text_weight = ALPHA;
    for (int i = 0; i <= SEQ; i++)
        if (text[i] != '\0' && strchr(KEYWORDS, text[i]) != NULL) text_weight += ALPHA;
    for (int i = 0; i < SEQ; i++) {
        token[i] = (unsigned char)text[i];
        label[i] = (unsigned char)text[i + 1];
        position[i] = i;
        begin[i] = 0;
        weight[i] = text_weight;
    }
    MEGA_TRY(mega_sample_set_i32(s, "tokens", token, SEQ));
    MEGA_TRY(mega_sample_set_i32(s, "labels", label, SEQ));
    MEGA_TRY(mega_sample_set_f32(s, "weights", weight, SEQ));
    MEGA_TRY(mega_sample_set_i32(s, "position_ids", position, SEQ));
    return mega_sample_set_i32(s, "key_begin", begin, SEQ);
}

/* ---- the training ---- */

/* What the command line leaves open. A JSON has all settings itself. */
static const mega_setting defaults[] = {
    {"micro_batch_size", "2"}, {"global_batch_size", "8"}, {"lr", "1e-3"}, {NULL, NULL}};

static mega_status train(mega_engine *e)
{
    mega_step_result r;
    while (mega_engine_global_steps(e) < STEPS) {
        MEGA_TRY(mega_engine_train_batch(e, &r));
        if (mega_engine_is_main_process(e)) printf("step %d: loss %.4f\n", (int)mega_engine_global_steps(e), r.loss);
    }
    return MEGA_OK;
}

int main(int argc, char **argv)
{
    char *text = NULL;
    const int skipped = argc > 1; /* the name of the text */
    size_t bytes = 0;
    mega_engine *e = NULL;
    if (mega_show_help(argc, argv, "custom_loss [TEXT] [options]")) return 0;
    mega_status st = mega_file_read(argc > 1 ? argv[1] : "tinyshakespeare.txt", &text, &bytes);
    const mega_dataset data = {.count = ((int64_t)bytes - 1) / SEQ, .read = read_text, .user = text};
    const mega_setup setup = {
        .model = &model, .training_data = &data, .argc = argc - skipped, .argv = argv + skipped, .defaults = defaults};
    if (st == MEGA_OK) st = mega_initialize(&setup, &e);
    if (st == MEGA_OK) st = train(e);
    if (st != MEGA_OK) fprintf(stderr, "custom_loss: %s\n", mega_error_message());
    mega_engine_destroy(e);
    mega_free(text);
    return st == MEGA_OK ? 0 : 1;
}
