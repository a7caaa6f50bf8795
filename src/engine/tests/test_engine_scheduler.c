/* Tests DeepSpeed's schedules in an engine: from a JSON or argv to the rate of each step, to a checkpoint and back. */
#include "api_engine.h"
#include "megalith/engine_commands.h"
#include "megalith/file.h"
#include "notes.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Creates an engine whose options are those of a JSON and a line of argv. */
static mega_status try_open(mega_engine **out, const char *json, const char *line)
{
    char all[768];
    snprintf(all, sizeof all, "--micro-batch-size 1 --num-threads 1 %s", line);
    notes_begin();
    return api_try_open(out, (mega_setup){.training_data = &api_data, .config = json}, all);
}

static mega_engine *open_engine(const char *json, const char *line)
{
    mega_engine *e;
    need(try_open(&e, json, line));
    return e;
}

static mega_step_result step(mega_engine *e)
{
    mega_step_result r = {0};
    need(mega_engine_train_batch(e, &r));
    return r;
}

#define CYCLE                                                                                                       \
    "{\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0.01, \"cycle_max_lr\": 0.05, "        \
    "\"cycle_first_step_size\": 2, \"cycle_second_step_size\": 4, \"decay_step_size\": 2, \"decay_lr_rate\": 0.5, " \
    "\"cycle_min_mom\": 0.5, \"cycle_max_mom\": 0.9"

static void steps_have_the_rates_of_the_schedule(void **state)
{
    static const double warmup[] = {0.001, 0.001, 0.002, 0.003, 0.004, 0.005, 0.005},
                        cycle[] = {0.01, 0.03, 0.05, 0.04, 0.03, 0.02, 0.01, 0.01 / 1.25, 0.01 / 1.5};
    (void)state;
    mega_engine *e = open_engine("{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": 0.001, "
                                 "\"warmup_max_lr\": 0.005, \"warmup_num_steps\": 4, \"warmup_type\": \"linear\"}}}",
                                 "");
    for (size_t i = 0; i < MEGA_COUNT(warmup); i++) assert_true(fabs(step(e).lr - warmup[i]) < 1e-15);
    mega_engine_destroy(e);
    e = open_engine(CYCLE "}}}", "");
    for (size_t i = 0; i < MEGA_COUNT(cycle); i++) {
        const double lr = step(e).lr;
        if (!(fabs(lr - cycle[i]) < 1e-15)) fail_msg("update %zu: %.17g, expected %.17g", i, lr, cycle[i]);
    }
    mega_engine_destroy(e);
    e = open_engine(NULL, "--deepspeed-schedule LRRangeTest --lr-range-test-step-size 1 --lr-range-test-min-lr 0.5");
    assert_true(step(e).lr == 0.5 && step(e).lr == 1 && step(e).lr == 1.5);
    mega_engine_destroy(e);
}

/* The betas of a step change its update; with SGD, or without cycle_momentum, they do not. */
static void one_cycle_changes_adams_betas(void **state)
{
    static float with[API_IDS * API_WIDTH], without[API_IDS * API_WIDTH];
    (void)state;
    for (int sgd = 0; sgd < 2; sgd++) {
        mega_engine *a = open_engine(CYCLE "}}}", sgd ? "--optimizer sgd" : "");
        mega_engine *b = open_engine(CYCLE ", \"cycle_momentum\": false}}}", sgd ? "--optimizer sgd" : "");
        for (int i = 0; i < 3; i++) step(a), step(b);
        need(mega_engine_get_param(a, "net.wte.weight", NULL, API_IDS * API_WIDTH, with));
        need(mega_engine_get_param(b, "net.wte.weight", NULL, API_IDS * API_WIDTH, without));
        assert_int_equal(memcmp(with, without, sizeof with) == 0, sgd);
        mega_engine_destroy(a);
        mega_engine_destroy(b);
    }
}

