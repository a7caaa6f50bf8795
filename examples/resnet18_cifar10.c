/* Trains ResNet-18 on the pictures of CIFAR-10, on any number of ranks:
 *
 *     cc -std=c17 -O2 resnet18_cifar10.c -o resnet18_cifar10 $(pkg-config --cflags --libs megalith)
 *     mpirun -n 2 ./resnet18_cifar10 cifar-10-batches-bin/data_batch_?.bin cifar-10-batches-bin/test_batch.bin
 *
 * and further options of the engine after the files, such as --pipeline-model-parallel-size 2. The last TEST pictures
 * are tested after each epoch; the others are for training. The network is torchvision's resnet18 with 10 classes
 * (11,181,642 parameters), and the weights are saved under its names and in its shapes: resnet18/iter_N/
 * model.safetensors loads into PyTorch. Sizes are set when it is compiled, such as -DEPOCHS=1 -DSTEPS=2 -DBATCH=64. */
#include <megalith/megalith.h>
#include <stdio.h>
#include <string.h>

#ifndef EPOCHS
#define EPOCHS 30
#endif
#ifndef STEPS
#define STEPS 390 /* of an epoch: 50,000 / 128 */
#endif
#ifndef BATCH
#define BATCH 128
#endif
#ifndef GROUP
#define GROUP 32 /* samples that batch norm normalizes together, and of a micro-batch */
#endif
#ifndef TEST
#define TEST 10000
#endif
#ifndef WIDTH
#define WIDTH 64
#endif
enum { SIDE = 32, PIXELS = SIDE * SIDE, COLOURS = 3, RECORD = 1 + COLOURS * PIXELS, CLASSES = 10 };

/* ---- the model (He et al. 2015) ---- */

static mega_tensor conv_norm(const mega_builder *b, const char *conv, const char *norm, mega_tensor x, int64_t channels,
                             int kernel, int stride, mega_image_size *size)
{
    const mega_conv_options o = {.kernel_size = kernel,
                                 .stride = stride,
                                 .padding = kernel / 2,
                                 .no_bias = true,
                                 .init = MEGA_INIT_KAIMING_NORMAL};
    return mega_batch_norm(b, norm, mega_conv2d(b, conv, x, channels, &o, size), GROUP, 0.1, 1e-5);
}

static mega_tensor relu(const mega_builder *b, mega_tensor x)
{
    return mega_activation(b, x, MEGA_ACT_RELU);
}

static void stem(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_pool_options pool = {.window = 3, .stride = 2, .padding = 1};
    mega_image_size size = {SIDE, SIDE};
    (void)self;
    mega_tensor x = mega_input(b, "image", MEGA_F32, PIXELS, COLOURS);
    x = relu(b, conv_norm(b, "conv1", "bn1", x, WIDTH, 7, 2, &size));
    flow->x = mega_max_pool2d(b, x, &pool, &size);
}

/* Two blocks each, of which the first begins with this stride. */
typedef struct stage {
    int64_t channels, side; /* side: of the images that it is given */
    int stride;
} stage;
static const stage stages[] = {
    {WIDTH, SIDE / 4, 1}, {2 * WIDTH, SIDE / 4, 2}, {4 * WIDTH, SIDE / 8, 2}, {8 * WIDTH, SIDE / 16, 2}};

static void block(const mega_builder *b, const void *self, mega_flow *flow)
{
    const stage *s = (const stage *)self;
    const int stride = b->index == 0 ? s->stride : 1;
    const int64_t side = b->index == 0 ? s->side : s->side / s->stride;
    mega_image_size size = {side, side}, size_of_input = size;
    mega_tensor x = relu(b, conv_norm(b, "conv1", "bn1", flow->x, s->channels, 3, stride, &size));
    x = conv_norm(b, "conv2", "bn2", x, s->channels, 3, 1, &size);
    if (stride > 1) /* the input has fewer channels and more pixels */
        flow->x = conv_norm(b, "downsample.0", "downsample.1", flow->x, s->channels, 1, stride, &size_of_input);
    flow->x = relu(b, mega_add(b, x, flow->x));
}

static void head(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_tensor label = mega_input(b, "label", MEGA_I32, 1, 0);
    (void)self;
    const mega_tensor x = mega_linear(b, "fc", mega_mean_positions(b, flow->x), CLASSES, NULL);
    mega_loss_add(b, "loss", mega_cross_entropy(b, x, label, mega_none()), 1.0);
    mega_loss_add(b, "accuracy", mega_accuracy(b, x, label), 0.0);
}

/* Names without a prefix have an empty path. */
static const mega_layer layers[] = {{.path = "", .describe = stem, .type = "stem"},
                                    {.path = "layer1.%d", .describe = block, .self = &stages[0], .repeat = 2},
                                    {.path = "layer2.%d", .describe = block, .self = &stages[1], .repeat = 2},
                                    {.path = "layer3.%d", .describe = block, .self = &stages[2], .repeat = 2},
                                    {.path = "layer4.%d", .describe = block, .self = &stages[3], .repeat = 2},
                                    {.path = "", .describe = head, .type = "head"}};
