/* Tests Accelerate's YAML as a source of options: which keys set what, which source wins, and which files are
 * refused. */
#include "megalith/file.h"
#include "options_kit.h"
#include <unistd.h>

#define TRAIN       "--num-layers 2 --hidden-size 64 --num-attention-heads 2 --seq-length 32 --micro-batch-size 4 "
#define FILE_OPTION TRAIN "--config_file "

static char path[64];

/* Writes a YAML and reads it with these options, as plan does. Returns the status; `c` is to be released. */
static mega_status read_yaml(mega_command_options *c, const char *yaml, const char *options)
{
    char line[1024];
    snprintf(path, sizeof path, "/tmp/megalith-yaml-%d.yaml", (int)getpid());
    assert_int_equal(mega_file_write_atomic(path, yaml, strlen(yaml)), MEGA_OK);
    snprintf(line, sizeof line, FILE_OPTION "%s %s", path, options);
    const mega_status st = kit_parse(c, "plan", line);
    unlink(path);
    return st;
}

static void accept_yaml(mega_command_options *c, const char *yaml, const char *options)
{
    if (read_yaml(c, yaml, options) != MEGA_OK) fail_msg("%s\n%s", yaml, mega_error_message());
}

/* "PATH" in `expected` stands for the name of the file. */
static void refuse_yaml(const char *yaml, const char *options, const char *expected)
{
    mega_command_options c;
    char wanted[1024];
    const char *mark = strstr(expected, "PATH");
    if (read_yaml(&c, yaml, options) == MEGA_OK) fail_msg("accepted:\n%s", yaml);
    if (mark != NULL) snprintf(wanted, sizeof wanted, "%.*s%s%s", (int)(mark - expected), expected, path, mark + 4);
    else
        snprintf(wanted, sizeof wanted, "%s", expected);
    kit_assert_has(mega_error_message(), wanted);
    mega_command_options_fini(&c);
}

#define MEGATRON "distributed_type: MEGATRON_LM\n"
#define BLOCK    "distributed_type: MEGATRON_LM\nmegatron_lm_config:\n"

/* The file of the documentation's transcript. */
static void the_documentation(void **state)
{
    (void)state;
    mega_command_options c;
    accept_yaml(
        &c,
        "compute_environment: LOCAL_MACHINE\ndeepspeed_config: {}\ndistributed_type: MEGATRON_LM\n"
        "downcast_bf16: 'no'\nfsdp_config: {}\nmachine_rank: 0\nmain_process_ip: null\nmain_process_port: null\n"
        "main_training_function: main\nmegatron_lm_config:\n  megatron_lm_gradient_clipping: 0.5\n"
        "  megatron_lm_num_micro_batches: 2\n  megatron_lm_pp_degree: 2\n"
        "  megatron_lm_recompute_activations: true\n  megatron_lm_sequence_parallelism: true\n"
        "  megatron_lm_tp_degree: 2\n  megatron_lm_use_distributed_optimizer: true\nmixed_precision: bf16\n"
        "num_machines: 1\nnum_processes: 4\nrdzv_backend: static\nsame_network: true\nuse_cpu: false\n",
        "");
    const mega_train_options *t = &c.train;
    assert_int_equal(t->engine.comm.tensor_model_parallel_size, 2);
    assert_int_equal(t->engine.comm.pipeline_model_parallel_size, 2);
    assert_int_equal(t->planned_world_size, 4);
    assert_int_equal(t->engine.optim.gradient_accumulation_steps, 2);
    assert_true(t->engine.optim.clip_grad == 0.5 && t->engine.backend.bf16 && t->model.sequence_parallel);
    assert_true(t->engine.graph.use_distributed_optimizer);
    assert_int_equal(mega_options_set_by(c.train.engine.options, "recompute_granularity"), MEGA_SET_BY_YAML);
    assert_string_equal(kit_notes, ""); /* nothing in it is without effect */
    char origin[160];
    snprintf(origin, sizeof origin, "\"megatron_lm_config.megatron_lm_tp_degree\" 2 (%s, line 16)", path);
    assert_string_equal(mega_options_origin(c.train.engine.options, "tensor_model_parallel_size"), origin);
    mega_command_options_fini(&c);
}

