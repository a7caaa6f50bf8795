/* The options of the program: shared by the files that compose them. */
#ifndef MEGA_OPTIONS_IMPL_H
#define MEGA_OPTIONS_IMPL_H

#include "megalith/command_options.h"

/* Commands that have options. A row's `commands` is a bit set of these. */
enum {
    FOR_GPT = 1 << 0,
    FOR_BERT = 1 << 14,
    FOR_T5 = 1 << 15,
    FOR_PRETRAIN = FOR_GPT | FOR_BERT | FOR_T5,
    FOR_PLAN = 1 << 1,
    FOR_GENERATE = 1 << 2,
    FOR_TASKS = 1 << 3,
    FOR_PREPROCESS = 1 << 4,
    FOR_TRAIN_TOKENIZER = 1 << 5,
    FOR_TOKENIZE = 1 << 6,
    FOR_DATA = 1 << 7,
    FOR_PLOT = 1 << 8,
    FOR_CLM = 1 << 12,
    FOR_SERVER = 1 << 13,
    FOR_EMBED = 1 << 17,
    FOR_FILL = 1 << 18,
    FOR_MERGE = 1 << 16,
    /* run on several ranks; compute on threads that are shown */
    FOR_RANKS = FOR_PRETRAIN | FOR_GENERATE | FOR_TASKS | FOR_CLM | FOR_SERVER | FOR_EMBED | FOR_FILL,
    FOR_COMPUTING = (FOR_RANKS & ~FOR_SERVER) | FOR_PREPROCESS | FOR_TRAIN_TOKENIZER,
    FOR_TRAINING = FOR_RANKS | FOR_PLAN | FOR_MERGE,
    NOT_BERT = FOR_TRAINING & ~FOR_BERT,
    NOT_T5 = FOR_TRAINING & ~FOR_T5,
    FOR_MEGATRON = FOR_TRAINING & ~FOR_CLM,                             /* names that run_clm has in another meaning */
    FOR_TEXT = FOR_TRAINING | FOR_PREPROCESS | FOR_TOKENIZE | FOR_DATA, /* commands with a tokenizer */
    FOR_NEW = 1 << 9,
    FOR_REPORT = 1 << 10,
    FOR_CONFIG = 1 << 11,
    FOR_ALL = (1 << 19) - 1
};

/* Rows for names whose answer is not "works". */
#define IDLE(name_, kind_, fallback_, remark_)                                                 \
    .name = (name_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = MEGA_ANSWER_NO_EFFECT, \
    .fallback = (fallback_), .remark = (remark_)
#define LATER(name_, kind_, neutral_, remark_)                                                       \
    .name = (name_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = MEGA_ANSWER_NOT_IMPLEMENTED, \
    .neutral = (neutral_), .remark = (remark_)
/* The same for what will not be; the remark says why. */
#define NEVER(name_, kind_, neutral_, remark_)                                                                      \
    .name = (name_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = MEGA_ANSWER_REFUSED, .neutral = (neutral_), \
    .remark = (remark_)
#define RENAMED(name_, kind_, successor_, remark_)                                           \
    .name = (name_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = MEGA_ANSWER_RENAMED, \
    .successor = (successor_), .remark = (remark_)
/* Another name for the same option. */
#define ALIAS(name_, kind_, successor_) RENAMED(name_, kind_, successor_, MEGA_ALIAS_REMARK successor_)
/* The meaning depends on the value. */
#define BY_VALUE(name_, kind_, cases_, remark_)                                                                 \
    .name = (name_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = MEGA_ANSWER_RENAMED, .cases = (cases_), \
    .remark = (remark_)
/* Has no effect if the number of ranks given by `size_` is one; rejected if it is greater (rules.c). */
#define ALONE(name_, kind_, size_, remark_)                                                                      \
    .name = (name_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = MEGA_ANSWER_NO_EFFECT, .alone = (size_), \
    .remark = (remark_)
/* A remark for options that control when ranks exchange data: this program decides that itself. The exchanged data
 * stay the same, and so do results and memory use. */
#define OWN_ORDER "megalith itself decides when an exchange starts and when it is waited for"

extern const mega_option_section cli_json_keys; /* json_keys.c */
/* options.c: options of one command */
extern const mega_option_section cli_preprocess_section, cli_train_tokenizer_section, cli_tokenize_section,
    cli_config_section, cli_generate_section, cli_server_section, cli_tasks_section, cli_merge_section,
    cli_data_section, cli_plot_section, cli_report_section, cli_new_section, cli_embed_section, cli_logging_section,
    cli_clm_section;
/* options_*.c: names that are recognized but do not work, or that have another name here */
extern const mega_option_section cli_other_preprocess_section, cli_other_train_tokenizer_section,
    cli_other_tasks_section, cli_other_model_section, cli_other_training_section, cli_other_initialization_section,
    cli_other_learning_section, cli_other_checkpoint_section, cli_other_precision_section,
    cli_other_distributed_section, cli_other_data_section, cli_other_logging_section, cli_other_fp8_section,
    cli_other_device_section, cli_other_moe_section, cli_other_inference_section, cli_other_zero_section,
    cli_other_other_models_section, cli_other_megatron_section, cli_other_transformers_section,
    cli_other_nanogpt_section, cli_other_foreign_data_section, cli_other_foreign_generation_section;

/* options_yaml.c, config_file.c: Accelerate's YAML: keys that are not options, reading, and what follows when all has
 * been read. */
extern const mega_option_section cli_yaml_keys, cli_config_file_section;
const char *cli_read_yaml(mega_options *o, const char **out_name);
void cli_complete_yaml(mega_options *o);

/* rules.c */
void cli_check_options(mega_options *o, bool shape);

#endif
