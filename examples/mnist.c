/* Trains a small convolutional network on handwritten digits with ZeRO stage 2, on any number of ranks:
 *
 *     cc -std=c17 -O2 mnist.c -o mnist $(pkg-config --cflags --libs megalith)
 *     mpirun -n 2 ./mnist t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz [--pipeline-model-parallel-size 2]
 *
 * The files hold 10,000 digits. The first 8,000 are for training; the others are tested after each epoch. Another
 * number of digits and epochs: -DTRAIN=640 -DTEST=160 -DEPOCHS=1. */
#include <megalith/megalith.h>
#include <stdio.h>

#ifndef TRAIN
#define TRAIN 8000
#endif
#ifndef TEST
#define TEST 2000
#endif
#ifndef EPOCHS
#define EPOCHS 8
#endif
enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10 };

/* ---- the model ---- */

static void features(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_conv_options conv = {.kernel_size = 3, .padding = 1};
    const mega_pool_options pool = {.window = 2};
    mega_image_size size = {SIDE, SIDE};
    (void)self;
    mega_tensor x = mega_input(b, "image", MEGA_F32, PIXELS, 1);
    x = mega_activation(b, mega_conv2d(b, "conv1", x, 32, &conv, &size), MEGA_ACT_RELU);
    x = mega_max_pool2d(b, x, &pool, &size);
    x = mega_activation(b, mega_conv2d(b, "conv2", x, 64, &conv, &size), MEGA_ACT_RELU);
    x = mega_max_pool2d(b, x, &pool, &size);
    flow->x = mega_reshape(b, x, size.height * size.width * 64); /* [samples, 7 * 7 * 64] */
}

static void classifier(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_tensor label = mega_input(b, "label", MEGA_I32, 1, 0);
    (void)self;
    mega_tensor x = mega_activation(b, mega_linear(b, "fc1", flow->x, 128, NULL), MEGA_ACT_RELU);
    x = mega_linear(b, "fc2", mega_dropout(b, "drop", x, 0.25), CLASSES, NULL);
    mega_loss_add(b, "loss", mega_cross_entropy(b, x, label, mega_none()), 1.0);
    mega_loss_add(b, "accuracy", mega_accuracy(b, x, label), 0.0);
}

static const mega_layer layers[] = {{.path = "features", .describe = features},
                                    {.path = "classifier", .describe = classifier}};
static const mega_model model = {
    .name = "digits", .layer = layers, .num_layers = 2, .partition = MEGA_PARTITION_UNIFORM};

/* ---- the data ---- */

typedef struct digits {
    mega_idx images, labels;
} digits;

static mega_status read_digit(void *user, int64_t index, mega_sample *sample)
{
    const digits *d = (const digits *)user;
    const int32_t label = d->labels.bytes[index];
    float pixel[PIXELS];
    for (int i = 0; i < PIXELS; i++) pixel[i] = (float)d->images.bytes[index * PIXELS + i] / 255.0f;
    MEGA_TRY(mega_sample_set_f32(sample, "image", pixel, PIXELS));
    return mega_sample_set_i32(sample, "label", &label, 1);
}

static mega_status open_digits(digits *d, const char *images, const char *labels)
{
    MEGA_TRY(mega_idx_open(images, &d->images));
    MEGA_TRY(mega_idx_open(labels, &d->labels));
    if (d->images.num_dims == 3 && d->images.dim[1] == SIDE && d->images.dim[2] == SIDE && d->labels.num_dims == 1 &&
        d->images.dim[0] >= TRAIN + TEST && d->labels.dim[0] >= TRAIN + TEST)
        return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s, %s: expected %d images of 28 x 28 pixels and their labels", images, labels,
                     TRAIN + TEST);
}

/* ---- the training ---- */

/* What the command line leaves open. A JSON has all settings itself. */
static const mega_setting defaults[] = {{"micro_batch_size", "16"},
                                        {"global_batch_size", "64"},
                                        {"zero_stage", "2"},
                                        {"clip_grad", "1.0"},
                                        {"lr", "2e-3"},
                                        {"lr_decay_style", "cosine"},
                                        {"train_iters", "1000"},
                                        {"lr_warmup_iters", "50"},
                                        {"weight_decay", "1e-2"},
                                        {NULL, NULL}};

/* The library prints nothing itself. This prints its warnings, such as that a rank has not answered for 10 seconds. */
static void print_warning(void *user, mega_log_level level, const char *line)
{
    (void)user;
    if (level <= MEGA_LOG_WARN) fprintf(stderr, "warning: %s\n", line);
}

static mega_status train(mega_engine *e, const mega_dataset *test_set)
{
    mega_step_result step, test;
    mega_log_set_sink(print_warning, NULL);
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        do MEGA_TRY(mega_engine_train_batch(e, &step));
        while (mega_engine_global_samples(e) < (int64_t)epoch * TRAIN);
        MEGA_TRY(mega_engine_evaluate(e, test_set, 0, &test));
        if (mega_engine_is_main_process(e))
            printf("epoch %d: loss %.4f, test accuracy %.2f %%\n", epoch, step.loss, 100 * test.metric[1]);
    }
    return mega_engine_save_checkpoint(e, "digits", NULL, NULL);
}

static mega_status run(digits *d, int argc, char **argv, mega_engine **out)
{
    if (argc < 3) return MEGA_FAIL(MEGA_ERR_USAGE, "usage: mnist IMAGES LABELS [options]");
    MEGA_TRY(open_digits(d, argv[1], argv[2]));
    const mega_dataset train_set = {.count = TRAIN, .read = read_digit, .user = d};
    const mega_dataset test_set = {.first = TRAIN, .count = TEST, .read = read_digit, .user = d};
    const mega_setup setup = {
        .model = &model, .training_data = &train_set, .argc = argc - 2, .argv = argv + 2, .defaults = defaults};
    MEGA_TRY(mega_initialize(&setup, out));
    return train(*out, &test_set);
}

int main(int argc, char **argv)
{
    digits d = {{0}, {0}};
    mega_engine *engine = NULL;
    if (mega_show_help(argc, argv, "mnist IMAGES LABELS [options]")) return 0;
    const mega_status st = run(&d, argc, argv, &engine);
    if (st != MEGA_OK) fprintf(stderr, "mnist: %s\n", mega_error_message());
    mega_engine_destroy(engine);
    mega_idx_close(&d.images);
    mega_idx_close(&d.labels);
    return st == MEGA_OK ? 0 : 1;
}
