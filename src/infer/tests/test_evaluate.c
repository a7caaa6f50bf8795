/* Evaluation in windows: which tokens count, and which engine is required. */
#include "device.h"
#include "gpt_run.h"
#include "kit.h"
#include "megalith/evaluate.h"

#include <math.h>
#include <string.h>

enum { WINDOWS = 2, SEQ = 8, VOCAB = 29 };

/* A model for which every token id is equally likely. */
static mega_engine *open_engine(mega_mode mode, const mega_transformer *gpt, const mega_team *team)
{
    mega_transformer_list list;
    mega_engine *e = NULL;
    const mega_engine_options o = {.compute = MEGA_F64,
                                   .team = (mega_team *)(uintptr_t)team,
                                   .micro_batch = WINDOWS,
                                   .seq = SEQ,
                                   .batch = {.global_batch = WINDOWS, .micro_step = WINDOWS}};
    need(mega_transformer_list_create(gpt, 1, &list));
    const mega_model model = mega_transformer_model(&list);
    need(mega_engine_create(&(mega_setup){.model = &model, .mode = mode, .options = &o}, &e));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 1));
    mega_params *params = mega_engine_params(e);
    mega_device_fill(mega_params_flat_master(params), 0, (size_t)mega_params_elements(params) * sizeof(double));
    mega_transformer_list_destroy(&list);
    return e;
}

/* The loss shows how often tokens were counted, for any windows. */
static void each_token_counts_once(void **state)
{
    (void)state;
    const mega_transformer gpt = gpt_run_tiny();
    mega_engine *e = open_engine(MEGA_EVAL, &gpt, NULL);
    int32_t tokens[30];
    assert_int_equal(gpt.vocab, VOCAB);
    for (int i = 0; i < 30; i++) tokens[i] = i % VOCAB;
    for (int64_t stride = 1; stride <= SEQ; stride++)
        for (int64_t count = 2; count <= 30; count += 7) {
            const mega_evaluate_options o = {.stride = stride};
            mega_evaluation found;
            need(mega_evaluate(e, tokens, count, &o, &found));
            assert_int_equal(found.targets, count - 1);
            assert_int_equal(found.windows, mega_evaluate_windows(count, stride));
            assert_true(fabs(found.loss_sum / (log(VOCAB) * (double)(count - 1)) - 1) < 1e-12);
            /* all losses are equal */
            if (found.windows == 1) assert_true(isnan(found.error));
            else
                assert_true(found.error >= 0 && found.error < 1e-6);
        }
    mega_engine_destroy(e);
}

static void wrong_texts_and_engines(void **state)
{
    (void)state;
    const mega_transformer gpt = gpt_run_tiny();
    const int32_t tokens[4] = {1, 2, VOCAB, 3};
    mega_engine *e = open_engine(MEGA_EVAL, &gpt, NULL), *other = open_engine(MEGA_GENERATE, &gpt, NULL);
    mega_evaluation found = {.targets = -7};
    assert_int_equal(mega_evaluate(other, tokens, 2, &(mega_evaluate_options){.stride = 1}, &found), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "no program for MEGA_RUN_EVALUATE"));
    assert_int_equal(mega_evaluate(e, tokens, 1, &(mega_evaluate_options){.stride = 1}, &found), MEGA_ERR_USAGE);
    assert_int_equal(mega_evaluate(e, tokens, 2, &(mega_evaluate_options){.stride = 0}, &found), MEGA_ERR_USAGE);
    assert_int_equal(mega_evaluate(e, tokens, 2, &(mega_evaluate_options){.stride = SEQ + 1}, &found), MEGA_ERR_USAGE);
    assert_int_equal(mega_evaluate(e, tokens, 4, &(mega_evaluate_options){.stride = 1}, &found), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "\"tokens\""));
    assert_int_equal(found.targets, -7);
    mega_engine_destroy(other);
    mega_engine_destroy(e);
}

/* One weight that is NaN is no figure, but an error that names the folder. */
static void a_loss_that_is_not_finite(void **state)
{
    (void)state;
    const mega_transformer gpt = gpt_run_tiny();
    const int32_t tokens[4] = {1, 2, 0, 3};
    mega_engine *e = open_engine(MEGA_EVAL, &gpt, NULL);
    mega_evaluation found = {.targets = -7};
    const mega_evaluate_options o = {.stride = 1, .folder = "some/folder"};
    device_set(mega_params_flat_master(mega_engine_params(e)), MEGA_F64, 0, (double)NAN);
    assert_int_equal(mega_evaluate(e, (const int32_t[]){0, 0, 0, 0}, 4, &o, &found), MEGA_ERR_NUMERIC);
    assert_non_null(strstr(mega_error_message(), "the weights of some/folder have NaN or Inf"));
    assert_int_equal(found.targets, -7);
    device_set(mega_params_flat_master(mega_engine_params(e)), MEGA_F64, 0, 0);
    need(mega_evaluate(e, tokens, 4, &o, &found));
    mega_engine_destroy(e);
}

static volatile sig_atomic_t stop;

static void stop_at_second(void *user, int64_t windows, int64_t total)
{
    (void)windows, (void)total;
    if (++*(int *)user == 2) stop = SIGTERM;
}

static void a_signal_leaves_no_figure(void **state)
{
    (void)state;
    const mega_transformer gpt = gpt_run_tiny();
    mega_team *team = NULL;
    int32_t tokens[60] = {0};
    int told = 0;
    need(mega_team_create(1, &team));
    mega_team_stop_on(team, &stop);
    mega_engine *e = open_engine(MEGA_EVAL, &gpt, team);
    mega_evaluation found = {.targets = -7};
    mega_evaluate_options o = {.stride = 1, .progress = stop_at_second, .user = &told};
    assert_int_equal(mega_evaluate(e, tokens, 60, &o, &found), MEGA_ERR_INTERRUPTED);
    assert_int_equal(found.targets, -7);
    assert_true(told < 26 / WINDOWS + 16);
    stop = 0;
    need(mega_evaluate(e, tokens, 60, &(mega_evaluate_options){.stride = 1}, &found));
    assert_int_equal(found.targets, 59);
    mega_engine_destroy(e);
    mega_team_destroy(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_token_counts_once), cmocka_unit_test(wrong_texts_and_engines),
        cmocka_unit_test(a_loss_that_is_not_finite), cmocka_unit_test(a_signal_leaves_no_figure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
