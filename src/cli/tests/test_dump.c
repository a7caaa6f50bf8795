/* Tests the argument dump, and the round trip through JSON. */
#include "options_kit.h"
#include <math.h>

/* Asserts that text has the line "  name .... value", in which the name and its dots fill 48 columns. */
static void has_line(const char *text, const char *name, const char *value)
{
    char line[256], dots[49];
    memset(dots, '.', 48);
    dots[48 - strlen(name)] = '\0';
    snprintf(line, sizeof line, "\n  %s %s %s\n", name, dots, value);
    kit_assert_has(text, line);
}

static void dump_is_sorted_and_aligned(void **state)
{
    (void)state;
    mega_command_options c;
    mega_buffer b = {0};
    kit_accept(&c, "plan", SHAPE "--lr 1.5e-4 --train-iters 10 --no-bias-gelu-fusion --recompute-granularity full");
    assert_int_equal(mega_options_dump_arguments(c.train.engine.options, &b), MEGA_OK);
    kit_assert_has(b.data, "------------------------ arguments ------------------------\n  "
                           "abort_on_unmet_fused_kernel_constraints ......... False\n");
    has_line(b.data, "lr", "0.00015");
    has_line(b.data, "num_layers", "2");
    has_line(b.data, "bias_gelu_fusion", "False");
    has_line(b.data, "masked_softmax_fusion", "True");
    has_line(b.data, "tensor_model_parallel_size", "1");
    has_line(b.data, "world_size", "1");
    has_line(b.data, "fp16", "False");
    has_line(b.data, "layernorm_epsilon", "1e-05");
    has_line(b.data, "clip_grad", "1.0");
    has_line(b.data, "save", "None");
    has_line(b.data, "exit_interval", "None");
    has_line(b.data, "recompute_granularity", "full");
    has_line(b.data, "padded_vocab_size", "0");
    kit_assert_has(b.data, "-------------------- end of arguments ---------------------\n");
    /* lines are sorted, ignoring case, and no name is repeated */
    char last[96] = "";
    for (char *line = strtok(b.data, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char name[96];
        if (line[0] != ' ' || sscanf(line, " %95s", name) != 1) continue;
        if (strcasecmp(last, name) >= 0) fail_msg("%s stands before %s", last, name);
        memcpy(last, name, sizeof last);
    }
    mega_buffer_fini(&b);
    mega_command_options_fini(&c);
}

static void json_round_trip(void **state)
{
    (void)state;
    mega_command_options a, b;
    mega_buffer first = {0}, second = {0};
    kit_accept(&a, "plan",
               SHAPE
               "--lr 1.2345678901234567e-4 --train-samples 5e8 --bf16 --split '90, 10, 0' --lr-decay-style cosine "
               "--rampup-batch-size 4 4 1000 --global-batch-size 16 --no-log-learnig-rate-to-tensorboard --seed 77");
    assert_int_equal(mega_options_to_json(a.train.engine.options, &first), MEGA_OK);
    kit_accept(&b, "plan", "--preset tiny --micro-batch-size 4 --seed 78");
    assert_int_equal(mega_options_from_json(b.train.engine.options, first.data, MEGA_SET_BY_CHECKPOINT), MEGA_OK);
    assert_true(b.train.engine.optim.lr == a.train.engine.optim.lr);
    assert_int_equal(b.train.model.num_layers, 2);
    assert_int_equal(b.train.engine.optim.rampup_batch_size[1], 4);
    assert_int_equal(b.train.engine.seed, 78); /* the command line wins */
    assert_false(b.train.log_learning_rate_to_tensorboard);
    assert_true(isnan(b.train.engine.optim.lr_warmup_fraction));
    assert_int_equal(mega_options_set_int(b.train.engine.options, "seed", 77, MEGA_SET_BY_CHECKPOINT), MEGA_OK);
    assert_int_equal(mega_options_set(b.train.engine.options, "preset", "tiny", MEGA_SET_BY_CHECKPOINT), MEGA_OK);
    b.train.model.preset = NULL;
    assert_int_equal(mega_options_to_json(b.train.engine.options, &second), MEGA_OK);
    assert_string_equal(first.data, second.data);
    mega_buffer_fini(&first);
    mega_buffer_fini(&second);
    mega_command_options_fini(&a);
    mega_command_options_fini(&b);
}

static void json_of_lists(void **state)
{
    (void)state;
    mega_command_options a, b;
    mega_buffer text = {0};
    kit_accept(&a, "generate_samples_gpt", "--load . --prompt 'a b' --prompt c");
    assert_int_equal(mega_options_to_json(a.train.engine.options, &text), MEGA_OK);
    assert_int_equal(mega_command_options_init(&b), MEGA_OK);
    assert_int_equal(mega_options_from_json(b.train.engine.options, text.data, MEGA_SET_BY_CHECKPOINT), MEGA_OK);
    assert_int_equal(b.generate.prompt.count, 2);
    assert_string_equal(b.generate.prompt.item[0], "a b");
    mega_buffer_fini(&text);
    mega_command_options_fini(&a);
    mega_command_options_fini(&b);
}

/* Asserts what a resumed run reports, given the options of the earlier run and of the resumed one. */
static void assert_changes(const char *before, const char *now, const char *expected)
{
    mega_command_options a, b;
    mega_buffer stored = {0}, lines = {0};
    mega_list changes;
    kit_accept(&a, "plan", before);
    kit_accept(&b, "plan", now);
    assert_int_equal(mega_options_to_json(a.train.engine.options, &stored), MEGA_OK);
    assert_int_equal(
        mega_options_changes(b.train.engine.options, stored.data, b.train.use_checkpoint_opt_param_scheduler, &changes),
        MEGA_OK);
    for (size_t i = 0; i < changes.count; i++) mega_buffer_printf(&lines, "%s\n", changes.item[i]);
    assert_string_equal(lines.data != NULL ? lines.data : "", expected);
    mega_buffer_fini(&stored);
    mega_buffer_fini(&lines);
    mega_command_options_fini(&a);
    mega_command_options_fini(&b);
}

static void changes_that_a_resumed_run_reports(void **state)
{
    (void)state;
#define BATCH SHAPE "--tokenizer-type ByteTokenizer --global-batch-size 16 --lr 1e-3 "
#define RUN   BATCH "--train-iters 10 "
    assert_changes(RUN, RUN "--save . --log-interval 3 --no-pack-weights --eval-iters 3 --seed 7", "");
    assert_changes(RUN, RUN "--adam-eps 1e-6", "--adam-eps was 1e-08, is 1e-06\n");
    assert_changes(RUN "--no-decoupled-weight-decay", RUN, "--no-decoupled-weight-decay was on, is off\n");
    assert_changes(BATCH "--train-samples 160", BATCH "--train-samples 320 --rampup-batch-size 4 4 100",
                   "--rampup-batch-size was not given, is 4 4 100\n");
    assert_changes(RUN "--lr-warmup-iters 3", RUN "--lr-decay-iters 9",
                   "--lr-decay-iters was 10, is 9\n--lr-warmup-iters was 3, is 0\n");
    assert_changes(RUN, RUN "--weight-decay 0.5 --use-checkpoint-opt_param-scheduler --load .", "");
    mega_command_options c;
    mega_list none;
    kit_accept(&c, "plan", RUN);
    assert_int_equal(mega_options_changes(c.train.engine.options, "{\"clip_grad\": 1.0}", false, &none),
                     MEGA_OK); /* written by an older version */
    assert_int_equal(none.count, 0);
    mega_command_options_fini(&c);
}

static void bad_json(void **state)
{
    (void)state;
    mega_command_options c;
    assert_int_equal(mega_command_options_init(&c), MEGA_OK);
    assert_int_equal(mega_options_from_json(c.train.engine.options, "{\"num_layers\": 1,", MEGA_SET_BY_CHECKPOINT),
                     MEGA_ERR_FORMAT);
    assert_int_equal(mega_options_from_json(c.train.engine.options, "[1]", MEGA_SET_BY_CHECKPOINT), MEGA_ERR_FORMAT);
    assert_int_equal(mega_options_from_json(c.train.engine.options, "{\"num_layers\": \"x\"}", MEGA_SET_BY_CHECKPOINT),
                     MEGA_ERR_FORMAT);
    kit_assert_has(mega_error_message(), "\"num-layers\": \"x\" is not a whole number");
    assert_int_equal(mega_options_from_json(c.train.engine.options, "{\"num_layers\": [1]}", MEGA_SET_BY_CHECKPOINT),
                     MEGA_ERR_FORMAT);
    assert_int_equal(mega_options_from_json(c.train.engine.options, "{\"num_layers\": -3}", MEGA_SET_BY_CHECKPOINT),
                     MEGA_ERR_FORMAT);
    assert_int_equal(mega_options_from_json(c.train.engine.options, "{\"input\": [1]}", MEGA_SET_BY_CHECKPOINT),
                     MEGA_ERR_FORMAT);
    assert_int_equal(mega_options_from_json(c.train.engine.options, "{\"unheard_of\": 1, \"num_layers\": 3}",
                                            MEGA_SET_BY_CHECKPOINT),
                     MEGA_OK);
    assert_int_equal(c.train.model.num_layers, 3);
    mega_command_options_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dump_is_sorted_and_aligned),
        cmocka_unit_test(json_round_trip),
        cmocka_unit_test(json_of_lists),
        cmocka_unit_test(changes_that_a_resumed_run_reports),
        cmocka_unit_test(bad_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
