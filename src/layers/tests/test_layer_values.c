/* Layers for models that are not transformers: the gradients of a convolutional network against differences in double,
 * losses that a model weights itself, and error messages that name the layer. */
#include "kit.h"
#include "megalith/experts.h"
#include "megalith/layers.h"
#include "megalith/program.h"

#include <math.h>
#include <string.h>

enum { B = 2, HEIGHT = 6, WIDTH = 4, S = HEIGHT * WIDTH, C = 3, CLASSES = 5 };

typedef struct bench {
    mega_layout *one, layout;
    mega_params *params;
    mega_program *program;
    mega_builder b;
} bench;

static void bench_begin(bench *k, mega_mode mode, int tp)
{
    *k = (bench){.program = NULL};
    need(mega_layout_create(NULL, NULL, &k->one));
    k->layout = *k->one;
    k->layout.tp.size = tp;
    need(mega_params_create(&k->layout, &k->params));
    k->b = (mega_builder){.layout = &k->layout, .mode = mode, .samples = B, .positions = S, .path = "m"};
    need(mega_graph_create(MEGA_F64, k->params, &k->layout, &k->b.graph));
}

static void bench_build(bench *k, bool differentiate)
{
    const mega_program_options o = {.backend = MEGA_BACKEND_PLAIN, .differentiate = differentiate, .name = "values"};
    need(mega_params_place(k->params, MEGA_F64, 0));
    need(mega_params_allocate(k->params, MEGA_PARAMS_WEIGHTS | (differentiate ? MEGA_PARAMS_GRADS : 0)));
    need(mega_params_initialize(k->params, 6));
    need(mega_program_build(k->b.graph, &o, &k->program));
    k->b.graph = NULL;
    need(mega_program_allocate(k->program));
}

static void bench_end(bench *k)
{
    mega_program_destroy(k->program);
    mega_graph_destroy(k->b.graph);
    mega_params_destroy(k->params);
    mega_layout_destroy(k->one);
}

/* Fills a float input of the program with random numbers. */
static void fill(bench *k, const char *name, int64_t count)
{
    float random[B * S * C];
    assert_true(count <= B * S * C);
    mega_kit_normal(random, count, 3 + (uint32_t)name[0]);
    double *to = mega_program_tensor(k->program, name, 0);
    for (int64_t i = 0; i < count; i++) to[i] = (double)random[i];
}

static double loss_at(const bench *k, int number)
{
    mega_program_loss l;
    assert_true(mega_program_loss_get(k->program, number, 0, &l));
    return *(const double *)l.sum / *(const double *)l.weight;
}

/* Compares gradients, which the program has computed, with differences of the loss. */
static void check_slopes(bench *k, double (*loss)(bench *))
{
    for (int p = 0; p < mega_params_count(k->params); p++) {
        const mega_param *r = mega_params_get(k->params, p);
        double *w = mega_params_master(k->params, p);
        const double *d = mega_params_grad(k->params, p);
        for (int64_t i = 0; i < r->count; i += 1 + r->count / 7) {
            const double was = w[i], h = 1e-5;
            w[i] = was + h;
            const double above = loss(k);
            w[i] = was - h;
            const double below = loss(k), slope = (above - below) / (2 * h);
            w[i] = was;
            if (!(fabs(slope - d[i]) <= 1e-7))
                fail_msg("%s[%lld]: slope %.10g, gradient %.10g", r->name, (long long)i, slope, d[i]);
        }
    }
}

/* ---- a convolutional network ---- */

/* The network: two images of 6 x 4 pixels; every layer of image.c, a reshape that flattens, and three losses. */
static void describe_net(const mega_builder *b)
{
    const mega_tensor x = mega_input(b, "x", MEGA_F64, S, C), labels = mega_input(b, "labels", MEGA_I32, 1, 0);
    const mega_linear_options fan_in = {.weight = {.init = MEGA_INIT_FAN_IN}};
    mega_image_size size = {.height = HEIGHT, .width = WIDTH};
    mega_tensor h = mega_conv2d(b, "conv", x, 4, &(mega_conv_options){.kernel_size = 3, .padding = 1}, &size);
    h = mega_batch_norm(b, "norm", h, 2, 0, 1e-5);
    h = mega_activation(b, h, MEGA_ACT_TANH);
    h = mega_max_pool2d(b, h, &(mega_pool_options){.window = 2}, &size);
    assert_int_equal(size.height, 3);
    assert_int_equal(size.width, 2);
    h = mega_mean_pool2d(b, h, &(mega_pool_options){.window = 2, .stride = 1}, &size);
    assert_int_equal(size.height, 2);
    assert_int_equal(size.width, 1);
    const mega_tensor flat = mega_reshape(b, h, 2 * 4), first = mega_first_position(b, h);
    const mega_tensor logits = mega_linear(b, "fc", flat, CLASSES, &fan_in);
    mega_loss_add(b, "entropy", mega_cross_entropy(b, logits, labels, mega_none()), 1);
    mega_loss_add(b, "first", mega_sum(b, mega_mul(b, first, first), mega_none()), 0.25);
    const mega_tensor mean = mega_mean_positions(b, h), target = mega_scale(b, mega_add(b, first, mean), 0.3);
    mega_loss_add(b, "error", mega_squared_error(b, mean, target, mega_none()), -0.5);
    mega_loss_add(b, "accuracy", mega_accuracy(b, logits, labels), 0);
}