static void a_resumed_cycle_has_the_same_bits(void **state)
{
    static float a[API_IDS * API_WIDTH], b[API_IDS * API_WIDTH];
    const char *folder = mega_kit_temp_folder();
    mega_engine *whole = open_engine(CYCLE "}}}", ""), *first = open_engine(CYCLE "}}}", "");
    bool found;
    (void)state;
    for (int i = 0; i < 8; i++) step(whole);
    for (int i = 0; i < 3; i++) step(first);
    need(mega_engine_save_checkpoint(first, folder, NULL, NULL));
    mega_engine_destroy(first);
    mega_engine *second = open_engine(NULL, "--lr 1"); /* a C program continues the schedule of the checkpoint */
    need(mega_engine_load_checkpoint(second, folder, NULL, NULL, &found, NULL));
    assert_int_equal(mega_engine_step_schedule(second)->kind, MEGA_SCHEDULER_ONE_CYCLE);
    for (int i = 3; i < 8; i++) step(second);
    need(mega_engine_get_param(whole, "net.wte.weight", NULL, API_IDS * API_WIDTH, a));
    need(mega_engine_get_param(second, "net.wte.weight", NULL, API_IDS * API_WIDTH, b));
    assert_memory_equal(a, b, sizeof a);
    assert_true(mega_engine_lr(whole) == mega_engine_lr(second));
    mega_engine_destroy(whole);
    mega_engine_destroy(second);
}

static mega_status load_as(const char *folder, const char *line, bool override)
{
    mega_engine *e = open_engine(NULL, line);
    mega_checkpoint *c = NULL;
    mega_engine_loaded loaded;
    need(mega_checkpoint_open(folder, false, &c));
    const mega_status st = mega_engine_load(e, c, &(mega_engine_load_options){.override_schedule = override}, &loaded);
    if (st == MEGA_OK) assert_int_equal(mega_engine_progress_get(e)->schedule_steps, 2);
    mega_checkpoint_close(c);
    mega_engine_destroy(e);
    return st;
}

static void other_schedules_are_refused(void **state)
{
    static const char same[] = "--deepspeed-schedule WarmupDecayLR --total-num-steps 9 --warmup-max-lr 0.1";
    char line[160];
    const char *folder = mega_kit_temp_folder();
    mega_engine *e = open_engine(NULL, same);
    (void)state;
    step(e), step(e);
    need(mega_engine_save_checkpoint(e, folder, NULL, NULL));
    mega_engine_destroy(e);
    assert_int_equal(load_as(folder, same, false), MEGA_OK);
    snprintf(line, sizeof line, "%s --warmup-num-steps 5", same);
    assert_int_equal(load_as(folder, line, false), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "warmup_num_steps of WarmupDecayLR: 5 here, 1000 in the checkpoint"));
    assert_int_equal(load_as(folder, line, true), MEGA_OK);
    assert_int_equal(load_as(folder, "--lr 0.1", false), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "(--deepspeed-schedule): none here, WarmupDecayLR in the checkpoint"));
}

/* A training can be continued for longer, unless its rate falls towards the end. */
static void longer_trainings(void **state)
{
    static const struct {
        const char *schedule;
        bool may_be_longer;
    } of[] = {{"--deepspeed-schedule WarmupLR --warmup-max-lr 0.1", true},
              {"--lr 0.1 --lr-decay-style constant", true},
              {"--lr 0.1", false},
              {"--deepspeed-schedule WarmupDecayLR --warmup-max-lr 0.1", false}};
    (void)state;
    for (size_t i = 0; i < MEGA_COUNT(of); i++) {
        char line[160];
        const char *folder = mega_kit_temp_folder();
        snprintf(line, sizeof line, "%s --train-iters 2", of[i].schedule);
        mega_engine *e = open_engine(NULL, line);
        step(e), step(e);
        need(mega_engine_save_checkpoint(e, folder, NULL, NULL));
        mega_engine_destroy(e);
        snprintf(line, sizeof line, "%s --train-iters 4", of[i].schedule);
        if ((load_as(folder, line, false) == MEGA_OK) != of[i].may_be_longer)
            fail_msg("%s: %s", of[i].schedule, mega_error_message());
    }
}

/* "auto" follows Megatron's options, as the values of transformers' Trainer fill a JSON; DeepSpeed's defaults do
 * not. */
