/* Tests batch norm's running statistics: a step updates these buffers once for each group of samples, in sample order,
 * as PyTorch does on one rank with micro-batches of one group. */
#include "device.h"
#include "engine_run.h"
#include "kit.h"
#include "megalith/checkpoint.h"
#include "megalith/layers.h"
#include "megalith/model.h"
#include "megalith/safetensors.h"

#include <math.h>
#include <string.h>

enum { SEQ = ENGINE_RUN_SEQ, BATCH = 4, C = 3, STEPS = 3, SAMPLE = SEQ * C };
static const double MOMENTUM = 0.3, EPSILON = 1e-5;

typedef struct form {
    int group; /* in samples */
    bool recomputes, is_unused, is_frozen;
} form;

/* The statistics are those of the input, so the test can compute them. The second norm has no running statistics. */
static void describe(const mega_builder *b, const void *self, mega_flow *flow)
{
    const form *f = self;
    const mega_linear_options random = {.weight = {.init = MEGA_INIT_FAN_IN, .is_frozen = f->is_frozen}};
    const mega_tensor x = mega_input(b, "x", MEGA_F32, SEQ, C);
    if (f->recomputes) mega_recompute_begin(b);
    const mega_tensor normal = mega_batch_norm(b, "bn", x, f->group, MOMENTUM, EPSILON);
    mega_tensor y = mega_linear(b, "fc", f->is_unused ? x : normal, C, &random);
    y = mega_batch_norm(b, "bn2", y, 1, 0, EPSILON);
    if (f->recomputes) mega_recompute_end(b);
    if (!f->recomputes) mega_output(b, "normal", normal);
    mega_loss_add(b, "error", mega_squared_error(b, y, x, mega_none()), 1);
    flow->x = mega_none();
}

/* Clipping and weight decay must not affect buffers. */
static mega_engine *open_engine(const form *f, int64_t micro, mega_dtype compute)
{
    const mega_layer layer = {.path = "net", .describe = describe, .self = f};
    const mega_model model = {.name = "buffers", .layer = &layer, .num_layers = 1};
    mega_engine_options o = engine_run_options(BATCH, micro, 0.1);
    mega_engine *e = NULL;
    o.compute = compute;
    o.clip_grad = 1e-3;
    o.schedule.start_weight_decay = o.schedule.end_weight_decay = 0.5;
    need(mega_engine_create(&(mega_setup){.model = &model, .options = &o}, &e));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 5));
    return e;
}

