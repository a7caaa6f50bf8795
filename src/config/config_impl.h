/* What the files of config/ share: the row of the option table, the sections it is written in, and the parser's state.
 */
#ifndef MEGA_CONFIG_IMPL_H
#define MEGA_CONFIG_IMPL_H

#include "megalith/config.h"

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
    FOR_TRAINING = FOR_PRETRAIN | FOR_PLAN | FOR_GENERATE | FOR_TASKS,
    FOR_TEXT = FOR_TRAINING | FOR_PREPROCESS | FOR_TOKENIZE | FOR_DATA, /* commands with a tokenizer */
    FOR_ALL = (1 << 9) - 1,
    FOR_ENGINE = 1 << 9 /* of rules alone: mega_config_parse_engine */
};

/* How the value of an option is written and stored. The field's type is in parentheses. */
typedef enum option_kind {
    KIND_FLAG,   /* no value (bool, set to true) */
    KIND_OFF,    /* no value (bool, set to false) */
    KIND_BOOL,   /* true or false, which alone stands for true (no field) */
    KIND_INT,    /* (int64_t) */
    KIND_FLOAT,  /* (double) */
    KIND_BYTES,  /* 8G, 512M, 1e9 (int64_t) */
    KIND_STRING, /* (const char *), one of the choices where there are any */
    KIND_CHOICE, /* (an enum), the index in the choices */
    KIND_LIST,   /* one or more values (mega_list) */
    KIND_APPEND, /* one value, may be repeated (mega_list) */
    KIND_INT3,   /* three integers (int64_t[3]) */
    KIND_ANY     /* no value or several (no field) */
} option_kind;

/* The four answers that an option of Megatron can get here. */
typedef enum option_answer {
    ANSWER_WORKS,
    ANSWER_NO_EFFECT, /* accepted; remark says why nothing changes */
    ANSWER_NOT_BUILT, /* an error, unless the value is one of `neutral`; remark says what to do */
    ANSWER_RENAMED    /* successor takes its place */
} option_answer;

typedef enum option_range {
    RANGE_ANY,
    RANGE_POSITIVE,     /* > 0 */
    RANGE_NOT_NEGATIVE, /* >= 0 */
    RANGE_BELOW_ONE,    /* 0 <= x < 1 */
    RANGE_FRACTION,     /* 0 <= x <= 1 */
    RANGE_TOP_P,        /* 0 <= x <= 1, 0 is off */
    RANGE_SEED          /* 1 … 2^32-1 */
} option_range;

/* Whether the ranks of one training must have the same value. Every option of pretrain_gpt that works is compared
 * before the first step, so that a new row needs no thought; a row of which a host may have its own value says so. */
typedef enum option_alike { ALIKE_REQUIRED, ALIKE_NOT_NEEDED } option_alike;

/* Whether a resumed run reports that the option had another value in the run that wrote its checkpoint. */
typedef enum option_resume {
    RESUME_SILENT,   /* it changes no number, or has a message of its own */
    RESUME_REPORTED, /* it changes the numbers from here on */
    RESUME_SCHEDULE  /* the same, unless the run takes the schedule of the checkpoint */
} option_resume;

#define NO_FIELD SIZE_MAX

typedef struct option_row {
    const char *name;  /* as typed, without the two dashes; "rl-*" stands for all that begin so and have no row */
    const char *dest;  /* Megatron's destination; NULL: the name with underscores */
    size_t field;      /* offset in mega_config, or NO_FIELD */
    uint32_t commands; /* 0: the section's */
    option_kind kind;
    option_answer answer;
    option_range range;
    int64_t most; /* of a KIND_INT: the greatest value that later code can compute with; 0: any */
    option_alike alike;
    option_resume resume;
    bool takes_empty;     /* "" is a value; elsewhere it is what an unset variable of a script leaves */
    const char *fallback; /* default as typed; NULL: none */
    const char *choices;  /* "constant|linear|cosine" */
    const char *unbuilt;  /* choices that are understood but not built yet, same form */
    const char
        *neutral; /* not built: values that change nothing, same form; "=num-attention-heads": that option's value */
    const char *successor; /* renamed: "lr-warmup-fraction" takes the value; "a=1;b" sets a and hands the value to b */
    const char *cases;     /* renamed, by its value: "bf16:bf16|cosine:lr-decay-style=cosine|no:"; else not built */
    const char *alone;     /* no effect: the number of ranks, --…-parallel-size, that must be 1 for it to have none */
    const char *help;      /* meaning */
    const char
        *json; /* its path in a DeepSpeed JSON; of an array, "betas[0]"; several: "bf16.enabled|bfloat16.enabled" */
    const char *yaml;   /* its path in the YAML of Accelerate, in the same form. Nothing reads that file yet */
    const char *remark; /* why there is no effect; what to use instead of what is not built; what changed its name;
                           with `alone`, what to do where that is more than 1 */
} option_row;

/* Rows by group, in the order in which --help shows them. */
typedef struct option_section {
    const char *title;
    uint32_t commands; /* of rows that name none */
    const option_row *rows;
    size_t count;
} option_section;