static double net_loss(bench *k)
{
    need(mega_program_forward(k->program, 0));
    return loss_at(k, 0) + 0.25 * loss_at(k, 1) - 0.5 * loss_at(k, 2);
}

static void gradients_of_a_convolutional_network(void **state)
{
    (void)state;
    static const char *const names[] = {"m.conv.weight", "m.conv.bias", "m.norm.weight",
                                        "m.norm.bias",   "m.fc.weight", "m.fc.bias"};
    bench k;
    bench_begin(&k, MEGA_TRAIN, 1);
    describe_net(&k.b);
    bench_build(&k, true);
    fill(&k, "x", B * S * C);
    memcpy(mega_program_tensor(k.program, "labels", 0), (int32_t[B]){4, 1}, B * sizeof(int32_t));
    mega_program_step_block(k.program)->loss_factor = 1;
    assert_int_equal(mega_params_count(k.params), sizeof names / sizeof *names);
    memset(mega_params_flat_grad(k.params), 0, mega_params_bytes(k.params, MEGA_PARAMS_GRADS));
    need(mega_program_forward(k.program, 0));
    need(mega_program_backward(k.program, 0));
    for (int p = 0; p < mega_params_count(k.params); p++)
        assert_string_equal(mega_params_get(k.params, p)->name, names[p]);
    check_slopes(&k, net_loss);
    bench_end(&k);
}

/* Weights, and the bias of a convolution, start uniform in +-1/sqrt(fan_in), as in torch.nn.Conv2d and Linear. */
static void initial_values_follow_the_fan_in(void **state)
{
    (void)state;
    bench k;
    bench_begin(&k, MEGA_TRAIN, 1);
    describe_net(&k.b);
    bench_build(&k, true);
    const struct {
        const char *name;
        double bound;
    } expected[] = {{"m.conv.weight", 1 / sqrt(27)}, {"m.conv.bias", 1 / sqrt(27)}, {"m.fc.weight", 1 / sqrt(8)}};
    for (size_t e = 0; e < sizeof expected / sizeof *expected; e++) {
        const int p = mega_params_find(k.params, expected[e].name);
        const double *w = mega_params_master(k.params, p);
        double most = 0;
        for (int64_t i = 0; i < mega_params_get(k.params, p)->count; i++) most = fmax(most, fabs(w[i]));
        assert_true(most <= expected[e].bound && most > 0.4 * expected[e].bound);
    }
    bench_end(&k);
}

/* A group of two samples has one mean: each channel sums to 0 over both samples, but not over the first alone. */
static void batch_norm_takes_whole_groups(void **state)
{
    (void)state;
    bench k;
    bench_begin(&k, MEGA_EVAL, 1);
    const mega_tensor x = mega_input(&k.b, "x", MEGA_F64, S, C);
    mega_graph_output(k.b.graph, mega_batch_norm(&k.b, "norm", x, B, 0, 1e-5), "y");
    bench_build(&k, false);
    fill(&k, "x", B * S * C);
    need(mega_program_forward(k.program, 0));
    const double *y = mega_program_tensor(k.program, "y", 0);
    for (int c = 0; c < C; c++) {
        double first = 0, all = 0;
        for (int r = 0; r < B * S; r++) {
            all += y[r * C + c];
            if (r < S) first += y[r * C + c];
        }
        assert_true(fabs(all) < 1e-12 && fabs(first) > 1e-3);
    }
    bench_end(&k);
}

/* ---- two results, weighted by token ---- */

