/* Tests what a DeepSpeed JSON leaves to DeepSpeed's defaults, and what amp is. */
#include "json_kit.h"

#define GOOD "\"train_batch_size\": 2, \"optimizer\": {\"params\": {\"lr\": 1}}"

/* What a JSON leaves out has DeepSpeed's defaults, unless argv gives it or no optimizer is named. */
static void defaults_are_those_of_deepspeed(void **state)
{
    static const struct {
        const char *json, *line;
        double weight_decay, lr, momentum;
    } rows[] = {
        {"{\"train_batch_size\": 2, \"optimizer\": {\"type\": \"Adam\"}}", "", 0, 0.001, 0.9},
        {"{\"train_batch_size\": 2, \"optimizer\": {\"type\": \"Adam\", \"params\": {\"torch_adam\": true}}}", "", 0.01,
         0.001, 0.9},
        {"{\"train_batch_size\": 2, \"optimizer\": {\"type\": \"SGD\"}}", "", 0, 0.001, 0},
        {"{\"train_batch_size\": 2, \"optimizer\": {\"type\": \"Adagrad\"}}", "", 0, 0.01, 0.9},
        {"{\"train_batch_size\": 2, \"optimizer\": {\"type\": \"SGD\"}}", "--lr 2 --weight-decay 3 --sgd-momentum 0.5",
         3, 2, 0.5},
        {"{" GOOD "}", "", 0.01, 1, 0.9}, /* it names no optimizer */
    };
    (void)state;
    setup_values c;
    for (size_t i = 0; i < MEGA_COUNT(rows); i++) {
        if (parse(&c, rows[i].json, rows[i].line) != MEGA_OK) fail_msg("%s: %s", rows[i].json, mega_error_message());
        const mega_optim_options *o = &c.engine.optim;
        if (o->weight_decay != rows[i].weight_decay || o->lr != rows[i].lr || o->sgd_momentum != rows[i].momentum)
            fail_msg("%s %s: %g %g %g", rows[i].json, rows[i].line, o->weight_decay, o->lr, o->sgd_momentum);
        end(&c);
    }
    assert_int_equal(parse(&c, "{\"train_batch_size\": 2, \"zero_optimization\": {\"stage\": 3}}", "--lr 1"), MEGA_OK);
    assert_true(c.engine.graph.ddp_bucket_size == 500000000 && c.engine.graph.overlap_grad_reduce);
    assert_has(notes, "leaves to the defaults of DeepSpeed 0.19.8: --ddp-bucket-size 500000000, --overlap-grad-reduce");
    assert_has(mega_options_origin(c.engine.options, "ddp_bucket_size"), "(default of DeepSpeed 0.19.8");
    end(&c);
    assert_int_equal(parse(&c, "{\"train_batch_size\": 2}", "--lr 1 --zero-stage 3"), MEGA_OK);
    assert_true(c.engine.graph.ddp_bucket_size == 40000000 && !c.engine.graph.overlap_grad_reduce);
    end(&c);
    static const char adamw[] = "{\"train_batch_size\": 2, \"optimizer\": {\"type\": \"AdamW\", \"params\": "
                                "{\"adam_w_mode\": false}}}";
    assert_int_equal(parse(&c, adamw, ""), MEGA_OK);
    assert_true(c.engine.optim.decoupled_weight_decay);
    assert_has(notes, "false has no effect with AdamW");
    end(&c);
}

/* Writes the values of all options, without their sources. */
static void print_values(const char *json, const char *argv, mega_buffer *out)
{
    setup_values c;
    if (parse(&c, json, argv) != MEGA_OK) fail_msg("%s %s: %s", json, argv, mega_error_message());
    assert_int_equal(mega_options_dump_arguments(c.engine.options, out), MEGA_OK);
    end(&c);
    char *end_of_values = strstr(out->data, "\n---"); /* what follows names sources */
    assert_non_null(end_of_values);
    *end_of_values = '\0';
}

