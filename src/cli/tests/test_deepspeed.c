/* Tests a DeepSpeed JSON given to a command: its keys are options, the command line counts before it, and batch sizes
 * follow as in DeepSpeed. */
#include "options_kit.h"

/* The shape of a network, without batch sizes. */
#define NETWORK "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "

/* Writes a JSON to a file of the temporary folder and returns a line with --deepspeed_config and further options. */
static const char *with(const char *json, const char *options)
{
    static char line[2048], path[512];
    snprintf(path, sizeof path, "%s/ds.json", mega_kit_temp_folder());
    FILE *f = fopen(path, "w");
    assert_true(f != NULL && fputs(json, f) >= 0 && fclose(f) == 0);
    snprintf(line, sizeof line, NETWORK "--deepspeed --deepspeed_config %s %s", path, options);
    return line;
}

static void keys_are_options(void **state)
{
    mega_command_options c;
    mega_buffer dump = {0};
    (void)state;
    kit_accept(&c, "plan",
               with("{\"train_micro_batch_size_per_gpu\": 2,\n\"gradient_clipping\": 0.5,\n"
                    "\"zero_optimization\": {\"stage\": 2}, \"bf16\": {\"enabled\": true},\n"
                    "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 3e-4}},\n"
                    "\"megalith\": {\"train_iters\": 5}}",
                    "--deepspeed_mpi"));
    assert_int_equal(c.train.engine.optim.micro_batch_size, 2);
    assert_int_equal(c.train.engine.optim.global_batch_size, 2);
    assert_true(c.train.engine.optim.clip_grad == 0.5 && c.train.engine.optim.lr == 3e-4);
    assert_true(c.train.engine.backend.bf16);
    assert_int_equal(c.train.engine.graph.zero_stage, 2);
    assert_int_equal(c.train.engine.optim.train_iters, 5);
    kit_assert_has(kit_notes, "no effect here: --deepspeed_mpi");
    assert_int_equal(mega_options_dump_arguments(c.train.engine.options, &dump), MEGA_OK);
    kit_assert_has(dump.data, "ds.json ------------------------\n  micro_batch_size ");
    kit_assert_has(dump.data, " \"gradient_clipping\" 0.5 (line 2)\n");
    kit_assert_has(dump.data, " \"zero_optimization.stage\" 2 (line 3)\n");
    mega_buffer_fini(&dump);
    mega_command_options_fini(&c);
}

static void lists(void **state)
{
    mega_command_options c;
    (void)state;
    (void)kit_parse(&c, "plan", with("{\"megalith\": {\"data_path\": [\"1\", \"a\", 0.5, \"b\"]}}", ""));
    assert_int_equal(c.train.data.data_path.count, 4);
    assert_string_equal(c.train.data.data_path.item[2], "0.5");
    assert_string_equal(c.train.data.data_path.item[3], "b");
    mega_command_options_fini(&c);
    (void)kit_parse(&c, "plan", with("{\"megalith\": {\"data_path\": [\"a\"]}}", "--data-path c d"));
    assert_int_equal(c.train.data.data_path.count, 2);
    assert_string_equal(c.train.data.data_path.item[1], "d");
    mega_command_options_fini(&c);
    kit_refuse("plan", with("{\"megalith\": {\"data_path\": [true]}}", ""), "found [true], expected a list of strings");
}

#define BATCH_OF_2 ", \"train_micro_batch_size_per_gpu\": 2}"

