/* PROJECT: a small language model that learns to write like a text of yours.
 *
 *     make && ./PROJECT my.txt                                   on this machine's cores
 *     megalith launch --nproc_per_node 2 ./PROJECT my.txt        on two processes, which share the work
 *
 * The model reads bytes. From the CONTEXT bytes that it saw last it predicts which byte comes next; training adjusts
 * its weights until the predictions fit the text. To write, the program draws a byte from the prediction, appends it,
 * and asks for the next one.
 *
 * Read this file from top to bottom: the sizes, the model, the data, the training, the writing, main. What begins with
 * mega_ is documented in the installed headers (builder.h, layers.h, dataset.h, engine.h). Batch size, learning rate
 * and the like are in ds.json. */
#include <math.h>
#include <megalith/megalith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the sizes ----
 *
 * Any of them may be changed. After a change of the first four, remove the folder checkpoints: it holds a model of the
 * old size. STEPS may grow at any time: the program then continues where it stopped. */
enum {
    LAYERS = 4,
    WIDTH = 128,   /* numbers by which the model describes each byte in its context */
    HEADS = 4,     /* ways in which attention looks back at the same time; divides WIDTH */
    CONTEXT = 64,  /* bytes that the model looks back */
    STEPS = 600,   /* of training */
    REPORT = 50,   /* steps between two lines of the log */
    SAVE = 200,    /* steps between two checkpoints */
    WRITTEN = 400, /* bytes that it writes at the end */
    BYTES = 256    /* values that a byte can have */
};
#define CALM 0.8 /* below 1 the writing keeps to what is probable, above 1 it dares more */

/* ---- the model ----
 *
 * A model is a list of layers, and a layer is a function that describes its computation to the builder b. It runs
 * before the training, not in it: each call appends an operation, and a mega_tensor is the number of its result. From
 * this description megalith derives the gradients, plans the memory and divides the work over ranks, as the processes
 * that train together are called.
 *
 * Every value is a matrix. A row is one byte of one text, a column is one of the WIDTH numbers that describe it; how
 * many rows there are, the layers need not know. f->x is what a layer gets from the one before, and leaves for the
 * next. self is what a row of the list of layers passes to its function: nothing here.
 *
 * "Asking declares": mega_column_linear(b, "up", ...) in block 2 is what makes the parameters block.2.up.weight and
 * block.2.up.bias. Under these names they are in the checkpoints, too. */

static const mega_param_options small_numbers = {.init = MEGA_INIT_NORMAL, .init_std = 0.02};
static const mega_linear_options small_weights = {.weight = {.init = MEGA_INIT_NORMAL, .init_std = 0.02}};

/* The value of a byte and its position: WIDTH numbers for each, looked up in two tables and added. */
static void embed(const mega_builder *b, const void *self, mega_flow *f)
{
    const mega_tensor bytes = mega_input(b, "tokens", MEGA_I32, b->positions, 0);
    (void)self;
    f->x = mega_embedding(b, "byte", bytes, BYTES, WIDTH, &small_numbers);
    f->x = mega_position_embedding(b, "position", f->x, CONTEXT, &small_numbers);
}

/* Each byte gathers from those before it what matters (attention), then works on what it gathered (two linear layers).
 * Both add to what was there. A column layer and the row layer after it are the pair that tensor-parallel ranks divide;
 * on one rank they are plain linear layers. */
static void block(const mega_builder *b, const void *self, mega_flow *f)
{
    const mega_attention_options attention = {
        .num_heads = HEADS, .is_causal = true, .qkv = &small_weights, .out = &small_weights};
    (void)self;
    mega_tensor h = mega_norm(b, "norm_1", f->x, MEGA_LAYER_NORM, 1e-5);
    f->x = mega_add(b, f->x, mega_self_attention(b, "look", h, &attention));
    h = mega_norm(b, "norm_2", f->x, MEGA_LAYER_NORM, 1e-5);
    h = mega_activation(b, mega_column_linear(b, "up", h, 4 * WIDTH, &small_weights), MEGA_ACT_GELU_TANH);
    f->x = mega_add(b, f->x, mega_row_linear(b, "down", h, WIDTH, &small_weights));
}

/* A score for each byte that may come next. Training compares the scores with the byte that did come: that is the loss,
 * about 5.5 (the logarithm of 256) for a model that knows nothing, and lower the better it predicts. */
