/* Compares AdamW, SGD, Adagrad, Muon and clipping with PyTorch, Lamb with its formulas: tests/golden/optimizer.json,
 * made by tools/make_optim_golden.py. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/optimizer_state.h"
#include "megalith/update.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

typedef struct fixture {
    mega_layout *layout;
    mega_params *params;
    mega_optimizer *optimizer;
    int w, b;
    mega_update *update;
    double most; /* relative error in double */
    _Alignas(64) char scratch[4096];
} fixture;

static void fixture_open(fixture *f, const mega_optimizer_options *options, mega_dtype compute, bool plain)
{
    const mega_param w = {.name = "w", .num_dims = 2, .shape = {3, 5}, .true_shape = {3, 5}, .weight_decay = true};
    const mega_param b = {.name = "b", .num_dims = 1, .shape = {5, 1}, .true_shape = {5, 1}};
    mega_optimizer_options o = *options;
    o.backend = plain ? MEGA_BACKEND_PLAIN : MEGA_BACKEND_CPU;
    f->most = options->kind == MEGA_OPTIMIZER_MUON ? 1e-12 : 1e-14; /* the iteration magnifies roundings */
    need(mega_layout_create(NULL, &(mega_layout_sizes){0}, &f->layout));
    need(mega_params_create(f->layout, &f->params));
    need(mega_params_add(f->params, &w, &f->w));
    need(mega_params_add(f->params, &b, &f->b));
    need(mega_params_place(f->params, compute, 1000));
    need(mega_params_allocate(f->params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_optimizer_create(f->params, f->layout, &o, &f->optimizer));
    need(mega_optimizer_allocate(f->optimizer));
    need(mega_update_create(f->optimizer, &(mega_update_options){0}, &f->update));
    const size_t scratch = mega_update_scratch_bytes(f->update);
    assert_true(scratch <= sizeof f->scratch);
    mega_update_allocate(f->update, f->scratch);
}

static void fixture_close(fixture *f)
{
    mega_update_destroy(f->update);
    mega_optimizer_destroy(f->optimizer);
    mega_params_destroy(f->params);
    mega_layout_destroy(f->layout);
}

static void put(const fixture *f, void *data, const json_t *values)
{
    const bool is_double = mega_params_acc_dtype(f->params) == MEGA_F64;
    for (size_t i = 0; i < json_array_size(values); i++) {
        const double v = json_real_value(json_array_get(values, i));
        if (is_double) ((double *)data)[i] = v;
        else
            ((float *)data)[i] = (float)v;
    }
}

static void compare(const fixture *f, const char *what, size_t step, const void *data, const json_t *values)
{
    const bool is_double = mega_params_acc_dtype(f->params) == MEGA_F64;
    double difference = 0, size = 0;
    for (size_t i = 0; i < json_array_size(values); i++) {
        const double v = json_real_value(json_array_get(values, i));
        const double x = is_double ? ((const double *)data)[i] : (double)((const float *)data)[i];
        difference += (x - v) * (x - v);
        size += v * v;
    }
    /* double: the same operations in another order. float: about ten roundings a step of values near one. */
    const double error = sqrt(difference / size), most = is_double ? f->most : 1e-6;
    if (!(error <= most)) fail_msg("%s after step %zu: relative error %.3g, at most %.3g", what, step + 1, error, most);
}

static void run_steps(fixture *f, const json_t *run, double clip)
{
    const json_t *start = json_object_get(run, "start"), *steps = json_object_get(run, "steps");
    put(f, mega_params_master(f->params, f->w), json_object_get(start, "w"));
    put(f, mega_params_master(f->params, f->b), json_object_get(start, "b"));
    need(mega_params_publish(f->params));
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *s = json_array_get(steps, i);
        mega_optimizer_zero_gradients(f->optimizer);
        put(f, mega_params_grad(f->params, f->w), json_object_get(s, "grad_w"));
        put(f, mega_params_grad(f->params, f->b), json_object_get(s, "grad_b"));
        mega_update_step *u = mega_update_step_block(f->update);
        *u = (mega_update_step){.correction = 1,
                                .clip = clip,
                                .lr = json_real_value(json_object_get(s, "lr")),
                                .weight_decay = json_real_value(json_object_get(s, "weight_decay"))};
        need(mega_update_run(f->update, MEGA_UPDATE_APPLY));
        const mega_norm_result norm = u->norm;
        const double expected = json_real_value(json_object_get(s, "norm"));
        assert_true(norm.finite);
        assert_int_equal(norm.zeros, 1);
        if (!(fabs(norm.norm - expected) <= 1e-7 * expected)) fail_msg("norm %.12g, not %.12g", norm.norm, expected);
        compare(f, "w", i, mega_params_master(f->params, f->w), json_object_get(s, "w"));
        compare(f, "b", i, mega_params_master(f->params, f->b), json_object_get(s, "b"));
        if (mega_optimizer_averages(f->optimizer))
            compare(f, "average", i, mega_optimizer_weight(f->optimizer, f->w), json_object_get(s, "average"));
    }
}

