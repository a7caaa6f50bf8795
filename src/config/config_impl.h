/* What the files of config/ share: the table that a composition makes, and the parser's state. */
#ifndef MEGA_CONFIG_IMPL_H
#define MEGA_CONFIG_IMPL_H

#include "megalith/config.h"

#define ROW_COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

/* table.c: all rows of a composition, and search by name. */
typedef struct option_line {
    const mega_option_row *row;
    const char *title;
    uint32_t commands, of_title; /* that take it; those of the first part of its title */
    size_t at;                   /* of its value, in the struct of the composition; MEGA_NO_FIELD: it has none */
    bool is_foreign;             /* a name of another program */
} option_line;
typedef struct option_table {
    const mega_composition *of;
    option_line *line;
    size_t count;
} option_table;
mega_status mega_option_table_make(option_table *out, const mega_composition *of, mega_arena *arena);
/* Every row in turn: for (option_walk w = {.of = table}; mega_option_next(&w);) */
typedef struct option_walk {
    const option_table *of;
    size_t index;
    const mega_option_row *row;
    uint32_t commands;
    bool is_foreign;
} option_walk;
bool mega_option_next(option_walk *w);
const char *mega_option_dest(const mega_option_row *row, char out[80]);
/* Index of the row that `command` (one bit, or ALL_COMMANDS) knows under a name of `length` bytes, - and _ being equal;
 * SIZE_MAX when there is none. */
#define ALL_COMMANDS UINT32_MAX
size_t mega_option_find(const option_table *t, const char *name, size_t length, uint32_t command);
size_t mega_option_find_dest(const option_table *t, const char *dest, uint32_t command);
bool mega_option_name_equal(const char *a, const char *b, size_t b_length);
/* Of "rl-*" and "rl-prompts-per-eval". */
bool mega_option_is_of_family(const char *family, const char *name, size_t length);
/* Is `text` one of the words of "a|b|c"? Its place through out_index when not NULL. */
bool mega_option_word_in(const char *words, const char *text, int *out_index);

/* command.c */
/* Names of the commands in a set, comma-separated. */
void mega_command_names(const mega_composition *of, uint32_t set, char *out, size_t size);
uint32_t mega_commands_all(const mega_composition *of); /* the set of all that take options */

/* Who set an option, and its text as typed. */
typedef struct option_entry {
    mega_config_source source;
    int position;      /* where it stands: index in argv, or line of the JSON */
    const char *typed; /* its name as given there: "--checkpoint-activations"; of a JSON with its quotation marks */
    const char *text;  /* last value, values of a list joined by spaces; NULL for flags */
} option_entry;

/* Mistakes and notes collected over a whole command line. */
typedef struct mega_config_state {
    option_table table;
    option_entry *entry; /* one for each row */
    void *values;        /* the struct of the composition */
    const mega_command *command;
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
const char *mega_value_check(mega_config *cfg, const mega_option_row *row, const char *text);
mega_status mega_value_set(mega_config *cfg, size_t index, const char *text);
mega_status mega_value_set_list(mega_config *cfg, size_t index, const char *const *texts, size_t count);
void *mega_value_at(const mega_config *cfg, size_t index); /* the field; the row has one */
bool mega_value_int(const char *text, int64_t *out);
/* Of what is not built: whether the value changes nothing. text NULL: a flag that is given. */
bool mega_value_is_neutral(const mega_option_row *row, const char *text);
bool mega_value_float(const char *text, double *out);
/* The row, and the set of the command whose options are read. */
static inline const mega_option_row *row_at(const mega_config *cfg, size_t index)
{
    return cfg->state->table.line[index].row;
}
static inline uint32_t command_bit(const mega_config *cfg)
{
    return cfg->state->command != NULL ? cfg->state->command->bit : ALL_COMMANDS;
}
/* Of a row with `alone`: how many ranks this run has of it; else 1. */
int64_t mega_option_ranks(const mega_config *cfg, const mega_option_row *row);
/* rules.c: what holds for every composition: the greatest values, values that must equal those of another option, and
 * options that have an effect for several ranks alone. */
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
bool mega_option_is_of_engine(const mega_option_row *row);
/* Options that only the engine of a C program knows what to do with: --deepspeed_config names its JSON. */
bool mega_engine_takes(mega_config *cfg, const mega_option_row *row, const char *text, int position);
/* json_read.c: sets options from the JSON that the engine was given, but for those that argv has set. */
void mega_config_read_json(mega_config *cfg);
/* json_keys.c: every key of a DeepSpeed JSON that is known, in turn: for (json_key_walk w =
 * {.options = {.of = table}}; mega_json_key_next(&w);) Paths of options (column json), keys that are no option here,
 * and "megalith.NAME" for each option of an engine. */
typedef struct json_key_walk {
    const mega_option_row *row;
    size_t index; /* of the row in the option table; SIZE_MAX: it is no option here */
    char path[96];
    option_walk options;
    int part;
    size_t at;
    const char *rest; /* further paths of the row */
} json_key_walk;
bool mega_json_key_next(json_key_walk *w);
bool mega_json_key_find(const option_table *t, const char *path, json_key_walk *out);
bool mega_json_key_has_below(const option_table *t, const char *path); /* keys like PATH.x or PATH[0] */
/* " (did you mean …?)" or "": the nearest key beside `path`, or the same one at another place. */
const char *mega_json_key_near(mega_config *cfg, const char *path);
#define JSON_OWN "megalith" /* the block of a JSON whose keys are the engine's own options */
void mega_rule_engine_reads(mega_config *cfg);
/* Whether the engine takes this option, which launchers give to the programs that they start; adds a mistake if its
 * text does not fit. */
bool mega_option_is_of_launcher(const mega_option_row *row);
void mega_engine_take_of_launcher(mega_config *cfg, const mega_option_row *row, const char *typed, const char *text);
/* environment.c */
void mega_rule_environment(mega_config *cfg);
void mega_environment_note_typos(void);

#endif
