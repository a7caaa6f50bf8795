/* The options of the program: which sections there are and which commands take them; the commands. */
#include "megalith/log.h"
#include "program_impl.h"
#include <stdio.h>
#include <string.h>

static const mega_command commands[] = {
    {"pretrain_gpt", FOR_PRETRAIN, "pretrain_gpt2|pretrain_gpt_core", "trains a GPT", NULL,
     "run_clm|run_clm_no_trainer|train|train_gpt|train_gpt2"},
    {"plan", FOR_PLAN, "", "parameters, memory and cost of a run, without running it", "[COMMAND]", NULL},
    {"generate_samples_gpt", FOR_GENERATE, "generate_samples_gpt2|generate_samples|generate_text",
     "text from a trained GPT", NULL, "sample|run_generation|generate"},
    {"tasks", FOR_TASKS, "tasks/main|tasks_main|run_tasks", "evaluates a trained GPT on a text file", NULL, NULL},
    {"preprocess_data", FOR_PREPROCESS, "preprocess", "text files to an indexed data set", NULL,
     "prepare|prepare_data"},
    {"train_tokenizer", FOR_TRAIN_TOKENIZER, "", "makes a vocabulary from text files", NULL, NULL},
    {"tokenize", FOR_TOKENIZE, "", "shows the ids and pieces of a text, both ways", "[TEXT]", NULL},
    {"data", FOR_DATA, "", "shows, checks and merges indexed data sets", "show|info|verify|merge PREFIX…", NULL},
    {"plot", FOR_PLOT, "", "draws or compares metrics files", "FILE…", NULL},
    {"new", FOR_NEW, "", "writes a C program of your own that trains on a text file", "PROJECT", NULL},
    {"doctor", 0, "", "what this machine has and what will be used", NULL, NULL},
    /* without options of their own */
    {"help", 0, "", "the commands; help COMMAND shows one", NULL, NULL},
    {"version", 0, "", "the version", NULL, NULL},
    {"merge_datasets", 0, "", "joins indexed data sets: data merge", NULL, NULL},
    {"merge_mp_partitions", 0, "", "joins the parts of a checkpoint", NULL, NULL},
    {"checkpoint", 0, "checkpoint_util|checkpoint_reshaping_and_interoperability|checkpoint/util|convert",
     "reshapes and converts checkpoints", NULL, NULL},
    {"launch", 0,
     "run|torchrun|deepspeed|accelerate|accelerate_launch|torch.distributed.launch|torch.distributed.run|"
     "accelerate.commands.launch|deepspeed.launcher.runner",
     "starts several ranks; also as torchrun, deepspeed, accelerate launch", NULL, NULL},
    {"config", 0, "", "writes a configuration by questions", NULL, NULL},
    {"pretrain_bert", 0, "", "trains a BERT", NULL, NULL},
    {"pretrain_t5", 0, "", "trains a T5", NULL, NULL},
    {"run_text_generation_server", 0, "run_text_generation_server_345M|text_generation_server",
     "answers prompts over HTTP", NULL, NULL},
};

static const mega_option_part parts[] = {
    {&mega_option_preprocess_section, FOR_PREPROCESS, 0},
    {&mega_option_train_tokenizer_section, FOR_TRAIN_TOKENIZER, 0},
    {&mega_option_tokenize_section, FOR_TOKENIZE, 0},
    {&mega_option_generate_section, FOR_GENERATE, 0},
    {&mega_option_tasks_section, FOR_TASKS, 0},
    {&mega_option_data_tool_section, FOR_DATA, 0},
    {&mega_option_plot_section, FOR_PLOT, 0},
    {&mega_option_new_section, FOR_NEW, 0},
    {&mega_option_model_section, FOR_TRAINING, 0},
    {&mega_option_regularization_section, FOR_TRAINING, 0},
    {&mega_option_training_section, FOR_TRAINING, 0},
    {&mega_option_initialization_section, FOR_TRAINING, 0},
    {&mega_option_learning_section, FOR_TRAINING, 0},
    {&mega_option_checkpoint_section, FOR_TRAINING, 0},
    {&mega_option_precision_section, FOR_TRAINING, 0},
    {&mega_option_machine_section, FOR_ALL, 0},
    {&mega_option_distributed_section, FOR_TRAINING, 0},
    {&mega_option_validation_section, FOR_TRAINING, 0},
    {&mega_option_data_section, FOR_TRAINING, 0},
    {&mega_option_logging_section, FOR_TRAINING, 0},
    {&mega_option_fp8_section, FOR_TRAINING, 0},
    {&mega_option_moe_section, FOR_TRAINING, 0},
    {&mega_option_inference_section, FOR_TRAINING, 0},
    {&mega_option_zero_section, FOR_TRAINING, 0},
    {&mega_option_other_models_section, FOR_TRAINING, 0}, /* the first of the foreign ones */
    {&mega_option_megatron_section, FOR_TRAINING, 0},
    {&mega_option_transformers_section, FOR_TRAINING, 0},
    {&mega_option_nanogpt_section, FOR_TRAINING, 0},
    {&mega_option_foreign_data_section, FOR_TRAINING, 0},
    {&mega_option_foreign_generation_section, FOR_GENERATE, 0},
};
enum { FOREIGN = 24 };

/* The names of launch/options.c, which is out of reach here, without those that the option table has as well;
 * cli_test_launch compares them. */
