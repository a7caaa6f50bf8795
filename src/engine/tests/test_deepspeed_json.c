/* Tests a DeepSpeed JSON as a source of options: which source wins, which source a message names, and which JSONs are
 * refused. */
#include "../../config/config_impl.h"
#include "json_kit.h"

/* Returns the table of all option rows. */
static const option_table *rows_of_engine(void)
{
    static mega_arena arena;
    static option_table table;
    if (table.line == NULL) assert_int_equal(mega_option_table_make(&table, &mega_engine_composition, &arena), MEGA_OK);
    return &table;
}

/* ---- three sources ---- */

/* For each option, a value for argv and a different one for the JSON. */
static const struct {
    const char *dest, *option, *argv, *json;
} sources[] = {
    {"micro_batch_size", "micro-batch-size", "2", "4"},
    {"global_batch_size", "global-batch-size", "8", "16"},
    {"gradient_accumulation_steps", "gradient-accumulation-steps", "2", "4"},
    {"rampup_batch_size", "rampup-batch-size", "4 4 100", "[8, 8, 200]"},
    {"curriculum_learning", "curriculum-learning", NULL, "false"},
    {"curriculum_schedule", "curriculum-schedule", "fixed_root", "\"fixed_discrete\""},
    {"curriculum_min_difficulty", "curriculum-min-difficulty", "8", "16"},
    {"curriculum_max_difficulty", "curriculum-max-difficulty", "32", "64"},
    {"curriculum_total_steps", "curriculum-total-steps", "10", "20"},
    {"curriculum_difficulty_step", "curriculum-difficulty-step", "4", "16"},
    {"curriculum_root_degree", "curriculum-root-degree", "2", "3"},
    {"curriculum_difficulty", "curriculum-difficulty", "2 4", "[4, 8]"},
    {"curriculum_max_step", "curriculum-max-step", "2 4", "[4, 8]"},
    {"train_iters", "train-iters", "10", "20"},
    {"train_samples", "train-samples", "10", "2e3"},
    {"optimizer", "optimizer", "sgd", "\"adam\""},
    {"calculate_per_token_loss", "calculate-per-token-loss", NULL, "false"},
    {"lr", "lr", "0.5", "0.25"},
    {"lr_decay_style", "lr-decay-style", "cosine", "\"constant\""},
    {"lr_decay_iters", "lr-decay-iters", "5", "6"},
    {"lr_decay_samples", "lr-decay-samples", "5", "6"},
    {"lr_wsd_decay_style", "lr-wsd-decay-style", "cosine", "\"linear\""},
    {"lr_wsd_decay_iters", "lr-wsd-decay-iters", "5", "6"},
    {"lr_wsd_decay_samples", "lr-wsd-decay-samples", "5", "6"},
    {"lr_warmup_fraction", "lr-warmup-fraction", "0.5", "0.25"},
    {"lr_warmup_iters", "lr-warmup-iters", "2", "3"},
    {"lr_warmup_samples", "lr-warmup-samples", "2", "3"},
    {"lr_warmup_init", "lr-warmup-init", "0.5", "0.25"},
    {"min_lr", "min-lr", "0.5", "0.25"},
    {"deepspeed_schedule", "deepspeed-schedule", "WarmupLR", "\"OneCycle\""},
    {"warmup_min_lr", "warmup-min-lr", "0.5", "0.25"},
    {"warmup_max_lr", "warmup-max-lr", "0.5", "0.25"},
    {"warmup_num_steps", "warmup-num-steps", "5", "6"},
    {"warmup_type", "warmup-type", "linear", "\"log\""},
    {"total_num_steps", "total-num-steps", "5", "6"},
    {"warmup_min_ratio", "warmup-min-ratio", "0.5", "0.25"},
    {"cos_min_ratio", "cos-min-ratio", "0.5", "0.25"},
    {"cycle_min_lr", "cycle-min-lr", "0.5", "0.25"},
    {"cycle_max_lr", "cycle-max-lr", "0.5", "0.25"},
    {"cycle_first_step_size", "cycle-first-step-size", "5", "6"},
    {"cycle_second_step_size", "cycle-second-step-size", "5", "6"},
    {"cycle_first_stair_count", "cycle-first-stair-count", "5", "6"},
    {"cycle_second_stair_count", "cycle-second-stair-count", "5", "6"},
    {"decay_step_size", "decay-step-size", "5", "6"},
    {"decay_lr_rate", "decay-lr-rate", "0.5", "0.25"},
    {"cycle_momentum", "no-cycle-momentum", NULL, "true"},
    {"cycle_min_mom", "cycle-min-mom", "0.5", "0.25"},
    {"cycle_max_mom", "cycle-max-mom", "0.5", "0.25"},
    {"decay_mom_rate", "decay-mom-rate", "0.5", "0.25"},
    {"lr_range_test_min_lr", "lr-range-test-min-lr", "0.5", "0.25"},
    {"lr_range_test_step_size", "lr-range-test-step-size", "5", "6"},
    {"lr_range_test_step_rate", "lr-range-test-step-rate", "0.5", "0.25"},
    {"lr_range_test_staircase", "lr-range-test-staircase", NULL, "false"},
    {"weight_decay", "weight-decay", "0.5", "0.25"},
    {"decoupled_weight_decay", "no-decoupled-weight-decay", NULL, "true"},
    {"start_weight_decay", "start-weight-decay", "0.5", "0.25"},
    {"end_weight_decay", "end-weight-decay", "0.5", "0.25"},
    {"weight_decay_incr_style", "weight-decay-incr-style", "cosine", "\"linear\""},
    {"clip_grad", "clip-grad", "0.5", "0.25"},
    {"adam_beta1", "adam-beta1", "0.5", "0.25"},
    {"adam_beta2", "adam-beta2", "0.5", "0.25"},
    {"adam_eps", "adam-eps", "0.5", "0.25"},
    {"sgd_momentum", "sgd-momentum", "0.5", "0.25"},
    {"sgd_dampening", "sgd-dampening", "0.5", "0.25"},
    {"sgd_nesterov", "sgd-nesterov", NULL, "false"},
    {"adagrad_lr_decay", "adagrad-lr-decay", "0.5", "0.25"},
    {"ademamix_beta3", "ademamix-beta3", "0.5", "0.25"},
    {"ademamix_alpha", "ademamix-alpha", "0.5", "0.25"},
    {"ademamix_steps", "ademamix-steps", "5", "6"},
    {"schedule_free_warmup_steps", "schedule-free-warmup-steps", "5", "6"},
    {"schedule_free_r", "schedule-free-r", "0.5", "0.25"},
    {"schedule_free_weight_lr_power", "schedule-free-weight-lr-power", "0.5", "0.25"},
    {"one_bit_adam_freeze_step", "one-bit-adam-freeze-step", "5", "6"},
    {"parameter_group", "parameter-group", "*ln*:frozen", "[\"*:lr_scale=2\"]"},
    {"adam_amsgrad", "adam-amsgrad", NULL, "false"},
    {"adam_bias_correction", "no-adam-bias-correction", NULL, "true"},
    {"maximize", "maximize", NULL, "false"},
    {"adagrad_initial_accumulator_value", "adagrad-initial-accumulator-value", "0.5", "0.25"},
    {"lamb_max_coeff", "lamb-max-coeff", "0.5", "0.25"},
    {"lamb_min_coeff", "lamb-min-coeff", "0.5", "0.25"},
    {"lamb_eps_inside_sqrt", "lamb-eps-inside-sqrt", NULL, "false"},
    {"muon_momentum", "muon-momentum", "0.5", "0.25"},
    {"muon_nesterov", "muon-nesterov", NULL, "false"},
    {"muon_split_qkv", "muon-no-split-qkv", NULL, "true"},
    {"muon_num_ns_steps", "muon-num-ns-steps", "5", "6"},
    {"muon_coefficient_type", "muon-coefficient-type", "cans", "\"simple\""},
    {"muon_scale_mode", "muon-scale-mode", "spectral", "\"shape_scaling\""},
    {"muon_extra_scale_factor", "muon-extra-scale-factor", "0.5", "0.25"},
    {"muon_lr", "muon-lr", "0.5", "0.25"},
    {"adam_lr", "adam-lr", "0.5", "0.25"},
    {"seed", "seed", "7", "8"},
    {"dataloader_drop_last", "dataloader-drop-last", NULL, "false"},
    {"fp16", "fp16", NULL, "false"},
    {"bf16", "bf16", NULL, "false"},
    {"loss_scale", "loss-scale", "2", "4"},
    {"initial_loss_scale", "initial-loss-scale", "256", "512"},
    {"initial_scale_power", "initial-scale-power", "3", "4"},
    {"min_loss_scale", "min-loss-scale", "0.5", "0.25"},
    {"loss_scale_window", "loss-scale-window", "2", "3"},
    {"hysteresis", "hysteresis", "4", "3"},
    {"consecutive_hysteresis", "consecutive-hysteresis", NULL, "false"},
    {"fp64", "fp64", NULL, "false"},
    {"num_threads", "num-threads", "2", "3"},
    {"no_pack_weights", "no-pack-weights", NULL, "false"},
    {"late_results", "late-results", NULL, "false"},
    {"apex_amp", "apex-amp", NULL, "false"},
    {"apex_amp_level", "apex-amp-level", "O0", "\"O2\""},
    {"backend", "backend", "plain", "\"cpu\""},
    {"device", "device", "auto", "\"cpu\""},
    {"matmul_library", "matmul-library", "own", "\"cublaslt\""},
    {"cuda_graph_impl", "cuda-graph-impl", "none", "\"local\""},
    {"keep_checkpoints", "keep-checkpoints", "2", "3"},
    {"save_dtype", "save-dtype", "bf16", "\"fp16\""},
    {"max_shard_size", "max-shard-size", "7M", "\"8M\""},
    {"tensor_model_parallel_size", "tensor-model-parallel-size", "2", "4"},
    {"pipeline_model_parallel_size", "pipeline-model-parallel-size", "2", "4"},
    {"expert_model_parallel_size", "expert-model-parallel-size", "2", "4"},
    {"distributed_backend", "distributed-backend", "gloo", "\"nccl\""},
    {"distributed_timeout_minutes", "distributed-timeout-minutes", "2", "3.5"},
    {"ddp_impl", "DDP-impl", "torch", "\"local\""},
    {"ddp_bucket_size", "ddp-bucket-size", "100", "5e8"},
    {"use_distributed_optimizer", "use-distributed-optimizer", NULL, "false"},
    {"overlap_grad_reduce", "overlap-grad-reduce", NULL, "false"},
    {"communication_data_type", "communication-data-type", "bf16", "\"fp16\""},
    {"grad_accum_dtype", "grad-accum-dtype", "bf16", "\"fp16\""},
    {"gradient_predivide_factor", "gradient-predivide-factor", "2", "4"},
    {"prescale_gradients", "prescale-gradients", NULL, "false"},
    {"zero_stage", "zero-stage", "1", "2"},
    {"stage3_prefetch_bucket_size", "stage3-prefetch-bucket-size", "1", "2"},
    {"stage3_param_persistence_threshold", "stage3-param-persistence-threshold", "1", "2"},
    {"stage3_max_reuse_distance", "stage3-max-reuse-distance", "1", "2"},
    {"stage3_max_live_parameters", "stage3-max-live-parameters", "1", "2"},
    {"steps_per_print", "steps-per-print", "2", "3"},
    {"wall_clock_breakdown", "wall-clock-breakdown", NULL, "false"},
    {"memory_breakdown", "memory-breakdown", NULL, "false"},
    {"dump_state", "dump-state", NULL, "false"},
    {"monitor_tensorboard", "monitor-tensorboard", NULL, "false"},
    {"monitor_tensorboard_path", "monitor-tensorboard-path", "a", "\"b\""},
    {"monitor_tensorboard_job", "monitor-tensorboard-job", "a", "\"b\""},
    {"monitor_csv", "monitor-csv", NULL, "false"},
    {"monitor_csv_path", "monitor-csv-path", "a", "\"b\""},
    {"monitor_csv_job", "monitor-csv-job", "a", "\"b\""},
    {"monitor_wandb", "monitor-wandb", NULL, "false"},
    {"monitor_wandb_path", "monitor-wandb-path", "a", "\"b\""},
    {"monitor_wandb_project", "monitor-wandb-project", "a", "\"b\""},
    {"monitor_wandb_group", "monitor-wandb-group", "a", "\"b\""},
    {"monitor_wandb_team", "monitor-wandb-team", "a", "\"b\""},
    {"flops_profiler", "flops-profiler", NULL, "false"},
    {"flops_profiler_step", "flops-profiler-step", "2", "3"},
    {"flops_profiler_depth", "flops-profiler-depth", "2", "3"},
    {"flops_profiler_top", "flops-profiler-top", "2", "3"},
    {"flops_profiler_detail", "no-flops-profiler-detail", NULL, "true"},
    {"flops_profiler_recompute", "flops-profiler-recompute", "0.5", "0.25"},
    {"flops_profiler_output", "flops-profiler-output", "a", "\"b\""},
    {"comms_logger", "comms-logger", NULL, "false"},
    {"comms_logger_verbose", "comms-logger-verbose", NULL, "false"},
    {"comms_logger_all", "no-comms-logger-all", NULL, "true"},
    {"comms_logger_ops", "comms-logger-ops", "all_reduce", "[\"all_gather\"]"},
    {"comms_logger_stragglers", "comms-logger-stragglers", NULL, "false"},
    {"comms_logger_debug", "comms-logger-debug", NULL, "false"},
    {"recompute_granularity", "recompute-granularity", "full", "\"selective\""},
    {"recompute_method", "recompute-method", "uniform", "\"block\""},
    {"recompute_num_layers", "recompute-num-layers", "2", "3"},
    {"activation_checkpoint_interval", "activation-checkpoint-interval", "2", "3"},
    {"activation_budget", "activation-budget", "1M", "2e6"},
    {"distribute_saved_activations", "distribute-saved-activations", NULL, "false"},
};

