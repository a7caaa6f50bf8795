/* Compares learning rate, weight decay and batch size with the golden tables of the reference (megatron.md 9.6,
 * 9.7). */
#include "kit.h"
#include "megalith/optim_options.h"
#include "megalith/schedule.h"
#include <math.h>

static void assert_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance * fmax(fabs(expected), 1e-30) + 1e-18))
        fail_msg("found %.12g, expected %.12g", found, expected);
}

static const mega_lr_schedule base = {.max_lr = 1e-3, .min_lr = 1e-5, .warmup = 100, .decay = 1000};

static void lr_golden_table(void **state)
{
    (void)state;
    static const int64_t n[] = {0, 50, 100, 101, 550, 1000, 1001};
    static const double linear[] = {0, 5e-4, 1e-3, 9.989e-4, 5.05e-4, 1e-5, 1e-5};
    static const double cosine[] = {0, 5e-4, 1e-3, 9.999969843e-4, 5.05e-4, 1e-5, 1e-5};
    static const double inverse[] = {0, 5e-4, 1e-3, 9.950371902e-4, 4.264014327e-4, 3.162277660e-4, 1e-5};
    mega_lr_schedule s = base;
    for (int i = 0; i < 7; i++) {
        s.style = MEGA_LR_LINEAR;
        assert_near(mega_lr_schedule_lr(&s, n[i]), linear[i], 1e-9);
        s.style = MEGA_LR_COSINE;
        assert_near(mega_lr_schedule_lr(&s, n[i]), cosine[i], 1e-9);
        s.style = MEGA_LR_INVERSE_SQUARE_ROOT;
        assert_near(mega_lr_schedule_lr(&s, n[i]), inverse[i], 1e-9);
        s.style = MEGA_LR_CONSTANT;
        assert_near(mega_lr_schedule_lr(&s, n[i]), n[i] <= 100 ? 1e-3 * (double)n[i] / 100 : 1e-3, 1e-12);
    }
}

/* Megatron's WSD: stays at the peak until the last 200 samples of the decay. */
static void lr_of_wsd(void **state)
{
    (void)state;
    static const int64_t n[] = {50, 100, 400, 800, 850, 900, 1000, 1001};
    static const double curve[][8] = {
        [MEGA_LR_WSD_EXPONENTIAL] = {5e-4, 1e-3, 1e-3, 1e-3, 6.849749022e-4, 4.200714267e-4, 1e-5, 1e-5},
        [MEGA_LR_WSD_LINEAR] = {5e-4, 1e-3, 1e-3, 1e-3, 7.525e-4, 5.05e-4, 1e-5, 1e-5},
        [MEGA_LR_WSD_COSINE] = {5e-4, 1e-3, 1e-3, 1e-3, 8.550178567e-4, 5.05e-4, 1e-5, 1e-5},
        [MEGA_LR_WSD_MINUS_SQRT] = {5e-4, 1e-3, 1e-3, 1e-3, 5.05e-4, 2.999642866e-4, 1e-5, 1e-5}};
    mega_lr_schedule s = base;
    s.style = MEGA_LR_WSD;
    s.wsd_decay = 200;
    for (mega_lr_wsd_style style = 0; style < MEGA_LR_WSD_STYLE_COUNT; style++) {
        s.wsd_style = style;
        for (int i = 0; i < 8; i++) assert_near(mega_lr_schedule_lr(&s, n[i]), curve[style][i], 1e-9);
    }
    s.wsd_decay = 0; /* scripts use this to stay at the peak */
    assert_near(mega_lr_schedule_lr(&s, 1000), 1e-3, 1e-12);
    assert_near(mega_lr_schedule_lr(&s, 1001), 1e-5, 1e-12);
}

/* Megatron-LM 1.0: nearly half of the peak after the whole decay, which is counted without the warm-up, and constant
 * afterwards. */
static void lr_of_exponential(void **state)
{
    (void)state;
    mega_lr_schedule s = base;
    s.style = MEGA_LR_EXPONENTIAL;
    assert_near(mega_lr_schedule_lr(&s, 50), 5e-4, 1e-12);
    assert_near(mega_lr_schedule_lr(&s, 100), 1e-3, 1e-12);
    assert_near(mega_lr_schedule_lr(&s, 500), 7.579029014e-4, 1e-9);
    assert_near(mega_lr_schedule_lr(&s, 900), 5.744168079e-4, 1e-9);
    assert_near(mega_lr_schedule_lr(&s, 2000), 5.744168079e-4, 1e-9);
    s.min_lr = 7e-4;
    assert_near(mega_lr_schedule_lr(&s, 900), 7e-4, 1e-12);
}

