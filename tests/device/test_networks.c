/* A convolutional network on a GPU: its steps are the CPU's, its checkpoint goes on there, and its evaluation, with the
 * running statistics, is the same. On the software device. */
#include "engine_run.h"
#include "kit.h"
#include "megalith/checkpoint.h"
#include "megalith/cuda.h"
#include "megalith/layers.h"
#include "megalith/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE, COLORS = 3, WIDTH = 8, CLASSES = 3, BATCH = 4, STEPS = 4, NOT_BUILT = 77 };

static void describe(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_conv_options conv = {.kernel_size = 3, .padding = 1, .no_bias = true};
    const mega_conv_options down = {.kernel_size = 1, .stride = 2};
    const mega_pool_options pool = {.window = 3, .stride = 2, .padding = 1};
    mega_image_size size = {SIDE, SIDE};
    (void)self;
    mega_tensor x = mega_conv2d(b, "conv1", mega_input(b, "image", MEGA_F32, PIXELS, COLORS), WIDTH, &conv, &size);
    x = mega_activation(b, mega_batch_norm(b, "bn1", x, 1, 0.1, 1e-5), MEGA_ACT_RELU);
    x = mega_max_pool2d(b, x, &pool, &size);
    const mega_builder layer = mega_builder_at(b, "layer1.%d", 0);
    x = mega_mean_positions(b, mega_conv2d(&layer, "conv1", x, WIDTH, &down, &size));
    const mega_tensor logits = mega_linear(b, "fc", x, CLASSES, NULL), label = mega_input(b, "label", MEGA_I32, 1, 0);
    mega_loss_add(b, "entropy", mega_cross_entropy(b, logits, label, mega_none()), 1);
    mega_loss_add(b, "accuracy", mega_accuracy(b, logits, label), 0);
    flow->x = mega_none();
}

static mega_engine *open_engine(mega_backend_kind backend, mega_dtype compute)
{
    static const mega_layer layer = {.path = "", .describe = describe};
    static const mega_model model = {.name = "images", .layer = &layer, .num_layers = 1};
    mega_engine_options o = engine_run_options(BATCH, 2, 0.01);
    mega_engine *e = NULL;
    o.seq = PIXELS;
    o.compute = compute;
    o.backend = backend;
    need(mega_engine_create(&(mega_setup){.model = &model, .options = &o}, &e));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 5));
    return e;
}

static void fill_batch(mega_engine *e, uint32_t seed)
{
    mega_batch *b = mega_engine_batch(e);
    float image[PIXELS * COLORS];
    assert_non_null(b);
    for (int64_t s = 0; s < mega_batch_num_samples(b); s++) {
        const int32_t label = (int32_t)((s + seed) % CLASSES);
        mega_kit_normal(image, PIXELS * COLORS, seed * 100 + (uint32_t)s);
        need(mega_sample_set_f32(mega_batch_sample(b, s), "image", image, PIXELS * COLORS));
        need(mega_sample_set_i32(mega_batch_sample(b, s), "label", &label, 1));
    }
}

static void alike(const char *what, double cpu, double gpu, double most)
{
    if (!(fabs(cpu - gpu) <= most * fmax(fabs(cpu), 1e-3))) fail_msg("%s: %.9g, on the GPU %.9g", what, cpu, gpu);
}

static void train_alike(mega_engine *cpu, mega_engine *gpu, double most)
{
    for (uint32_t i = 1; i <= STEPS; i++) {
        mega_step_result a, b;
        fill_batch(cpu, i);
        fill_batch(gpu, i);
        need(mega_engine_train_batch(cpu, &a));
        need(mega_engine_train_batch(gpu, &b));
        alike("loss", a.loss, b.loss, most);
        alike("gradient norm", a.grad_norm, b.grad_norm, 10 * most);
        if (most < 1e-4) alike("accuracy", a.metric[1], b.metric[1], 0);
    }
    mega_loss_sums a = {0}, b = {0};
    fill_batch(cpu, 9);
    fill_batch(gpu, 9);
    need(mega_engine_evaluate_batch(cpu, &a));
    need(mega_engine_evaluate_batch(gpu, &b));
    alike("loss of an evaluation", a.loss, b.loss, most);
}

static void trains_as_on_the_cpu(mega_dtype compute, double most)
{
    const char *folder = mega_kit_temp_folder();
    const mega_engine_save_options o = {.folder = folder, .save_dtype = MEGA_F32};
    mega_engine *cpu = open_engine(MEGA_BACKEND_CPU, compute), *gpu = open_engine(MEGA_BACKEND_CUDA, compute);
    mega_checkpoint *c = NULL;
    mega_engine_loaded loaded;
    train_alike(cpu, gpu, most);
    need(mega_engine_save(gpu, &o));
    need(mega_checkpoint_open(folder, false, &c));
    need(mega_engine_load(cpu, c, &(mega_engine_load_options){.finetune = false}, &loaded));
    mega_checkpoint_close(c);
    train_alike(cpu, gpu, most);
    mega_engine_destroy(cpu);
    mega_engine_destroy(gpu);
}

static void in_fp32(void **state)
{
    (void)state;
    trains_as_on_the_cpu(MEGA_F32, 2e-5);
}

static void in_16_bits(void **state)
{
    (void)state;
    trains_as_on_the_cpu(MEGA_BF16, 2e-2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_fp32), cmocka_unit_test(in_16_bits)};
    char text[MEGA_CUDA_TEXT];
    setenv("MEGA_CUDA_LIBRARY", MEGA_CUDA_SOFTWARE, 1);
    if (mega_cuda_describe(0, text) != MEGA_OK &&
        strstr(mega_error_message(), "this build has no kernels for GPUs") != NULL)
        return NOT_BUILT;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
