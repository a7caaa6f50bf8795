/* Trains a network of two heads on a text: the next byte from the last BYTES_BEFORE bytes, and, with a smaller weight,
 * whether a new word begins. The first head sits half-way, so that with a pipeline each stage has a loss.
 *
 *     cc -std=c17 -O2 two_losses.c -o two_losses $(pkg-config --cflags --libs megalith)
 *     mpirun -n 2 ./two_losses shakespeare.txt --pipeline-model-parallel-size 2       or --zero-stage 2, ...
 *
 * Sizes are set when it is compiled, such as -DSTEPS=20. */
#include <ctype.h>
#include <megalith/megalith.h>
#include <stdio.h>

#ifndef WIDTH
#define WIDTH 64
#endif
#ifndef STEPS
#define STEPS 500
#endif
enum { BYTES = 256, BYTES_BEFORE = 8, KINDS = 2 };

/* ---- the model ---- */

static const mega_linear_options random_weights = {.weight = {.init = MEGA_INIT_FAN_IN}};

static void words(const mega_builder *b, const void *self, mega_flow *f)
{
    const mega_param_options table = {.init = MEGA_INIT_NORMAL, .init_std = 0.5};
    const mega_tensor bytes = mega_input(b, "bytes", MEGA_I32, BYTES_BEFORE, 0);
    const mega_tensor kind = mega_input(b, "kind", MEGA_I32, 1, 0);
    (void)self;
    mega_tensor x = mega_reshape(b, mega_embedding(b, "table", bytes, BYTES, WIDTH, &table), BYTES_BEFORE * WIDTH);
    x = mega_activation(b, mega_linear(b, "fc", x, 4 * WIDTH, &random_weights), MEGA_ACT_TANH);
    const mega_tensor logits = mega_linear(b, "kind", x, KINDS, &random_weights);
    mega_loss_add(b, "new word", mega_cross_entropy(b, logits, kind, mega_none()), 0.25);
    mega_loss_add(b, "new word accuracy", mega_accuracy(b, logits, kind), 0.0);
    f->x = x;
}

static void next(const mega_builder *b, const void *self, mega_flow *f)
{
    const mega_tensor byte = mega_input(b, "next", MEGA_I32, 1, 0);
    (void)self;
    mega_tensor x = mega_activation(b, mega_linear(b, "fc", f->x, 4 * WIDTH, &random_weights), MEGA_ACT_TANH);
    x = mega_linear(b, "byte", x, BYTES, &random_weights);
    mega_loss_add(b, "next byte", mega_cross_entropy(b, x, byte, mega_none()), 1.0);
    f->x = mega_none();
}

static const mega_layer layers[] = {{.path = "words", .describe = words}, {.path = "next", .describe = next}};
static const mega_model model = {
    .name = "two-losses", .layer = layers, .num_layers = 2, .partition = MEGA_PARTITION_UNIFORM};

/* ---- the data ---- */

static mega_status read_bytes(void *user, int64_t index, mega_sample *s)
{
    const unsigned char *text = (const unsigned char *)user + index;
    int32_t bytes[BYTES_BEFORE];
    for (int i = 0; i < BYTES_BEFORE; i++) bytes[i] = text[i];
    const int32_t next_byte = text[BYTES_BEFORE];
    const int32_t begins_word = isalnum(next_byte) != 0 && isalnum(text[BYTES_BEFORE - 1]) == 0;
    MEGA_TRY(mega_sample_set_i32(s, "bytes", bytes, BYTES_BEFORE));
    MEGA_TRY(mega_sample_set_i32(s, "kind", &begins_word, 1));
    return mega_sample_set_i32(s, "next", &next_byte, 1);
}

/* ---- the training ---- */

/* What the command line leaves open. A JSON has all settings itself. */
static const mega_setting defaults[] = {
    {"micro_batch_size", "16"}, {"global_batch_size", "64"}, {"lr", "2e-3"}, {NULL, NULL}};

/* Losses and metrics have the order of the model; `loss` is the sum of coefficient * loss. */
static mega_status train(mega_engine *e)
{
    mega_step_result r;
    while (mega_engine_global_steps(e) < STEPS) {
        MEGA_TRY(mega_engine_train_batch(e, &r));
        if (!mega_engine_is_main_process(e)) continue;
        printf("step %d: loss %.4f", (int)mega_engine_global_steps(e), r.loss);
        for (int i = 0; mega_engine_metric_name(e, i) != NULL; i++)
            printf(", %s %.4f", mega_engine_metric_name(e, i), r.metric[i]);
        printf("\n");
    }
    return MEGA_OK;
}

int main(int argc, char **argv)
{
    char *text = NULL;
    const int skipped = argc > 1; /* the name of the text */
    size_t bytes = 0;
    mega_engine *e = NULL;
    if (mega_show_help(argc, argv, "two_losses [TEXT] [options]")) return 0;
    mega_status st = mega_file_read(argc > 1 ? argv[1] : "tinyshakespeare.txt", &text, &bytes);
    const mega_dataset data = {.count = (int64_t)bytes - BYTES_BEFORE, .read = read_bytes, .user = text};
    const mega_setup setup = {
        .model = &model, .training_data = &data, .argc = argc - skipped, .argv = argv + skipped, .defaults = defaults};
    if (st == MEGA_OK) st = mega_initialize(&setup, &e);
    if (st == MEGA_OK) st = train(e);
    if (st != MEGA_OK) fprintf(stderr, "two_losses: %s\n", mega_error_message());
    mega_engine_destroy(e);
    mega_free(text);
    return st == MEGA_OK ? 0 : 1;
}