/* Words are compared as DeepSpeed does it; an empty list lists nothing; the clip of 2019 clips. */
static void words_and_empty_lists(void **state)
{
    mega_command_options c;
    (void)state;
    kit_accept(&c, "plan",
               with("{\"optimizer\": {\"type\": \"adam\", \"params\": {\"max_grad_norm\": 0.25}},"
                    "\"communication_data_type\": \"FP16\", \"gradient_allreduce_op\": \"Mean\","
                    "\"checkpoint\": {\"tag_validation\": \"wArn\"}, \"comms_logger\": {\"prof_ops\": []},"
                    "\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\"},"
                    "\"leaf_module\": {\"classes\": []}}" BATCH_OF_2,
                    ""));
    assert_true(c.train.engine.optim.clip_grad == 0.25);
    assert_int_equal(c.train.engine.graph.communication_data_type, 1); /* fp16 */
    mega_command_options_fini(&c);
    kit_refuse("plan", with("{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"CPU\"}}" BATCH_OF_2, ""),
               "\"zero_optimization.offload_optimizer.device\"");
    kit_refuse("plan", with("{\"optimizer\": {\"type\": \"sgd\"}" BATCH_OF_2, ""),
               "found \"sgd\", expected \"SGD\" in these letters");
    kit_refuse("plan", with("{\"data_types\": {\"grad_accum_dtype\": \"FP32\"}" BATCH_OF_2, ""),
               "found \"FP32\", expected \"fp32\" in these letters");
    kit_refuse("plan", with("{\"scheduler\": {\"type\": \"warmuplr\"}" BATCH_OF_2, ""), "\"warmuplr\" is not one of");
    kit_refuse("plan", with("{\"torch_autocast\": {\"dtype\": \"BF16\"}" BATCH_OF_2, ""), "\"BF16\" is not one of");
    kit_refuse("plan",
               with("{\"gradient_clipping\": 1.0, \"optimizer\": {\"type\": \"Adam\", \"params\": "
                    "{\"max_grad_norm\": 0.5}}" BATCH_OF_2,
                    ""),
               "contradict each other; give one");
    kit_refuse("plan", with("{\"optimizer\": {\"params\": {\"betas\": []}}" BATCH_OF_2, ""),
               "\"optimizer.params.betas\"");
}

/* Precedence: option, JSON, default. Where the first two differ, a warning names both. */
static void options_count_first(void **state)
{
    static const char json[] = "{\"zero_optimization\": {\"stage\": 2}, \"gradient_clipping\": 0.5,\n"
                               "\"train_micro_batch_size_per_gpu\": 2}";
    mega_command_options c;
    (void)state;
    kit_accept(&c, "plan", with(json, "--zero-stage 1"));
    assert_int_equal(c.train.engine.graph.zero_stage, 1);
    assert_true(c.train.engine.optim.clip_grad == 0.5);
    kit_assert_has(kit_notes, "--zero-stage 1 (argument 12) counts; \"zero_optimization.stage\" 2 (");
    kit_assert_has(kit_notes, "ds.json, line 1) does not");
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", with("{\"bf16\": {\"enabled\": true}, \"train_micro_batch_size_per_gpu\": 2}", "--fp16"));
    assert_true(c.train.engine.backend.fp16 && !c.train.engine.backend.bf16);
    assert_int_equal(c.train.engine.backend.params_dtype, MEGA_F16);
    kit_assert_has(kit_notes, "--fp16 (argument 12) counts; \"bf16.enabled\" true (");
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", with("{\"fp16\": {\"enabled\": true}, \"train_micro_batch_size_per_gpu\": 2}", "--bf16"));
    assert_int_equal(c.train.engine.backend.params_dtype, MEGA_BF16);
    mega_command_options_fini(&c);
    kit_accept(
        &c, "plan",
        with("{\"bf16\": {\"enabled\": true}, \"train_micro_batch_size_per_gpu\": 2}", "--fp64 --backend plain"));
    assert_int_equal(c.train.engine.backend.params_dtype, MEGA_F64);
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", with(json, "--micro-batch-size 4"));
    assert_int_equal(c.train.engine.optim.micro_batch_size, 4);
    kit_assert_has(kit_notes, "--micro-batch-size 4 (argument 12) counts; \"train_micro_batch_size_per_gpu\" 2 (");
    mega_command_options_fini(&c);
    (void)kit_parse(&c, "tasks", with("{\"zero_optimization\": {\"stage\": 3}}", "--task LAMBADA"));
    assert_int_equal(c.train.engine.graph.zero_stage, 3);
    mega_command_options_fini(&c);
}

