/* The options of a training run, and of commands that work with what was trained: those of the engine, the model, data
 * and tokenizer, and of the run itself. Intervals are iterations.
 * Its rows are in train/options.c. */
#ifndef MEGALITH_TRAIN_OPTIONS_H
#define MEGALITH_TRAIN_OPTIONS_H

#include "megalith/data_options.h"
#include "megalith/engine_commands.h"
#include "megalith/engine_settings.h"
#include "megalith/model_options.h"
#include "megalith/option.h"
#include "megalith/output.h"
#include "megalith/text_options.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mega_dataloader_type { MEGA_DATALOADER_SINGLE, MEGA_DATALOADER_CYCLIC } mega_dataloader_type;

typedef struct mega_train_options {
    mega_engine_settings engine;
    mega_model_options model;
    mega_data_options data;
    mega_text_options text;

    int64_t seq_length, make_vocab_size_divisible_by;
    bool override_tokenizer; /* --load with another tokenizer than the checkpoint's */
    mega_dataloader_type dataloader_type;
    int64_t exit_interval, exit_duration_in_mins;
    int64_t eval_iters, eval_interval;
    bool skip_train;

    /* checkpoints */
    const char *save, *load;
    int64_t save_interval;
    bool save_takeover; /* the lock of a run that lives is taken from it */
    bool no_save_optim, no_save_rng, no_load_optim, no_load_rng, finetune;
    bool use_checkpoint_args, exit_on_missing_checkpoint;
    bool load_previous; /* go on from the last whole checkpoint when the newest is damaged */
    bool override_opt_param_scheduler, use_checkpoint_opt_param_scheduler;

    /* logs */
    int64_t log_interval;
    bool log_params_norm, log_num_zeros_in_grad, log_throughput;
    bool log_progress;        /* progress.txt in --save */
    const char *metrics_file; /* one JSON object an iteration */
    const char *tensorboard_dir;
    int64_t tensorboard_log_interval;
    bool log_timers_to_tensorboard, log_batch_size_to_tensorboard, log_learning_rate_to_tensorboard;
    bool log_loss_scale_to_tensorboard, log_validation_ppl_to_tensorboard, log_memory_to_tensorboard;
    bool log_world_size_to_tensorboard;
    bool profile;              /* sets the next two */
    const char *profile_trace; /* Chrome trace of the profiled steps */
    bool profile_table;
    int64_t profile_step_start, profile_step_end; /* iterations, from the first to before the second */

    /* this machine, and plans */
    int64_t memory_limit; /* bytes; 0: what the machine gives */
    bool dry_run, print_program, print_schedule;
    bool overwrite;                           /* outputs that other programs wrote */
    const char *schedule_svg;                 /* NULL: not drawn */
    int64_t planned_world_size, planned_rank; /* plan: of ranks that nobody started; 0: this one alone */

    /* where the run stands */
    int64_t consumed_train_samples, consumed_valid_samples, iteration;
} mega_train_options;

/* Their rows, by the titles of --help. */
extern const mega_option_section mega_train_tokenizer_section, mega_train_sequence_section, mega_train_network_section,
    mega_train_training_section, mega_train_learning_section, mega_train_checkpoint_section,
    mega_train_validation_section, mega_train_logging_section, mega_train_machine_section, mega_train_dry_run_section,
    mega_train_overwrite_section, mega_train_plan_section;
/* Topics of mistakes, beside MEGA_TOPIC_OPTIONS: mistakes of these concern files, and what the options say is known all
 * the same. */
typedef enum mega_train_topic {
    MEGA_TOPIC_DATA = 1 << 1,      /* --data-path and the like, --split */
    MEGA_TOPIC_TOKENIZER = 1 << 2, /* the files of the tokenizer */
    MEGA_TOPIC_READ = 1 << 3,      /* other files that are read */
    MEGA_TOPIC_WRITTEN = 1 << 4    /* files and folders that are written */
} mega_train_topic;

void mega_train_apply_preset(mega_train_options *cfg);   /* fills what nobody has given */
void mega_train_derive_options(mega_train_options *cfg); /* what follows from other options */
/* What an engine of this run is made with; `team` and `world` stay NULL. */
mega_status mega_train_engine_options(mega_engine_options *out, const mega_train_options *cfg);

/* Rules. Each adds the mistakes that it finds to cfg->engine.options. */
void mega_train_rule_shape_is_given(mega_train_options *cfg);
void mega_train_rule_heads_divide_hidden(mega_train_options *cfg);
void mega_train_rule_positions_reach(mega_train_options *cfg);
void mega_train_rule_sizes_fit(mega_train_options *cfg);
void mega_train_rule_layout(mega_train_options *cfg);
void mega_train_rule_recompute(mega_train_options *cfg);
void mega_train_rule_length_of_training(mega_train_options *cfg);
void mega_train_rule_loading(mega_train_options *cfg);
void mega_train_rule_saving(mega_train_options *cfg);
void mega_train_rule_profiled_steps(mega_train_options *cfg);
void mega_train_rule_stages(mega_train_options *cfg);
void mega_train_rule_sequence_parallel(mega_train_options *cfg);
void mega_train_rule_distribute_saved(mega_train_options *cfg);
void mega_train_rule_split(mega_train_options *cfg);
void mega_train_rule_data_paths(mega_train_options *cfg);
void mega_train_rule_tokenizer_files(mega_train_options *cfg);
void mega_train_rule_writes(mega_train_options *cfg);

/* For rules of commands about their own files: one that is read, and is `what`; one that is written; one that is written
 * to a folder that must be there; a pair PREFIX END .bin, .idx. NULL for a path is none. */
bool mega_train_is_hidden(mega_train_options *cfg, const char *option, const char *path);
void mega_train_check_file(mega_train_options *cfg, const char *option, const char *path, const char *what);
void mega_train_check_output(mega_train_options *cfg, const char *dest, const char *path, mega_output_kind kind);
void mega_train_check_in_folder(mega_train_options *cfg, const char *dest, const char *path, mega_output_kind kind);
void mega_train_check_pair(mega_train_options *cfg, const char *prefix, const char *end);

#ifdef __cplusplus
}
#endif

#endif
