/* The configuration of one command: one struct, filled from the defaults, a preset, the command line and a checkpoint.
 *
 * Fields carry the names of Megatron's destinations (`--num-layers` is cfg->num_layers), so that a reader who knows the
 * scripts knows the struct. Everything about an option (name, field, default, help, who may use it, which answer it
 * gets) is one row of the table in options_*.c; parsing, --help, suggestions, the argument dump, JSON and
 * docs/options.md come from that row.
 *
 * Units: sizes in elements, batches in samples, intervals in iterations unless the name says samples; dropout and decay
 * are plain factors. "Not given" is 0 for integers, NAN for floats, NULL for strings, the first choice (NONE) for
 * choices; a field that can be told apart from a wanted 0 says so. Integers are int64_t and floats double throughout.
 */
#ifndef MEGALITH_CONFIG_H
#define MEGALITH_CONFIG_H

#include "megalith/dtype.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/option.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Choices. The order is that of the option's row. */
typedef enum mega_weight_decay_style { MEGA_WD_CONSTANT, MEGA_WD_LINEAR, MEGA_WD_COSINE } mega_weight_decay_style;
typedef enum mega_optimizer_kind { MEGA_OPTIMIZER_ADAM, MEGA_OPTIMIZER_SGD } mega_optimizer_kind;
typedef enum mega_lr_style {
    MEGA_LR_CONSTANT,
    MEGA_LR_LINEAR,
    MEGA_LR_COSINE,
    MEGA_LR_INVERSE_SQUARE_ROOT,
    MEGA_LR_WSD,
    MEGA_LR_EXPONENTIAL,
    MEGA_LR_STYLE_COUNT
} mega_lr_style;
typedef enum mega_lr_wsd_style {
    MEGA_LR_WSD_EXPONENTIAL,
    MEGA_LR_WSD_LINEAR,
    MEGA_LR_WSD_COSINE,
    MEGA_LR_WSD_MINUS_SQRT,
    MEGA_LR_WSD_STYLE_COUNT
} mega_lr_wsd_style;
typedef enum mega_ddp_impl { MEGA_DDP_LOCAL, MEGA_DDP_TORCH, MEGA_DDP_FSDP } mega_ddp_impl;
typedef enum mega_recompute_granularity {
    MEGA_RECOMPUTE_NONE,
    MEGA_RECOMPUTE_FULL,
    MEGA_RECOMPUTE_SELECTIVE
} mega_recompute_granularity;
typedef enum mega_recompute_method {
    MEGA_RECOMPUTE_METHOD_NONE,
    MEGA_RECOMPUTE_UNIFORM,
    MEGA_RECOMPUTE_BLOCK
} mega_recompute_method;
typedef enum mega_dataloader_type { MEGA_DATALOADER_SINGLE, MEGA_DATALOADER_CYCLIC } mega_dataloader_type;
typedef enum mega_backend_kind { MEGA_BACKEND_CPU, MEGA_BACKEND_PLAIN } mega_backend_kind;
typedef enum mega_save_dtype { MEGA_SAVE_F32, MEGA_SAVE_BF16, MEGA_SAVE_F16 } mega_save_dtype;
typedef enum mega_bad_line { MEGA_BAD_LINE_STOP, MEGA_BAD_LINE_SKIP } mega_bad_line;
typedef enum mega_input_format { MEGA_INPUT_AUTO, MEGA_INPUT_JSONL, MEGA_INPUT_TEXT } mega_input_format;

/* Options of one command only. */
typedef struct mega_preprocess_options {
    mega_list input;                /* files, globs, folders, "-" for standard input */
    mega_input_format input_format; /* AUTO: decided by the content */
    mega_list json_keys;            /* {"text"} when not given */
    bool append_eod;
    bool split_on_blank_lines; /* plain text: a document ends with its blank line, which it keeps */
    const char *output_prefix;
    int64_t workers;      /* 0: all cores (the parser fills in the number of threads) */
    int64_t log_interval; /* documents between progress lines when not on a terminal */
    mega_bad_line on_bad_line;
} mega_preprocess_options;

