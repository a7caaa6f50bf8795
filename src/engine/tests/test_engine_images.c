/* Tests that the checkpoint of a convolutional network has torchvision's names and shapes. */
#include "engine_run.h"
#include "kit.h"
#include "megalith/checkpoint.h"
#include "megalith/layers.h"
#include "megalith/model.h"
#include "megalith/safetensors.h"

#include <stdio.h>
#include <string.h>

enum { SIDE = 4, PIXELS = ENGINE_RUN_SEQ, COLORS = 3, WIDTH = 5, CLASSES = 3, BATCH = 4 };

static void describe(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_conv_options conv = {.kernel_size = 3, .padding = 1, .no_bias = true};
    const mega_conv_options down = {.kernel_size = 1, .stride = 2};
    mega_image_size size = {SIDE, SIDE};
    (void)self;
    mega_tensor x = mega_conv2d(b, "conv1", mega_input(b, "image", MEGA_F32, PIXELS, COLORS), WIDTH, &conv, &size);
    x = mega_activation(b, mega_batch_norm(b, "bn1", x, 1, 0.1, 1e-5), MEGA_ACT_RELU);
    const mega_builder layer = mega_builder_at(b, "layer1.%d", 0);
    x = mega_mean_positions(b, mega_conv2d(&layer, "conv1", x, WIDTH, &down, &size));
    const mega_tensor logits = mega_linear(b, "fc", x, CLASSES, NULL);
    mega_loss_add(b, "entropy", mega_cross_entropy(b, logits, mega_input(b, "label", MEGA_I32, 1, 0), mega_none()), 1);
    flow->x = mega_none();
}

static mega_engine *open_engine(void)
{
    static const mega_layer layer = {.path = "", .describe = describe};
    static const mega_model model = {.name = "images", .layer = &layer, .num_layers = 1};
    mega_engine_options o = engine_run_options(BATCH, 2, 0.1);
    mega_engine *e = NULL;
    need(mega_engine_create(&(mega_setup){.model = &model, .options = &o}, &e));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 5));
    return e;
}

static void step(mega_engine *e, mega_step_result *r)
{
    mega_batch *b = mega_engine_batch(e);
    float image[PIXELS * COLORS];
    assert_non_null(b);
    for (int64_t s = 0; s < mega_batch_num_samples(b); s++) {
        const int32_t label = (int32_t)(s % CLASSES);
        mega_kit_normal(image, PIXELS * COLORS, 60 + (uint32_t)s);
        need(mega_sample_set_f32(mega_batch_sample(b, s), "image", image, PIXELS * COLORS));
        need(mega_sample_set_i32(mega_batch_sample(b, s), "label", &label, 1));
    }
    need(mega_engine_train_batch(e, r));
}

static void expect_shape(const mega_safetensors *file, const char *name, const char *expected)
{
    const mega_safetensor *t = mega_safetensors_find(file, name);
    char found[96];
    int n = 0;
    if (t == NULL) fail_msg("%s is not in the file", name);
    for (int d = 0; d < t->num_dims; d++)
        n += snprintf(found + n, sizeof found - (size_t)n, "%s%d", d == 0 ? "" : " ", (int)t->shape[d]);
    if (strcmp(found, expected) != 0) fail_msg("%s is [%s], expected [%s]", name, found, expected);
}

static void tensors_have_the_shapes_of_torchvision(void **state)
{
    static const char *const of[][2] = {
        {"conv1.weight", "5 3 3 3"},  {"bn1.weight", "5"},      {"bn1.bias", "5"},
        {"bn1.running_mean", "5"},    {"bn1.running_var", "5"}, {"layer1.0.conv1.weight", "5 5 1 1"},
        {"layer1.0.conv1.bias", "5"}, {"fc.weight", "3 5"},     {"fc.bias", "3"}};
    enum { COUNT = sizeof of / sizeof *of };
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const mega_engine_save_options o = {.folder = folder, .save_dtype = MEGA_F32};
    mega_engine *a = open_engine(), *b = open_engine();
    mega_step_result expected, found;
    mega_safetensors *file = NULL;
    mega_checkpoint *c = NULL;
    mega_engine_loaded loaded;
    step(a, &expected);
    need(mega_engine_save(a, &o));
    need(mega_safetensors_open(mega_kit_path(folder, "iter_0000001/model.safetensors"), &file));
    assert_int_equal(mega_safetensors_count(file), COUNT);
    for (int i = 0; i < COUNT; i++) expect_shape(file, of[i][0], of[i][1]);
    mega_safetensors_close(file);
    need(mega_checkpoint_open(folder, false, &c));
    need(mega_engine_load(b, c, &(mega_engine_load_options){.finetune = false}, &loaded));
    mega_checkpoint_close(c);
    assert_true(loaded.optimizer);
    step(a, &expected);
    step(b, &found);
    assert_true(found.loss == expected.loss && found.grad_norm == expected.grad_norm);
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tensors_have_the_shapes_of_torchvision)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