static void precedence(void **state)
{
    (void)state;
    mega_command_options c;
    accept_yaml(&c, BLOCK "  megatron_lm_gradient_clipping: 0.5\n", "--clip-grad 2");
    assert_true(c.train.engine.optim.clip_grad == 2);
    kit_assert_has(kit_notes,
                   "--clip-grad 2.0 (argument 13) counts; \"megatron_lm_config.megatron_lm_gradient_clipping\" 0.5 (");
    mega_command_options_fini(&c);
    accept_yaml(&c, BLOCK "  megatron_lm_gradient_clipping: 2.0\n", "--clip-grad 2");
    assert_string_equal(kit_notes, ""); /* they agree */
    mega_command_options_fini(&c);
    const char json[] = "{\"gradient_clipping\": 3}";
    assert_int_equal(mega_file_write_atomic("/tmp/megalith-yaml-ds.json", json, strlen(json)), MEGA_OK);
    accept_yaml(&c,
                "deepspeed_config:\n  deepspeed_config_file: /tmp/megalith-yaml-ds.json\n  gradient_clipping: 0.5\n"
                "distributed_type: DEEPSPEED\n",
                "");
    assert_true(c.train.engine.optim.clip_grad == 3);
    assert_int_equal(mega_options_set_by(c.train.engine.options, "clip_grad"), MEGA_SET_BY_JSON);
    kit_assert_has(kit_notes, "\"gradient_clipping\" 3 (/tmp/megalith-yaml-ds.json, line 1) counts; "
                              "\"deepspeed_config.gradient_clipping\" 0.5 (");
    unlink("/tmp/megalith-yaml-ds.json");
    /* a checkpoint and a preset give way */
    assert_int_equal(
        mega_options_from_json(c.train.engine.options, "{\"deepspeed_config\": \"x\"}", MEGA_SET_BY_CHECKPOINT),
        MEGA_OK);
    assert_int_equal(mega_options_set_by(c.train.engine.options, "deepspeed_config"), MEGA_SET_BY_YAML);
    mega_command_options_fini(&c);
    accept_yaml(&c, BLOCK "  megatron_lm_hidden_size: 32\n", "--preset tiny");
    assert_int_equal(c.train.model.hidden_size, 64); /* argv */
    mega_command_options_fini(&c);
    refuse_yaml(BLOCK "  megatron_lm_gradient_clipping: 0.5\n  megatron_lm_clip_grad: 1\n", "",
                "\"megatron_lm_config.megatron_lm_clip_grad\" 1 (PATH, line 4) contradict each other; give one");
}

static void zero_stages(void **state)
{
    (void)state;
    static const struct {
        const char *yaml;
        int stage;
    } of[] = {{"distributed_type: DEEPSPEED\n", 2},
              {"distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 1}\n", 1},
              {"deepspeed_config:\n  zero_stage: 3\n  zero3_init_flag: true\n  offload_param_device: none\n"
               "  offload_optimizer_device: cpu\n  gradient_clipping: auto\ndistributed_type: DEEPSPEED\n",
               3},
              {"distributed_type: FSDP\n", 3},
              {"distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: 2}\n", 2},
              {"distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: NO_SHARD}\n", 0},
              {"distributed_type: FSDP\nfsdp_config: {fsdp_reshard_after_forward: false, fsdp_version: 2}\n", 2},
              {"distributed_type: MULTI_GPU\n", 0},
              {"distributed_type: NO\n", 0},
              {"distributed_type: 'NO'\nmixed_precision: no\n", 0}};
    for (size_t i = 0; i < MEGA_COUNT(of); i++) {
        mega_command_options c;
        accept_yaml(&c, of[i].yaml, "--world-size 4");
        if (c.train.engine.graph.zero_stage != of[i].stage)
            fail_msg("stage %d:\n%s", (int)c.train.engine.graph.zero_stage, of[i].yaml);
        mega_command_options_fini(&c);
        accept_yaml(&c, of[i].yaml, "--world-size 4 --zero-stage 1"); /* argv wins */
        assert_int_equal(c.train.engine.graph.zero_stage, 1);
        mega_command_options_fini(&c);
    }
}

