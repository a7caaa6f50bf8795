/* Tests the bias of the choice of experts that steps update without a loss (Wang et al. 2024): after each step it is
 * that of a loop in this file, which counts the choices of all samples of the step. */
#include "device.h"
#include "engine_run.h"
#include "kit.h"
#include "megalith/checkpoint.h"
#include "megalith/experts.h"
#include "megalith/layers.h"
#include "megalith/model.h"

#include <math.h>
#include <string.h>

enum { SEQ = ENGINE_RUN_SEQ, BATCH = 4, C = 3, EXPERTS = 6, CHOICES = 2, STEPS = 5, SAMPLE = SEQ * C };
static const double RATE = 0.02;

typedef struct form {
    bool recomputes, is_unused;
} form;

/* The router reads the input, so that the test can compute its choices. Of an unused one no loss depends on them. */
static void describe(const mega_builder *b, const void *self, mega_flow *flow)
{
    const form *f = self;
    const mega_param_options bias = {
        .init = MEGA_INIT_ZERO, .is_buffer = true, .in_acc = true, .buffer_rate = RATE, .buffer_choices = CHOICES};
    mega_router_options o = {.route = {.score = MEGA_ROUTE_SIGMOID, .choices = CHOICES},
                             .weight = {.init = MEGA_INIT_FAN_IN}};
    const mega_tensor x = mega_input(b, "x", MEGA_F32, SEQ, C);
    o.choice_bias = mega_builder_param(b, "gate.bias", EXPERTS, 0, &bias);
    if (f->recomputes) mega_recompute_begin(b);
    const mega_router_result r = mega_router(b, "gate", x, EXPERTS, &o);
    const mega_tensor squares = mega_mul(b, r.weight, r.weight);
    if (f->recomputes) mega_recompute_end(b);
    const mega_tensor y = mega_linear(b, "fc", x, C, NULL);
    mega_loss_add(b, "error", mega_squared_error(b, y, x, mega_none()), 1);
    if (!f->is_unused) mega_loss_add(b, "weights", mega_sum(b, squares, mega_none()), 1);
    flow->x = mega_none();
}

static mega_engine *open_scaled(const form *f, int64_t micro, mega_dtype compute, double scale)
{
    const mega_layer layer = {.path = "net", .describe = describe, .self = f};
    const mega_model model = {.name = "biases", .layer = &layer, .num_layers = 1};
    mega_engine_options o = engine_run_options(BATCH, micro, 0.1);
    mega_engine *e = NULL;
    o.compute = compute;
    o.loss_scale.initial = scale;
    o.loss_scale.least = 1;
    o.clip_grad = 1e-2;
    o.schedule.start_weight_decay = o.schedule.end_weight_decay = 0.5;
    need(mega_engine_create(&(mega_setup){.model = &model, .options = &o}, &e));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 5));
    return e;
}

static mega_engine *open_engine(const form *f, int64_t micro, mega_dtype compute)
{
    return open_scaled(f, micro, compute, 16); /* at which no step of fp16 overflows */
}

static float pixel(int64_t sample, int i)
{
    return (float)(sin(1.0 + i + 100.0 * (double)sample) + 0.4 * (i % C));
}

static void fill(mega_batch *b, int64_t first)
{
    float x[SAMPLE];
    assert_non_null(b);
    for (int64_t s = 0; s < mega_batch_num_samples(b); s++) {
        for (int i = 0; i < SAMPLE; i++) x[i] = pixel(first + s, i);
        need(mega_sample_set_f32(mega_batch_sample(b, s), "x", x, SAMPLE));
    }
}

static double number(mega_engine *e, const char *name, int i)
{
    const mega_params *p = mega_engine_params(e);
    const int param = mega_params_find(p, name);
    assert_true(param >= 0);
    return device_number(mega_params_master(p, param), mega_params_acc_dtype(p), i);
}

static double as_computed(mega_dtype type, double x)
{
    return mega_dtype_is_half(type) ? (double)mega_half_to_f32(mega_f32_to_half((float)x, type), type) : x;
}

/* Adds the choices of a token to counts. */
static void count_token(mega_dtype type, const double w[EXPERTS * C], const double *bias, int64_t sample, int row,
                        int *counts)
{
    double key[EXPERTS];
    for (int x = 0; x < EXPERTS; x++) {
        double logit = 0;
        for (int c = 0; c < C; c++) logit += w[x * C + c] * as_computed(type, (double)pixel(sample, row * C + c));
        key[x] = 1 / (1 + exp(-logit)) + bias[x];
    }
    for (int j = 0; j < CHOICES; j++) {
        int best = 0;
        for (int x = 1; x < EXPERTS; x++) best = key[x] > key[best] ? x : best;
        counts[best]++;
        key[best] = -INFINITY;
    }
}

