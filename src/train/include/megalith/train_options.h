/* The options of a training run, and of commands that use a trained model: those of the engine, the model, the data,
 * the tokenizer, and of the run itself. Intervals are numbers of iterations. The rows are in train/options.c. */
#ifndef MEGALITH_TRAIN_OPTIONS_H
#define MEGALITH_TRAIN_OPTIONS_H

#include "megalith/data_options.h"
#include "megalith/engine_commands.h"
#include "megalith/engine_settings.h"
#include "megalith/memory.h"
#include "megalith/model_options.h"
#include "megalith/model_shape.h"
#include "megalith/option.h"
#include "megalith/output.h"
#include "megalith/text_options.h"

typedef enum mega_dataloader_type { MEGA_DATALOADER_SINGLE, MEGA_DATALOADER_CYCLIC } mega_dataloader_type;

typedef enum mega_report_to {
    MEGA_REPORT_TO_ALL,
    MEGA_REPORT_TO_TENSORBOARD,
    MEGA_REPORT_TO_WANDB,
    MEGA_REPORT_TO_NONE
} mega_report_to;

enum { MEGA_CLM_FILES = 64 }; /* files of a split that a folder may hold */

/* run_clm: the options of transformers' script that no other command has, and what they lead to. A plan has
 * --config_name too. */
typedef struct mega_clm_options {
    mega_list train_file, validation_file;
    const char *dataset_name, *dataset_config_name;
    const char *text_column_name;
    int64_t validation_split_percentage;
    bool no_keep_linebreaks;
    int64_t max_train_samples, max_eval_samples; /* blocks; 0: all */
    const char *config_name, *tokenizer_name, *model_name_or_path;
    const char *model_type, *config_overrides;
    int64_t num_train_epochs;
    const char *checkpointing_steps;
    bool with_tracking;
    mega_report_to report_to;

    /* clm_options.c derives these */
    mega_list train, validation; /* files to read */
    const char *found[2][MEGA_CLM_FILES];
    const char *tokenizer_folder; /* NULL: the tokenizer is in the folder of `load` */
    bool saves_epochs;            /* --checkpointing_steps epoch */
    bool has_network;             /* --config_name leads to a model of another kind than GPT-2, `network` */
    mega_network_shape network;
    int64_t vocab; /* of that config.json; 0: there is none */
} mega_clm_options;

typedef enum mega_bert_form { MEGA_BERT_OF_MEGATRON, MEGA_BERT_ORIGINAL } mega_bert_form;

/* pretrain_bert alone. */
typedef struct mega_bert_options {
    mega_bert_form bert_form;
    bool bert_binary_head, bert_nsp, openai_gelu;
    double mask_prob, short_seq_prob;
} mega_bert_options;

typedef enum mega_t5_form {
    MEGA_T5_FORM_MEGATRON,
    MEGA_T5_FORM_T5,
    MEGA_T5_FORM_V1_1,
    MEGA_T5_FORM_MT5,
    MEGA_T5_FORM_UMT5
} mega_t5_form;

/* pretrain_t5 alone. */
typedef struct mega_t5_settings {
    mega_t5_form t5_form;
    int64_t decoder_num_layers;                 /* 0: as many as the encoder has */
    int64_t decoder_seq_length;                 /* derived: seq_length, unless it is given */
    int64_t pipeline_model_parallel_split_rank; /* the stage with which the decoder begins; 0: none */
    double mask_prob, short_seq_prob;
} mega_t5_settings;

/* tasks alone. */
typedef struct mega_classify_options {
    const char *task; /* "LM_LOSS", "WIKITEXT103", "LAMBADA", "RACE", … as given */
    mega_list train_data, valid_data;
    int64_t epochs; /* 0: nothing is trained */
    bool keep_last; /* the last batch of an epoch may have fewer samples than the others */
    const char *pretrained_checkpoint;
} mega_classify_options;