static void lr_starts_from_warmup_init(void **state)
{
    (void)state;
    mega_lr_schedule s = base;
    s.warmup_init = 2e-4;
    assert_near(mega_lr_schedule_lr(&s, 0), 2e-4, 1e-12);
    assert_near(mega_lr_schedule_lr(&s, 50), 6e-4, 1e-12);
    assert_near(mega_lr_schedule_lr(&s, 100), 1e-3, 1e-12);
}

static void lr_without_warmup_starts_at_its_maximum(void **state)
{
    (void)state;
    mega_lr_schedule s = base;
    s.warmup = 0;
    s.style = MEGA_LR_COSINE;
    assert_near(mega_lr_schedule_lr(&s, 0), 1e-3, 1e-12);
    s.style = MEGA_LR_INVERSE_SQUARE_ROOT;
    assert_near(mega_lr_schedule_lr(&s, 0), 1e-3, 1e-12);
}

static void weight_decay_golden(void **state)
{
    (void)state;
    mega_lr_schedule s = {.start_weight_decay = 0.01, .end_weight_decay = 0.1, .weight_decay_samples = 1000};
    s.decay_style = MEGA_WD_LINEAR;
    assert_near(mega_lr_schedule_weight_decay(&s, 0), 0.01, 1e-12);
    assert_near(mega_lr_schedule_weight_decay(&s, 250), 0.0325, 1e-12);
    assert_near(mega_lr_schedule_weight_decay(&s, 1000), 0.1, 1e-12);
    assert_near(mega_lr_schedule_weight_decay(&s, 2000), 0.1, 1e-12);
    s.decay_style = MEGA_WD_COSINE;
    assert_near(mega_lr_schedule_weight_decay(&s, 250), 0.0231801948, 5e-9); /* as many digits as the table gives */
    s = (mega_lr_schedule){.start_weight_decay = 0.1, .end_weight_decay = 0.1, .weight_decay_samples = 10};
    assert_near(mega_lr_schedule_weight_decay(&s, 3), 0.1, 1e-12);
}

static mega_optim_options training(void)
{
    return (mega_optim_options){.lr = 1e-3,
                                .min_lr = 1e-5,
                                .train_iters = 1000,
                                .global_batch_size = 8,
                                .micro_batch_size = 2,
                                .lr_warmup_fraction = NAN,
                                .lr_decay_style = MEGA_LR_LINEAR,
                                .start_weight_decay = 0.1,
                                .end_weight_decay = 0.1};
}

static void config_counts_in_samples(void **state)
{
    (void)state;
    mega_optim_options cfg = training();
    mega_lr_schedule s;
    cfg.lr_warmup_iters = 10;
    assert_int_equal(mega_lr_schedule_from_options(&cfg, &s), MEGA_OK);
    assert_near(s.decay, 8000, 0);
    assert_near(s.warmup, 80, 0);
    assert_int_equal(s.weight_decay_samples, 8000);

    cfg = training();
    cfg.lr_decay_iters = 320;
    cfg.lr_warmup_fraction = 0.01;
    assert_int_equal(mega_lr_schedule_from_options(&cfg, &s), MEGA_OK);
    assert_near(s.decay, 2560, 0);
    assert_near(s.warmup, 25.6, 1e-12);

    cfg = training();
    cfg.train_samples = 10000;
    cfg.lr_warmup_samples = 700;
    assert_int_equal(mega_lr_schedule_from_options(&cfg, &s), MEGA_OK);
    assert_near(s.decay, 10000, 0);
    assert_near(s.warmup, 700, 0);
    cfg.lr_decay_samples = 5000;
    assert_int_equal(mega_lr_schedule_from_options(&cfg, &s), MEGA_OK);
    assert_near(s.decay, 5000, 0);
    assert_int_equal(s.weight_decay_samples, 10000);
    cfg.lr_wsd_decay_samples = 300;
    cfg.lr_wsd_decay_iters = 20;
    assert_int_equal(mega_lr_schedule_from_options(&cfg, &s), MEGA_OK);
    assert_near(s.wsd_decay, 300, 0);
    cfg.train_samples = 0;
    assert_int_equal(mega_lr_schedule_from_options(&cfg, &s), MEGA_OK);
    assert_near(s.wsd_decay, 160, 0);
}