/* Sets bias to what it is after a step of these samples with the engine's weights as they are. */
static void step_of_the_test(mega_engine *e, int64_t first, int64_t samples, double bias[EXPERTS])
{
    double w[EXPERTS * C];
    int counts[EXPERTS] = {0};
    const mega_dtype type = mega_params_compute_dtype(mega_engine_params(e));
    for (int i = 0; i < EXPERTS * C; i++) w[i] = as_computed(type, number(e, "net.gate.weight", i));
    for (int64_t s = first; s < first + samples; s++)
        for (int row = 0; row < SEQ; row++) count_token(type, w, bias, s, row, counts);
    const double mean = (double)(samples * SEQ * CHOICES) / EXPERTS;
    for (int x = 0; x < EXPERTS; x++) bias[x] += counts[x] < mean ? RATE : counts[x] > mean ? -RATE : 0;
}

static void expect_bias(mega_engine *e, const double bias[EXPERTS], double tolerance)
{
    for (int x = 0; x < EXPERTS; x++)
        if (fabs(number(e, "net.gate.bias", x) - bias[x]) > tolerance)
            fail_msg("expert %d: %.17g; expected %.17g", x, number(e, "net.gate.bias", x), bias[x]);
}

static void train(mega_engine *e, int steps, double bias[EXPERTS], double tolerance)
{
    mega_step_result r;
    for (int i = 0; i < steps; i++) {
        const int64_t first = mega_engine_progress_get(e)->consumed_samples;
        step_of_the_test(e, first, BATCH, bias);
        fill(mega_engine_batch(e), first);
        need(mega_engine_train_batch(e, &r));
        assert_false(r.skipped);
        expect_bias(e, bias, tolerance);
    }
}

/* For any micro-batch size, also where choices are computed again in the backward; an evaluation changes nothing. */
static void a_step_updates_by_its_counts(void **state)
{
    (void)state;
    for (int64_t micro = 1; micro <= BATCH; micro *= 2)
        for (int k = 0; k < 3; k++) {
            const form f = {.recomputes = k == 1, .is_unused = k == 2};
            double bias[EXPERTS] = {0};
            mega_engine *e = open_engine(&f, micro, MEGA_F64);
            mega_loss_sums sums = {0};
            train(e, STEPS, bias, 0);
            double size = 0;
            for (int x = 0; x < EXPERTS; x++) size += fabs(bias[x]);
            assert_true(size > 2 * RATE); /* some experts are chosen more often than others, again and again */
            fill(mega_engine_evaluation_batch(e, BATCH, 0), 50);
            need(mega_engine_evaluate_batch(e, &sums));
            expect_bias(e, bias, 0);
            mega_engine_destroy(e);
        }
}

/* What the next forward reads is the bias itself, which is not rounded. */
static void expect_read_whole(mega_engine *e)
{
    const mega_params *p = mega_engine_params(e);
    const int param = mega_params_find(p, "net.gate.bias");
    assert_true(param >= 0);
    assert_int_equal(mega_params_weight_dtype(p, mega_params_get(p, param)->bucket), MEGA_F32);
    for (int x = 0; x < EXPERTS; x++)
        assert_true(device_number(mega_params_weight(p, param), MEGA_F32, x) == number(e, "net.gate.bias", x));
}

/* In 16 bits the choices are those of the rounded weights and inputs with a bias that is not rounded. */
static void a_step_in_16_bits_does_not_round_it(void **state)
{
    (void)state;
    static const mega_dtype types[] = {MEGA_BF16, MEGA_F16};
    for (int t = 0; t < 2; t++)
        for (int64_t micro = 1; micro <= BATCH; micro *= 4) {
            const form f = {.recomputes = micro == 1};
            double bias[EXPERTS] = {0}, rounded = 0;
            mega_engine *e = open_engine(&f, micro, types[t]);
            train(e, STEPS, bias, 1e-7);
            expect_read_whole(e);
            for (int x = 0; x < EXPERTS; x++) rounded += fabs(as_computed(types[t], bias[x]) - bias[x]);
            assert_true(rounded > 1e-6); /* 16 bits do not hold these numbers */
            mega_engine_destroy(e);
        }
}

