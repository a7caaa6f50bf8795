/* Tests outputs of a model that the caller reads after a forward pass, and a loss that the caller computes from one. */
#include "device.h"
#include "engine_run.h"
#include "kit.h"
#include "megalith/layers.h"
#include "megalith/model.h"

#include <math.h>
#include <string.h>

enum { SEQ = ENGINE_RUN_SEQ, BATCH = 4, MICRO = 2, C = 3, N = 2 };

/* The model: y = x W + bias as an output. *self: whether it has a loss. */
static void describe(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_linear_options random = {.weight = {.init = MEGA_INIT_FAN_IN}};
    const mega_tensor x = mega_input(b, "x", MEGA_F32, SEQ, C);
    const mega_tensor y = mega_linear(b, "fc", x, N, &random);
    const double coefficient = *(const bool *)self || b->mode == MEGA_EVAL ? 1 : 0;
    mega_output(b, "y", y);
    mega_output(b, "first", mega_first_position(b, y));
    mega_loss_add(b, "norm", mega_sum(b, mega_mul(b, y, y), mega_none()), coefficient);
    flow->x = mega_none();
}

static const bool no = false, yes = true;
static const mega_layer without_loss = {.path = "net", .describe = describe, .self = &no};
static const mega_layer with_loss = {.path = "net", .describe = describe, .self = &yes};

static mega_engine *open_with(const mega_layer *layer, const mega_engine_options *o)
{
    const mega_model model = {.name = "outputs", .layer = layer, .num_layers = 1};
    mega_engine *e = NULL;
    need(mega_engine_create(&(mega_setup){.model = &model, .options = o}, &e));
    return e;
}

static mega_engine *open_engine(bool has_loss)
{
    mega_engine_options o = engine_run_options(BATCH, MICRO, 0); /* weights do not change */
    o.no_evaluate = !has_loss;
    return open_with(has_loss ? &with_loss : &without_loss, &o);
}

/* Opens an engine whose weights change. */
static mega_engine *open_training(const mega_layer *layer, bool per_token_loss)
{
    mega_engine_options o = engine_run_options(BATCH, MICRO, 0.05);
    o.no_evaluate = true;
    o.per_token_loss = per_token_loss;
    mega_engine *e = open_with(layer, &o);
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 5));
    return e;
}

static void fill(mega_batch *b, double add)
{
    float x[SEQ * C];
    assert_non_null(b);
    for (int64_t s = 0; s < mega_batch_num_samples(b); s++) {
        for (int i = 0; i < SEQ * C; i++) x[i] = (float)(sin(1.0 + i + 100.0 * (double)s) + add);
        need(mega_sample_set_f32(mega_batch_sample(b, s), "x", x, SEQ * C));
    }
}

/* Computes the expected output for the samples from `first` on, from the parameters. */
static void expected_of(mega_engine *e, double add, int64_t first, float out[MICRO * SEQ * N])
{
    mega_params *p = mega_engine_params(e);
    float w[N * C], bias[N];
    mega_device_read(w, mega_params_master(p, 0), sizeof w);
    mega_device_read(bias, mega_params_master(p, 1), sizeof bias);
    for (int r = 0; r < MICRO * SEQ; r++)
        for (int n = 0; n < N; n++) {
            double sum = (double)bias[n];
            for (int c = 0; c < C; c++) {
                const double at = 1.0 + (r % SEQ) * C + c + 100.0 * (double)(first + r / SEQ);
                sum += (double)(float)(sin(at) + add) * (double)w[n * C + c];
            }
            out[r * N + n] = (float)sum;
        }
}

static void expect_output(mega_engine *e, double add, int64_t first)
{
    float y[MICRO * SEQ * N], expected[MICRO * SEQ * N], firsts[MICRO * N];
    expected_of(e, add, first, expected);
    need(mega_engine_read_output(e, "y", MICRO * SEQ * N, y));
    mega_kit_assert_close("y", y, expected, MICRO * SEQ * N, 1e-6);
    need(mega_engine_read_output(e, "first", MICRO * N, firsts));
    for (int s = 0; s < MICRO; s++) assert_memory_equal(firsts + s * N, y + s * SEQ * N, N * sizeof *y);
}

/* Outputs are those of the last micro-batch, whichever program ran it. */
static void outputs_of_the_last_micro_batch(void **state)
{
    (void)state;
    mega_step_result step;
    mega_loss_sums sums = {.loss = 0};
    mega_engine *e = open_engine(true);
    assert_int_equal(mega_engine_output_count(e, "y"), MICRO * SEQ * N);
    assert_int_equal(mega_engine_output_count(e, "first"), MICRO * N);
    assert_int_equal(mega_engine_output_count(e, "z"), 0);
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 5));
    fill(mega_engine_batch(e), 0);
    need(mega_engine_train_batch(e, &step));
    expect_output(e, 0, BATCH - MICRO);
    fill(mega_engine_evaluation_batch(e, MICRO, 0), 0.5);
    need(mega_engine_evaluate_batch(e, &sums));
    expect_output(e, 0.5, 0);
    mega_engine_destroy(e);
}