static const mega_optimizer_options adam = {.kind = MEGA_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8},
                                    sgd = {.kind = MEGA_OPTIMIZER_SGD, .momentum = 0.9};

static void agrees(const char *run, const mega_optimizer_options *options, mega_dtype compute, bool plain)
{
    fixture f;
    json_error_t error;
    json_t *golden = json_load_file(mega_kit_source("tests/golden/optimizer.json"), 0, &error);
    if (golden == NULL) fail_msg("optimizer.json: %s", error.text);
    fixture_open(&f, options, compute, plain);
    run_steps(&f, json_object_get(golden, run), json_real_value(json_object_get(golden, "clip")));
    if (mega_dtype_is_half(compute)) { /* the 16-bit weights are the masters rounded */
        const float *master = mega_params_master(f.params, f.w);
        const uint16_t *weight = mega_params_weight(f.params, f.w);
        for (int i = 0; i < 15; i++) assert_int_equal(weight[i], mega_f32_to_half(master[i], compute));
    }
    fixture_close(&f);
    json_decref(golden);
}

static void adam_f64(void **state)
{
    (void)state;
    agrees("adam", &adam, MEGA_F64, true);
}

static void adam_f32(void **state)
{
    (void)state;
    agrees("adam", &adam, MEGA_F32, true);
    agrees("adam", &adam, MEGA_F32, false);
}

static void adam_16_bits(void **state)
{
    (void)state;
    agrees("adam", &adam, MEGA_BF16, true);
    agrees("adam", &adam, MEGA_BF16, false);
    agrees("adam", &adam, MEGA_F16, true);
    agrees("adam", &adam, MEGA_F16, false);
}

static void sgd_f64(void **state)
{
    (void)state;
    agrees("sgd", &sgd, MEGA_F64, true);
}

static void sgd_f32_and_16_bits(void **state)
{
    (void)state;
    agrees("sgd", &sgd, MEGA_F32, false);
    agrees("sgd", &sgd, MEGA_BF16, false);
    agrees("sgd", &sgd, MEGA_BF16, true);
    agrees("sgd", &sgd, MEGA_F16, false);
}

static void clip_factor_is_megatrons(void **state)
{
    (void)state;
    assert_true(mega_clip_factor(10, 1) == 1 / (10 + 1e-6));
    assert_true(mega_clip_factor(0.5, 1) == 1);
    assert_true(mega_clip_factor(10, 0) == 1);
    assert_true(mega_clip_factor(1, 1) < 1); /* 1e-6 below the clip already counts */
}