/* An option that repeats what the JSON says changes nothing: what the JSON implies besides stays in force. */
static void repeating_the_json_changes_nothing(void **state)
{
    static const struct {
        const char *json, *argv;
    } rows[] = {
        {"\"fp16\": {\"enabled\": true}", "--fp16"},
        {"\"fp16\": {\"enabled\": true, \"initial_scale_power\": 5}", "--fp16 --initial-scale-power 5"},
        {"\"fp16\": {\"enabled\": true, \"initial_scale_power\": 5}", "--initial-loss-scale 32"},
        {"\"zero_optimization\": {\"stage\": 2}", "--zero-stage 2"},
        {"\"zero_optimization\": {\"stage\": 3}", "--zero-stage 3"},
        {"\"optimizer\": {\"type\": \"Muon\", \"params\": {\"lr\": 1, \"momentum\": 0.5}}", "--optimizer muon"},
        {"\"optimizer\": {\"type\": \"Muon\", \"params\": {\"lr\": 1, \"momentum\": 0.5}}", "--sgd-momentum 0.5"},
        {"\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 1}}", "--optimizer sgd"},
        {"\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 1}}", "--optimizer adam"},
    };
    (void)state;
    for (size_t i = 0; i < MEGA_COUNT(rows); i++) {
        char json[300];
        mega_buffer alone = {0}, both = {0};
        snprintf(json, sizeof json, "{\"train_batch_size\": 2, %s}", rows[i].json);
        const char *lr = strstr(json, "\"lr\"") != NULL ? "" : "--lr 1";
        char argv[100];
        snprintf(argv, sizeof argv, "%s%s%s", lr, *lr != '\0' ? " " : "", rows[i].argv);
        print_values(json, lr, &alone);
        print_values(json, argv, &both);
        size_t same = 0; /* bytes of the lines that both have */
        while (alone.data[same] != '\0' && alone.data[same] == both.data[same]) same++;
        while (same > 0 && alone.data[same - 1] != '\n') same--;
        if (strcmp(alone.data, both.data) != 0)
            fail_msg("%s %s: %.60s; without the option: %.60s", json, argv, both.data + same, alone.data + same);
        mega_buffer_fini(&alone);
        mega_buffer_fini(&both);
    }
}

static void amp_is_fp16_or_fp32(void **state)
{
    setup_values c;
    mega_engine_options o;
    (void)state;
    assert_int_equal(parse(&c, "{" GOOD ", \"amp\": {\"enabled\": true, \"opt_level\": \"O0\"}}", ""), MEGA_OK);
    assert_int_equal(mega_engine_options_from_settings(&c.engine, &o), MEGA_OK);
    assert_true(o.compute == MEGA_F32);
    end(&c);
    for (int level = 1; level <= 2; level++) {
        char json[200];
        snprintf(json, sizeof json, "{" GOOD ", \"amp\": {\"enabled\": true, \"opt_level\": \"O%d\"}}", level);
        assert_int_equal(parse(&c, json, ""), MEGA_OK);
        assert_int_equal(mega_engine_options_from_settings(&c.engine, &o), MEGA_OK);
        assert_true(o.compute == MEGA_F16 && o.loss_scale.rules == MEGA_SCALE_DEEPSPEED && o.loss_scale.fixed == 0);
        assert_true(o.loss_scale.initial == 65536);
        assert_has(notes, level == 1 ? "amp O1 is fp16 here" : "amp O2 is fp16 here");
        end(&c);
    }
    assert_int_equal(parse(&c, "{" GOOD ", \"amp\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}", ""),
                     MEGA_ERR_USAGE);
    assert_has(mega_error_message(), "a run has one precision; give one");
    end(&c);
    assert_int_equal(parse(&c, "{" GOOD ", \"amp\": {\"enabled\": true}}", "--zero-stage 1"), MEGA_ERR_USAGE);
    assert_has(mega_error_message(), "amp does not go with ZeRO");
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(defaults_are_those_of_deepspeed),
                                       cmocka_unit_test(repeating_the_json_changes_nothing),
                                       cmocka_unit_test(amp_is_fp16_or_fp32)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