typedef struct mega_train_options {
    mega_engine_settings engine;
    mega_model_options model;
    mega_data_options data;
    mega_text_options text;
    mega_clm_options clm;
    mega_bert_options bert;
    mega_t5_settings t5;
    mega_classify_options classify;
    const char *made_data_path; /* a prefix in --data-path that is made before the training; NULL: none */

    int64_t seq_length, make_vocab_size_divisible_by;
    bool positions_are_fixed; /* the folder that is loaded has no use for more positions than it says */
    bool override_tokenizer;  /* allow --load with a tokenizer other than the checkpoint's */
    mega_dataloader_type dataloader_type;
    int64_t exit_interval, exit_duration_in_mins;
    int64_t eval_iters, eval_interval;
    bool skip_train;
    /* lengths counted in tokens, of which a sample has seq_length, or fewer under a curriculum; 0: not given
     * (derive.c) */
    int64_t train_tokens, lr_decay_tokens, lr_warmup_tokens;

    /* checkpoints */
    const char *save, *load;
    bool begins_mixture;              /* `load` is the folder of --moe-init-from */
    int64_t save_interval, ckpt_step; /* ckpt_step: 0: the newest */
    bool save_takeover;               /* take the lock from a run that is still running */
    bool restart;                     /* begin anew in a used --save, and remove its checkpoints after the first save */
    bool no_save_optim, no_save_rng, no_load_optim, no_load_rng, finetune;
    bool use_checkpoint_args, exit_on_missing_checkpoint;
    bool load_previous; /* resume from the last undamaged checkpoint if the newest is damaged */
    bool override_opt_param_scheduler, use_checkpoint_opt_param_scheduler;

    /* logs */
    int64_t log_interval;
    bool log_params_norm, log_num_zeros_in_grad, log_throughput;
    bool log_progress;        /* write progress.txt in --save */
    const char *metrics_file; /* one JSON object per iteration */
    const char *tensorboard_dir;
    const char *wandb_project, *wandb_exp_name; /* project NULL or "": no run of wandb */
    const char *wandb_save_dir;                 /* NULL: SAVE/wandb, or the working folder */
    int64_t tensorboard_log_interval;
    bool log_timers_to_tensorboard, log_batch_size_to_tensorboard, log_learning_rate_to_tensorboard;
    bool log_loss_scale_to_tensorboard, log_validation_ppl_to_tensorboard, log_memory_to_tensorboard;
    bool log_world_size_to_tensorboard, log_optimizer_states_to_tensorboard;
    bool profile;              /* --profile: sets the next two */
    const char *profile_trace; /* Chrome trace of the profiled steps */
    bool profile_table;
    int64_t profile_step_start, profile_step_end; /* iterations; start is included, end is not */

    /* options about this machine, and about plans */
    int64_t memory_limit; /* bytes; 0: the limit of the machine */
    bool dry_run, print_program, print_schedule;
    bool print_options;       /* print the table of all options at the start */
    bool no_suggestions;      /* a plan that does not fit lists no changes */
    bool overwrite;           /* allow overwriting outputs that other programs wrote */
    const char *schedule_svg; /* NULL: not drawn */
    /* for plan: the number of ranks to plan for, which need not be started (0: the ranks that run now), and the rank
     * whose memory and program are shown */
    int64_t planned_world_size, planned_rank;
    const char *instruction_set; /* for plan: of the machine that will run it; NULL: this machine's */

    /* progress of the run */
    int64_t consumed_train_samples, consumed_valid_samples, iteration;
} mega_train_options;

/* The option rows, one section per title of --help. */
extern const mega_option_section mega_train_tokenizer_section, mega_train_sequence_section, mega_train_network_section,
    mega_train_training_section, mega_train_learning_section, mega_train_checkpoint_section,
    mega_train_validation_section, mega_train_logging_section, mega_train_machine_section, mega_train_program_section,
    mega_train_dry_run_section, mega_train_overwrite_section, mega_train_plan_section, mega_train_clm_section,
    mega_train_bert_section, mega_train_bert_samples_section, mega_train_t5_section, mega_train_t5_samples_section,
    mega_train_classify_section;
/* Topics of mistakes, in addition to MEGA_TOPIC_OPTIONS. These mistakes concern files: the values of the options are
 * known even if there are some. */
typedef enum mega_train_topic {
    MEGA_TOPIC_DATA = 1 << 1,      /* --data-path and the like, --split */
    MEGA_TOPIC_TOKENIZER = 1 << 2, /* the tokenizer's files */
    MEGA_TOPIC_READ = 1 << 3,      /* other files that the command reads */
    MEGA_TOPIC_WRITTEN = 1 << 4    /* files and folders that the command writes */
} mega_train_topic;

