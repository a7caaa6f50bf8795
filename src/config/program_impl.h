/* The options of the program: what its rows and rules share. */
#ifndef MEGA_PROGRAM_IMPL_H
#define MEGA_PROGRAM_IMPL_H

#include "config_impl.h"

/* Commands that own options. A row's `commands` is a set of these. */
enum {
    FOR_PRETRAIN = 1 << 0,
    FOR_PLAN = 1 << 1,
    FOR_GENERATE = 1 << 2,
    FOR_TASKS = 1 << 3,
    FOR_PREPROCESS = 1 << 4,
    FOR_TRAIN_TOKENIZER = 1 << 5,
    FOR_TOKENIZE = 1 << 6,
    FOR_DATA = 1 << 7,
    FOR_PLOT = 1 << 8,
    FOR_NEW = 1 << 9,
    FOR_TRAINING = FOR_PRETRAIN | FOR_PLAN | FOR_GENERATE | FOR_TASKS,
    FOR_TEXT = FOR_TRAINING | FOR_PREPROCESS | FOR_TOKENIZE | FOR_DATA, /* commands with a tokenizer */
    FOR_ALL = (1 << 10) - 1,
    FOR_ENGINE = 1 << 10 /* of rules alone: mega_config_parse_engine */
};

#define OPTION(name_, field_, kind_)                                                           \
    .name = (name_), .dest = #field_, .field = offsetof(mega_config, field_), .kind = (kind_), \
    .answer = MEGA_ANSWER_WORKS
#define IDLE(name_, kind_, fallback_, remark_)                                                 \
    .name = (name_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = MEGA_ANSWER_NO_EFFECT, \
    .fallback = (fallback_), .remark = (remark_)
#define LATER(name_, kind_, neutral_, remark_)                                                                        \
    .name = (name_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = MEGA_ANSWER_NOT_BUILT, .neutral = (neutral_), \
    .remark = (remark_)
#define RENAMED(name_, kind_, successor_, remark_)                                           \
    .name = (name_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = MEGA_ANSWER_RENAMED, \
    .successor = (successor_), .remark = (remark_)
/* The same under another name. */
#define ALIAS(name_, kind_, successor_) RENAMED(name_, kind_, successor_, MEGA_ALIAS_REMARK successor_)
/* What the value asks for decides. */
#define BY_VALUE(name_, kind_, cases_, remark_)                                                                 \
    .name = (name_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = MEGA_ANSWER_RENAMED, .cases = (cases_), \
    .remark = (remark_)
/* Changes nothing where the ranks of `size_` are one; refused where they are more (rules.c). */
#define ALONE(name_, kind_, size_, remark_)                                                                      \
    .name = (name_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = MEGA_ANSWER_NO_EFFECT, .alone = (size_), \
    .remark = (remark_)
/* When ranks exchange is decided here. What they exchange stays the same, and so do results and memory. */
#define OWN_ORDER "where an exchange begins and where it is waited for is the program's own choice"

extern const mega_option_section mega_option_model_section, mega_option_regularization_section,
    mega_option_training_section, mega_option_initialization_section, mega_option_learning_section,
    mega_option_checkpoint_section, mega_option_precision_section, mega_option_machine_section,
    mega_option_distributed_section, mega_option_validation_section, mega_option_data_section,
    mega_option_logging_section, mega_option_fp8_section, mega_option_moe_section, mega_option_inference_section,
    mega_option_zero_section, mega_option_other_models_section, mega_option_preprocess_section,
    mega_option_train_tokenizer_section, mega_option_tokenize_section, mega_option_megatron_section,
    mega_option_transformers_section, mega_option_nanogpt_section, mega_option_foreign_data_section,
    mega_option_foreign_generation_section, mega_option_generate_section, mega_option_tasks_section,
    mega_option_data_tool_section, mega_option_plot_section, mega_option_new_section;

/* engine_keys.c */
enum { ENGINE_KEYS = 51 };
extern const mega_option_row mega_engine_keys[ENGINE_KEYS];
/* preset.c, derive.c, rules.c */
void mega_config_apply_preset(mega_config *cfg);
void mega_config_derive(mega_config *cfg);
void mega_config_run_rules(mega_config *cfg, bool shape);
/* rules_tensor.c */
void mega_rule_sequence_parallel(mega_config *cfg);
void mega_rule_distribute_saved(mega_config *cfg);
/* rules_foreign.c */
void mega_rule_equal_values(mega_config *cfg);
void mega_rule_accumulation(mega_config *cfg);
void mega_rule_evaluation_alone(mega_config *cfg);
/* rules_schedule.c */
void mega_rule_units_agree(mega_config *cfg);
void mega_rule_learning_rate(mega_config *cfg);
void mega_rule_warmup(mega_config *cfg);
void mega_rule_wsd(mega_config *cfg);
void mega_rule_weight_decay(mega_config *cfg);
/* rules_zero.c */
void mega_rule_zero(mega_config *cfg);

/* rules_stages.c */
void mega_rule_stages(mega_config *cfg);
int64_t mega_config_even_stages(const mega_config *cfg);

/* rules_files.c */
void mega_rule_split(mega_config *cfg);
void mega_rule_data_paths(mega_config *cfg);
const char *mega_rule_more_ranks(const mega_config *cfg); /* how to have another number of ranks */
void mega_rule_tokenizer_files(mega_config *cfg);
void mega_rule_reads(mega_config *cfg);
void mega_rule_tokenize_input(mega_config *cfg);
/* rules_outputs.c */
void mega_rule_writes(mega_config *cfg);
void mega_rule_outputs(mega_config *cfg);

#endif
