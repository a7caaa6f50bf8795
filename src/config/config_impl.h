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
    mega_option_source source;
    int position;      /* where it stands: index in argv, or line of the JSON */
    const char *typed; /* its name as given there: "--checkpoint-activations"; of a JSON with its quotation marks */
    const char *text;  /* last value, values of a list joined by spaces; NULL for flags */
} option_entry;

typedef struct option_problem {
    const char *text, *where; /* "rules.c:36": the rule that found it */
} option_problem;

struct mega_options {
    mega_arena arena; /* owns every text and list, of the values too */
    option_table table;
    option_entry *entry; /* one for each row */
    void *values;        /* the struct of the composition */
    const mega_command *command;
    mega_list positional;
    option_problem *problem;
    size_t problems;
    int64_t problem_capacity;
    mega_status problem_status; /* usage, unless every problem is of another kind */
    unsigned faulty;            /* set of topics */
    bool out_of_memory;
    const char *json_name; /* once a JSON is read: how messages call it */
    bool json_is_unread;   /* it cannot be read: what seems to be missing may be in it */
    const char *preset;    /* "--preset gpt2" */
};

/* problem.c: mistakes, and notes on what was given. */
/* This thread's error record, which keeps its own place, as a mistake. */
void options_problem_from_error(mega_options *o);
/* One line for each reason why options given have no effect. */
void options_note_without_effect(mega_options *o);

/* value.c: text to field and back. check leaves the reason in a text of the arena, or NULL when all is well. */
const char *mega_value_check(mega_options *o, const mega_option_row *row, const char *text);
mega_status mega_value_set(mega_options *o, size_t index, const char *text);
mega_status mega_value_set_list(mega_options *o, size_t index, const char *const *texts, size_t count);
void *mega_value_at(const mega_options *o, size_t index); /* the field; the row has one */
/* Of what is not built: whether the value changes nothing. text NULL: a flag that is given. */
bool mega_value_is_neutral(const mega_option_row *row, const char *text);
/* The row of an index. */
static inline const mega_option_row *row_at(const mega_options *o, size_t index)
{
    return o->table.line[index].row;
}
/* Of a row with `alone`: how many ranks this run has of it; else 1. */
int64_t mega_option_ranks(const mega_options *o, const mega_option_row *row);
/* As it would be typed; lists joined by spaces; "None" where nothing is set. */
bool mega_value_print(const mega_options *o, size_t index, mega_buffer *out);
/* The shortest decimal that reads back as the same double, as Python prints it. */
bool mega_value_print_double(double x, mega_buffer *out);

/* The status of nearly every mistake. */
#define USAGE MEGA_ERR_USAGE

/* json_read.c: sets options from a JSON (a text, or the name of a file), but for those that argv has set. */
void options_read_json(mega_options *o, const char *json);
/* json_keys.c: every key of a DeepSpeed JSON that is known, in turn: for (json_key_walk w =
 * {.options = {.of = table}}; mega_json_key_next(&w);) Paths of options (column json), keys that are no option here, and
 * "megalith.NAME" for each option. */
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
const char *mega_json_key_near(mega_options *o, const char *path);
#define JSON_OWN "megalith" /* the block of a JSON whose keys are the options under their own names */
/* environment.c */
void options_note_environment_typos(void);

#endif