static void wrong_reads_are_refused(void **state)
{
    (void)state;
    float y[MICRO * SEQ * N];
    mega_step_result step;
    mega_engine *e = open_engine(true);
    need_error(mega_engine_read_output(NULL, "y", 1, y), MEGA_ERR_USAGE, "the engine is NULL");
    need_error(mega_engine_read_output(e, "y", 1, y), MEGA_ERR_USAGE, "has no memory yet");
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 5));
    need_error(mega_engine_read_output(e, "y", MICRO * SEQ * N, y), MEGA_ERR_USAGE, "is read before a forward");
    need_error(mega_engine_read_output(e, NULL, 1, y), MEGA_ERR_USAGE, "the argument output is NULL");
    need_error(mega_engine_read_output(e, "y", 1, NULL), MEGA_ERR_USAGE, "the argument out is NULL");
    fill(mega_engine_batch(e), 0);
    need(mega_engine_train_batch(e, &step));
    need_error(mega_engine_read_output(e, "z", 1, y), MEGA_ERR_NOT_FOUND, "this rank has no output \"z\"");
    need_error(mega_engine_read_output(e, "y", 7, y), MEGA_ERR_USAGE, "has 64 elements, and count is 7");
    assert_int_equal(mega_engine_output_count(NULL, "y"), 0);
    assert_int_equal(mega_engine_output_count(e, NULL), 0);
    mega_engine_destroy(e);
}

/* A model whose loss the caller computes can be created, but train_batch refuses it, because the caller cannot compute
 * the loss in the middle of that step. */
static void a_step_needs_a_loss_of_the_model(void **state)
{
    (void)state;
    mega_step_result step;
    mega_engine *e = open_engine(false);
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 5));
    fill(mega_engine_batch(e), 0);
    need_error(mega_engine_train_batch(e, &step), MEGA_ERR_USAGE,
               "the model has no loss with a coefficient other than 0");
    mega_engine_destroy(e);
}

/* ---- a loss of the caller's own ---- */

static void forward(mega_engine *e, double add)
{
    fill(mega_engine_micro_batch(e), add);
    need(mega_engine_forward(e, NULL));
}

/* Writes the gradient of the sum of y^2 over the micro-batch. */
static void own_gradient(mega_engine *e, float out[MICRO * SEQ * N])
{
    need(mega_engine_read_output(e, "y", MICRO * SEQ * N, out));
    for (int i = 0; i < MICRO * SEQ * N; i++) out[i] *= 2;
}

static void expect_same_weights(mega_engine *a, mega_engine *b)
{
    const mega_params *x = mega_engine_params(a), *y = mega_engine_params(b);
    assert_true(device_is_equal(mega_params_master(x, 0), mega_params_master(y, 0), N * C * sizeof(float)));
    assert_true(device_is_equal(mega_params_master(x, 1), mega_params_master(y, 1), N * sizeof(float)));
}