typedef struct mega_train_tokenizer_options {
    mega_list input;
    mega_input_format input_format;
    mega_list json_keys;
    bool split_on_blank_lines;
    int64_t vocab_size;
    int64_t min_frequency;
    const char *output; /* folder for vocab.json, merges.txt, tokenizer.json */
    int64_t workers;    /* 0: all cores, filled in by the parser */
    mega_bad_line on_bad_line;
} mega_train_tokenizer_options;

typedef struct mega_tokenize_options {
    const char *text;  /* NULL: standard input */
    const char *input; /* file with the text */
    mega_list ids;     /* the other way: ids to text */
    bool ids_only;     /* print ids alone, one line */
    bool count;        /* print counts alone */
    bool special;      /* special tokens in the text are what they name */
    bool text_only;    /* print the text alone */
} mega_tokenize_options;

typedef struct mega_generate_options {
    double temperature;
    bool greedy;
    double top_p;                   /* 0: off */
    int64_t top_k;                  /* 0: off */
    int64_t out_seq_length;         /* new tokens at most */
    mega_list prompt;               /* --prompt, may be given several times */
    const char *sample_input_file;  /* one prompt a line */
    const char *sample_output_file; /* NULL: input file name + ".out" */
    int64_t num_samples;            /* > 0: unconditional samples */
    const char *genfile;            /* JSON lines */
    bool recompute;                 /* no key-value cache */
    int64_t batch;                  /* sequences decoded together */
    /* tokens of a batch of prompts that are read at a time */
    int64_t inference_batch_times_seqlen_threshold;
    bool interactive; /* prompts are read from standard input although it is no terminal */
} mega_generate_options;

typedef struct mega_tasks_options {
    const char *task; /* "LM_LOSS", "WIKITEXT103", "LAMBADA", … as given, upper case */
    mega_list valid_data;
    mega_input_format input_format;
    const char *json_key;
    int64_t overlapping_eval; /* tokens by which the window moves on */
    bool strict_lambada;
} mega_tasks_options;

typedef struct mega_data_options {
    int64_t num_documents;     /* show: documents printed */
    int64_t num_samples;       /* show: samples printed as the model sees them */
    int64_t first;             /* show: first document or sample */
    const char *output_prefix; /* merge */
    mega_list input;           /* merge: prefixes, or one folder of pairs */
} mega_data_options;

typedef struct mega_plot_options {
    mega_list key;         /* keys of the metrics files, "lm_loss" when not given */
    const char *x;         /* "iteration" or "consumed_samples" */
    const char *run;       /* id, NULL: the last of each file */
    const char *svg;       /* file to write */
    double smooth;         /* factor of the running mean, 0 = none */
    int64_t width, height; /* characters, 0 = the terminal's */
    bool log_x, log_y;
} mega_plot_options;

typedef struct mega_project_options {
    const char *text; /* file to train on; NULL: none yet */
} mega_project_options;