/* A step whose gradients overflow in fp16 changes no bias. */
static void a_skipped_step_leaves_it(void **state)
{
    (void)state;
    const form f = {.recomputes = false};
    double bias[EXPERTS] = {0};
    mega_engine *e = open_scaled(&f, 2, MEGA_F16, 0x1p40);
    mega_step_result r = {.skipped = true};
    int skipped = 0;
    for (; skipped < 60 && r.skipped; skipped++) {
        const int64_t first = mega_engine_progress_get(e)->consumed_samples;
        double next[EXPERTS];
        memcpy(next, bias, sizeof next);
        step_of_the_test(e, first, BATCH, next);
        fill(mega_engine_batch(e), first);
        need(mega_engine_train_batch(e, &r));
        if (!r.skipped) memcpy(bias, next, sizeof bias);
        expect_bias(e, bias, 1e-7);
        expect_read_whole(e);
    }
    assert_true(skipped > 2 && !r.skipped);
    mega_engine_destroy(e);
}

/* The caller ends a step after another number of micro-batches than the settings have: the mean is that of these. */
static void steps_of_any_number_of_micro_batches(void **state)
{
    (void)state;
    const form f = {.recomputes = false};
    for (int count = 1; count <= 4; count++) {
        double bias[EXPERTS] = {0};
        mega_engine *e = open_engine(&f, 2, MEGA_F64);
        train(e, 1, bias, 0);
        step_of_the_test(e, BATCH, 2 * count, bias);
        for (int i = 0; i < count; i++) {
            need(mega_engine_set_accumulation_boundary(e, i == count - 1));
            fill(mega_engine_micro_batch(e), BATCH + 2 * i);
            need(mega_engine_forward(e, NULL));
            need(mega_engine_backward(e));
            need(mega_engine_step(e, NULL));
        }
        expect_bias(e, bias, 0);
        mega_engine_destroy(e);
    }
}

/* no_optim: the weights of the folder, without the exact ones beside them. */
static void save_and_load(mega_dtype compute, mega_dtype save_dtype, bool no_optim)
{
    const form f = {.recomputes = false};
    const char *folder = mega_kit_temp_folder();
    const mega_engine_save_options o = {.folder = folder, .save_dtype = save_dtype, .no_optim = no_optim};
    double bias[EXPERTS] = {0};
    mega_engine *a = open_engine(&f, 2, compute), *b = open_engine(&f, 1, compute);
    mega_checkpoint *c = NULL;
    mega_engine_loaded loaded;
    train(a, 3, bias, 1e-7);
    need(mega_engine_save(a, &o));
    need(mega_checkpoint_open(folder, false, &c));
    need(mega_engine_load(b, c, &(mega_engine_load_options){.no_optim = no_optim}, &loaded));
    mega_checkpoint_close(c);
    for (int x = 0; x < EXPERTS; x++)
        assert_true(number(a, "net.gate.bias", x) == number(b, "net.gate.bias", x) &&
                    number(a, "net.gate.bias", x) != 0);
    train(b, 2, bias, 1e-7);
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

/* Folders of 16 bits have it whole. */
static void it_is_saved_and_loaded(void **state)
{
    (void)state;
    save_and_load(MEGA_F32, MEGA_F32, false);
    save_and_load(MEGA_BF16, MEGA_F32, false);
    save_and_load(MEGA_BF16, MEGA_BF16, false);
    save_and_load(MEGA_BF16, MEGA_BF16, true);
    save_and_load(MEGA_F16, MEGA_F16, true);
    save_and_load(MEGA_F32, MEGA_BF16, true);
}

/* What cannot be is refused by name. */
static void wrong_biases_are_refused(void **state)
{
    (void)state;
    const form f = {.recomputes = false};
    const mega_layer layer = {.path = "net", .describe = describe, .self = &f};
    const mega_model model = {.name = "biases", .layer = &layer, .num_layers = 1};
    mega_engine_options o = engine_run_options(BATCH, 1, 0.1);
    mega_engine *e = NULL;
    o.compute = MEGA_F32;
    o.optimizer.kind = MEGA_OPTIMIZER_ONE_BIT_ADAM;
    o.optimizer.freeze_step = 3;
    assert_int_equal(mega_engine_create(&(mega_setup){.model = &model, .options = &o}, &e), MEGA_ERR_UNSUPPORTED);
    assert_non_null(strstr(mega_error_message(), "with biases of the choice of experts that each step updates"));
    mega_engine_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_updates_by_its_counts), cmocka_unit_test(a_step_in_16_bits_does_not_round_it),
        cmocka_unit_test(a_skipped_step_leaves_it),     cmocka_unit_test(steps_of_any_number_of_micro_batches),
        cmocka_unit_test(it_is_saved_and_loaded),       cmocka_unit_test(wrong_biases_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