#define OPTION(name_, field_, kind_) \
    .name = (name_), .dest = #field_, .field = offsetof(mega_config, field_), .kind = (kind_), .answer = ANSWER_WORKS
#define IDLE(name_, kind_, fallback_, remark_)                                                                \
    .name = (name_), .field = NO_FIELD, .kind = (kind_), .answer = ANSWER_NO_EFFECT, .fallback = (fallback_), \
    .remark = (remark_)
#define LATER(name_, kind_, neutral_, remark_)                                                              \
    .name = (name_), .field = NO_FIELD, .kind = (kind_), .answer = ANSWER_NOT_BUILT, .neutral = (neutral_), \
    .remark = (remark_)
#define RENAMED(name_, kind_, successor_, remark_)                                                            \
    .name = (name_), .field = NO_FIELD, .kind = (kind_), .answer = ANSWER_RENAMED, .successor = (successor_), \
    .remark = (remark_)
/* The same under another name. */
#define MEGA_ALIAS_REMARK               "it is --"
#define ALIAS(name_, kind_, successor_) RENAMED(name_, kind_, successor_, MEGA_ALIAS_REMARK successor_)
/* What the value asks for decides. */
#define BY_VALUE(name_, kind_, cases_, remark_)                                                       \
    .name = (name_), .field = NO_FIELD, .kind = (kind_), .answer = ANSWER_RENAMED, .cases = (cases_), \
    .remark = (remark_)
/* Changes nothing where the ranks of `size_` are one; refused where they are more (rules.c). */
#define ALONE(name_, kind_, size_, remark_)                                                            \
    .name = (name_), .field = NO_FIELD, .kind = (kind_), .answer = ANSWER_NO_EFFECT, .alone = (size_), \
    .remark = (remark_)
/* When ranks exchange is decided here. What they exchange stays the same, and so do results and memory. */
#define OWN_ORDER       "where an exchange begins and where it is waited for is the program's own choice"
#define ROW_COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

extern const option_section mega_option_model_section, mega_option_regularization_section, mega_option_training_section,
    mega_option_initialization_section, mega_option_learning_section, mega_option_checkpoint_section,
    mega_option_precision_section, mega_option_machine_section, mega_option_distributed_section,
    mega_option_validation_section, mega_option_data_section, mega_option_logging_section, mega_option_fp8_section,
    mega_option_moe_section, mega_option_inference_section, mega_option_zero_section, mega_option_other_models_section,
    mega_option_preprocess_section, mega_option_train_tokenizer_section, mega_option_tokenize_section,
    mega_option_megatron_section, mega_option_transformers_section, mega_option_nanogpt_section,
    mega_option_foreign_data_section, mega_option_foreign_generation_section, mega_option_generate_section,
    mega_option_tasks_section, mega_option_data_tool_section, mega_option_plot_section;

/* table.c: the whole table by index, and search. */
size_t mega_option_sections(void);
const option_section *mega_option_section(size_t i);
size_t mega_option_count(void);
const option_row *mega_option_row(size_t i);
const option_section *mega_option_row_section(size_t i);
/* A row of the last sections: names that other programs have, left out of --help and of the dump of arguments. */
bool mega_option_is_foreign(size_t i);
uint32_t mega_option_commands(size_t i);
/* Every row in turn: for (option_walk w = {0}; mega_option_next(&w);) */
typedef struct option_walk {
    size_t index;
    const option_row *row;
    uint32_t commands;
    bool is_foreign;
    size_t section, at; /* of the next row */
} option_walk;
bool mega_option_next(option_walk *w);
const char *mega_option_dest(const option_row *row, char out[80]);
/* Index of the row that `command` (one FOR_ bit, or FOR_ALL) knows under a name of `length` bytes, - and _ being equal;
 * SIZE_MAX when there is none. */
size_t mega_option_find(const char *name, size_t length, uint32_t command);
size_t mega_option_find_dest(const char *dest, uint32_t command);
bool mega_option_is_alike(size_t i); /* must all ranks of a training have the same value? */
/* Of a row with `alone`: how many ranks this run has of it; else 1. */
int64_t mega_option_ranks(const mega_config *cfg, const option_row *row);
bool mega_option_name_equal(const char *a, const char *b, size_t b_length);
/* Of "rl-*" and "rl-prompts-per-eval". */
bool mega_option_is_of_family(const char *family, const char *name, size_t length);
/* Is `text` one of the words of "a|b|c"? Its place through out_index when not NULL. */
bool mega_option_word_in(const char *words, const char *text, int *out_index);

/* command.c */
typedef struct command_row {
    const char *name;
    uint32_t bit;        /* 0: takes no options of the table */
    const char *aliases; /* "pretrain_gpt2|pretrain" */
    const char *summary;
    const char *positional; /* how arguments without dashes are written; NULL: none are taken */
} command_row;
const command_row *mega_command_find(const char *typed);
/* Names of the commands in a set, comma-separated. */
void mega_command_names(uint32_t set, char *out, size_t size);
/* Is it a name of an option of megalith launch, which belongs before the name of the command? */
bool mega_command_is_of_launch(const char *name, size_t length);