static bool is_of_launch(const char *name, size_t length)
{
    // clang-format off
    static const char *const names[] = {
        "nproc-per-node", "num-gpus", "num-accelerators", "nnodes", "num-nodes", "num-machines", "num-processes",
        "node-rank", "machine-rank", "hostfile", "mpirun-hostfile", "deepspeed-hostfile", "include",
        "deepspeed-inclusion-filter", "exclude", "deepspeed-exclusion-filter", "log-dir", "enable-each-rank-log",
        "max-restarts", "launcher", "help", "master-addr", "main-process-ip", "num-cpu-threads-per-process",
        "megatron-lm-*", "master-port", "main-process-port", "rdzv-backend", "rdzv-endpoint", "rdzv-id",
        "rdzv-conf", "standalone", "local-addr", "same-network", "monitor-interval", "start-method", "role",
        "use-env", "no-local-rank", "no-python", "module", "no-ssh-check", "force-multi", "quiet", "redirects",
        "tee", "local-ranks-filter", "run-path", "duplicate-stdout-filters", "duplicate-stderr-filters",
        "config-file", "deepspeed-config-file", "deepspeed-multinode-launcher", "deepspeed-moe-layer-cls-names",
        "fsdp-*", "tpu", "tpu-*", "logs-specs", "no-ssh", "ssh-port", "launcher-args", "elastic-training",
        "min-elastic-nodes", "max-elastic-nodes", "bind-cores-to-rank", "enable-cpu-affinity", "numa-binding",
        "cpu", "multi-gpu", "gpu-ids", "use-deepspeed", "use-parallelism-config", "zero3-init-flag",
        "zero3-save-16bit-model", "dynamo-*", "event-log-handler", "signals-to-handle", "shutdown-timeout",
        "virtual-local-rank", "bind-core-list", "venv-script", "save-pid",
    };
    // clang-format on
    for (size_t i = 0; i < ROW_COUNT(names); i++) {
        if (mega_option_name_equal(names[i], name, length)) return true;
        if (mega_option_is_of_family(names[i], name, length)) return true;
    }
    return false;
}

static const char *elsewhere(mega_config *cfg, const char *name, size_t length)
{
    if (cfg->state->is_engine || !is_of_launch(name, length)) return NULL;
    return mega_config_text(cfg, "it is an option of megalith launch: put it before %s", cfg->command);
}

static bool derived_line(const mega_config *cfg, size_t which, const char **out_name, char text[32])
{
    const struct {
        const char *name;
        int64_t value;
    } derived[] = {{"consumed_train_samples", cfg->consumed_train_samples},
                   {"consumed_valid_samples", cfg->consumed_valid_samples},
                   {"data_parallel_size", cfg->data_parallel_size},
                   {"padded_vocab_size", cfg->padded_vocab_size},
                   {"rank", cfg->rank},
                   {"world_size", cfg->world_size}};
    if (which == ROW_COUNT(derived)) {
        *out_name = "params_dtype";
        snprintf(text, 32, "%s", mega_dtype_name(cfg->params_dtype));
        return true;
    }
    if (which > ROW_COUNT(derived)) return false;
    *out_name = derived[which].name;
    snprintf(text, 32, "%lld", (long long)derived[which].value);
    return true;
}

/* nanoGPT's schedule is a cosine, whatever its options say; the default here is Megatron's. */
static void note_decay_of_nanogpt(const mega_config *cfg, int argc, char **argv)
{
    static const char *const names[] = {"warmup_iters", "lr_decay_iters", "min_lr", "max_iters", "decay_lr"};
    if (mega_config_was_set(cfg, "lr_decay_style") || cfg->lr_decay_style != MEGA_LR_LINEAR) return;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0) continue;
        for (size_t k = 0; k < ROW_COUNT(names); k++) {
            const size_t n = strlen(names[k]);
            const char *end = argv[i] + 2 + n;
            if (strncmp(argv[i] + 2, names[k], n) != 0 || (*end != '\0' && *end != '=')) continue;
            mega_info("--%s: the learning rate decays linearly here, as in Megatron; give --lr-decay-style cosine for "
                      "the curve of nanoGPT",
                      names[k]);
            return;
        }
    }
}

/* A checkpoint will say what the network looks like: its rules wait for mega_config_check. */
static bool shape_comes_later(const mega_config *cfg)
{
    const bool is_open = cfg->num_layers == 0 && cfg->hidden_size == 0 && cfg->num_attention_heads == 0;
    return cfg->use_checkpoint_args || (cfg->load != NULL && is_open);
}

static bool knows_shape(const mega_config *cfg)
{
    return (cfg->state->command->bit & (FOR_PRETRAIN | FOR_PLAN)) != 0 && !shape_comes_later(cfg);
}

static void complete(mega_config *cfg, int argc, char **argv)
{
    note_decay_of_nanogpt(cfg, argc, argv);
    mega_config_apply_preset(cfg);
}

const mega_composition mega_program_composition = {
    .part = parts,
    .parts = ROW_COUNT(parts),
    .foreign = FOREIGN,
    .command = commands,
    .commands = ROW_COUNT(commands),
    .key = mega_engine_keys,
    .keys = ENGINE_KEYS,
    .complete = complete,
    .derive = mega_config_derive,
    .check = mega_config_run_rules,
    .knows_shape = knows_shape,
    .elsewhere = elsewhere,
    .derived_line = derived_line,
};

mega_status mega_config_init(mega_config *cfg)
{
    *cfg = (mega_config){0};
    MEGA_TRY(mega_config_begin(cfg, &mega_program_composition, cfg));
    cfg->world_size = cfg->local_world_size = 1;
    cfg->data_parallel_size = 1;
    cfg->pipeline_model_parallel_size = 1;
    cfg->params_dtype = MEGA_F32;
    return MEGA_OK;
}

mega_status mega_config_parse_engine(mega_config *cfg, const char *json, int argc, char **argv)
{
    cfg->state->is_engine = true;
    cfg->state->json = json;
    return mega_config_parse(cfg, "pretrain_gpt", argc, argv);
}
