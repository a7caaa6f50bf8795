/* The options of the program: shared by the files that compose them. */
#ifndef MEGA_OPTIONS_IMPL_H
#define MEGA_OPTIONS_IMPL_H

#include "megalith/command_options.h"

/* Commands that have options. A row's `commands` is a bit set of these. */
enum {
    FOR_GPT = 1 << 0,
    FOR_BERT = 1 << 1,
    FOR_T5 = 1 << 2,
    FOR_CLM = 1 << 3,
    FOR_PLAN = 1 << 4,
    FOR_GENERATE = 1 << 5,
    FOR_SERVER = 1 << 6,
    FOR_TASKS = 1 << 7,
    FOR_EMBED = 1 << 8,
    FOR_FILL = 1 << 9,
    FOR_MERGE = 1 << 10,
    FOR_PREPROCESS = 1 << 11,
    FOR_TRAIN_TOKENIZER = 1 << 12,
    FOR_TOKENIZE = 1 << 13,
    FOR_DATA = 1 << 14,
    FOR_PLOT = 1 << 15,
    FOR_REPORT = 1 << 16,
    FOR_NEW = 1 << 17,
    FOR_CONFIG = 1 << 18,
    FOR_ALL = 2 * FOR_CONFIG - 1, /* the last one above, and all before it */
    FOR_PRETRAIN = FOR_GPT | FOR_BERT | FOR_T5,
    /* run on several ranks; compute on threads that are shown */
    FOR_RANKS = FOR_PRETRAIN | FOR_GENERATE | FOR_TASKS | FOR_CLM | FOR_SERVER | FOR_EMBED | FOR_FILL,
    FOR_COMPUTING = (FOR_RANKS & ~FOR_SERVER) | FOR_PREPROCESS | FOR_TRAIN_TOKENIZER,
    FOR_TRAINING = FOR_RANKS | FOR_PLAN | FOR_MERGE,
    NOT_BERT = FOR_TRAINING & ~FOR_BERT,
    NOT_T5 = FOR_TRAINING & ~FOR_T5,
    FOR_MEGATRON = FOR_TRAINING & ~FOR_CLM,                             /* names that run_clm has in another meaning */
    FOR_TEXT = FOR_TRAINING | FOR_PREPROCESS | FOR_TOKENIZE | FOR_DATA, /* commands with a tokenizer */
};

extern const mega_option_section cli_json_keys; /* src/foreign/deepspeed-json-commands.txt */
/* options.c: options of one command */
extern const mega_option_section cli_preprocess_section, cli_train_tokenizer_section, cli_tokenize_section,
    cli_config_section, cli_generate_section, cli_server_section, cli_tasks_section, cli_merge_section,
    cli_data_section, cli_plot_section, cli_report_section, cli_new_section, cli_embed_section, cli_logging_section;
/* src/foreign/: names that are recognized but do not work, or that have another name here */
extern const mega_option_section cli_clm_section, cli_other_preprocess_section, cli_other_train_tokenizer_section,
    cli_other_tasks_section, cli_other_generate_section, cli_other_server_section, cli_other_model_section,
    cli_other_training_section, cli_other_initialization_section, cli_other_learning_section,
    cli_other_checkpoint_section, cli_other_precision_section, cli_other_distributed_section, cli_other_data_section,
    cli_other_logging_section, cli_other_fp8_section, cli_other_device_section, cli_other_moe_section,
    cli_other_inference_section, cli_other_zero_section, cli_other_other_models_section, cli_other_megatron_section,
    cli_other_transformers_section, cli_other_nanogpt_section, cli_other_foreign_data_section,
    cli_other_foreign_generation_section;

/* src/foreign/accelerate-yaml.txt, config_file.c: Accelerate's YAML: keys that are not options, reading, and what
 * follows when all has been read. */
extern const mega_option_section cli_yaml_keys, cli_config_file_section;
const char *cli_read_yaml(mega_options *o, const char **out_name);
void cli_complete_yaml(mega_options *o);

/* rules.c */
void cli_check_options(mega_options *o, bool shape);
/* rules_generation.c */
void cli_rule_generation(mega_command_options *cfg);
void cli_rule_drawing(mega_command_options *cfg);
void cli_rule_beams(mega_command_options *cfg);
void cli_rule_greedy(mega_command_options *cfg);

#endif