static float pixel(int64_t sample, int i)
{
    return (float)(sin(1.0 + i + 100.0 * (double)sample) * (1.0 + (double)(sample % 3)) + 0.5 * (i % C));
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

typedef struct statistics {
    double mean[C], var[C];
} statistics;

/* Returns the statistics after updates by one group after the other, starting from mean 0 and variance 1. */
static statistics expected_after(int64_t samples, int group)
{
    const int rows = group * SEQ;
    statistics r = {{0}, {1, 1, 1}};
    for (int64_t first = 0; first < samples; first += group)
        for (int c = 0; c < C; c++) {
            double mean = 0, squares = 0;
            for (int i = 0; i < rows; i++) mean += (double)pixel(first + i / SEQ, i % SEQ * C + c) / rows;
            for (int i = 0; i < rows; i++) squares += pow((double)pixel(first + i / SEQ, i % SEQ * C + c) - mean, 2);
            r.mean[c] = (1 - MOMENTUM) * r.mean[c] + MOMENTUM * mean;
            r.var[c] = (1 - MOMENTUM) * r.var[c] + MOMENTUM * squares / (rows - 1);
        }
    return r;
}

static double number(mega_engine *e, const char *name, int i)
{
    const mega_params *p = mega_engine_params(e);
    const int buffer = mega_params_find(p, name);
    assert_true(buffer >= 0);
    assert_true(mega_params_get(p, buffer)->is_buffer);
    return device_number(mega_params_master(p, buffer), mega_params_acc_dtype(p), i);
}

static void expect_statistics(mega_engine *e, const statistics *r, double tolerance)
{
    for (int c = 0; c < C; c++) {
        const double mean = number(e, "net.bn.running_mean", c), var = number(e, "net.bn.running_var", c);
        if (fabs(mean - r->mean[c]) > tolerance || fabs(var - r->var[c]) > tolerance)
            fail_msg("channel %d: mean %.9g, variance %.9g; expected %.9g, %.9g", c, mean, var, r->mean[c], r->var[c]);
    }
}

static void train(mega_engine *e, int steps)
{
    mega_step_result r;
    for (int i = 0; i < steps; i++) {
        fill(mega_engine_batch(e), mega_engine_progress_get(e)->consumed_samples);
        need(mega_engine_train_batch(e, &r));
        assert_true(r.clip_factor < 1);
    }
}

static void evaluate(mega_engine *e, mega_loss_sums *sums)
{
    fill(mega_engine_evaluation_batch(e, BATCH, 0), 50);
    need(mega_engine_evaluate_batch(e, sums));
}

/* For any micro-batch size, groups update the statistics in sample order; an evaluation does not change them. */
static void statistics_follow_the_groups_in_order(void **state)
{
    (void)state;
    for (int group = 1; group <= 2; group++)
        for (int64_t micro = group; micro <= BATCH; micro *= 2)
            for (int k = 0; k < 3; k++) {
                const form f = {.group = group, .recomputes = k == 1, .is_unused = k == 2};
                const statistics expected = expected_after((int64_t)STEPS * BATCH, group);
                mega_engine *e = open_engine(&f, micro, MEGA_F64);
                mega_loss_sums sums = {0};
                train(e, STEPS);
                expect_statistics(e, &expected, 1e-12);
                evaluate(e, &sums);
                expect_statistics(e, &expected, 1e-12);
                mega_engine_destroy(e);
            }
}

/* The caller runs the micro-batches, and ends a step after a different number of them than the settings have. */
static void steps_of_any_number_of_micro_batches(void **state)
{
    (void)state;
    const form f = {.group = 1};
    for (int count = 1; count <= 4; count++) {
        mega_engine *e = open_engine(&f, 2, MEGA_F64);
        train(e, 1);
        for (int i = 0; i < count; i++) {
            need(mega_engine_set_accumulation_boundary(e, i == count - 1));
            fill(mega_engine_micro_batch(e), BATCH + 2 * i);
            need(mega_engine_forward(e, NULL));
            need(mega_engine_backward(e));
            need(mega_engine_step(e, NULL));
        }
        const statistics expected = expected_after(BATCH + 2 * count, 1);
        expect_statistics(e, &expected, 1e-12);
        mega_engine_destroy(e);
    }
}

/* Masters are not rounded; the copies that an evaluation reads are. */
static void masters_of_bf16_weights_are_exact(void **state)
{
    (void)state;
    const form f = {.group = 1};
    mega_engine *e = open_engine(&f, 2, MEGA_BF16);
    train(e, STEPS);
    const statistics expected = expected_after((int64_t)STEPS * BATCH, 1);
    expect_statistics(e, &expected, 5e-3); /* the input is rounded */
    const mega_params *p = mega_engine_params(e);
    const int i = mega_params_find(p, "net.bn.running_var");
    float master[C];
    uint16_t weight[C];
    mega_device_read(master, mega_params_master(p, i), sizeof master);
    mega_device_read(weight, mega_params_weight(p, i), sizeof weight);
    for (int c = 0; c < C; c++) assert_int_equal(weight[c], mega_f32_to_bf16(master[c]));
    mega_engine_destroy(e);
}

static void an_evaluation_normalizes_with_them(void **state)
{
    (void)state;
    const form f = {.group = 2};
    float found[BATCH * SAMPLE];
    mega_engine *e = open_engine(&f, BATCH, MEGA_F32);
    mega_loss_sums sums = {0};
    train(e, 1);
    const statistics r = expected_after(BATCH, 2);
    evaluate(e, &sums);
    need(mega_engine_read_output(e, "normal", (int64_t)BATCH * SAMPLE, found));
    float gain[C], bias[C];
    need(mega_engine_get_param(e, "net.bn.weight", NULL, C, gain));
    need(mega_engine_get_param(e, "net.bn.bias", NULL, C, bias));
    for (int i = 0; i < BATCH * SAMPLE; i++) {
        const double x = (double)pixel(50 + i / SAMPLE, i % SAMPLE),
                     normal = (x - r.mean[i % C]) / sqrt(r.var[i % C] + EPSILON);
        const double expected = normal * (double)gain[i % C] + (double)bias[i % C];
        if (fabs((double)found[i] - expected) > 1e-5)
            fail_msg("element %d: %g, expected %g", i, (double)found[i], expected);
    }
    mega_engine_destroy(e);
}

/* Buffers do not count in the gradient norm, in the moments or in the number of parameters. */
static void nothing_else_counts_them(void **state)
{
    (void)state;
    const form f = {.group = 1};
    mega_engine *e = open_engine(&f, 2, MEGA_F64);
    mega_optimizer_groups groups;
    mega_norm_result before, after;
    const int64_t trained = C * C + C + 2 * 2 * C;
    mega_params *p = mega_engine_params(e);
    assert_int_equal(mega_params_logical_count(p), trained);
    mega_optimizer_groups_get(mega_engine_optimizer(e), &groups);
    assert_int_equal(groups.decayed_elements + groups.not_decayed_elements, trained);
    need(mega_optimizer_params_norm(mega_engine_optimizer(e), &before));
    device_set(mega_params_master(p, mega_params_find(p, "net.bn.running_var")), MEGA_F64, 1, 1e9);
    need(mega_optimizer_params_norm(mega_engine_optimizer(e), &after));
    assert_true(before.norm == after.norm && before.zeros == after.zeros);
    mega_engine_destroy(e);
}

/* Returns the total bytes of the tensors in a file. */
static int64_t tensor_bytes(const char *path)
{
    mega_safetensors *file = NULL;
    int64_t bytes = 0;
    need(mega_safetensors_open(path, &file));
    for (size_t i = 0; i < mega_safetensors_count(file); i++) {
        const mega_safetensor *t = mega_safetensors_get(file, i);
        bytes += (int64_t)(t->end - t->begin);
    }
    mega_safetensors_close(file);
    return bytes;
}

/* All parameters except one train as if that one were a constant; it has no optimizer state in the checkpoint. */
static void a_frozen_parameter_stays(void **state)
{
    (void)state;
    const form f = {.group = 1, .is_frozen = true}, trained = {.group = 1};
    const char *folder = mega_kit_temp_folder();
    const mega_engine_save_options o = {.folder = folder, .save_dtype = MEGA_F32};
    mega_engine *e = open_engine(&f, 2, MEGA_F64), *other = open_engine(&trained, 2, MEGA_F64);
    mega_params *p = mega_engine_params(e);
    mega_safetensors *file = NULL;
    mega_optimizer_groups groups;
    mega_step_result r, of_other;
    const int at = mega_params_find(p, "net.fc.weight"), gain = mega_params_find(p, "net.bn.weight");
    double before[C * C], ones[C], grad[C * C];
    mega_device_read(before, mega_params_master(p, at), sizeof before);
    mega_device_read(ones, mega_params_master(p, gain), sizeof ones);
    fill(mega_engine_batch(e), 0);
    need(mega_engine_train_batch(e, &r));
    fill(mega_engine_batch(other), 0);
    need(mega_engine_train_batch(other, &of_other));
    assert_true(r.loss == of_other.loss);
    mega_device_read(grad, mega_params_grad(mega_engine_params(other), at), sizeof grad);
    double squares = 0;
    for (int i = 0; i < C * C; i++) squares += grad[i] * grad[i];
    if (fabs(r.grad_norm * r.grad_norm + squares - of_other.grad_norm * of_other.grad_norm) > 1e-12)
        fail_msg("norm %.15g; with the frozen gradient %.15g", r.grad_norm, of_other.grad_norm);
    assert_true(device_is_equal(before, mega_params_master(p, at), sizeof before));
    assert_false(device_is_equal(ones, mega_params_master(p, gain), sizeof ones));
    mega_optimizer_groups_get(mega_engine_optimizer(e), &groups);
    assert_int_equal(groups.decayed, 0);
    float moment[C * C];
    assert_null(mega_optimizer_moment(mega_engine_optimizer(e), 0, at));
    assert_int_equal(mega_params_state_elements(p),
                     mega_params_elements(p) - mega_params_bucket(p, mega_params_get(p, at)->bucket)->count);
    assert_true(mega_optimizer_bytes(mega_engine_optimizer(e)) < mega_optimizer_bytes(mega_engine_optimizer(other)));
    need(mega_engine_get_param(e, "net.fc.weight", "exp_avg", C * C, moment));
    for (int i = 0; i < C * C; i++) assert_true(moment[i] == 0.0f);
    assert_null(mega_params_grad(p, at)); /* the matrix alone has no memory for a gradient */
    assert_int_equal(mega_params_bytes(mega_engine_params(other), MEGA_PARAMS_GRADS),
                     mega_params_bytes(p, MEGA_PARAMS_GRADS) +
                         (size_t)mega_params_bucket(p, mega_params_get(p, at)->bucket)->count * sizeof(double));
    assert_int_equal(mega_params_logical_count(p), C * C + C + 2 * 2 * C);
    need(mega_engine_save(e, &o));
    need(mega_safetensors_open(mega_kit_path(folder, "iter_0000001/state/optimizer.safetensors"), &file));
    assert_null(mega_safetensors_find(file, "exp_avg.net.fc.weight"));
    assert_non_null(mega_safetensors_find(file, "exp_avg.net.bn.weight"));
    assert_null(mega_safetensors_find(file, "exp_avg.net.bn.running_var"));
    mega_safetensors_close(file);
    assert_int_equal(mega_engine_save_bytes(e, &o),
                     tensor_bytes(mega_kit_path(folder, "iter_0000001/model.safetensors")) +
                         tensor_bytes(mega_kit_path(folder, "iter_0000001/state/masters.safetensors")) +
                         tensor_bytes(mega_kit_path(folder, "iter_0000001/state/optimizer.safetensors")));
    mega_engine_destroy(e);
    mega_engine_destroy(other);
}

static void they_are_saved_and_loaded(void **state)
{
    (void)state;
    const form f = {.group = 1};
    const char *folder = mega_kit_temp_folder();
    const mega_engine_save_options o = {.folder = folder, .save_dtype = MEGA_F32};
    mega_engine *a = open_engine(&f, 2, MEGA_F32), *b = open_engine(&f, 1, MEGA_F32);
    mega_loss_sums one = {0}, other = {0};
    mega_checkpoint *c = NULL;
    mega_engine_loaded loaded;
    train(a, 2);
    need(mega_engine_save(a, &o));
    need(mega_checkpoint_open(folder, false, &c));
    need(mega_engine_load(b, c, &(mega_engine_load_options){.finetune = false}, &loaded));
    mega_checkpoint_close(c);
    for (int i = 0; i < C; i++) {
        assert_true(number(a, "net.bn.running_mean", i) == number(b, "net.bn.running_mean", i));
        assert_true(number(a, "net.bn.running_var", i) == number(b, "net.bn.running_var", i));
    }
    train(b, 1);
    const statistics expected = expected_after((int64_t)3 * BATCH, 1);
    expect_statistics(b, &expected, 1e-5);
    train(a, 1);
    evaluate(a, &one);
    evaluate(b, &other);
    assert_true(fabs(one.loss / one.count - other.loss / other.count) < 1e-5 * fabs(one.loss));
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_follow_the_groups_in_order),
        cmocka_unit_test(steps_of_any_number_of_micro_batches),
        cmocka_unit_test(masters_of_bf16_weights_are_exact),
        cmocka_unit_test(an_evaluation_normalizes_with_them),
        cmocka_unit_test(nothing_else_counts_them),
        cmocka_unit_test(a_frozen_parameter_stays),
        cmocka_unit_test(they_are_saved_and_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
