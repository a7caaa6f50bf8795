/* The options of the commands: those of a training, and those of single commands. Their rows are in cli/options.c. */
#ifndef MEGALITH_COMMAND_OPTIONS_H
#define MEGALITH_COMMAND_OPTIONS_H

#include "megalith/log.h"
#include "megalith/train_options.h"

typedef enum mega_bad_line { MEGA_BAD_LINE_STOP, MEGA_BAD_LINE_SKIP } mega_bad_line;
typedef enum mega_input_format { MEGA_INPUT_AUTO, MEGA_INPUT_JSONL, MEGA_INPUT_TEXT } mega_input_format;

/* The structs below hold the options of one command each. */
typedef struct mega_preprocess_options {
    mega_list input;                /* files, globs, folders, "-" for standard input */
    mega_input_format input_format; /* AUTO: detected from the content */
    mega_list json_keys;            /* {"text"} if not given */
    bool append_eod;
    bool split_on_blank_lines; /* plain text: a blank line ends a document and belongs to it */
    bool split_sentences, keep_newlines;
    const char *lang, *sentence_parameters, *save_sentence_parameters, *abbreviations;
    const char *output_prefix;
    int64_t workers;      /* 0: all cores (the parser sets the number of threads) */
    int64_t log_interval; /* documents between progress lines if the output is not a terminal */
    mega_bad_line on_bad_line;
} mega_preprocess_options;

typedef struct mega_train_tokenizer_options {
    mega_list input;
    mega_input_format input_format;
    mega_list json_keys;
    bool split_on_blank_lines;
    int64_t vocab_size;
    int64_t min_frequency;
    double character_coverage;
    const char *output; /* folder in which the vocabulary and tokenizer.json are written */
    int64_t workers;    /* 0: all cores (the parser sets the number of threads) */
    mega_bad_line on_bad_line;
} mega_train_tokenizer_options;

typedef struct mega_tokenize_options {
    const char *text;  /* NULL: standard input */
    const char *input; /* file that contains the text */
    mega_list ids;     /* ids to convert to text, the opposite direction */
    bool ids_only;     /* print only the ids, on one line */
    bool count;        /* print only the counts */
    bool special;      /* text that spells a special token becomes that token */
    bool text_only;    /* print only the text */
} mega_tokenize_options;

typedef struct mega_generate_options {
    double temperature;
    bool greedy;
    double top_p;                   /* 0: off */
    int64_t top_k;                  /* 0: off */
    int64_t out_seq_length;         /* maximum number of new tokens */
    mega_list prompt;               /* --prompt, may be repeated */
    const char *sample_input_file;  /* one prompt per line */
    const char *sample_output_file; /* NULL: the input file's name + ".out" */
    int64_t num_samples;            /* > 0: number of unconditional samples */
    const char *genfile;            /* output file, JSON lines */
    bool recompute;                 /* do not use a key-value cache */
    int64_t batch;                  /* number of sequences decoded together */
    /* maximum number of prompt tokens of a batch that one pass reads */
    int64_t inference_batch_times_seqlen_threshold;
    int64_t inference_micro_batches; /* parts of a batch that pipeline stages work on at the same time */
    bool interactive;                /* read prompts from standard input even if it is not a terminal */
    double top_p_decay, top_p_bound, min_p, repetition_penalty;
    bool add_bos;
    mega_list stop;     /* texts that end a text */
    int64_t stop_token; /* -1: end of document */
    bool stop_on_eol, stop_on_double_eol, prevent_newline_after_colon;
    bool logprobs;             /* in genfile */
    const char *return_logits; /* .npy or .safetensors */
    int64_t num_beams;         /* 1: no beam search */
    double length_penalty;
    int beam_rules, early_stopping; /* as mega_beam_rules, mega_early_stopping (generator.h) */
} mega_generate_options;

typedef struct mega_server_options {
    const char *host;
    int64_t port; /* 0: any free one */
    int64_t max_request_bytes, max_request_seconds, max_waiting_requests, max_receive_seconds, min_receive_rate;
} mega_server_options;

typedef struct mega_tasks_options {
    mega_input_format input_format;
    const char *json_key;
    int64_t overlapping_eval; /* number of tokens by which the window advances */
    bool strict_lambada;
} mega_tasks_options;

typedef struct mega_merge_options {
    const char *model_type; /* "GPT", "BERT", … */
    int64_t target_pipeline_model_parallel_size;
} mega_merge_options;

typedef struct mega_embed_options {
    const char *input;  /* a text each line */
    const char *output; /* embed: .npy */
    mega_list text;     /* fill_mask: texts beside those of input */
    int64_t top_k;      /* fill_mask: tokens of each mask */
    mega_list targets;  /* fill_mask: the tokens that are considered; empty: all */
} mega_embed_options;

typedef struct mega_data_command_options {
    int64_t num_documents;     /* show: number of documents to print */
    int64_t num_samples;       /* show: number of samples to print, as the model sees them */
    int64_t first;             /* show: index of the first document or sample */
    const char *output_prefix; /* merge */
    mega_list input;           /* merge: input prefixes, or one folder of .bin/.idx pairs */
} mega_data_command_options;

typedef struct mega_plot_options {
    mega_list key;         /* keys in the metrics files; "lm_loss" if not given */
    const char *x;         /* "iteration" or "consumed_samples" */
    const char *run;       /* id of the run; NULL: the last run in each file */
    const char *svg;       /* file to write */
    double smooth;         /* factor of the running mean; 0: none */
    int64_t width, height; /* in characters; 0: the terminal's size */
    bool log_x, log_y;
} mega_plot_options;

typedef struct mega_report_options {
    const char *output; /* the file to write */
    const char *run;    /* id of the run; NULL: the last run in each file */
} mega_report_options;

typedef struct mega_config_options {
    const char *config_file; /* the file to write; NULL: Accelerate's default */
    bool full;               /* ask all questions of today's accelerate */
    bool is_default;         /* ask nothing: one process on this machine */
    const char *mixed_precision;
} mega_config_options;

typedef struct mega_project_options {
    const char *text; /* path of the text file to train on; NULL: none yet */
} mega_project_options;

typedef struct mega_command_options {
    mega_train_options train; /* train.engine.options records the source of each value here, and the mistakes */
    mega_preprocess_options preprocess;
    mega_train_tokenizer_options train_tokenizer;
    mega_tokenize_options tokenize;
    mega_generate_options generate;
    mega_server_options server;
    mega_tasks_options tasks;
    mega_merge_options merge;
    mega_embed_options embed;
    mega_data_command_options data;
    mega_plot_options plot;
    mega_report_options report;
    mega_project_options project;
    mega_config_options config;
    const char *config_file; /* Accelerate's YAML; NULL: none */
    int64_t yaml_ranks;      /* its num_processes; 0: not given */
    int64_t yaml_zero_stage; /* the stage that follows from its distributed_type; -1: none */
    /* --train-data names a text: the file, and the prefix of the data set made of it; NULL: it does not */
    struct {
        const char *file, *prefix;
    } train_text;
    mega_log_level log_level; /* less urgent lines are not shown */
} mega_command_options;

/* All commands, and the options of each. */
extern const mega_composition mega_commands;

/* Sets the default of every option, for one rank. Call mega_command_options_fini in any case; the struct must not move
 * until then. Then read options with mega_options_read(cfg->train.engine.options, …). */
mega_status mega_command_options_init(mega_command_options *cfg);
void mega_command_options_fini(mega_command_options *cfg); /* zero-initialised is valid */

#endif