static void finds_what_is_not_finite(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, &adam, MEGA_F32, false);
    assert_int_equal(mega_optimizer_find_nonfinite(f.optimizer), -1);
    ((float *)mega_params_grad(f.params, f.b))[4] = INFINITY;
    need(mega_update_run(f.update, MEGA_UPDATE_APPLY));
    assert_int_equal(mega_update_step_block(f.update)->verdict, MEGA_UPDATE_GRADIENT_IS_NOT_FINITE);
    assert_int_equal(mega_optimizer_find_nonfinite(f.optimizer), f.b);
    fixture_close(&f);
}

static void padding_is_no_zero_gradient(void **state)
{
    (void)state;
    mega_layout *layout;
    mega_params *params;
    mega_optimizer *optimizer;
    mega_update *update;
    int w;
    const mega_param table = {.name = "w", .num_dims = 2, .shape = {8, 3}, .true_shape = {5, 3}, .weight_decay = true};
    need(mega_layout_create(NULL, &(mega_layout_sizes){0}, &layout));
    need(mega_params_create(layout, &params));
    need(mega_params_add(params, &table, &w));
    need(mega_params_place(params, MEGA_F32, 1000));
    need(mega_params_allocate(params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_optimizer_create(params, layout, &(mega_optimizer_options){.beta1 = 0.9, .beta2 = 0.9}, &optimizer));
    need(mega_optimizer_allocate(optimizer));
    ((float *)mega_params_grad(params, w))[7] = 2;
    need(mega_update_create(optimizer, &(mega_update_options){0}, &update));
    need(mega_update_run(update, MEGA_UPDATE_APPLY));
    const mega_norm_result norm = mega_update_step_block(update)->norm;
    assert_int_equal(norm.zeros, 14);
    assert_true(norm.norm == 2);
    mega_update_destroy(update);
    mega_optimizer_destroy(optimizer);
    mega_params_destroy(params);
    mega_layout_destroy(layout);
}

static const mega_optimizer_options muon = {.kind = MEGA_OPTIMIZER_MUON,
                                            .beta1 = 0.9,
                                            .beta2 = 0.95,
                                            .eps = 1e-8,
                                            .muon_momentum = 0.9,
                                            .muon_nesterov = true,
                                            .muon_steps = 5,
                                            .muon_coefficients = MEGA_MUON_SIMPLE,
                                            .muon_scale = MEGA_MUON_SHAPE_SCALING,
                                            .muon_extra_scale = 1};

static void whole_tensors(void **state)
{
    static const mega_optimizer_options lamb = {.kind = MEGA_OPTIMIZER_LAMB,
                                                .beta1 = 0.9,
                                                .beta2 = 0.95,
                                                .eps = 1e-8,
                                                .max_coeff = 10,
                                                .min_coeff = 0.01},
                                        clamped = {.kind = MEGA_OPTIMIZER_LAMB,
                                                   .beta1 = 0.8,
                                                   .beta2 = 0.9,
                                                   .eps = 0.01,
                                                   .max_coeff = 0.9,
                                                   .min_coeff = 0.6,
                                                   .eps_inside_sqrt = true};
    static const mega_dtype dtype[] = {MEGA_F64, MEGA_F32, MEGA_BF16};
    mega_optimizer_options plain = muon;
    (void)state;
    plain.muon_momentum = 0.8;
    plain.muon_nesterov = false;
    plain.muon_steps = 3;
    plain.muon_scale = MEGA_MUON_UNIT_RMS_NORM;
    for (int i = 0; i < 3; i++) {
        agrees("lamb", &lamb, dtype[i], false);
        agrees("lamb_clamped", &clamped, dtype[i], false);
        agrees("muon", &muon, dtype[i], false);
        agrees("muon_plain", &plain, dtype[i], false);
    }
}

static void others(void **state)
{
    static const mega_optimizer_options
        nesterov = {.kind = MEGA_OPTIMIZER_SGD, .momentum = 0.9, .nesterov = true},
        dampening = {.kind = MEGA_OPTIMIZER_SGD, .momentum = 0.9, .dampening = 0.3},
        adagrad = {.kind = MEGA_OPTIMIZER_ADAGRAD, .eps = 1e-8, .lr_decay = 0.1},
        ams = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .amsgrad = true},
        ams_l2 = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .amsgrad = true, .l2 = true},
        up = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .maximize = true},
        accumulator = {.kind = MEGA_OPTIMIZER_ADAGRAD, .eps = 1e-8, .initial_accumulator = 0.5},
        schedule_free = {.kind = MEGA_OPTIMIZER_SCHEDULE_FREE_ADAMW,
                         .beta1 = 0.9,
                         .beta2 = 0.95,
                         .eps = 1e-8,
                         .warmup_steps = 4,
                         .r = 0.5,
                         .weight_lr_power = 2};
    static const mega_dtype dtype[] = {MEGA_F64, MEGA_F32, MEGA_BF16};
    (void)state;
    for (int i = 0; i < 3; i++) {
        agrees("nesterov", &nesterov, dtype[i], false);
        agrees("dampening", &dampening, dtype[i], false);
        agrees("adagrad", &adagrad, dtype[i], false);
        agrees("amsgrad", &ams, dtype[i], false);
        agrees("amsgrad_l2", &ams_l2, dtype[i], false);
        agrees("maximize", &up, dtype[i], false);
        agrees("accumulator", &accumulator, dtype[i], false);
        agrees("schedule_free_adamw", &schedule_free, dtype[i], false);
    }
}