/* Accelerate's fp16 has the scaler of whoever trains: PyTorch's, DeepSpeed's or Megatron's. */
static void scalers_of_fp16(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *options;
        double initial;
        int window, hysteresis;
        mega_loss_scale_rules rules;
    } of[] = {{"distributed_type: MULTI_GPU\nmixed_precision: fp16\n", "", 65536, 2000, 1, MEGA_SCALE_MEGATRON},
              {"distributed_type: NO\n", "--mixed_precision fp16", 65536, 2000, 1, MEGA_SCALE_MEGATRON},
              {"distributed_type: FSDP\nmixed_precision: fp16\n", "--hysteresis 3 --initial-loss-scale 8", 8, 2000, 3,
               MEGA_SCALE_MEGATRON},
              {"distributed_type: DEEPSPEED\nmixed_precision: fp16\n", "", 65536, 1000, 2, MEGA_SCALE_DEEPSPEED},
              {MEGATRON "mixed_precision: fp16\n", "", 4294967296.0, 1000, 2, MEGA_SCALE_MEGATRON},
              {MEGATRON, "--fp16", 4294967296.0, 1000, 2, MEGA_SCALE_MEGATRON},
              {"distributed_type: NO\n", "--fp16", 4294967296.0, 1000, 2, MEGA_SCALE_MEGATRON}};
    for (size_t i = 0; i < MEGA_COUNT(of); i++) {
        mega_command_options c;
        accept_yaml(&c, of[i].yaml, of[i].options);
        const mega_optim_options *o = &c.train.engine.optim;
        assert_true(c.train.engine.backend.fp16);
        if (o->initial_loss_scale != of[i].initial || o->loss_scale_window != of[i].window ||
            o->hysteresis != of[i].hysteresis || o->loss_scale_rules != of[i].rules)
            fail_msg("%s%s: %g, window %d, hysteresis %d, rules %d", of[i].yaml, of[i].options, o->initial_loss_scale,
                     (int)o->loss_scale_window, (int)o->hysteresis, (int)o->loss_scale_rules);
        mega_command_options_fini(&c);
    }
}

/* -1 leaves the number of ranks to the launcher; no other number below 1, nor one that no machine has, is one. */
static void numbers_of_ranks(void **state)
{
    (void)state;
    mega_command_options c;
    refuse_yaml("distributed_type: NO\nnum_processes: 0\n", "", "line 2): found 0, expected 1 to 1048576");
    refuse_yaml("distributed_type: NO\nnum_processes: -2\n", "--world-size 2", "line 2): found -2, expected 1 to");
    refuse_yaml("num_processes: 99999999999\ndistributed_type: NO\n", "",
                "\"num_processes\" (PATH, line 1): found 99999999999, expected 1 to");
    refuse_yaml("distributed_type: NO\nnum_processes: -1\n", "",
                "-1 leaves the number of ranks open: give --world-size");
    accept_yaml(&c, "distributed_type: NO\nnum_processes: -1\n", "--world-size 2");
    assert_int_equal(c.train.planned_world_size, 2);
    mega_command_options_fini(&c);
    accept_yaml(&c, "distributed_type: NO\nnum_processes: null\n", "");
    mega_command_options_fini(&c);
}

