/* The composition of the program's options: its sections and the commands that accept them. */
#include "commands.h"
#include "megalith/file.h"
#include "megalith/launch.h"
#include "megalith/log.h"
#include "options_impl.h"
#include "train_text.h"
#include <stdio.h>
#include <string.h>

#define SHOWN(...) __VA_ARGS__
#define RUN(...)
#define COMMAND(name_, shown, run) {.name = #name_, shown},
static const mega_command commands[] = {
#include "command_rows.h"
};

// clang-format off
#define AT(member) offsetof(mega_command_options, member)
static const mega_option_part parts[] = {
    {&cli_preprocess_section, FOR_PREPROCESS, AT(preprocess)},
    {&cli_other_preprocess_section, FOR_PREPROCESS, 0},
    {&cli_train_tokenizer_section, FOR_TRAIN_TOKENIZER, AT(train_tokenizer)},
    {&cli_other_train_tokenizer_section, FOR_TRAIN_TOKENIZER, 0},
    {&cli_tokenize_section, FOR_TOKENIZE, AT(tokenize)},
    {&cli_generate_section, FOR_GENERATE | FOR_SERVER, AT(generate)},
    {&cli_other_generate_section, FOR_GENERATE | FOR_SERVER, 0},
    {&cli_server_section, FOR_SERVER, AT(server)},
    {&cli_other_server_section, FOR_SERVER, 0},
    {&mega_train_classify_section, FOR_TASKS, AT(train.classify)},
    {&cli_tasks_section, FOR_TASKS, AT(tasks)},
    {&cli_other_tasks_section, FOR_TASKS, 0},
    {&cli_merge_section, FOR_MERGE, AT(merge)},
    {&cli_embed_section, FOR_EMBED | FOR_FILL, AT(embed)},
    {&cli_data_section, FOR_DATA, AT(data)},
    {&cli_plot_section, FOR_PLOT, AT(plot)},
    {&cli_report_section, FOR_REPORT, AT(report)},
    {&cli_new_section, FOR_NEW, AT(project)},
    {&cli_config_section, FOR_CONFIG, AT(config)},
    {&mega_train_clm_section, FOR_CLM, AT(train.clm)},
    {&cli_clm_section, FOR_CLM, 0},
    {&mega_train_bert_section, FOR_BERT, AT(train.bert)},
    {&mega_train_bert_samples_section, FOR_BERT | FOR_DATA, AT(train.bert)},
    {&mega_train_t5_section, FOR_T5, AT(train.t5)},
    {&mega_train_t5_samples_section, FOR_T5 | FOR_DATA, AT(train.t5)},
    {&mega_model_network_section, FOR_TRAINING, AT(train.model)},
    {&mega_model_kind_section, FOR_TRAINING, AT(train.model)},
    {&mega_model_experts_section, FOR_TRAINING & ~(FOR_BERT | FOR_T5), AT(train.model)},
    {&mega_train_network_section, FOR_TRAINING, AT(train)},
    {&cli_other_model_section, FOR_TRAINING, 0},
    {&mega_model_regularization_section, FOR_TRAINING, AT(train.model)},
    {&mega_optim_regularization_section, FOR_TRAINING, AT(train.engine.optim)},
    {&mega_optim_training_section, FOR_TRAINING, AT(train.engine.optim)},
    {&mega_graph_recompute_section, FOR_TRAINING, AT(train.engine.graph)},
    {&mega_model_training_section, FOR_TRAINING, AT(train.model)},
    {&mega_train_training_section, FOR_TRAINING, AT(train)},
    {&mega_engine_loss_section, FOR_TRAINING, AT(train.engine)},
    {&cli_other_training_section, FOR_TRAINING, 0},
    {&mega_optim_curriculum_section, FOR_TRAINING, AT(train.engine.optim)},
    {&mega_model_initialization_section, FOR_TRAINING, AT(train.model)},
    {&mega_engine_seed_section, FOR_TRAINING | FOR_DATA, AT(train.engine)},
    {&cli_other_initialization_section, FOR_TRAINING, 0},
    {&mega_optim_learning_section, FOR_TRAINING, AT(train.engine.optim)},
    {&mega_optim_scheduler_section, FOR_TRAINING, AT(train.engine.optim)},
    {&mega_train_learning_section, FOR_TRAINING, AT(train)},
    {&cli_other_learning_section, FOR_TRAINING, 0},
    {&mega_train_checkpoint_section, FOR_TRAINING, AT(train)},
    {&mega_ckpt_checkpoint_section, FOR_TRAINING, AT(train.engine.ckpt)},
    {&cli_other_checkpoint_section, FOR_TRAINING, 0},
    {&mega_backend_precision_section, FOR_TRAINING, AT(train.engine.backend)},
    {&mega_optim_scale_section, FOR_TRAINING, AT(train.engine.optim)},
    {&cli_other_precision_section, FOR_TRAINING, 0},
    {&mega_backend_threads_section, FOR_ALL, AT(train.engine.backend)},
    {&mega_train_machine_section, FOR_TRAINING, AT(train)},
    {&mega_train_program_section, FOR_PRETRAIN | FOR_CLM | FOR_PLAN, AT(train)},
    {&mega_backend_kernels_section, FOR_TRAINING, AT(train.engine.backend)},
    {&mega_train_dry_run_section, FOR_ALL, AT(train)},
    {&mega_train_overwrite_section, FOR_PRETRAIN | FOR_CLM | FOR_PLAN | FOR_GENERATE | FOR_EMBED | FOR_PLOT | FOR_REPORT | FOR_TRAIN_TOKENIZER | FOR_PREPROCESS | FOR_DATA | FOR_CONFIG, AT(train)},
    {&mega_train_plan_section, FOR_PLAN, AT(train)},
    {&mega_comm_distributed_section, FOR_TRAINING, AT(train.engine.comm)},
    {&mega_model_distributed_section, FOR_TRAINING, AT(train.model)},
    {&mega_graph_distributed_section, FOR_TRAINING, AT(train.engine.graph)},
    {&cli_config_file_section, FOR_TRAINING, 0},
    {&cli_other_distributed_section, FOR_TRAINING, 0},
    {&mega_train_validation_section, FOR_TRAINING, AT(train)},
    {&mega_data_paths_section, FOR_TRAINING, AT(train.data)},
    {&mega_data_samples_section, FOR_TRAINING | FOR_DATA, AT(train.data)},
    {&mega_engine_data_section, FOR_TRAINING, AT(train.engine)},
    {&mega_text_type_section, FOR_TEXT | FOR_TRAIN_TOKENIZER, AT(train.text)},
    {&mega_text_files_section, FOR_TEXT, AT(train.text)},
    {&mega_train_tokenizer_section, FOR_PRETRAIN | FOR_CLM | FOR_PLAN, AT(train)},
    {&mega_train_sequence_section, FOR_TRAINING | FOR_DATA, AT(train)},
    {&cli_other_data_section, FOR_TRAINING, 0},
    {&mega_train_logging_section, FOR_TRAINING, AT(train)},
    {&cli_logging_section, FOR_ALL, 0},
    {&cli_other_logging_section, FOR_TRAINING, 0},
    {&cli_other_fp8_section, FOR_TRAINING, 0},
    {&cli_other_moe_section, FOR_TRAINING, 0},
    {&cli_other_inference_section, FOR_TRAINING, 0},
    {&mega_engine_deepspeed_section, FOR_TRAINING, AT(train.engine)},
    {&mega_graph_zero_section, FOR_TRAINING, AT(train.engine.graph)},
    {&mega_monitor_section, FOR_TRAINING, AT(train.engine.monitor)},
    {&cli_other_zero_section, FOR_TRAINING, 0},
    {&cli_other_other_models_section, FOR_TRAINING, 0}, /* from here on: names of other programs */
    {&cli_other_megatron_section, FOR_TRAINING, 0},
    {&cli_other_transformers_section, FOR_TRAINING, 0},
    {&cli_other_device_section, FOR_ALL, 0},
    {&cli_other_nanogpt_section, FOR_TRAINING, 0},
    {&cli_other_foreign_data_section, FOR_TRAINING, 0},
    {&cli_other_foreign_generation_section, FOR_GENERATE, 0},
};
// clang-format on