typedef struct mega_config {
    /* network size */
    int64_t num_layers, hidden_size, ffn_hidden_size, num_attention_heads, kv_channels;
    int64_t max_position_embeddings, make_vocab_size_divisible_by;
    double layernorm_epsilon;
    const char *preset; /* "gpt2", …; NULL when none */

    /* regularization */
    double attention_dropout, hidden_dropout;
    double weight_decay, start_weight_decay,
        end_weight_decay; /* start and end equal weight_decay when style is constant */
    mega_weight_decay_style weight_decay_incr_style;
    double clip_grad; /* 0: no clipping */
    double adam_beta1, adam_beta2, adam_eps, sgd_momentum;
    mega_optimizer_kind optimizer;
    bool decoupled_weight_decay; /* Adam: AdamW; false: L2 in the gradient. SGD's is always in the gradient */

    /* training */
    int64_t micro_batch_size, global_batch_size;
    int64_t rampup_batch_size[3]; /* start, increment, samples; all 0 without a ramp */
    mega_recompute_granularity recompute_granularity;
    mega_recompute_method recompute_method;
    int64_t recompute_num_layers;
    int64_t train_iters;   /* under train_samples: 0 until the engine derives it */
    int64_t train_samples; /* 0 when train_iters is given */
    int64_t log_interval, exit_interval, exit_duration_in_mins;
    const char *tensorboard_dir;
    mega_dataloader_type dataloader_type;
    bool distribute_saved_activations;
    bool sequence_parallel;        /* false where tensor_model_parallel_size is 1 */
    bool calculate_per_token_loss; /* divide by the step's unmasked tokens instead of a mean per micro-batch */

    /* initialization */
    int64_t seed;
    double init_method_std;
    bool init_method_xavier_uniform;

    /* learning rate */
    double lr, min_lr, lr_warmup_init;
    mega_lr_style lr_decay_style;
    int64_t lr_decay_iters, lr_decay_samples; /* 0: the whole training */
    mega_lr_wsd_style lr_wsd_decay_style;
    int64_t lr_wsd_decay_iters, lr_wsd_decay_samples; /* the last part of the curve of WSD */
    double lr_warmup_fraction;                        /* NAN when not given */
    int64_t lr_warmup_iters, lr_warmup_samples;
    bool override_opt_param_scheduler, use_checkpoint_opt_param_scheduler;

    /* checkpointing */
    const char *save, *load;
    int64_t save_interval;
    bool save_takeover; /* the lock of a run that lives is taken from it */
    bool no_save_optim, no_save_rng, no_load_optim, no_load_rng, finetune;
    bool use_checkpoint_args, exit_on_missing_checkpoint;
    int64_t keep_checkpoints;   /* newest kept; 0: all */
    mega_save_dtype save_dtype; /* of the weights in the folder */
    bool load_previous;         /* go on from the last whole checkpoint when the newest is damaged */

    /* precision and machine */
    bool bf16, fp16, fp64;   /* none: fp32. fp16 is refused, not built yet; fp64 needs backend plain */
    mega_dtype params_dtype; /* derived: compute and activations */
    mega_backend_kind backend;
    int64_t num_threads;  /* filled in by the parser, at least 1 */
    int64_t memory_limit; /* bytes; 0: what the machine gives */
    bool no_pack_weights; /* weights are packed anew for each product of a step */

    /* validation */
    int64_t eval_iters, eval_interval;
    bool skip_train;

    /* data and tokenizer */
    mega_list data_path, train_data_path, valid_data_path, test_data_path; /* [weight] prefix … */
    const char *split, *data_cache_path;
    const char *vocab_file, *merge_file, *tokenizer_type, *tokenizer_model;
    int64_t vocab_size; /* NullTokenizer */
    int64_t seq_length;
    bool override_tokenizer; /* --load with another tokenizer than the checkpoint's */
    bool reset_position_ids, reset_attention_mask, eod_mask_loss;

    /* logging */
    bool log_params_norm, log_num_zeros_in_grad, log_throughput;
    int64_t tensorboard_log_interval;
    bool log_timers_to_tensorboard, log_batch_size_to_tensorboard, log_learning_rate_to_tensorboard;
    bool log_loss_scale_to_tensorboard, log_validation_ppl_to_tensorboard, log_memory_to_tensorboard;
    bool log_world_size_to_tensorboard;
    mega_log_level log_level;  /* lines less urgent than it are not shown */
    bool log_progress;         /* progress.txt in --save */
    const char *metrics_file;  /* one JSON object an iteration */
    bool profile;              /* sets the next two */
    const char *profile_trace; /* Chrome trace of the profiled steps */
    bool profile_table;
    int64_t profile_step_start, profile_step_end; /* iterations, from the first to before the second */
    bool dry_run, print_program, print_schedule;
    bool overwrite;                           /* outputs that other programs wrote */
    const char *schedule_svg;                 /* NULL: not drawn */
    int64_t planned_world_size, planned_rank; /* plan: of ranks that nobody started; 0: this one alone */

    /* commands */
    mega_preprocess_options preprocess;
    mega_train_tokenizer_options train_tokenizer;
    mega_tokenize_options tokenize;
    mega_generate_options generate;
    mega_tasks_options tasks;
    mega_data_options data;
    mega_plot_options plot;
    mega_project_options project;
    mega_list positional; /* arguments that are no option, for commands that take some */

    /* derived; Megatron's names */
    int64_t padded_vocab_size; /* engine, once the tokenizer is known */
    int64_t consumed_train_samples, consumed_valid_samples;
    int64_t iteration;
    int64_t gradient_accumulation_steps; /* 0: not given; global_batch_size follows from it */
    /* rank, world_size, local_world_size (ranks on this host) and local_rank (which of them) are set by the caller
     * between mega_config_init and mega_config_parse; one rank where they are not */
    int64_t rank, world_size, local_world_size, local_rank, data_parallel_size, tensor_model_parallel_size;
    int64_t pipeline_model_parallel_size;
    double distributed_timeout_minutes;
    mega_ddp_impl ddp_impl;
    bool use_distributed_optimizer, overlap_grad_reduce;
    int64_t ddp_bucket_size, stage3_prefetch_bucket_size, stage3_max_reuse_distance, stage3_max_live_parameters;
    int64_t stage3_param_persistence_threshold;
    int64_t zero_stage; /* derived from the one before where it is not given */
    int64_t decoder_first_pipeline_num_layers, decoder_last_pipeline_num_layers; /* 0: as many as other stages */
    int64_t num_layers_per_virtual_pipeline_stage;
    int64_t num_virtual_stages_per_pipeline_rank; /* derived from the one before; 0, 1: one program a stage */

    /* the parser's own */
    const char *command;             /* canonical name, "pretrain_gpt" */
    mega_arena arena;                /* owns every string and list above */
    struct mega_config_state *state; /* who set each option, and texts of options without a field */
} mega_config;