static void other_keys(void **state)
{
    (void)state;
    mega_command_options c;
    accept_yaml(&c,
                BLOCK
                "  megatron_lm_recompute_granularity: full\n  megatron_lm_recompute_activations: false\n"
                "  megatron_lm_no_load_optim: 'True'\n  megatron_lm_eod_mask_loss: yes\n"
                "  megatron_lm_attention_dropout: 1e-1\n  megatron_lm_context_parallel_size: 1\n"
                "  megatron_lm_use_rotary_position_embeddings: false\n  megatron_lm_attention_softmax_in_fp32: true\n"
                "  other_megatron_args:\n    lr_decay_style: cosine\n    adam_beta2: 0.95\n    weight_decay: 0.05\n"
                "debug: true\nmixed_precision: fp16\n",
                "");
    assert_true(c.train.no_load_optim && c.train.data.eod_mask_loss && c.train.model.attention_dropout == 0.1);
    assert_true(c.train.engine.backend.fp16 && c.train.engine.optim.adam_beta2 == 0.95);
    assert_true(c.train.engine.optim.lr_decay_style == MEGA_LR_COSINE && c.train.engine.optim.weight_decay == 0.05);
    kit_assert_has(kit_notes, "no effect here: \"debug\": ranks compare their calls in any case");
    kit_assert_has(kit_notes, "no effect here: \"megatron_lm_config.megatron_lm_attention_softmax_in_fp32\": ");
    mega_command_options_fini(&c);
}

static void refused(void **state)
{
    (void)state;
    refuse_yaml("", "",
                "PATH: the key distributed_type is missing; expected NO, MULTI_CPU, MULTI_GPU, DEEPSPEED, FSDP or");
    refuse_yaml(MEGATRON "mixed_precison: bf16\n", "",
                "\"mixed_precison\" (PATH, line 2) is not a key of a configuration; did you mean \"mixed_precision\"?");
    refuse_yaml(BLOCK "  megatron_lm_tp_degre: 2\n", "", "did you mean \"megatron_lm_config.megatron_lm_tp_degree\"?");
    refuse_yaml(
        "distributed_type: MEGATRON_LM\nmegatron_lm_tp_degree: 2\n", "",
        "(PATH, line 2) is not a key of a configuration; did you mean \"megatron_lm_config.megatron_lm_tp_degree\"?");
    refuse_yaml(BLOCK "  megatron_lm_tp_degree: two\n", "",
                "\"megatron_lm_config.megatron_lm_tp_degree\" (PATH, line 3): found \"two\", expected a whole number");
    refuse_yaml(BLOCK "  megatron_lm_tp_degree: '2'\n", "", "found \"2\", expected a whole number");
    refuse_yaml(BLOCK "  megatron_lm_tp_degree: 0\n", "", "(PATH, line 3): 0 must be greater than 0");
    refuse_yaml(BLOCK "  megatron_lm_sequence_parallelism: 2\n", "", "found 2, expected true or false");
    refuse_yaml("megatron_lm_config: 4\n" MEGATRON, "", "(PATH, line 1): found 4, expected an object in braces");
    refuse_yaml("distributed_type: XLA\n", "",
                "\"distributed_type\" (PATH, line 1): \"XLA\" is not implemented yet; known are NO, ");
    refuse_yaml("compute_environment: AMAZON_SAGEMAKER\ndistributed_type: NO\n", "",
                "\"AMAZON_SAGEMAKER\" is not implemented yet");
    refuse_yaml("distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: HYBRID_SHARD}\n", "",
                "the strategy HYBRID_SHARD is not implemented");
    refuse_yaml("mixed_precision: fp8\ndistributed_type: NO\n", "", "fp8");
    refuse_yaml("deepspeed_config:\n  offload_param_device: nvme\ndistributed_type: DEEPSPEED\n", "",
                "\"deepspeed_config.offload_param_device\" (PATH, line 2): \"nvme\" is not implemented");
    refuse_yaml(BLOCK "  megatron_lm_expert_model_parallel_size: 2\n", "", "does not divide the 1 data-parallel rank");
    refuse_yaml("a: 1\n\tb: 2\n", "", "PATH, line 2: ");
    refuse_yaml(MEGATRON "num_processes: 4\nnum_processes: 2\n", "",
                "PATH, line 3: \"num_processes\" stands twice, first on line 2");
    refuse_yaml("distributed_type: &t NO\n", "", "PATH, line 1: &t: anchors are not read here");
    /* all mistakes at once */
    refuse_yaml(BLOCK "  megatron_lm_tp_degree: x\n  megatron_lm_pp_degree: y\nuse_cpus: true\n", "--lr x",
                "4 mistakes:");
    mega_command_options c;
    assert_int_equal(mega_command_options_init(&c), MEGA_OK);
    kit_refuse("plan", SHAPE "--config-file /no/such.yaml",
               "/no/such.yaml: cannot open for reading: No such file or directory");
    mega_command_options_fini(&c);
}