static void config_refuses_warmup_past_the_decay(void **state)
{
    (void)state;
    mega_optim_options cfg = training();
    mega_lr_schedule s;
    cfg.lr_warmup_iters = 1000;
    assert_int_equal(mega_lr_schedule_from_options(&cfg, &s), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "--lr-warmup-iters"));
}

static void ramp_golden(void **state)
{
    (void)state;
    const mega_batch_ramp r = {.start = 16, .increment = 8, .samples = 300000, .global_batch = 1024, .micro_step = 8};
    static const int64_t at[][2] = {{0, 16}, {2380, 16}, {2381, 24}, {150000, 520}, {299999, 1016}, {300000, 1024}};
    for (int i = 0; i < 6; i++) assert_int_equal(mega_batch_ramp_at(&r, at[i][0]), at[i][1]);
    assert_int_equal(mega_batch_ramp_iterations(&r, 0, 1000000), 2002);
    int64_t consumed = 0, iterations = 0;
    for (; consumed <= 300000; iterations++) consumed += mega_batch_ramp_at(&r, consumed);
    assert_int_equal(iterations, 1319);
    assert_int_equal(mega_batch_ramp_iterations(&r, consumed, 1000000), 2002 - 1319);
    assert_int_equal(mega_batch_ramp_iterations(&r, 2384, 1000000), 2002 - 149);
    assert_int_equal(consumed, 300096);
}

static void ramp_of_a_constant_batch(void **state)
{
    (void)state;
    const mega_batch_ramp r = {.global_batch = 12, .micro_step = 4};
    assert_int_equal(mega_batch_ramp_at(&r, 0), 12);
    assert_int_equal(mega_batch_ramp_at(&r, 1 << 30), 12);
    assert_int_equal(mega_batch_ramp_iterations(&r, 0, 125), 10);
    assert_int_equal(mega_batch_ramp_iterations(&r, 80, 125), 3);
    assert_int_equal(mega_batch_ramp_iterations(&r, 120, 125), 0);
    assert_int_equal(mega_batch_ramp_iterations(&r, 130, 125), 0);
}

static void ramps_are_checked(void **state)
{
    (void)state;
    static const struct {
        mega_batch_ramp ramp;
        const char *said; /* NULL: the schedule is valid */
    } ramps[] = {
        {{.global_batch = 12, .micro_step = 4}, NULL},
        {{.start = 4, .increment = 4, .samples = 100, .global_batch = 12, .micro_step = 4}, NULL},
        {{.start = 12, .increment = 0, .samples = 100, .global_batch = 12, .micro_step = 4}, NULL},
        {{.global_batch = 10, .micro_step = 4}, "batch.global_batch 10"},
        {{.global_batch = 0, .micro_step = 4}, "batch.global_batch 0"},
        {{.start = 4, .increment = 4, .samples = -1, .global_batch = 12, .micro_step = 4}, "batch.samples -1"},
        {{.start = 4, .increment = 0, .samples = 100, .global_batch = 12, .micro_step = 4}, "batch.increment 0"},
        {{.start = 4, .increment = -4, .samples = 100, .global_batch = 12, .micro_step = 4}, "batch.increment -4"},
        {{.start = 4, .increment = 3, .samples = 100, .global_batch = 12, .micro_step = 4}, "batch.increment 3"},
        {{.start = 4, .increment = 16, .samples = 100, .global_batch = 12, .micro_step = 4}, "batch.increment 16"},
        {{.start = -4, .increment = 4, .samples = 100, .global_batch = 12, .micro_step = 4}, "batch.start -4"},
        {{.start = 6, .increment = 4, .samples = 100, .global_batch = 12, .micro_step = 4}, "batch.start 6"},
        {{.start = 16, .increment = 4, .samples = 100, .global_batch = 12, .micro_step = 4}, "batch.start 16"},
    };
    for (size_t i = 0; i < sizeof ramps / sizeof *ramps; i++) {
        const mega_status st = mega_batch_ramp_check(&ramps[i].ramp);
        if (ramps[i].said == NULL) assert_int_equal(st, MEGA_OK);
        else if (st != MEGA_ERR_USAGE || strstr(mega_error_message(), ramps[i].said) == NULL)
            fail_msg("ramp %zu: %s, \"%s\"", i, mega_status_name(st), mega_error_message());
    }
}