typedef enum mega_config_source {
    MEGA_SET_BY_DEFAULT = 0,
    MEGA_SET_BY_PRESET,
    MEGA_SET_BY_CHECKPOINT,
    MEGA_SET_BY_DERIVATION, /* follows from other options */
    MEGA_SET_BY_JSON,       /* of mega_setup.config or --deepspeed_config */
    MEGA_SET_BY_COMMAND_LINE
} mega_config_source;

/* ---- what options there are: given by those who compose them ---- */

/* A section of a room, in a composition of several. */
typedef struct mega_option_part {
    const mega_option_section *section;
    uint32_t commands; /* that take its rows, but for rows that name their own */
    size_t at;         /* of the room's struct, in the struct of values of the composition */
} mega_option_part;

typedef struct mega_command {
    const char *name;
    uint32_t bit;        /* in the sets of parts and rows; 0: it takes no options of the table */
    const char *aliases; /* "pretrain_gpt2|pretrain" */
    const char *summary;
    const char *positional; /* how arguments without dashes are written; NULL: none are taken */
    const char *scripts;    /* of other programs, that do the same: "run_clm|train"; NULL: none known */
} mega_command;

struct mega_config;
/* Everything that reading options knows of them. All of it is constant. */
typedef struct mega_composition {
    const mega_option_part *part; /* in the order of --help; parts of one title are listed together, at the first */
    size_t parts;
    size_t foreign; /* number of the first part whose rows are names of other programs: left out of --help, of the
                       dump of arguments and of searches by destination */
    const mega_command *command;
    size_t commands;
    const mega_option_row *key; /* keys of a DeepSpeed JSON that are no option here; only their JSON columns count */
    size_t keys;
    /* After all sources have been read: what a preset leaves to set, and notes on what was typed. */
    void (*complete)(struct mega_config *cfg, int argc, char **argv);
    void (*derive)(struct mega_config *cfg); /* what follows from other options */
    void (*check)(struct mega_config *cfg, bool shape);
    /* Whether the rules on the shape of a network can be checked with the other rules; if not, mega_config_check does,
     * once a checkpoint has told the shape. */
    bool (*knows_shape)(const struct mega_config *cfg);
    /* Of a name that no command has: where it belongs ("it is an option of …"), or NULL. */
    const char *(*elsewhere)(struct mega_config *cfg, const char *name, size_t length);
    /* The line i of what the dump of arguments shows beside options; false after the last. */
    bool (*derived_line)(const struct mega_config *cfg, size_t i, const char **out_name, char out_text[32]);
} mega_composition;

