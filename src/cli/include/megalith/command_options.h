/* The options of the commands: those of a training, and those of one command each. Their rows are in cli/options.c. */
#ifndef MEGALITH_COMMAND_OPTIONS_H
#define MEGALITH_COMMAND_OPTIONS_H

#include "megalith/log.h"
#include "megalith/train_options.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    /* most prompt tokens of a batch that are read in one pass */
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

typedef struct mega_data_command_options {
    int64_t num_documents;     /* show: documents printed */
    int64_t num_samples;       /* show: samples printed as the model sees them */
    int64_t first;             /* show: first document or sample */
    const char *output_prefix; /* merge */
    mega_list input;           /* merge: prefixes, or one folder of pairs */
} mega_data_command_options;

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

typedef struct mega_command_options {
    mega_train_options train; /* train.engine.options records who set each value here, and the mistakes */
    mega_preprocess_options preprocess;
    mega_train_tokenizer_options train_tokenizer;
    mega_tokenize_options tokenize;
    mega_generate_options generate;
    mega_tasks_options tasks;
    mega_data_command_options data;
    mega_plot_options plot;
    mega_project_options project;
    mega_log_level log_level; /* lines less urgent than it are not shown */
} mega_command_options;

/* All commands, and the options of each. */
extern const mega_composition mega_commands;

/* Defaults of every option; one rank. Call mega_command_options_fini in any case; the struct stays where it is until
 * then. Read by mega_options_read(cfg->train.engine.options, …). */
mega_status mega_command_options_init(mega_command_options *cfg);
void mega_command_options_fini(mega_command_options *cfg); /* zero-initialised is valid */

#ifdef __cplusplus
}
#endif

#endif