static const char *program_elsewhere(mega_options *o, const char *name, size_t length)
{
    if (!mega_launch_knows(name, length)) return NULL;
    return mega_options_text(o, "it is an option of megalith launch: put it before %s", mega_options_command(o));
}

static bool derived_line(const mega_options *o, size_t which, const char **out_name, char text[32])
{
    const mega_command_options *cfg = mega_options_values(o);
    const struct {
        const char *name;
        int64_t value;
    } derived[] = {{"consumed_train_samples", cfg->train.consumed_train_samples},
                   {"consumed_valid_samples", cfg->train.consumed_valid_samples},
                   {"data_parallel_size", cfg->train.engine.data_parallel_size},
                   {"padded_vocab_size", cfg->train.model.padded_vocab_size},
                   {"rank", cfg->train.engine.rank},
                   {"world_size", cfg->train.engine.world_size}};
    if (which == MEGA_COUNT(derived)) {
        *out_name = "params_dtype";
        snprintf(text, 32, "%s", mega_dtype_name(cfg->train.engine.backend.params_dtype));
        return true;
    }
    if (which > MEGA_COUNT(derived)) return false;
    *out_name = derived[which].name;
    snprintf(text, 32, "%lld", (long long)derived[which].value);
    return true;
}

/* Notes a difference: nanoGPT's schedule is always a cosine; the default here is Megatron's, which is linear. */
static void note_decay_of_nanogpt(const mega_command_options *cfg, int argc, char **argv)
{
    static const char *const names[] = {"warmup_iters", "lr_decay_iters", "min_lr", "max_iters", "decay_lr"};
    if (mega_options_was_set(cfg->train.engine.options, "lr_decay_style") ||
        cfg->train.engine.optim.lr_decay_style != MEGA_LR_LINEAR)
        return;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0) continue;
        for (size_t k = 0; k < MEGA_COUNT(names); k++) {
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

/* Returns whether a checkpoint will supply the network's shape: the rules for it then wait for mega_options_check. */
static bool shape_comes_later(const mega_command_options *cfg)
{
    const bool is_open = cfg->train.model.num_layers == 0 && cfg->train.model.hidden_size == 0 &&
                         cfg->train.model.num_attention_heads == 0;
    return cfg->train.use_checkpoint_args || (cfg->train.load != NULL && is_open);
}

static bool knows_shape(mega_options *o)
{
    const mega_command_options *cfg = mega_options_values(o);
    const bool trains = (mega_options_command_bit(o) & (FOR_PRETRAIN | FOR_CLM | FOR_PLAN)) != 0;
    return (trains || mega_train_classifies(&cfg->train)) && !shape_comes_later(cfg);
}

static const char *program_json(mega_options *o)
{
    mega_command_options *cfg = mega_options_values(o);
    mega_engine_settings *s = &cfg->train.engine;
    if (s->deepspeed && s->deepspeed_config == NULL)
        mega_warn("%s without --deepspeed_config FILE reads no JSON: the settings are those of the options",
                  mega_options_typed(o, "deepspeed"));
    s->micro_follows = s->deepspeed_config != NULL; /* as DeepSpeed derives batch sizes */
    return s->deepspeed_config;
}

static bool passes_unknown(const mega_options *o)
{
    const mega_command_options *cfg = mega_options_values(o);
    return cfg->train.engine.deepspeed_unknown_keys == MEGA_UNKNOWN_KEYS_WARN;
}

static void complete(mega_options *o, int argc, char **argv)
{
    mega_command_options *cfg = mega_options_values(o);
    note_decay_of_nanogpt(cfg, argc, argv);
    cli_complete_yaml(o);
    mega_train_apply_clm(&cfg->train);
    mega_train_apply_classify(&cfg->train);
    mega_train_apply_init_from(&cfg->train);
    const uint32_t command = mega_options_command_bit(o);
    if ((command == FOR_BERT || command == FOR_T5) && !mega_options_was_set(o, "tokenizer_type"))
        (void)mega_options_set(o, "tokenizer_type", "BertWordPieceLowerCase", MEGA_SET_BY_PRESET);
    mega_train_apply_preset(&cfg->train);
}

/* Derives --greedy: Megatron-DeepSpeed's scripts ask for the most probable token by disabling both
 * filters explicitly. */
static void derive_greedy(mega_options *o, mega_generate_options *g)
{
    const bool both = mega_options_set_by(o, "top_k") == MEGA_SET_BY_COMMAND_LINE &&
                      mega_options_set_by(o, "top_p") == MEGA_SET_BY_COMMAND_LINE;
    if (!both || g->top_k != 0 || g->top_p != 0 || g->greedy) return;
    if (!mega_options_derives(o, "greedy")) return;
    g->greedy = true;
    mega_warn("--top_k 0 --top_p 0 is --greedy, as Megatron-DeepSpeed documents it; leave one of them out to draw from "
              "all tokens");
}

static void program_derive(mega_options *o)
{
    mega_command_options *cfg = mega_options_values(o);
    mega_train_options *t = &cfg->train;
    if ((mega_options_command_bit(o) & (FOR_GPT | FOR_PLAN)) != 0) cli_train_text_name(cfg);
    mega_train_derive_options(t);
    const bool trains =
        (mega_options_command_bit(o) & (FOR_PRETRAIN | FOR_CLM)) != 0 || mega_train_classifies(&cfg->train);
    t->engine.needs_lr = trains && !t->skip_train;
    derive_greedy(o, &cfg->generate);
    const int64_t threads = t->engine.backend.num_threads;
    if (cfg->preprocess.workers <= 0) cfg->preprocess.workers = threads;
    if (cfg->train_tokenizer.workers <= 0) cfg->train_tokenizer.workers = threads;
    const char *prompts = cfg->generate.sample_input_file;
    const bool is_stream = prompts != NULL && mega_file_exists(prompts) && !mega_file_is_regular(prompts);
    if (prompts != NULL && !is_stream && mega_options_derives(o, "sample_output_file"))
        cfg->generate.sample_output_file = mega_options_text(o, "%s.out", prompts);
}

static const mega_option_section *const keys[] = {&cli_json_keys, &mega_engine_json_keys};

const mega_composition mega_commands = {
    .part = parts,
    .parts = MEGA_COUNT(parts),
    .foreign = &cli_other_other_models_section,
    .command = commands,
    .commands = MEGA_COUNT(commands),
    .of_ranks = FOR_RANKS,
    .trains = FOR_PRETRAIN | FOR_CLM,
    .asks = FOR_GENERATE,
    .key = keys,
    .keys = MEGA_COUNT(keys),
    .yaml_key = &cli_yaml_keys,
    .yaml = cli_read_yaml,
    .json = program_json,
    .json_name = "--deepspeed_config",
    .passes_unknown = passes_unknown,
    .derived_by = "what follows from other options",
    .complete = complete,
    .derive = program_derive,
    .check = cli_check_options,
    .knows_shape = knows_shape,
    .elsewhere = program_elsewhere,
    .derived_line = derived_line,
};

mega_status mega_command_options_init(mega_command_options *cfg)
{
    mega_options *o = NULL;
    *cfg = (mega_command_options){0};
    const mega_status st = mega_options_create(&mega_commands, cfg, &o);
    mega_engine_settings_init(&cfg->train.engine, o);
    return st;
}

void mega_command_options_fini(mega_command_options *cfg)
{
    mega_options_destroy(cfg->train.engine.options);
    *cfg = (mega_command_options){0};
}
