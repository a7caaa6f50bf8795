/* The learning-rate and weight-decay schedules against those of DeepSpeed and Megatron-LM: tests/golden/schedules.json,
 * made by tools/make_schedule_golden.py from the originals. */
#include "kit.h"
#include "megalith/schedule.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

static json_t *golden(void)
{
    json_error_t error;
    json_t *root = json_load_file(mega_kit_source("tests/golden/schedules.json"), 0, &error);
    if (root == NULL) fail_msg("schedules.json: %s", error.text);
    return root;
}

static void assert_near(const char *what, size_t at, double found, const json_t *expected)
{
    const double x = json_number_value(expected);
    if (!(fabs(found - x) <= 1e-12 * fabs(x) + 1e-300))
        fail_msg("%s after %zu updates: %.17g, expected %.17g", what, at, found, x);
}

static double text_value(const char *text)
{
    return strcmp(text, "linear") == 0 ? MEGA_WARMUP_LINEAR : MEGA_WARMUP_LOG;
}

/* The schedule with the defaults of the option table, as far as the cases rely on them. */
static mega_step_schedule schedule_of(const json_t *c)
{
    const char *type = json_string_value(json_object_get(c, "type"));
    const json_t *params = json_object_get(c, "params");
    const mega_scheduler_param *p;
    mega_step_schedule s = {.lr = json_number_value(json_object_get(c, "lr")),
                            .cos_min_ratio = 1e-4,
                            .warmup_num_steps = 1000,
                            .cycle_momentum = true,
                            .cycle_min_mom = 0.8,
                            .cycle_max_mom = 0.9,
                            .cycle_first_step_size = 2000,
                            .cycle_second_step_size = -1,
                            .cycle_second_stair_count = -1,
                            .lr_range_test_step_rate = 1};
    s.warmup_max_lr = s.lr;
    while (s.kind < MEGA_SCHEDULER_COUNT && strcmp(type, mega_scheduler_name(s.kind)) != 0) s.kind++;
    size_t set = 0;
    for (size_t i = 0; (p = mega_scheduler_param_at(i)) != NULL; i++) {
        const json_t *value = json_object_get(params, p->name);
        if (value == NULL) continue;
        set++;
        assert_true(p->read_by & 1U << s.kind);
        mega_scheduler_param_set(&s, p,
                                 json_is_string(value)    ? text_value(json_string_value(value))
                                 : json_is_boolean(value) ? json_is_true(value)
                                                          : json_number_value(value));
    }
    assert_int_equal(set, json_object_size(params));
    return s;
}

static void schedules_of_deepspeed(void **state)
{
    json_t *root = golden();
    size_t i, k;
    json_t *c, *expected;
    (void)state;
    json_array_foreach(json_object_get(root, "deepspeed"), i, c)
    {
        const mega_step_schedule s = schedule_of(c);
        const json_t *betas = json_object_get(c, "betas");
        if (mega_step_schedule_check(&s) != MEGA_OK) fail_msg("case %zu: %s", i, mega_error_message());
        json_array_foreach(json_object_get(c, "rates"), k, expected)
        {
            double beta[2];
            assert_near(mega_scheduler_name(s.kind), k, mega_step_schedule_lr(&s, (int64_t)k), expected);
            assert_int_equal(mega_step_schedule_betas(&s, (int64_t)k, &beta[0], &beta[1]), json_is_array(betas));
            if (k == 0 && json_is_array(betas)) assert_true(beta[0] == s.cycle_min_mom);
            for (size_t b = 0; b < 2 && json_is_array(betas); b++)
                assert_near("beta", k, beta[b], json_array_get(json_array_get(betas, k), b));
        }
    }
    assert_true(i >= 16);
    json_decref(root);
}

/* ---- Megatron's ---- */

static double number(const json_t *c, const char *name)
{
    return json_number_value(json_object_get(c, name));
}

static void schedules_of_megatron(void **state)
{
    json_t *root = golden();
    size_t i, k;
    json_t *c, *expected;
    (void)state;
    json_array_foreach(json_object_get(root, "megatron"), i, c)
    {
        mega_lr_schedule s = {.max_lr = number(c, "max_lr"),
                              .min_lr = number(c, "min_lr"),
                              .warmup_init = number(c, "init_lr"),
                              .warmup = number(c, "lr_warmup_steps"),
                              .decay = number(c, "lr_decay_steps"),
                              .wsd_decay = number(c, "wsd_decay_steps"),
                              .start_weight_decay = number(c, "start_wd"),
                              .end_weight_decay = number(c, "end_wd"),
                              .weight_decay_samples = (int64_t)number(c, "wd_incr_steps")};
        const char *style = json_string_value(json_object_get(c, "lr_decay_style"));
        const char *wsd = json_string_value(json_object_get(c, "lr_wsd_decay_style"));
        const char *decay = json_string_value(json_object_get(c, "wd_incr_style"));
        while (strcmp(style, mega_lr_style_name(s.style)) != 0) s.style++;
        while (strcmp(wsd, mega_lr_wsd_style_name(s.wsd_style)) != 0) s.wsd_style++;
        while (strcmp(decay, mega_weight_decay_style_name(s.decay_style)) != 0) s.decay_style++;
        assert_int_equal(mega_lr_schedule_check(&s), MEGA_OK);
        json_array_foreach(json_object_get(c, "rates"), k, expected)
        {
            const int64_t samples = (int64_t)k * (int64_t)number(c, "batch");
            assert_near(style, k, mega_lr_schedule_lr(&s, samples), expected);
            assert_near(decay, k, mega_lr_schedule_weight_decay(&s, samples),
                        json_array_get(json_object_get(c, "decays"), k));
        }
    }
    assert_true(i >= 10);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(schedules_of_deepspeed),
                                       cmocka_unit_test(schedules_of_megatron)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