static void predict(const mega_builder *b, const void *self, mega_flow *f)
{
    (void)self;
    const mega_tensor h = mega_norm(b, "norm", f->x, MEGA_LAYER_NORM, 1e-5);
    const mega_tensor score = mega_linear(b, "score", h, BYTES, &small_weights);
    if (b->mode == MEGA_GENERATE) {
        mega_output(b, "score", score); /* read by read_byte, below */
        return;
    }
    const mega_tensor next = mega_input(b, "next", MEGA_I32, b->positions, 0);
    mega_loss_add(b, "loss", mega_cross_entropy(b, score, next, mega_none()), 1.0);
}

static const mega_layer layers[] = {{.path = "embed", .describe = embed},
                                    {.path = "block.%d", .describe = block, .repeat = LAYERS},
                                    {.path = "predict", .describe = predict}};
static const mega_model model = {.name = "PROJECT",
                                 .layer = layers,
                                 .num_layers = sizeof layers / sizeof layers[0],
                                 .positions = CONTEXT,
                                 .partition = MEGA_PARTITION_PARAMETERS};

/* ---- the data ----
 *
 * The text is cut into pieces of CONTEXT bytes. Sample i is piece i, and for each of its bytes the one after it. Which
 * samples a step takes, in which order, and which rank reads which of them is not decided here: megalith shuffles,
 * counts and divides. */

static mega_status read_sample(void *user, int64_t index, mega_sample *sample)
{
    const unsigned char *text = (const unsigned char *)user + index * CONTEXT;
    int32_t token[CONTEXT], next[CONTEXT], position[CONTEXT], begin[CONTEXT];
    for (int i = 0; i < CONTEXT; i++) {
        token[i] = text[i];
        next[i] = text[i + 1];
        position[i] = i;
        begin[i] = 0; /* all of it is one text, which begins at its first byte */
    }
    MEGA_TRY(mega_sample_set_i32(sample, "tokens", token, CONTEXT)); /* MEGA_TRY returns from here if the call fails */
    MEGA_TRY(mega_sample_set_i32(sample, "next", next, CONTEXT));
    MEGA_TRY(mega_sample_set_i32(sample, "position_ids", position, CONTEXT));
    return mega_sample_set_i32(sample, "key_begin", begin, CONTEXT);
}

/* ---- the training ----
 *
 * Every rank runs the same program and calls the same functions. One of them, the main process, prints. */

/* The library prints nothing itself. This prints its warnings, such as that a rank has not answered for 10 seconds. */
static void print_warning(void *user, mega_log_level level, const char *line)
{
    (void)user;
    if (level <= MEGA_LOG_WARN) fprintf(stderr, "warning: %s\n", line);
}

static mega_status train(mega_engine *engine, const mega_dataset *unseen)
{
    const bool prints = mega_engine_is_main_process(engine);
    mega_step_result step, test;
    bool found = false;
    MEGA_TRY(mega_engine_load_checkpoint(engine, "checkpoints", NULL, NULL, &found, NULL));
    if (found && prints) printf("continuing from step %d\n", (int)mega_engine_global_steps(engine));
    while (mega_engine_global_steps(engine) < STEPS) {
        MEGA_TRY(mega_engine_train_batch(engine, &step)); /* forward, backward, sum over the ranks, update */
        const int done = (int)mega_engine_global_steps(engine);
        if (done % REPORT == 0) {
            MEGA_TRY(mega_engine_evaluate(engine, unseen, 4, &test)); /* of 4 batches: a quick look */
            if (prints) printf("step %4d: loss %.3f, on text it has not seen %.3f\n", done, step.loss, test.loss);
            fflush(stdout);
        }
        if (done % SAVE == 0 || done == STEPS) MEGA_TRY(mega_engine_save_checkpoint(engine, "checkpoints", NULL, NULL));
    }
    return MEGA_OK;
}

/* ---- the writing ---- */

/* Draws a byte: the higher its score, the more often. *random is the state of a small random generator. */
static unsigned char draw(const float score[BYTES], uint64_t *random)
{
    double weight[BYTES], sum = 0, highest = score[0];
    int i;
    for (i = 1; i < BYTES; i++) highest = score[i] > highest ? score[i] : highest;
    for (i = 0; i < BYTES; i++) sum += weight[i] = exp((score[i] - highest) / CALM);
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    double point = (double)(*random >> 11) / 9007199254740992.0 * sum; /* a number from 0 to sum */
    for (i = 0; i < BYTES - 1 && point >= weight[i]; i++) point -= weight[i];
    return (unsigned char)i;
}

/* Reads one byte at this position of the context. The scores of the byte after it are known where the model ends, which
 * with a pipeline is another rank than where it begins; that rank gives its scores to the others. */