/* Words are compared as accelerate does it: by name exactly, or folded; and an empty list lists nothing. */
static void words_and_lists(void **state)
{
    (void)state;
    mega_command_options c;
    accept_yaml(&c,
                "distributed_type: FSDP\nmixed_precision: BF16\ndynamo_config: {dynamo_backend: inductor}\n"
                "fsdp_config:\n  fsdp_sharding_strategy: shard_grad_op\n  fsdp_auto_wrap_policy: no_wrap\n"
                "  fsdp_backward_prefetch: backward_pre\n  fsdp_state_dict_type: 1\n"
                "tpu_env: []\ntpu_vm: []\ncommands: []\n",
                "");
    assert_true(c.train.engine.backend.bf16);
    assert_int_equal(c.train.engine.graph.zero_stage, 2);
    mega_command_options_fini(&c);
    accept_yaml(&c, "distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: '3'}\n", "");
    assert_int_equal(c.train.engine.graph.zero_stage, 0);
    mega_command_options_fini(&c);
    accept_yaml(&c, "distributed_type: NO\n", ""); /* a switch in YAML 1.1 */
    mega_command_options_fini(&c);
    refuse_yaml("distributed_type: fsdp\n", "",
                "\"distributed_type\" (PATH, line 1): found \"fsdp\", expected \"FSDP\" in these letters");
    refuse_yaml("distributed_type: Deepspeed\n", "", "found \"Deepspeed\", expected \"DEEPSPEED\" in these letters");
    refuse_yaml("distributed_type: 'NO'\nmixed_precision: true\n", "",
                "\"mixed_precision\" (PATH, line 2): found true, expected one of these words: bf16, no, fp16");
    refuse_yaml("compute_environment: local_machine\ndistributed_type: 'NO'\n", "", "\"compute_environment\"");
    refuse_yaml("distributed_type: 'NO'\nmixed_precision: bf61\n", "", "\"mixed_precision\" (PATH, line 2): \"bf61\"");
    refuse_yaml("distributed_type: 'NO'\ndynamo_backend: inducter\n", "",
                "\"dynamo_backend\" (PATH, line 2): \"inducter\" is not one of NO, EAGER");
    refuse_yaml("distributed_type: 'NO'\ndynamo_config: {dynamo_mode: Default}\n", "", "\"Default\" is not one of");
    refuse_yaml("distributed_type: FSDP\nfsdp_config: {fsdp_auto_wrap_policy: LAYERS}\n", "",
                "\"LAYERS\" is not one of");
}

/* Every key that has a column is found under its path, and every option under its own name. */
static void every_key(void **state)
{
    (void)state;
    mega_arena arena = {0};
    option_table table;
    size_t count = 0;
    assert_int_equal(mega_option_table_make(&table, &mega_commands, &arena), MEGA_OK);
    const mega_command *plan = mega_command_find(&mega_commands, "plan");
    const json_key_walk all = {.is_yaml = true, .options = {.table = &table}, .command = plan->bit};
    for (json_key_walk w = all; mega_json_key_next(&w); count++) {
        json_key_walk found;
        if (!mega_key_find(&all, w.path, &found)) fail_msg("%s is not found", w.path);
        if (strlen(w.path) + 1 >= sizeof w.path) fail_msg("%s is cut", w.path);
        if (count > 200) break; /* the rest are names of options, in the same form */
    }
    assert_true(count > 100);
    mega_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_documentation), cmocka_unit_test(precedence),      cmocka_unit_test(scalers_of_fp16),
        cmocka_unit_test(numbers_of_ranks),  cmocka_unit_test(zero_stages),     cmocka_unit_test(other_keys),
        cmocka_unit_test(refused),           cmocka_unit_test(words_and_lists), cmocka_unit_test(every_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