static void automatic_parameters(void **state)
{
#define AUTO                                                                                                       \
    "{\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_num_steps\": %s, \"warmup_max_lr\": %s, " \
    "\"warmup_type\": \"linear\"}}}"
    static const struct {
        const char *steps, *most;
        double lr[3]; /* of updates 2, 3 and 6: t is 0, 1 and 4 */
    } rows[] = {
        {"\"auto\"", "\"auto\"", {0, 0.1, 0.4}},  /* --lr 0.4 after 4 steps */
        {"2", "\"auto\"", {0, 0.2, 0.4 * 6 / 8}}, /* 2 steps, and 10 in all */
        {"\"auto\"", "null", {0, 0.25e-3, 1e-3}}, /* DeepSpeed's default of warmup_max_lr */
    };
    (void)state;
    for (size_t i = 0; i < MEGA_COUNT(rows); i++) {
        char json[256];
        snprintf(json, sizeof json, AUTO, rows[i].steps, rows[i].most);
        mega_engine *e = open_engine(json, "--lr 0.4 --train-iters 10 --lr-warmup-iters 4");
        double lr[6];
        for (int k = 0; k < 6; k++) lr[k] = step(e).lr;
        const double found[] = {lr[1], lr[2], lr[5]};
        for (int k = 0; k < 3; k++)
            if (!(fabs(found[k] - rows[i].lr[k]) < 1e-15))
                fail_msg("row %zu, value %d: %.17g, expected %.17g", i, k, found[k], rows[i].lr[k]);
        mega_engine_destroy(e);
    }
}

static void mistakes(void **state)
{
    static const struct {
        const char *json, *line, *said;
    } rows[] = {
        {NULL, "--lr 1 --warmup-num-steps 5",
         "--warmup-num-steps 5 (argument 7): it belongs to a schedule of DeepSpeed"},
        {NULL, "--deepspeed-schedule WarmupLR --lr 1 --cycle-min-lr 1",
         "--deepspeed-schedule WarmupLR (argument 5) has no such parameter"},
        {NULL, "--deepspeed-schedule WarmupLR", "missing: --lr"},
        {NULL, "--deepspeed-schedule WarmupCosineLR --total-num-steps 5", "missing: --lr"},
        {NULL, "--deepspeed-schedule WarmupDecayLR --lr 1", "missing: --total-num-steps"},
        {NULL, "--deepspeed-schedule OneCycle --cycle-min-lr 1", "missing: --cycle-max-lr"},
        {NULL, "--deepspeed-schedule OneCycle --cycle-min-lr 1 --cycle-max-lr 2 --cycle-second-step-size -2",
         "at least -1"},
        {NULL,
         "--deepspeed-schedule OneCycle --cycle-min-lr 1 --cycle-max-lr 2 --cycle-first-step-size 3 --decay-step-size "
         "1 "
         "--decay-mom-rate 0.05 --train-iters 12",
         "the momentum grows after the cycle to 1.125 at the last step"},
        {NULL, "--deepspeed-schedule StepLR", "not"},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 0}}}", "--lr 1",
         "must be greater than 0"},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 1.5}}}", "--lr 1",
         "whole number"},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"total_num_steps\": 9}}}", "--lr 1",
         "no such parameter"},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_type\": \"cubic\"}}}", "--lr 1", "log"},
    };
    (void)state;
    for (size_t i = 0; i < MEGA_COUNT(rows); i++) {
        mega_engine *e;
        if (try_open(&e, rows[i].json, rows[i].line) == MEGA_OK) fail_msg("accepted: %s", rows[i].line);
        if (strstr(mega_error_message(), rows[i].said) == NULL)
            fail_msg("%s: \"%s\" does not hold \"%s\"", rows[i].line, mega_error_message(), rows[i].said);
    }
}

static void what_the_schedule_replaces_is_said(void **state)
{
    (void)state;
    mega_engine *e = open_engine(NULL, "--deepspeed-schedule WarmupLR --lr 1 --min-lr 0.5");
    assert_non_null(
        strstr(notes, "--deepspeed-schedule WarmupLR (argument 5) counts; --min-lr 0.5 (argument 9) does not"));
    mega_engine_destroy(e);
    e = open_engine(NULL, "--deepspeed-schedule WarmupDecayLR --warmup-max-lr 1 --total-num-steps 9");
    assert_non_null(strstr(notes, "never reaches the end"));
    mega_engine_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_have_the_rates_of_the_schedule),
        cmocka_unit_test(one_cycle_changes_adams_betas),
        cmocka_unit_test(a_resumed_cycle_has_the_same_bits),
        cmocka_unit_test(longer_trainings),
        cmocka_unit_test(other_schedules_are_refused),
        cmocka_unit_test(automatic_parameters),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(what_the_schedule_replaces_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