/* Who set an option, and its text as typed. */
typedef struct option_entry {
    mega_config_source source;
    int position;      /* where it stands: index in argv, or line of the JSON */
    const char *typed; /* its name as given there: "--checkpoint-activations"; of a JSON with its quotation marks */
    const char *text;  /* last value, values of a list joined by spaces; NULL for flags */
} option_entry;

/* Mistakes and notes collected over a whole command line. */
typedef struct mega_config_state {
    option_entry *entry; /* one for each row */
    const command_row *command;
    struct config_problem {
        const char *text, *where; /* "rules.c:36": the rule that found it */
    } * problem;
    size_t problems;
    int64_t problem_capacity;
    mega_status problem_status; /* usage, unless every problem is of another kind */
    unsigned faulty;            /* set of mega_config_topic */
    bool out_of_memory;
    bool is_engine;         /* of a C program: mega_config_parse_engine */
    const char *json;       /* its mega_setup.config: a text or the name of a file; NULL: none */
    const char *json_file;  /* of --deepspeed_config; NULL: not given */
    int json_file_position; /* its argument */
    const char *json_name;  /* once a JSON is read: how messages call it */
} mega_config_state;

/* problem.c: mistakes, and notes on what was given. */
#define mega_config_problem(cfg, status, ...) mega_config_problem_at((cfg), (status), __FILE__, __LINE__, __VA_ARGS__)
void mega_config_problem_at(mega_config *cfg, mega_status status, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* The same of this thread's error record, which keeps its own place. */
void mega_config_problem_from_error(mega_config *cfg);
/* Text in the arena; "" when memory is short, which the report then says. */
const char *mega_config_text(mega_config *cfg, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* One line for each reason why options given have no effect. */
void mega_config_note_without_effect(mega_config *cfg);

/* value.c: text to field and back. parse leaves the reason in a text of the arena, or NULL when all is well. */
const char *mega_value_check(mega_config *cfg, const option_row *row, const char *text);
mega_status mega_value_set(mega_config *cfg, const option_row *row, const char *text);
mega_status mega_value_set_list(mega_config *cfg, const option_row *row, const char *const *texts, size_t count);
bool mega_value_int(const char *text, int64_t *out);
/* Of what is not built: whether the value changes nothing. text NULL: a flag that is given. */
bool mega_value_is_neutral(const option_row *row, const char *text);
bool mega_value_float(const char *text, double *out);
/* As it would be typed; lists joined by spaces; "None" where nothing is set. */
bool mega_value_print(const mega_config *cfg, size_t index, mega_buffer *out);
/* The shortest decimal that reads back as the same double, as Python prints it. */
bool mega_value_print_double(double x, mega_buffer *out);

/* Rules: the status of nearly every mistake, and whether the user wrote an option, in argv or in a JSON. */
#define USAGE MEGA_ERR_USAGE
static inline bool is_given(const mega_config *cfg, const char *dest)
{
    const mega_config_source source = mega_config_set_by(cfg, dest);
    return source == MEGA_SET_BY_COMMAND_LINE || source == MEGA_SET_BY_JSON;
}

/* engine_options.c: rows that mega_config_parse_engine takes; the others are mistakes. */
bool mega_option_is_of_engine(const option_row *row);
/* Options that only the engine of a C program knows what to do with: --deepspeed_config names its JSON. */
bool mega_engine_takes(mega_config *cfg, const option_row *row, const char *text, int position);
/* json_read.c: sets options from the JSON that the engine was given, but for those that argv has set. */
void mega_config_read_json(mega_config *cfg);
/* json_keys.c: every key of a DeepSpeed JSON that is known, in turn: for (json_key_walk w = {0};
 * mega_json_key_next(&w);) Paths of options (column json), keys that are no option here, and "megalith.NAME" for each
 * option of an engine. */
typedef struct json_key_walk {
    const option_row *row;
    size_t index; /* of the row in the option table; SIZE_MAX: it is no option here */
    char path[96];
    option_walk options;
    int part;
    size_t at;
    const char *rest; /* further paths of the row */
} json_key_walk;
bool mega_json_key_next(json_key_walk *w);
bool mega_json_key_find(const char *path, json_key_walk *out);
bool mega_json_key_has_below(const char *path); /* keys like PATH.x or PATH[0] */
/* " (did you mean …?)" or "": the nearest key beside `path`, or the same one at another place. */
const char *mega_json_key_near(mega_config *cfg, const char *path);
#define JSON_OWN "megalith" /* the block of a JSON whose keys are the engine's own options */
void mega_rule_engine_reads(mega_config *cfg);
/* Whether the engine takes this option, which launchers give to the programs that they start; adds a mistake if its
 * text does not fit. */
bool mega_option_is_of_launcher(const option_row *row);
void mega_engine_take_of_launcher(mega_config *cfg, const option_row *row, const char *typed, const char *text);
/* preset.c, derive.c, rules.c */
void mega_config_apply_preset(mega_config *cfg);
void mega_config_derive(mega_config *cfg);
void mega_config_run_rules(mega_config *cfg, bool shape);
/* environment.c */
void mega_rule_environment(mega_config *cfg);
void mega_environment_note_typos(void);
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