/* A loss that the caller computes from an output gives the same bits as the same loss in the model. */
static void a_loss_of_the_caller(void **state)
{
    (void)state;
    float gradient[MICRO * SEQ * N];
    mega_engine *a = open_training(&with_loss, false), *b = open_training(&without_loss, false);
    for (int step = 0; step < 3; step++) {
        mega_step_result x, y;
        for (int m = 0; m < BATCH / MICRO; m++) {
            forward(a, 0.1 * m + step);
            need(mega_engine_backward(a));
            need(mega_engine_step(a, &x));
            forward(b, 0.1 * m + step);
            own_gradient(b, gradient);
            need(mega_engine_backward_from(b, "y", gradient, MICRO * SEQ * N, MICRO * SEQ));
            need(mega_engine_step(b, &y));
        }
        assert_true(x.grad_norm == y.grad_norm && x.grad_norm > 0 && x.metric[0] == y.metric[0]);
        assert_true(x.loss == x.metric[0] && y.loss == 0);
    }
    expect_same_weights(a, b);
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

/* The caller's loss is added to the losses of the model: each of the two counts half. */
static void a_loss_of_the_caller_beside_one_of_the_model(void **state)
{
    (void)state;
    float gradient[MICRO * SEQ * N], both[N * C], once[N * C];
    mega_engine *e = open_training(&with_loss, false);
    need(mega_engine_set_accumulation_boundary(e, true));
    forward(e, 0);
    need(mega_engine_backward(e));
    need(mega_engine_get_param(e, "net.fc.weight", "grad", N * C, once));
    mega_engine_destroy(e);
    e = open_training(&with_loss, false);
    need(mega_engine_set_accumulation_boundary(e, true));
    forward(e, 0);
    own_gradient(e, gradient);
    need(mega_engine_backward_from(e, "y", gradient, MICRO * SEQ * N, 2 * MICRO * SEQ));
    need(mega_engine_get_param(e, "net.fc.weight", "grad", N * C, both));
    for (int i = 0; i < N * C; i++) assert_true(fabsf(both[i] - 1.5F * once[i]) <= 1e-6F * fabsf(once[i]));
    mega_engine_destroy(e);
}

static void wrong_gradients_change_nothing(void **state)
{
    (void)state;
    enum { COUNT = MICRO * SEQ * N };
    float g[COUNT] = {0};
    mega_step_result x, y;
    mega_engine *e = open_training(&with_loss, false), *same = open_training(&with_loss, false);
    need_error(mega_engine_backward_from(NULL, "y", g, COUNT, 1), MEGA_ERR_USAGE, "the engine is NULL");
    need_error(mega_engine_backward_from(e, "y", g, COUNT, 1), MEGA_ERR_USAGE, "mega_engine_forward is next");
    for (int m = 0; m < BATCH / MICRO; m++) {
        forward(e, m);
        own_gradient(e, g);
        need_error(mega_engine_backward_from(e, NULL, g, COUNT, 1), MEGA_ERR_USAGE, "the argument output is NULL");
        need_error(mega_engine_backward_from(e, "y", NULL, COUNT, 1), MEGA_ERR_USAGE, "the argument gradient is NULL");
        need_error(mega_engine_backward_from(e, "z", g, COUNT, 1), MEGA_ERR_NOT_FOUND, "it has no output \"z\"");
        need_error(mega_engine_backward_from(e, "y", g, 7, 1), MEGA_ERR_USAGE, "expected 64 elements");
        need_error(mega_engine_backward_from(e, "y", g, COUNT, -1), MEGA_ERR_USAGE, "weight -1");
        need_error(mega_engine_backward_from(e, "y", g, COUNT, NAN), MEGA_ERR_USAGE, "weight nan");
        need(mega_engine_backward(e));
        need(mega_engine_step(e, &x));
        forward(same, m);
        need(mega_engine_backward(same));
        need(mega_engine_step(same, &y));
    }
    assert_true(x.grad_norm == y.grad_norm && x.loss == y.loss);
    expect_same_weights(e, same);
    mega_engine_destroy(e);
    mega_engine_destroy(same);
}

static void what_a_loss_of_the_caller_excludes(void **state)
{
    (void)state;
    enum { COUNT = MICRO * SEQ * N };
    const float g[COUNT] = {0};
    mega_engine *e = open_training(&without_loss, false);
    forward(e, 0);
    need_error(mega_engine_backward(e), MEGA_ERR_USAGE, "the model has no loss with a coefficient other than 0");
    need(mega_engine_backward_from(e, "y", g, COUNT, 1)); /* its forward is still valid */
    mega_engine_destroy(e);
    e = open_training(&with_loss, true);
    forward(e, 0);
    need_error(mega_engine_backward_from(e, "y", g, COUNT, 1), MEGA_ERR_UNSUPPORTED, "--calculate-per-token-loss");
    mega_engine_destroy(e);
}

static mega_status no_samples(void *user, int64_t index, mega_sample *sample)
{
    (void)user, (void)sample;
    return MEGA_FAIL(MEGA_ERR_IO, "sample %lld is read", (long long)index);
}

static void describe_output_alone(const mega_builder *b, const void *self, mega_flow *flow)
{
    (void)self;
    mega_output(b, "y", mega_linear(b, "fc", mega_input(b, "x", MEGA_F32, SEQ, C), N, NULL));
    flow->x = mega_none();
}

/* A model without a loss can be trained with the caller's loss and read in MEGA_EVAL, but it has no loss to
 * evaluate. */
static void a_model_of_an_output_alone(void **state)
{
    (void)state;
    const mega_layer layer = {.path = "net", .describe = describe_output_alone};
    mega_engine_options o = engine_run_options(BATCH, MICRO, 0);
    const mega_dataset data = {.count = 1, .read = no_samples};
    mega_step_result r;
    float y[MICRO * SEQ * N];
    for (int evaluates = 0; evaluates < 2; evaluates++) {
        o.no_train = evaluates == 1;
        mega_engine *e = open_with(&layer, &o);
        need(mega_engine_allocate(e));
        need(mega_engine_initialize(e, 5));
        need_error(mega_engine_evaluate(e, &data, 0, &r), MEGA_ERR_USAGE, "the model has no loss to evaluate");
        forward(e, 0);
        need(mega_engine_read_output(e, "y", MICRO * SEQ * N, y));
        mega_engine_destroy(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_of_the_last_micro_batch),
        cmocka_unit_test(wrong_reads_are_refused),
        cmocka_unit_test(a_step_needs_a_loss_of_the_model),
        cmocka_unit_test(a_loss_of_the_caller),
        cmocka_unit_test(a_loss_of_the_caller_beside_one_of_the_model),
        cmocka_unit_test(wrong_gradients_change_nothing),
        cmocka_unit_test(what_a_loss_of_the_caller_excludes),
        cmocka_unit_test(a_model_of_an_output_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