/* ---- */

/* Defaults of every option. Call mega_config_fini in any case. */
mega_status mega_config_init(mega_config *cfg);
/* The same over any composition; `values` is the struct that its parts lie in, all zero. */
mega_status mega_config_begin(mega_config *cfg, const mega_composition *of, void *values);
void mega_config_fini(mega_config *cfg); /* zero-initialised is valid */

/* Reads argv[1…argc-1] as options of `command` (canonical or any alias: "tools/preprocess_data.py"), fills in what
 * follows from them, and checks every rule of the command. All mistakes are in the one message, a line each. Notes
 * (repeated options, options without effect) are logged as warnings. A cfg is parsed once.
 * generate_samples_gpt and tasks take shape and tokenizer from the checkpoint: their rules about shape are run by
 * mega_config_check after the caller has set what it found there. */
mega_status mega_config_parse(mega_config *cfg, const char *command, int argc, char **argv);
/* The same for the engine of a C program, which reads some of the options of pretrain_gpt; the others are mistakes. No
 * rule asks for a shape, data or the length of the training. skip_train, set before the call: no rule asks for --lr.
 * json: a DeepSpeed JSON (a text that begins with '{', or the name of a file), or NULL; argv may name the file instead
 * (--deepspeed_config FILE). What argv says counts before what the JSON says, and a warning names both where they
 * differ. */
mega_status mega_config_parse_engine(mega_config *cfg, const char *json, int argc, char **argv);
/* Derives again and checks every rule of training (shape included) on the values as they stand. The message also holds
 * the mistakes that were found before. */
mega_status mega_config_check(mega_config *cfg);

/* mega_config_parse in two halves, for a command that finds more mistakes when it opens its files, and reports all of
 * them together. read: fails only without memory or for an unknown command; the mistakes stay in cfg. add_mistake: adds
 * this thread's error, unless st is MEGA_OK or the list already has that text. report: all mistakes as one error. */
mega_status mega_config_read(mega_config *cfg, const char *command, int argc, char **argv);
void mega_config_add_mistake(mega_config *cfg, mega_status st);
mega_status mega_config_report(mega_config *cfg);
/* Whether a mistake was found in one of these; what depends on it cannot be looked at any further. */
typedef enum mega_config_topic {
    MEGA_TOPIC_OPTIONS = 1 << 0,   /* how options are written, and rules between them */
    MEGA_TOPIC_DATA = 1 << 1,      /* --data-path and the like, --split */
    MEGA_TOPIC_TOKENIZER = 1 << 2, /* the files of the tokenizer */
    MEGA_TOPIC_READ = 1 << 3,      /* other files that are read */
    MEGA_TOPIC_WRITTEN = 1 << 4    /* files and folders that are written */
} mega_config_topic;
bool mega_config_is_faulty(const mega_config *cfg, mega_config_topic topic);

/* By destination name ("num_layers"). was_set: on the command line, by a preset or from a checkpoint. */
bool mega_config_was_set(const mega_config *cfg, const char *dest);
mega_config_source mega_config_set_by(const mega_config *cfg, const char *dest);
/* "--num-layers" as typed, for messages ("--num-layers 3 (argument 5)" when on the command line, and
 * "\"zero_optimization.stage\" 3 (ds.json, line 7)" when in a JSON). New text in the
 * arena. */