/* The table of reference on batch sizes, on two data-parallel ranks. */
static void batch_sizes(void **state)
{
    static const struct {
        int total, micro, steps; /* 0: not given */
        int64_t want_total, want_micro;
        const char *said; /* expected mistake */
    } rows[] = {
        {32, 16, 1, 32, 16, NULL},
        {32, 8, 2, 32, 8, NULL},
        {33, 17, 2, 0, 0, "contradict each other"},
        {32, 18, 1, 0, 0, "contradict each other"},
        {32, 16, 0, 32, 16, NULL},
        {32, 0, 2, 32, 8, NULL},
        {0, 8, 2, 32, 8, NULL},
        {32, 0, 0, 32, 16, NULL},
        {0, 16, 0, 32, 16, NULL},
        {0, 0, 2, 0, 0, "missing: --micro-batch-size"},
        {0, 0, 0, 0, 0, "missing: --micro-batch-size"},
        {33, 16, 0, 0, 0, "is not a multiple of"},
        {33, 0, 0, 0, 0, "is not a multiple of"},
        {1, 0, 0, 0, 0, "is not a multiple of"},
        {32, 0, 3, 0, 0, "contradict each other"},
    };
    (void)state;
    for (size_t i = 0; i < MEGA_COUNT(rows); i++) {
        mega_command_options c;
        char json[256];
        size_t n = (size_t)snprintf(json, sizeof json, "{\"steps_per_print\": 10");
        const struct {
            const char *key;
            int value;
        } given[] = {{"train_batch_size", rows[i].total},
                     {"train_micro_batch_size_per_gpu", rows[i].micro},
                     {"gradient_accumulation_steps", rows[i].steps}};
        for (size_t k = 0; k < MEGA_COUNT(given); k++)
            if (given[k].value > 0)
                n += (size_t)snprintf(json + n, sizeof json - n, ",\n\"%s\": %d", given[k].key, given[k].value);
        snprintf(json + n, sizeof json - n, "}");
        const mega_status st = kit_parse(&c, "plan", with(json, "--world-size 2"));
        if (rows[i].said != NULL) kit_assert_has(st != MEGA_OK ? mega_error_message() : "accepted", rows[i].said);
        else if (st != MEGA_OK || c.train.engine.optim.micro_batch_size != rows[i].want_micro ||
                 c.train.engine.optim.global_batch_size != rows[i].want_total)
            fail_msg("%s: %lld of %lld, %s", json, (long long)c.train.engine.optim.micro_batch_size,
                     (long long)c.train.engine.optim.global_batch_size, mega_error_message());
        mega_command_options_fini(&c);
    }
}

static void mistakes(void **state)
{
    static const char batch[] = "{\"train_batch_size\": 4, \"zero_optimization\": {\"stge\": 1}, \"megalith\": {\n"
                                "\"prompt\": [\"x\"], \"overwrite\": \"yes\"}}";
    mega_command_options c;
    (void)state;
    kit_refuse("plan", with(batch, ""),
               "ds.json, line 1) is not a key of a configuration; did you mean "
               "\"zero_optimization.stage\"?");
    kit_refuse("plan", with(batch, ""), "\"megalith.prompt\" ("); /* an option of another command */
    kit_refuse("plan", with(batch, ""), "found \"yes\", expected true or false");
    kit_refuse("plan", SHAPE "--deepspeed_config not-there.json", "not-there.json");
    kit_refuse("preprocess_data", "--input a --output-prefix b --deepspeed_config ds.json",
               "--deepspeed_config is an option of pretrain_gpt, run_clm, pretrain_bert, pretrain_t5, plan");
    kit_accept(&c, "plan", SHAPE "--deepspeed");
    kit_assert_has(kit_notes, "--deepspeed without --deepspeed_config FILE reads no JSON");
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", SHAPE "--zero-stage 1");
    assert_string_equal(kit_notes, "");
    mega_command_options_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_options),      cmocka_unit_test(options_count_first), cmocka_unit_test(lists),
        cmocka_unit_test(words_and_empty_lists), cmocka_unit_test(batch_sizes),         cmocka_unit_test(mistakes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