static const char *value_of(setup_values *v, const char *dest)
{
    const char *origin = mega_options_origin(v->engine.options, dest);
    mega_buffer b = {0};
    assert_true(mega_value_print(v->engine.options, mega_option_find_dest(rows_of_engine(), dest, ALL_COMMANDS), &b));
    assert_non_null(origin);
    const char *text = mega_options_text(v->engine.options, "%s", b.data);
    mega_buffer_fini(&b);
    return text;
}

/* Gives the option in argv, in the JSON, in both and in neither. Ignores mistakes that rules about other options
 * report. */
static void try_sources(size_t i)
{
    const char *dest = sources[i].dest;
    setup_values none, argv, json, both, same;
    char line[128], text[160], equal[200], path[80], argument[120];
    snprintf(line, sizeof line, "--%s %s", sources[i].option, sources[i].argv != NULL ? sources[i].argv : "");
    snprintf(text, sizeof text, "{\n\"" JSON_OWN "\": {\n\"%s\": %s}}", dest, sources[i].json);
    snprintf(path, sizeof path, "\"" JSON_OWN ".%s\" ", dest);
    snprintf(argument, sizeof argument, "--%s ", sources[i].option);

    (void)parse(&none, NULL, "");
    assert_false(mega_options_was_set(none.engine.options, dest));
    (void)parse(&argv, "{}", line);
    assert_int_equal(mega_options_set_by(argv.engine.options, dest), MEGA_SET_BY_COMMAND_LINE);
    assert_has(mega_options_origin(argv.engine.options, dest), argument);
    (void)parse(&json, text, "");
    if (mega_options_set_by(json.engine.options, dest) != MEGA_SET_BY_JSON)
        fail_msg("%s: %s", dest, mega_error_message());
    assert_has(mega_options_origin(json.engine.options, dest), path);
    assert_has(mega_options_origin(json.engine.options, dest), "(mega_setup.config, line 3)");
    if (strcmp(value_of(&json, dest), value_of(&argv, dest)) == 0) fail_msg("%s: the same value", dest);

    (void)parse(&both, text, line);
    assert_int_equal(mega_options_set_by(both.engine.options, dest), MEGA_SET_BY_COMMAND_LINE);
    assert_string_equal(value_of(&both, dest), value_of(&argv, dest));
    assert_has(notes, "counts; ");
    assert_has(notes, argument);
    assert_has(notes, path);
    assert_has(notes, "(mega_setup.config, line 3) does not");

    const bool is_number = sources[i].argv != NULL && strpbrk(sources[i].argv, " ") == NULL &&
                           sources[i].argv[strspn(sources[i].argv, "0123456789.")] == '\0';
    snprintf(equal, sizeof equal, "{\"" JSON_OWN "\": {\"%s\": %s}}", dest, sources[i].argv);
    if (is_number) {
        (void)parse(&same, equal, line);
        if (strstr(notes, "counts; ") != NULL) fail_msg("%s: %s", dest, notes);
        end(&same);
    }
    end(&none);
    end(&argv);
    end(&json);
    end(&both);
}