static const mega_model model = {
    .name = "resnet18", .layer = layers, .num_layers = 6, .partition = MEGA_PARTITION_FLOPS};

/* ---- the data: a picture is a byte of label, then its red, green and blue pixels ---- */

typedef struct pictures {
    char *bytes;
    int64_t count;
} pictures;

static mega_status read_picture(void *user, int64_t index, mega_sample *sample)
{
    static const float mean[COLOURS] = {0.4914f, 0.4822f, 0.4465f}, deviation[COLOURS] = {0.2470f, 0.2435f, 0.2616f};
    const pictures *p = (const pictures *)user;
    const unsigned char *record = (const unsigned char *)p->bytes + index * RECORD;
    const int32_t label = record[0];
    float image[PIXELS * COLOURS]; /* the colours of a pixel lie together */
    for (int i = 0; i < PIXELS; i++)
        for (int c = 0; c < COLOURS; c++)
            image[i * COLOURS + c] = ((float)record[1 + c * PIXELS + i] / 255.0f - mean[c]) / deviation[c];
    MEGA_TRY(mega_sample_set_f32(sample, "image", image, PIXELS * COLOURS));
    return mega_sample_set_i32(sample, "label", &label, 1);
}

static mega_status add_file(pictures *p, const char *path)
{
    char *bytes = NULL;
    size_t size = 0;
    MEGA_TRY(mega_file_read(path, &bytes, &size));
    const int64_t count = (int64_t)(size / RECORD);
    char *grown = size % RECORD == 0 ? (char *)mega_realloc(p->bytes, (size_t)(p->count + count) * RECORD + 1) : NULL;
    if (grown != NULL) {
        p->bytes = grown;
        memcpy(grown + p->count * RECORD, bytes, size);
        p->count += count;
    }
    mega_free(bytes);
    if (size % RECORD != 0)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: %zu bytes; expected a multiple of %d, CIFAR-10's binary version", path,
                         size, RECORD);
    return grown != NULL ? MEGA_OK
                         : MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for %lld pictures", path, (long long)count);
}

/* Returns the number of the first argument that is no file. */
static mega_status open_pictures(pictures *p, int argc, char **argv, int *out_options)
{
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) != 0; i++) MEGA_TRY(add_file(p, argv[i]));
    *out_options = i;
    if (p->count > TEST) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_USAGE, "usage: resnet18_cifar10 FILE... [options]: %lld pictures; expected more than %d",
                     (long long)p->count, TEST);
}

/* ---- the training ---- */

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
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
        for (int i = 0; i < STEPS; i++) MEGA_TRY(mega_engine_train_batch(e, &step));
        MEGA_TRY(mega_engine_evaluate(e, test_set, 0, &test));
        if (mega_engine_is_main_process(e))
            printf("epoch %d: loss %.4f, test loss %.4f, test accuracy %.2f %%\n", epoch, step.loss, test.metric[0],
                   100 * test.metric[1]);
    }
    return mega_engine_save_checkpoint(e, "resnet18", NULL, NULL);
}

static mega_status run(pictures *p, int argc, char **argv, mega_engine **out)
{
    char steps[32];
    int first = 0;
    MEGA_TRY(open_pictures(p, argc, argv, &first));
    snprintf(steps, sizeof steps, "%lld", (long long)EPOCHS * STEPS);
    const mega_dataset train_set = {.count = p->count - TEST, .read = read_picture, .user = p};
    const mega_dataset test_set = {.first = p->count - TEST, .count = TEST, .read = read_picture, .user = p};
    /* What the command line leaves open. A JSON has all settings itself. */
    const mega_setting defaults[] = {{"micro_batch_size", TEXT(GROUP)},
                                     {"global_batch_size", TEXT(BATCH)},
                                     {"zero_stage", "2"},
                                     {"optimizer", "sgd"},
                                     {"lr", "0.1"},
                                     {"lr_decay_style", "cosine"},
                                     {"weight_decay", "5e-4"},
                                     {"clip_grad", "0"},
                                     {"train_iters", steps},
                                     {NULL, NULL}};
    const mega_setup setup = {.model = &model,
                              .training_data = &train_set,
                              .argc = argc - first + 1,
                              .argv = argv + first - 1, /* whose first word is skipped */
                              .defaults = defaults};
    MEGA_TRY(mega_initialize(&setup, out));
    return train(*out, &test_set);
}

int main(int argc, char **argv)
{
    pictures p = {NULL, 0};
    mega_engine *engine = NULL;
    if (mega_show_help(argc, argv, "resnet18_cifar10 FILE... [options]")) return 0;
    const mega_status st = run(&p, argc, argv, &engine);
    if (st != MEGA_OK) fprintf(stderr, "resnet18_cifar10: %s\n", mega_error_message());
    mega_engine_destroy(engine);
    mega_free(p.bytes);
    return st == MEGA_OK ? 0 : 1;
}