/* DeepSpeed's Adam on one number, weight 1: three updates with gradients 0.1, -0.2, 0.3. */
static void adam_of_deepspeed(void **state)
{
    static const struct {
        bool l2, no_bias_correction;
        double expected[3];
    } rows[] = {{false, false, {0.9890000010, 0.9916720360, 0.9872479534}},
                {false, true, {0.9673773234, 0.9819678291, 0.9639946344}},
                {true, false, {0.9900000005, 0.9873751972, 0.9808115947}},
                {true, true, {0.9683772734, 0.9575756729, 0.9252758318}}};
    static const double gradient[] = {0.1, -0.2, 0.3};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        fixture f;
        /* The second half of the runs. v only grows here, so AMSGrad, which takes the largest v, changes nothing. */
        const bool has_amsgrad = i >= sizeof rows / sizeof *rows;
        const mega_optimizer_options o = {.beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .eps = 1e-8,
                                          .l2 = rows[i % 4].l2,
                                          .no_bias_correction = rows[i % 4].no_bias_correction,
                                          .amsgrad = has_amsgrad};
        fixture_open(&f, &o, MEGA_F64, true);
        double *w = mega_params_master(f.params, f.w);
        w[0] = 1;
        for (int k = 0; k < 3; k++) {
            ((double *)mega_params_grad(f.params, f.w))[0] = gradient[k];
            *mega_update_step_block(f.update) = (mega_update_step){.correction = 1, .lr = 0.01, .weight_decay = 0.1};
            need(mega_update_run(f.update, MEGA_UPDATE_APPLY));
            if (!(fabs(w[0] - rows[i % 4].expected[k]) < 1e-9))
                fail_msg("row %zu, update %d: %.12g, expected %.12g", i, k + 1, w[0], rows[i % 4].expected[k]);
        }
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(adam_f64),
                                       cmocka_unit_test(adam_f32),
                                       cmocka_unit_test(adam_16_bits),
                                       cmocka_unit_test(sgd_f64),
                                       cmocka_unit_test(sgd_f32_and_16_bits),
                                       cmocka_unit_test(clip_factor_is_megatrons),
                                       cmocka_unit_test(finds_what_is_not_finite),
                                       cmocka_unit_test(padding_is_no_zero_gradient),
                                       cmocka_unit_test(adam_of_deepspeed),
                                       cmocka_unit_test(others),
                                       cmocka_unit_test(whole_tensors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
