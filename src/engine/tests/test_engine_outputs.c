/* Outputs of a model that the caller reads after a step and after an evaluation. */
#include "engine_run.h"
#include "kit.h"
#include "megalith/layers.h"
#include "megalith/model.h"

#include <math.h>
#include <string.h>

enum { SEQ = ENGINE_RUN_SEQ, BATCH = 4, MICRO = 2, C = 3, N = 2 };

static void need(mega_status st)
{
    if (st != MEGA_OK) fail_msg("%s", mega_error_message());
}

/* y = x W + bias as an output; `self` is whether there is a loss. */
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

static mega_engine *open_engine(bool has_loss)
{
    static bool loss[2] = {false, true};
    const mega_layer layer = {.path = "net", .describe = describe, .self = &loss[has_loss]};
    const mega_model model = {.name = "outputs", .layer = &layer, .num_layers = 1};
    mega_engine_options o = engine_run_options(BATCH, MICRO, 0); /* weights stay */
    o.no_evaluate = !has_loss;
    mega_engine *e = NULL;
    need(mega_engine_create(&(mega_setup){.model = &model, .options = &o}, &e));
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

/* Of the samples from `first` on, out of the parameters. */
static void expected_of(mega_engine *e, double add, int64_t first, float out[MICRO * SEQ * N])
{
    mega_params *p = mega_engine_params(e);
    const float *w = mega_params_master(p, 0), *bias = mega_params_master(p, 1);
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

/* They are those of the last micro-batch, whichever program ran it. */
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

static void expect(mega_status st, mega_status expected, const char *message)
{
    if (st != expected || strstr(mega_error_message(), message) == NULL)
        fail_msg("status %d, \"%s\"; expected %d, \"%s\"", (int)st, mega_error_message(), (int)expected, message);
}

static void wrong_reads_are_refused(void **state)
{
    (void)state;
    float y[MICRO * SEQ * N];
    mega_step_result step;
    mega_engine *e = open_engine(true);
    expect(mega_engine_read_output(NULL, "y", 1, y), MEGA_ERR_USAGE, "the engine is NULL");
    expect(mega_engine_read_output(e, "y", 1, y), MEGA_ERR_USAGE, "has no memory yet");
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 5));
    expect(mega_engine_read_output(e, "y", MICRO * SEQ * N, y), MEGA_ERR_USAGE, "is read before a forward");
    expect(mega_engine_read_output(e, NULL, 1, y), MEGA_ERR_USAGE, "the argument output is NULL");
    expect(mega_engine_read_output(e, "y", 1, NULL), MEGA_ERR_USAGE, "the argument out is NULL");
    fill(mega_engine_batch(e), 0);
    need(mega_engine_train_batch(e, &step));
    expect(mega_engine_read_output(e, "z", 1, y), MEGA_ERR_NOT_FOUND, "this rank has no output \"z\"");
    expect(mega_engine_read_output(e, "y", 7, y), MEGA_ERR_USAGE, "has 64 elements, and count is 7");
    assert_int_equal(mega_engine_output_count(NULL, "y"), 0);
    assert_int_equal(mega_engine_output_count(e, NULL), 0);
    mega_engine_destroy(e);
}

/* A model whose loss is the caller's own can be created; a step, which has no caller in the middle, refuses it. */
static void a_step_needs_a_loss_of_the_model(void **state)
{
    (void)state;
    mega_step_result step;
    mega_engine *e = open_engine(false);
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 5));
    fill(mega_engine_batch(e), 0);
    expect(mega_engine_train_batch(e, &step), MEGA_ERR_USAGE, "the model has no loss with a coefficient other than 0");
    mega_engine_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_of_the_last_micro_batch),
        cmocka_unit_test(wrong_reads_are_refused),
        cmocka_unit_test(a_step_needs_a_loss_of_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