static mega_status read_byte(mega_engine *engine, int byte, int position, float score[BYTES])
{
    const mega_axis *pp = &mega_engine_layout(engine)->pp;
    const int32_t token = byte, at = position;
    mega_sample *sample = mega_batch_sample(mega_engine_run_batch(engine, MEGA_RUN_DECODE), 0);
    MEGA_TRY(mega_sample_set_i32(sample, "tokens", &token, 1));
    MEGA_TRY(mega_sample_set_i32(sample, "position_ids", &at, 1));
    MEGA_TRY(mega_engine_run(engine, MEGA_RUN_DECODE, &at)); /* `at` bytes were read before this one */
    MEGA_TRY(mega_engine_wait(engine));
    if (mega_engine_is_last_stage(engine)) MEGA_TRY(mega_engine_read_output(engine, "score", BYTES, score));
    return mega_comm_broadcast(pp->comm, "scores", score, BYTES * (int64_t)sizeof *score, pp->size - 1);
}

/* A second engine, which only runs forward, reads the checkpoint and writes. What attention computed of the bytes
 * before is kept, so that each byte costs one row. When the context is full, the last half of it is read again. */
static mega_status write_text(mega_engine *trained)
{
    static char batch[] = "--micro-batch-size", one[] = "1"; /* it writes one text at a time */
    char *options[] = {batch, batch, one};                   /* the first word is skipped */
    const mega_layout *layout = mega_engine_layout(trained);
    mega_setup setup = {.model = &model};
    setup.mode = MEGA_GENERATE;
    setup.argc = 3;
    setup.argv = options;
    setup.layout.tp = layout->tp.size;
    setup.layout.pp = layout->pp.size;
    setup.world = mega_engine_world(trained);
    mega_engine *engine = NULL;
    unsigned char text[WRITTEN] = {'\n'};
    float score[BYTES];
    uint64_t random = (uint64_t)mega_engine_global_steps(trained);
    int length = 1, filled = 0;
    bool found = false;
    mega_status st = mega_initialize(&setup, &engine);
    if (st == MEGA_OK) st = mega_engine_load_checkpoint(engine, "checkpoints", NULL, NULL, &found, NULL);
    for (int at = 0; st == MEGA_OK && length < WRITTEN; at++) {
        if (filled == CONTEXT) {
            at -= CONTEXT / 2;
            filled = 0;
        }
        st = read_byte(engine, text[at], filled++, score);
        if (st == MEGA_OK && at == length - 1) text[length++] = draw(score, &random);
    }
    if (st == MEGA_OK && mega_engine_is_main_process(trained)) printf("\n%.*s\n", length, (const char *)text);
    mega_engine_destroy(engine);
    return st;
}

/* ---- main ---- */

/* ./PROJECT TEXT [options]. The settings are those of ds.json, or of another file (--deepspeed_config FILE); what an
 * option says wins. */
static mega_status run(int argc, char **argv, char **out_text, mega_engine **out_engine)
{
    const char *config = "ds.json";
    size_t size = 0;
    if (argc < 2) return MEGA_FAIL(MEGA_ERR_USAGE, "usage: ./PROJECT TEXT [options]");
    for (int i = 2; i < argc; i++)
        if (strncmp(argv[i], "--deepspeed_config", 18) == 0 || strncmp(argv[i], "--deepspeed-config", 18) == 0)
            config = NULL;
    MEGA_TRY(mega_file_read(argv[1], out_text, &size));

    if (size <= 10 * CONTEXT)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "%s: %d bytes; more than %d are needed, and 100,000 to learn something from it", argv[1],
                         (int)size, 10 * CONTEXT);

    /* The last tenth of the text is not trained on. It shows what the model makes of text that it has not seen. */
    const int64_t samples = ((int64_t)size - 1) / CONTEXT, last = samples / 10;
    const mega_dataset data = {.first = 0, .count = samples - last, .read = read_sample, .user = *out_text};
    const mega_dataset unseen = {.first = samples - last, .count = last, .read = read_sample, .user = *out_text};

    mega_setup setup = {.model = &model, .training_data = &data};
    setup.config = config;
    setup.argc = argc - 1; /* from the text on: the first word is skipped, the others are options */
    setup.argv = argv + 1;
    MEGA_TRY(mega_initialize(&setup, out_engine));
    MEGA_TRY(train(*out_engine, &unseen));
    return write_text(*out_engine);
}

int main(int argc, char **argv)
{
    char *text = NULL;
    mega_engine *engine = NULL;
    if (mega_show_help(argc, argv, "./PROJECT TEXT [options]")) return 0;
    mega_log_set_sink(print_warning, NULL);
    const mega_status st = run(argc, argv, &text, &engine);
    if (st != MEGA_OK) fprintf(stderr, "PROJECT: %s\n", mega_error_message());
    mega_engine_destroy(engine);
    mega_free(text);
    return st == MEGA_OK ? 0 : 1;
}