void mega_train_apply_preset(mega_train_options *cfg); /* sets options that were not given */
/* Appends the list of presets, for `megalith help presets`. */
void mega_train_presets_text(mega_buffer *out);
void mega_train_apply_clm(mega_train_options *cfg);       /* the same for run_clm, and finds what its names lead to */
void mega_train_apply_classify(mega_train_options *cfg);  /* the same for tasks */
void mega_train_apply_init_from(mega_train_options *cfg); /* the same for --moe-init-from */
/* Whether the task is one with labels, for which mega_train trains or evaluates a classifier. */
bool mega_train_classifies(const mega_train_options *cfg);
void mega_train_derive_options(mega_train_options *cfg); /* sets values that follow from other options */
/* Fills in the options for creating this run's engine; `team` and `world` stay NULL. */
mega_status mega_train_engine_options(const mega_train_options *cfg, mega_engine_options *out);

/* Rules. Each adds the mistakes it finds to cfg->engine.options. */
void mega_train_rule_shape_is_given(mega_train_options *cfg);
void mega_train_rule_heads_divide_hidden(mega_train_options *cfg);
void mega_train_rule_positions_reach(mega_train_options *cfg);
void mega_train_rule_rotation(mega_train_options *cfg);
void mega_train_rule_network(mega_train_options *cfg);
void mega_train_rule_experts(mega_train_options *cfg);
void mega_train_rule_sizes_fit(mega_train_options *cfg);
void mega_train_rule_layout(mega_train_options *cfg);
void mega_train_rule_expert_ranks(mega_train_options *cfg);
void mega_train_rule_length_of_training(mega_train_options *cfg);
void mega_train_rule_curriculum(mega_train_options *cfg);
void mega_train_rule_loading(mega_train_options *cfg);
void mega_train_rule_saving(mega_train_options *cfg);
void mega_train_rule_nothing_kept(mega_train_options *cfg); /* the last of all rules: a warning */
void mega_train_rule_profiled_steps(mega_train_options *cfg);
void mega_train_rule_stages(mega_train_options *cfg);
void mega_train_rule_sequence_parallel(mega_train_options *cfg);
void mega_train_rule_distribute_saved(mega_train_options *cfg);
void mega_train_rule_split(mega_train_options *cfg);
void mega_train_rule_data_paths(mega_train_options *cfg);
void mega_train_rule_tokenizer_files(mega_train_options *cfg);
void mega_train_rule_writes(mega_train_options *cfg);
void mega_train_rule_clm(mega_train_options *cfg);
void mega_train_rule_bert(mega_train_options *cfg);
void mega_train_rule_t5(mega_train_options *cfg);
void mega_train_rule_classify(mega_train_options *cfg);
void mega_train_rule_classify_files(mega_train_options *cfg);
void mega_train_rule_clm_files(mega_train_options *cfg);
void mega_train_rule_clm_writes(mega_train_options *cfg);

/* Adds one line for each option of the user that the tokenizer in the folder of --load contradicts, where no files of
 * another tokenizer are named. */
void mega_train_compare_tokenizer(const mega_train_options *cfg, const mega_tokenizer *found, mega_buffer *wrong);

/* For rules of commands about their own files. is_hidden: see rules_files.c. check_file: a file that is read; `what`
 * names it in messages. check_output: a file that is written. check_in_folder: a file that is written to a folder that
 * must exist. check_pair: the files PREFIX END .bin and PREFIX END .idx. Does nothing if the path is NULL. */
bool mega_train_is_hidden(mega_train_options *cfg, const char *option, const char *path);
void mega_train_check_file(mega_train_options *cfg, const char *option, const char *path, const char *what);
void mega_train_check_output(mega_train_options *cfg, const char *dest, const char *path, mega_output_kind kind);
void mega_train_check_in_folder(mega_train_options *cfg, const char *dest, const char *path, mega_output_kind kind);
void mega_train_check_pair(mega_train_options *cfg, const char *prefix, const char *end);

#endif