/* The loss is the sum of the squares of what mega_blend returns. */
static double blend_loss(bench *k)
{
    need(mega_program_forward(k->program, 0));
    return loss_at(k, 0);
}

static void blend_is_a_softmax_of_two(void **state)
{
    (void)state;
    bench k;
    bench_begin(&k, MEGA_TRAIN, 1);
    const mega_builder *b = &k.b;
    const mega_tensor x = mega_input(b, "x", MEGA_F64, S, C), u = mega_input(b, "u", MEGA_F64, S, C);
    const mega_linear_options normal = {.weight = {.init = MEGA_INIT_NORMAL, .init_std = 0.7}};
    const mega_tensor v = mega_linear(b, "v", x, C, &normal);
    const mega_tensor y = mega_blend(b, "blend", x, u, v, &normal);
    mega_graph_output(b->graph, y, "y");
    mega_graph_output(b->graph, v, "v_out");
    mega_loss_add(b, "squares", mega_sum(b, mega_mul(b, y, y), mega_none()), 1);
    bench_build(&k, true);
    fill(&k, "x", B * S * C);
    fill(&k, "u", B * S * C);
    mega_program_step_block(k.program)->loss_factor = 1;
    need(mega_program_forward(k.program, 0));
    const double *in = mega_program_tensor(k.program, "x", 0), *first = mega_program_tensor(k.program, "u", 0),
                 *second = mega_program_tensor(k.program, "v_out", 0), *out = mega_program_tensor(k.program, "y", 0);
    const double *w[2] = {mega_params_master(k.params, mega_params_find(k.params, "m.blend.first.weight")),
                          mega_params_master(k.params, mega_params_find(k.params, "m.blend.second.weight"))};
    for (int i = 0; i < B * S; i++) {
        double e[2] = {0, 0};
        for (int j = 0; j < 2; j++) {
            for (int c = 0; c < C; c++) e[j] += in[i * C + c] * w[j][c];
            e[j] = exp(e[j]);
        }
        for (int c = 0; c < C; c++) {
            const double expected = (e[0] * first[i * C + c] + e[1] * second[i * C + c]) / (e[0] + e[1]);
            assert_true(fabs(out[i * C + c] - expected) < 1e-13);
        }
    }
    memset(mega_params_flat_grad(k.params), 0, mega_params_bytes(k.params, MEGA_PARAMS_GRADS));
    need(mega_program_forward(k.program, 0));
    need(mega_program_backward(k.program, 0));
    check_slopes(&k, blend_loss);
    bench_end(&k);
}

/* ---- losses of values ---- */

/* The loss of a sample is the mean over its positions, and the model weights the samples, as in Accelerate's example of
 * a custom loss. Compares with the same sums over the losses per row that the program computed. */
static void a_model_weights_the_losses_of_its_rows(void **state)
{
    (void)state;
    bench k;
    bench_begin(&k, MEGA_EVAL, 1);
    const mega_builder *b = &k.b;
    const mega_tensor x = mega_input(b, "x", MEGA_F64, S, C), labels = mega_input(b, "labels", MEGA_I32, S, 0);
    const mega_tensor weights = mega_input(b, "weights", MEGA_F32, 1, 0);
    const mega_tensor rows = mega_row_cross_entropy(b, x, labels);
    mega_graph_output(b->graph, rows, "rows");
    const mega_tensor by_sample = mega_scale(b, mega_reshape(b, rows, S), 1.0 / S);
    mega_loss_add(b, "weighted", mega_sum(b, by_sample, weights), 1);
    mega_loss_add(b, "all", mega_sum(b, rows, mega_none()), 0);
    mega_loss_add(b, "values", mega_sum(b, x, mega_none()), 0);
    bench_build(&k, false);
    fill(&k, "x", B * S * C);
    const float w[B] = {0.5f, 2.0f};
    int32_t *label = mega_program_tensor(k.program, "labels", 0);
    for (int i = 0; i < B * S; i++) label[i] = i % 4; /* 3 is not a class */
    memcpy(mega_program_tensor(k.program, "weights", 0), w, sizeof w);
    need(mega_program_forward(k.program, 0));
    const double *loss = mega_program_tensor(k.program, "rows", 0), *in = mega_program_tensor(k.program, "x", 0);
    double all = 0, weighted = 0, values = 0;
    for (int i = 0; i < B * S; i++) {
        double sum = 0;
        for (int c = 0; c < C; c++) sum += exp(in[i * C + c]), values += in[i * C + c];
        const double expected = label[i] < C ? log(sum) - in[i * C + label[i]] : 0;
        assert_true(fabs(loss[i] - expected) < 1e-13);
        all += expected;
        weighted += expected / S * (double)w[i / S];
    }
    assert_true(fabs(loss_at(&k, 0) - weighted / 2.5) < 1e-13);
    assert_true(fabs(loss_at(&k, 1) - all / (B * S)) < 1e-13);
    assert_true(fabs(loss_at(&k, 2) - values / (B * S)) < 1e-13);
    bench_end(&k);
}