const char *mega_config_origin(mega_config *cfg, const char *dest);
/* How the user writes this option, for a message that asks for it: as typed where it is given; else "--lr", or
 * "\"optimizer.params.lr\"" where a JSON is read. New text in the arena. */
const char *mega_config_spelling(mega_config *cfg, const char *dest);
/* Sets an option that has a field from text, as if typed, remembering the source. */
mega_status mega_config_set(mega_config *cfg, const char *dest, const char *text, mega_config_source source);
mega_status mega_config_set_int(mega_config *cfg, const char *dest, int64_t value, mega_config_source source);

/* The argument dump of Megatron's start: sorted lines "  name .... value" between two rules. */
mega_status mega_config_dump_arguments(const mega_config *cfg, mega_buffer *out);
/* {"num_layers": 12, …}: every option of the command that has a field. Lossless: floats with all digits. */
mega_status mega_config_to_json(const mega_config *cfg, mega_buffer *out);
/* Sets the options named in the object, but for those given on the command line. Unknown names are ignored. */
mega_status mega_config_from_json(mega_config *cfg, const char *json, mega_config_source source);

/* What every rank of a training must be given alike: "--lr 0.001" for each option of `command` that works, but for
 * those that a host may set for itself (threads, memory, log level, folders of its own). Texts are in the arena. */
mega_status mega_config_alike(mega_config *cfg, const char *command, mega_list *out);

/* "--adam-beta2 was 0.999, is 0.95" for each option that changes what a resumed run computes; `stored` is what
 * mega_config_to_json wrote for the run before. Options that it does not hold are left out, and so are those that have
 * a message of their own: data, seed, shape, length of the training. Texts are in the arena. */
mega_status mega_config_changes(mega_config *cfg, const char *stored, mega_list *out);

/* --help of one command; docs/options.md; docs/deepspeed-json.md; the options without commands, by their titles. */
mega_status mega_config_help(const mega_composition *of, const char *command, mega_buffer *out);
mega_status mega_config_options_page(const mega_composition *of, mega_buffer *out);
mega_status mega_config_json_page(const mega_composition *of, mega_buffer *out);
mega_status mega_config_engine_help(const mega_composition *of, mega_buffer *out);
mega_status mega_environment_page(mega_buffer *out); /* docs/environment.md */

/* The options of all commands of the program. */
extern const mega_composition mega_program_composition;

/* The launcher of Python ("torchrun", "deepspeed") that started this process as one of several, which are no ranks
 * here: its mark in the environment, and how many processes. NULL when there is none, or when an MPI launcher has
 * started this process since. */
const char *mega_config_python_launcher(const char **out_mark, int64_t *out_processes);

/* The next variable of this program in the environment whose value it does not know, and what it expects there; false
 * after the last. *at begins at 0. Every command refuses them with its other mistakes. */
bool mega_environment_mistake(size_t *at, char *out, size_t size);

/* The command for what a user typed ("tools/preprocess_data.py" is preprocess_data), or NULL. */
const mega_command *mega_command_find(const mega_composition *of, const char *typed);
const char *mega_command_name(const mega_composition *of, const char *typed); /* its name, or NULL */
/* The command that does what a script of another program does ("run_clm.py": pretrain_gpt); NULL: none known. */
const char *mega_command_of_script(const mega_composition *of, const char *typed);

/* For a folder that is not there: " (did you mean good?)", " (ck holds iterations 10, 20)", or nothing. */
void mega_config_put_near(mega_buffer *out, const char *folder);

/* The nearest of n names, or NULL when none is near. Same rule as for unknown options. */
const char *mega_config_nearest(const char *typed, const char *const *names, size_t n);

#ifdef __cplusplus
}
#endif

#endif