static bool has_row(const char *option)
{
    for (size_t i = 0; i < MEGA_COUNT(sources); i++)
        if (strcmp(sources[i].option, option) == 0) return true;
    return false;
}

static void three_sources(void **state)
{
    size_t of_engine = 0;
    (void)state;
    for (option_walk w = {.table = rows_of_engine()}; mega_option_next(&w);) {
        if (w.row->answer != MEGA_ANSWER_WORKS || w.row->is_of_argv) continue;
        of_engine++;
        if (!has_row(w.row->name))
            fail_msg("--%s is an option of an engine: add a row to `sources` above", w.row->name);
    }
    assert_int_equal(of_engine, MEGA_COUNT(sources));
    for (size_t i = 0; i < MEGA_COUNT(sources); i++) try_sources(i);
}

/* ---- what a JSON may contain ---- */

static const char whole[] =
    "{\n"
    "  \"train_batch_size\": 8,\n"
    "  \"train_micro_batch_size_per_gpu\": 2,\n"
    "  \"gradient_accumulation_steps\": \"auto\",\n"
    "  \"steps_per_print\": 10, \"wall_clock_breakdown\": false, \"log_level\": \"info\",\n"
    "  \"gradient_clipping\": 0.5,\n"
    "  \"optimizer\": {\"type\": \"adam\", \"params\": {\"lr\": 3e-5, \"betas\": [0.8, 0.99], \"eps\": 1e-7,\n"
    "      \"weight_decay\": 3e-7, \"torch_adam\": true, \"adam_w_mode\": false}},\n"
    "  \"fp16\": {\"enabled\": false, \"loss_scale\": 0}, \"bf16\": {\"enabled\": true},\n"
    "  \"scheduler\": null,\n"
    "  \"zero_optimization\": {\"stage\": 3, \"contiguous_gradients\": true, \"reduce_bucket_size\": 5e8,\n"
    "      \"overlap_comm\": true, \"offload_optimizer\": {\"device\": \"none\", \"pin_memory\": true},\n"
    "      \"stage3_prefetch_bucket_size\": 1e7, \"stage3_param_persistence_threshold\": 1e5,\n"
    "      \"stage3_max_live_parameters\": 1e9, \"stage3_max_reuse_distance\": 7},\n"
    "  \"activation_checkpointing\": {\"partition_activations\": false, \"cpu_checkpointing\": true},\n"
    "  \"tensorboard\": {\"enabled\": false, \"output_path\": \"a \\\" } b\"},\n"
    "  \"pipeline\": {\"stages\": \"auto\"},\n"
    "  \"" JSON_OWN "\": {\"seed\": 9}\n"
    "}\n";