/* ---- errors ---- */

typedef void describe_mistake(const mega_builder *b, mega_tensor x);

static void row_across_samples(const mega_builder *b, mega_tensor x)
{
    mega_reshape(b, x, B * S);
}

static void row_of_nothing(const mega_builder *b, mega_tensor x)
{
    mega_reshape(b, x, 0);
}

static void uneven_groups(const mega_builder *b, mega_tensor x)
{
    mega_batch_norm(b, "norm", x, 3, 0, 1e-5);
}

static void more_than_all(const mega_builder *b, mega_tensor x)
{
    mega_batch_norm(b, "norm", x, 2, 1.1, 1e-5);
}

static void statistics_of_two(const mega_builder *b, mega_tensor x)
{
    mega_batch_norm(b, "norm", mega_batch_norm(b, "norm", x, 2, 0.1, 1e-5), 2, 0.1, 1e-5);
}

static void image_without_size(const mega_builder *b, mega_tensor x)
{
    mega_max_pool2d(b, x, &(mega_pool_options){.window = 2}, NULL);
}

static void filter_without_size(const mega_builder *b, mega_tensor x)
{
    mega_conv2d(b, "conv", x, 4, NULL, &(mega_image_size){.height = HEIGHT, .width = WIDTH});
}

static void part_of_an_image(const mega_builder *b, mega_tensor x)
{
    mega_mean_pool2d(b, x, &(mega_pool_options){.window = 2}, &(mega_image_size){.height = 7, .width = WIDTH});
}

static void first_of_slabs(const mega_builder *b, mega_tensor x)
{
    mega_first_position(b, x);
}

static void loss_of_slabs(const mega_builder *b, mega_tensor x)
{
    mega_loss_add(b, "loss", mega_sum(b, x, mega_none()), 1);
}

static void expect_mistake(describe_mistake *describe, bool slabs, const char *message)
{
    bench k;
    bench_begin(&k, MEGA_TRAIN, slabs ? 2 : 1);
    mega_graph_set_sequence_parallel(k.b.graph, slabs);
    describe(&k.b, mega_input(&k.b, "x", MEGA_F64, S, C));
    if (mega_graph_status(k.b.graph) == MEGA_OK || strstr(mega_error_message(), message) == NULL)
        fail_msg("expected \"%s\" in: %s", message, mega_error_message());
    bench_end(&k);
}

static void mistakes_name_the_layer(void **state)
{
    (void)state;
    expect_mistake(row_across_samples, false, "layer \"m\", mega_reshape: rows of 48 channels; a sample has 72 values");
    expect_mistake(row_of_nothing, false, "mega_reshape: rows of 0 channels");
    expect_mistake(uneven_groups, false, "mega_batch_norm \"norm\": groups of 3 samples in a micro-batch of 2 samples");
    expect_mistake(more_than_all, false, "mega_batch_norm \"norm\": momentum 1.1; expected 0 or more, and below 1");
    expect_mistake(statistics_of_two, false,
                   "m.norm.running_mean and m.norm.running_var are those of the batch norm in");
    expect_mistake(image_without_size, false, "layer \"m\", mega_max_pool2d: inout_size is NULL");
    expect_mistake(filter_without_size, false, "mega_conv2d \"conv\": kernel_size 0; expected 1 to");
    expect_mistake(part_of_an_image, false, "48 rows are not whole images of 7 x 4 pixels");
    expect_mistake(first_of_slabs, true, "mega_first_position: with sequence parallelism");
    expect_mistake(loss_of_slabs, true, "mega_sum: with sequence parallelism");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_a_convolutional_network),   cmocka_unit_test(initial_values_follow_the_fan_in),
        cmocka_unit_test(batch_norm_takes_whole_groups),          cmocka_unit_test(blend_is_a_softmax_of_two),
        cmocka_unit_test(a_model_weights_the_losses_of_its_rows), cmocka_unit_test(mistakes_name_the_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