static void refuse(mega_lr_schedule s, const char *said)
{
    if (mega_lr_schedule_check(&s) != MEGA_ERR_USAGE || strstr(mega_error_message(), said) == NULL)
        fail_msg("expected \"%s\", found \"%s\"", said, mega_error_message());
}

static void schedules_are_checked(void **state)
{
    (void)state;
    mega_lr_schedule s = {0}; /* constant 0, as in a plan */
    assert_int_equal(mega_lr_schedule_check(&s), MEGA_OK);
    s = base;
    assert_int_equal(mega_lr_schedule_check(&s), MEGA_OK);
    s.max_lr = NAN, refuse(s, "schedule.max_lr nan");
    s = base, s.max_lr = INFINITY, refuse(s, "schedule.max_lr inf");
    s = base, s.max_lr = 1e39, refuse(s, "schedule.max_lr 1e+39"); /* infinite where weights are updated */
    s = base, s.end_weight_decay = 1e39, refuse(s, "schedule.end_weight_decay 1e+39");
    mega_step_schedule t = {
        .kind = MEGA_SCHEDULER_WARMUP, .warmup_max_lr = 1e39, .warmup_num_steps = 2, .total_num_steps = 4};
    assert_int_equal(mega_step_schedule_check(&t), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "schedule.warmup_max_lr 1e+39"));
    t.warmup_max_lr = 1;
    assert_int_equal(mega_step_schedule_check(&t), MEGA_OK);
    s = base, s.min_lr = -1, refuse(s, "schedule.min_lr -1");
    s = base, s.end_weight_decay = NAN, refuse(s, "schedule.end_weight_decay nan");
    s = base, s.style = (mega_lr_style)99, refuse(s, "schedule.style 99");
    s = base, s.wsd_style = (mega_lr_wsd_style)7, refuse(s, "schedule.wsd_style 7");
    s = base, s.decay_style = (mega_weight_decay_style)-1, refuse(s, "schedule.decay_style -1");
    s = base, s.style = MEGA_LR_LINEAR, s.decay = 0, refuse(s, "schedule.decay 0 samples");
    s = base, s.style = MEGA_LR_COSINE, s.warmup = 1000, refuse(s, "schedule.warmup 1000");
    s = base, s.style = MEGA_LR_WSD, s.wsd_decay = 1001, refuse(s, "schedule.wsd_decay 1001");
    s = base, s.decay_style = MEGA_WD_LINEAR, refuse(s, "schedule.weight_decay_samples 0");
    assert_string_equal(mega_lr_style_name((mega_lr_style)99), "unknown");
    assert_string_equal(mega_lr_wsd_style_name((mega_lr_wsd_style)99), "unknown");
    assert_string_equal(mega_weight_decay_style_name((mega_weight_decay_style)99), "unknown");
}

static void ramp_refuses_what_does_not_divide(void **state)
{
    (void)state;
    mega_optim_options cfg = training();
    mega_batch_ramp r;
    cfg.global_batch_size = 9;
    assert_int_equal(mega_batch_ramp_from_options(&cfg, 1, &r), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "10"));
    cfg.global_batch_size = 16;
    cfg.rampup_batch_size[0] = 4, cfg.rampup_batch_size[1] = 5, cfg.rampup_batch_size[2] = 100;
    assert_int_equal(mega_batch_ramp_from_options(&cfg, 1, &r), MEGA_ERR_USAGE);
    cfg.rampup_batch_size[1] = 3;
    assert_int_equal(mega_batch_ramp_from_options(&cfg, 1, &r), MEGA_ERR_USAGE); /* 3 is not a multiple of 2 */
    cfg.rampup_batch_size[1] = 4;
    assert_int_equal(mega_batch_ramp_from_options(&cfg, 1, &r), MEGA_OK);
    assert_int_equal(mega_batch_ramp_at(&r, 0), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lr_golden_table),
        cmocka_unit_test(lr_of_wsd),
        cmocka_unit_test(lr_of_exponential),
        cmocka_unit_test(lr_starts_from_warmup_init),
        cmocka_unit_test(lr_without_warmup_starts_at_its_maximum),
        cmocka_unit_test(weight_decay_golden),
        cmocka_unit_test(config_counts_in_samples),
        cmocka_unit_test(config_refuses_warmup_past_the_decay),
        cmocka_unit_test(ramp_golden),
        cmocka_unit_test(ramp_of_a_constant_batch),
        cmocka_unit_test(ramps_are_checked),
        cmocka_unit_test(schedules_are_checked),
        cmocka_unit_test(ramp_refuses_what_does_not_divide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