static void keys_set_options(void **state)
{
    setup_values c;
    (void)state;
    if (parse(&c, whole, "") != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_int_equal(c.engine.optim.global_batch_size, 8);
    assert_int_equal(c.engine.optim.micro_batch_size, 2);
    assert_true(c.engine.optim.clip_grad == 0.5 && c.engine.optim.lr == 3e-5 && c.engine.optim.adam_beta1 == 0.8 &&
                c.engine.optim.adam_beta2 == 0.99);
    assert_true(c.engine.optim.adam_eps == 1e-7 && c.engine.optim.weight_decay == 3e-7 &&
                !c.engine.optim.decoupled_weight_decay && c.engine.backend.bf16);
    assert_int_equal(c.engine.graph.zero_stage, 3);
    assert_int_equal(c.engine.graph.ddp_bucket_size, 500000000);
    assert_true(c.engine.graph.overlap_grad_reduce);
    assert_int_equal(c.engine.graph.stage3_prefetch_bucket_size, 10000000);
    assert_int_equal(c.engine.graph.stage3_param_persistence_threshold, 100000);
    assert_int_equal(c.engine.graph.stage3_max_live_parameters, 1000000000);
    assert_int_equal(c.engine.graph.stage3_max_reuse_distance, 7);
    assert_int_equal(c.engine.seed, 9);
    assert_false(mega_options_was_set(c.engine.options, "gradient_accumulation_steps"));
    assert_false(mega_options_was_set(c.engine.options, "pipeline_model_parallel_size"));
    assert_has(mega_options_origin(c.engine.options, "zero_stage"),
               "\"zero_optimization.stage\" 3 (mega_setup.config, line 11)");
    assert_has(mega_options_origin(c.engine.options, "adam_beta2"),
               "\"optimizer.params.betas[1]\" 0.99 (mega_setup.config, line 7)");
    assert_has(mega_options_origin(c.engine.options, "optimizer"),
               "\"optimizer.type\" \"adam\" (mega_setup.config, line 7)");
    assert_has(mega_options_origin(c.engine.options, "seed"), "(mega_setup.config, line 18)");
    assert_string_equal(mega_options_spelling(c.engine.options, "lr"), "\"optimizer.params.lr\"");
    assert_string_equal(mega_options_spelling(c.engine.options, "lr_decay_style"), "\"" JSON_OWN ".lr_decay_style\"");
    assert_has(notes, "no effect here: \"log_level\": the program shows");
    assert_int_equal(c.engine.monitor.steps_per_print, 10);
    assert_false(c.engine.monitor.monitor_tensorboard);
    assert_string_equal(c.engine.monitor.monitor_tensorboard_path, "a \" } b");
    assert_has(notes, "\"activation_checkpointing.cpu_checkpointing\"");
    if (strstr(notes, "wall_clock_breakdown") != NULL) fail_msg("%s", notes); /* its value is false */
    end(&c);
}

/* DeepSpeed's derivations, on two ranks. */
static void batch_sizes(void **state)
{
    static const struct {
        const char *json;
        int64_t micro, global;
        const char *said; /* expected mistake */
    } rows[] = {
        {"{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 16, \"gradient_accumulation_steps\": 1}", 16,
         32, NULL},
        {"{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 8}", 8, 32, NULL},
        {"{\"train_batch_size\": 32, \"gradient_accumulation_steps\": 2}", 8, 32, NULL},
        {"{\"train_micro_batch_size_per_gpu\": 8, \"gradient_accumulation_steps\": 2}", 8, 32, NULL},
        {"{\"train_batch_size\": 32}", 16, 32, NULL},
        {"{\"train_micro_batch_size_per_gpu\": 16}", 16, 32, NULL},
        {"{\"train_batch_size\": 33}", 0, 0,
         "\"train_batch_size\" 33 (mega_setup.config, line 1) is not a multiple of"},
        {"{\"gradient_accumulation_steps\": 2}", 0, 0, "missing: \"train_micro_batch_size_per_gpu\""},
        {"{\"train_batch_size\": 32,\n\"train_micro_batch_size_per_gpu\": 8,\n\"gradient_accumulation_steps\": 1}", 0,
         0,
         "\"gradient_accumulation_steps\" 1 (mega_setup.config, line 3) and \"train_batch_size\" 32 "
         "(mega_setup.config, "
         "line 1) contradict each other: a step has \"train_micro_batch_size_per_gpu\" 8 (mega_setup.config, line 2) x "
         "2 data-parallel ranks"},
    };
    (void)state;
    for (size_t i = 0; i < MEGA_COUNT(rows); i++) {
        setup_values c;
        char name[] = "program", lr[] = "--lr", one[] = "1", *argv[] = {name, lr, one};
        begin(&c, 2);
        c.config = rows[i].json;
        const mega_status st = mega_options_parse(c.engine.options, NULL, 3, argv);
        if (rows[i].said != NULL) assert_has(st != MEGA_OK ? mega_error_message() : "accepted", rows[i].said);
        else if (st != MEGA_OK || c.engine.optim.micro_batch_size != rows[i].micro ||
                 c.engine.optim.global_batch_size != rows[i].global)
            fail_msg("%s: %lld of %lld, %s", rows[i].json, (long long)c.engine.optim.micro_batch_size,
                     (long long)c.engine.optim.global_batch_size, mega_error_message());
        end(&c);
    }
}

/* ---- what is refused ---- */

#define GOOD "\"train_batch_size\": 2, \"optimizer\": {\"params\": {\"lr\": 1}}"

static const struct {
    const char *json;
    mega_status status;
    const char *said;
} refused[] = {
    {"{" GOOD ",\n\"zero_optimization\": {\"stage\" 1}}", MEGA_ERR_FORMAT, "mega_setup.config: line 2, column"},
    {"{" GOOD ",\n\"gradient_clipping\": 1,\n\"gradient_clipping\": 2}", MEGA_ERR_FORMAT,
     "\"gradient_clipping\" (mega_setup.config, line 3) is given for the second time: line 2 has it as well"},
    {"{" GOOD ",\n\"zero_optimization\": {\"stage\": 1, \"stage\": 1}}", MEGA_ERR_FORMAT,
     "\"zero_optimization.stage\" (mega_setup.config, line 2) is given for the second time"},
    {"{" GOOD ",\n\"zero_optimization\": {\n\"stge\": 1}}", MEGA_ERR_USAGE,
     "\"zero_optimization.stge\" (mega_setup.config, line 3) is not a key of a configuration; did you mean "
     "\"zero_optimization.stage\"?"},
    {"{" GOOD ", \"zero_optimisation\": {\"stage\": 1}}", MEGA_ERR_USAGE, "did you mean \"zero_optimization\"?"},
    {"{" GOOD ", \"stage\": 1}", MEGA_ERR_USAGE, "did you mean \"zero_optimization.stage\"?"},
    {"{" GOOD ", \"nothing_of_the_kind\": {\"a\": [1, {\"b\": 2}]}}", MEGA_ERR_USAGE, "is not a key"},
    {"{" GOOD ", \"zero_optimization.stage\": 1}", MEGA_ERR_USAGE, "is not a key"},
    {"{" GOOD ", \"" JSON_OWN "\": {\"sed\": 1}}", MEGA_ERR_USAGE, "did you mean \"" JSON_OWN ".seed\"?"},
    {"{" GOOD ", \"" JSON_OWN "\": {\"num_layers\": 1}}", MEGA_ERR_USAGE, "is not a key"},
    {"{" GOOD ", \"" JSON_OWN "\": {\"local_rank\": \"0\"}}", MEGA_ERR_USAGE, "is not a key"},
    {"{" GOOD ", \"zero_optimization\": {\"stage\": \"two\"}}", MEGA_ERR_USAGE,
     "\"zero_optimization.stage\" (mega_setup.config, line 1): found \"two\", expected a whole number"},
    {"{" GOOD ", \"zero_optimization\": {\"stage\": true}}", MEGA_ERR_USAGE, "found true, expected a whole number"},
    {"{" GOOD ", \"zero_optimization\": {\"stage\": 1.5}}", MEGA_ERR_USAGE, "\"1.5\" is not a whole number"},
    {"{" GOOD ", \"zero_optimization\": 2}", MEGA_ERR_USAGE, "found 2, expected an object in braces"},
    {"{" GOOD ", \"zero_optimization\": []}", MEGA_ERR_USAGE, "found [], expected an object in braces"},
    {"{" GOOD ", \"gradient_clipping\": {\"a\": 1}}", MEGA_ERR_USAGE, "found {\"a\":1}, expected a number"},
    {"{" GOOD ", \"gradient_clipping\": -1}", MEGA_ERR_USAGE, "-1 must not be negative"},
    {"{" GOOD ", \"bf16\": {\"enabled\": 1}}", MEGA_ERR_USAGE, "found 1, expected true or false"},
    {"{\"train_batch_size\": 2, \"optimizer\": {\"params\": {\"lr\": 1, \"betas\": [0.9, 0.99, 1]}}}", MEGA_ERR_USAGE,
     "\"optimizer.params.betas\" (mega_setup.config, line 1): found [0.9"},
    {"{\"train_batch_size\": 2, \"optimizer\": {\"params\": {\"lr\": 1, \"betas\": 0.9}}}", MEGA_ERR_USAGE,
     "expected an array"},
    {"{" GOOD ", \"zero_optimization\": {\"stage\": 4}}", MEGA_ERR_USAGE,
     "\"zero_optimization.stage\" 4 (mega_setup.config, line 1): expected 0, 1, 2 or 3"},
    {"{" GOOD ",\n\"fp16\": {\n\"fp16_master_weights_and_grads\": true}}", MEGA_ERR_UNSUPPORTED,
     "\"fp16.fp16_master_weights_and_grads\" (mega_setup.config, line 3): true is not implemented yet: master"},
    {"{" GOOD ", \"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}", MEGA_ERR_USAGE,
     "a run has one precision; give one"},
    {"{" GOOD ", \"fp16\": {\"loss_scale\": -1}}", MEGA_ERR_USAGE,
     "\"fp16.loss_scale\" (mega_setup.config, line 1): -1 must not be negative"},
    {"{" GOOD ", \"fp16\": {\"hysteresis\": 0}}", MEGA_ERR_USAGE,
     "\"fp16.hysteresis\" (mega_setup.config, line 1): 0 must be"},
    {"{" GOOD ", \"fp16\": {\"initial_scale_power\": 2, \"min_loss_scale\": 8, \"enabled\": true}}", MEGA_ERR_USAGE,
     "the smallest loss scale"},
    {"{" GOOD ", \"zero_optimization\": {\"offload_param\": {\"device\": \"nvme\"}}}", MEGA_ERR_UNSUPPORTED,
     "\"nvme\" is not implemented yet; known are none, cpu"},
    {"{" GOOD ", \"scheduler\": {\"type\": \"StepLR\", \"params\": {\"warmup_num_steps\": 5}}}", MEGA_ERR_USAGE,
     "StepLR"},
    {"{\"train_batch_size\": 2, \"optimizer\": {\"type\": \"OneBitLamb\", \"params\": {\"lr\": 1}}}",
     MEGA_ERR_UNSUPPORTED, "\"OneBitLamb\" is not implemented yet; known are Adam, AdamW, SGD, Adagrad, Lion"},
    {"{" GOOD ", \"data_types\": {\"grad_accum_dtype\": \"FP32\"}}", MEGA_ERR_USAGE,
     "found \"FP32\", expected \"fp32\" in these letters"},
    {"{\"train_batch_size\": 2, \"optimizer\": {\"type\": \"Muon\", \"params\": {\"lr\": 1, \"per_head_muon\": "
     "true}}}",
     MEGA_ERR_UNSUPPORTED, "\"optimizer.params.per_head_muon\" (mega_setup.config, line 1): true is not implemented"},
    {"{\"train_batch_size\": 2, \"optimizer\": {\"type\": \"Lamb\", \"params\": {\"lr\": 1, \"min_coeff\": 20}}}",
     MEGA_ERR_USAGE, "is above"},
    {"{" GOOD ",\n\"zero_optimization\": {\"stage\": 1},\n\"" JSON_OWN "\": {\"zero_stage\": 2}}", MEGA_ERR_USAGE,
     "\"zero_optimization.stage\" 1 (mega_setup.config, line 2) and \"" JSON_OWN
     ".zero_stage\" 2 (mega_setup.config, line 3) contradict each other"},
    {"{\"train_batch_size\": 2}", MEGA_ERR_USAGE, "missing: \"optimizer.params.lr\""},
    {"not-there/ds.json", MEGA_ERR_NOT_FOUND, "not-there/ds.json"},
};

static void mistakes(void **state)
{
    (void)state;
    for (size_t i = 0; i < MEGA_COUNT(refused); i++) {
        setup_values c;
        mega_error_clear();
        const mega_status st = parse(&c, refused[i].json, "");
        if (refused[i].status == MEGA_ERR_FORMAT && st == MEGA_ERR_USAGE) { /* along with further mistakes */
        } else if (st != refused[i].status && st != MEGA_ERR_USAGE) {
            fail_msg("%s: %s, %s", refused[i].json, mega_status_name(st), mega_error_message());
        }
        assert_has(mega_error_message(), refused[i].said);
        end(&c);
    }
}

/* All mistakes of both sources are in one message, and it names the file instead of quoting its text. */
static void files_and_argv(void **state)
{
    setup_values c;
    char path[512], line[600];
    (void)state;
    snprintf(path, sizeof path, "%s/ds.json", mega_kit_temp_folder());
    FILE *f = fopen(path, "w");
    assert_true(f != NULL && fputs(whole, f) >= 0 && fclose(f) == 0);
    snprintf(line, sizeof line, "--deepspeed --deepspeed_config %s --zero-stage 1", path);
    if (parse(&c, NULL, line) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_int_equal(c.engine.graph.zero_stage, 1);
    assert_true(c.engine.optim.lr == 3e-5);
    assert_has(notes, "--zero-stage 1 (argument 4) counts; \"zero_optimization.stage\" 3 (");
    assert_has(notes, "ds.json, line 11) does not");
    assert_has(mega_options_origin(c.engine.options, "lr"), "ds.json, line 7)");
    end(&c);

    if (parse(&c, path, "") != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_int_equal(c.engine.graph.zero_stage, 3);
    end(&c);
    assert_int_equal(parse(&c, "{}", line), MEGA_ERR_USAGE);
    assert_has(mega_error_message(), "(argument 2) and mega_setup.config: give one of them");
    end(&c);
    assert_int_equal(parse(&c, "{\"stage\": 1, \"torch_autocast\": {\"enabled\": true}}", "--zero-stge 1"),
                     MEGA_ERR_USAGE);
    assert_has(mega_error_message(), "\"stage\" (mega_setup.config, line 1)");
    assert_has(mega_error_message(), "\"torch_autocast.enabled\"");
    assert_has(mega_error_message(), "--zero-stge");
    end(&c);
}

/* A JSON that enables fp16 has DeepSpeed's first scale and its rules, an option Megatron-LM's. */
static void the_loss_scale_follows_its_source(void **state)
{
    (void)state;
    setup_values c;
    mega_engine_options o;
    assert_int_equal(parse(&c, "{" GOOD ", \"fp16\": {\"enabled\": true}}", ""), MEGA_OK);
    assert_int_equal(mega_engine_options_from_settings(&c.engine, &o), MEGA_OK);
    assert_true(o.compute == MEGA_F16 && o.loss_scale.rules == MEGA_SCALE_DEEPSPEED);
    assert_true(o.loss_scale.initial == 65536 && o.loss_scale.fixed == 0 && o.loss_scale.least == 1);
    end(&c);
    assert_int_equal(parse(&c,
                           "{" GOOD ", \"fp16\": {\"enabled\": true, \"loss_scale\": 0, \"initial_scale_power\": 5, "
                           "\"loss_scale_window\": 7, \"hysteresis\": 3, \"consecutive_hysteresis\": true, "
                           "\"min_loss_scale\": 4, \"auto_cast\": true}}",
                           ""),
                     MEGA_OK);
    assert_int_equal(mega_engine_options_from_settings(&c.engine, &o), MEGA_OK);
    assert_true(o.loss_scale.initial == 32 && o.loss_scale.fixed == 0 && o.loss_scale.least == 4);
    assert_true(o.loss_scale.window == 7 && o.loss_scale.hysteresis == 3 && o.loss_scale.consecutive_hysteresis);
    end(&c);
    assert_int_equal(parse(&c, "{" GOOD ", \"fp16\": {\"enabled\": true, \"loss_scale\": 384}}", ""), MEGA_OK);
    assert_int_equal(mega_engine_options_from_settings(&c.engine, &o), MEGA_OK);
    assert_true(o.loss_scale.fixed == 384);
    end(&c);
    assert_int_equal(parse(&c, "{" GOOD "}", "--fp16"), MEGA_OK);
    assert_int_equal(mega_engine_options_from_settings(&c.engine, &o), MEGA_OK);
    assert_true(o.compute == MEGA_F16 && o.loss_scale.rules == MEGA_SCALE_MEGATRON);
    assert_true(o.loss_scale.initial == 4294967296.0);
    end(&c);
    assert_int_equal(parse(&c, "{" GOOD "}", "--fp16 --initial-scale-power 3 --initial-loss-scale 4"), MEGA_ERR_USAGE);
    assert_has(mega_error_message(), "both are the first loss scale; give one of them");
    end(&c);
}

/* ---- errors of lower modules ---- */

/* Lower modules name options as --name; the user sees them as written in argv or the JSON, or as they would be written
 * there. */
static void errors_are_spelled_as_written(void **state)
{
    setup_values v;
    (void)state;
    assert_int_equal(parse(&v, "{\"train_batch_size\": 2, \"optimizer\": {\"params\": {\"lr\": 1}}}", "--clip_grad 2"),
                     MEGA_OK);
    mega_status st =
        MEGA_FAIL(MEGA_ERR_NUMERIC, "Lower --lr, raise --lr-warmup-iters, lower --clip-grad (--zero-stage 3); "
                                    "x--lr, --no-such --nproc_per_node 2, --lr-warmup-*");
    assert_int_equal(mega_options_name_as_given(v.engine.options, st), MEGA_ERR_NUMERIC);
    assert_string_equal(mega_error_message(),
                        "Lower \"optimizer.params.lr\", raise \"megalith.lr_warmup_iters\", lower --clip_grad "
                        "(\"zero_optimization.stage\" 3); x--lr, --no-such --nproc_per_node 2, --lr-warmup-*");
    assert_int_equal(mega_options_name_as_given(NULL, MEGA_ERR_NUMERIC), MEGA_ERR_NUMERIC);
    end(&v);
    assert_int_equal(parse(&v, NULL, "--micro_batch_size 2 --lr 1"), MEGA_OK);
    st = MEGA_FAIL(MEGA_ERR_USAGE, "--micro-batch-size 2 and --lr");
    (void)mega_options_name_as_given(v.engine.options, st);
    assert_string_equal(mega_error_message(), "--micro_batch_size 2 and --lr");
    end(&v);
}

/* ---- the tables ---- */

static void keys_are_known_once(void **state)
{
    size_t i = 0;
    (void)state;
    for (json_key_walk w = {.options = {.table = rows_of_engine()}}; mega_json_key_next(&w); i++) {
        json_key_walk found;
        const bool is_switch = w.row->kind == MEGA_OPTION_BOOL; /* "zero_optimization": true, or a block */
        if (!mega_json_key_find(rows_of_engine(), 0, w.path, &found) || found.row != w.row || found.index != w.index)
            fail_msg("%s stands in two rows", w.path);
        if (!is_switch && mega_json_key_has_below(rows_of_engine(), 0, w.path))
            fail_msg("%s is a key and a block", w.path);
    }
    assert_true(i > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(three_sources),
                                       cmocka_unit_test(keys_set_options),
                                       cmocka_unit_test(batch_sizes),
                                       cmocka_unit_test(mistakes),
                                       cmocka_unit_test(files_and_argv),
                                       cmocka_unit_test(errors_are_spelled_as_written),
                                       cmocka_unit_test(the_loss_scale_follows_its_source),
                                       cmocka_unit_test(keys_are_known_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
