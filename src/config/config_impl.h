/* Shared by the files of config/: the table built from a composition, and the parser's state. */
#ifndef MEGA_CONFIG_IMPL_H
#define MEGA_CONFIG_IMPL_H

#include "megalith/config.h"

#define ROW_COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

/* table.c: all rows of a composition, and search by name. */
typedef struct option_line {
    const mega_option_row *row;
    const char *title;
    /* bit sets of commands: those that accept the row; those of the first part with its title */
    uint32_t commands, of_title;
    /* offset in bytes of its value in the composition's struct; MEGA_NO_FIELD: it has none */
    size_t at;
    bool is_foreign; /* a name from another program */
} option_line;
typedef struct option_table {
    const mega_composition *composition;
    option_line *line;
    size_t count;
} option_table;
mega_status mega_option_table_make(option_table *out, const mega_composition *composition, mega_arena *arena);
/* Iterates over every row: for (option_walk w = {.table = table}; mega_option_next(&w);) */
typedef struct option_walk {
    const option_table *table;
    size_t index;
    const mega_option_row *row;
    uint32_t commands;
    bool is_foreign;
} option_walk;
bool mega_option_next(option_walk *w);
const char *mega_option_dest(const mega_option_row *row, char out[80]);
/* Returns the index of the row that `command` (one bit, or ALL_COMMANDS) accepts under a name of `length` bytes,
 * treating - and _ as equal; SIZE_MAX if there is none. */
#define ALL_COMMANDS UINT32_MAX
size_t mega_option_find(const option_table *t, const char *name, size_t length, uint32_t command);
size_t mega_option_find_dest(const option_table *t, const char *dest, uint32_t command);
bool mega_option_name_equal(const char *a, const char *b, size_t b_length);
/* Returns whether a name such as "rl-prompts-per-eval" matches a family such as "rl-*". */
bool mega_option_is_of_family(const char *family, const char *name, size_t length);
/* Returns whether `text` is one of the words of "a|b|c". *out_index, if not NULL, receives the index of the word. */
bool mega_option_word_in(const char *words, const char *text, int *out_index);
/* folds: in upper or lower case. */
bool option_word_in_as(const char *words, const char *text, bool folds, int *out_index);

/* command.c */
/* Writes the names of the commands in a set, separated by commas. */
void mega_command_names(const mega_composition *composition, uint32_t set, char *out, size_t size);
uint32_t mega_commands_all(const mega_composition *composition); /* bit set of all commands that accept options */

/* The source of an option, and its text as typed. */
typedef struct option_entry {
    mega_option_source source;
    int position; /* index in argv, or line of the JSON */
    /* its name as given: "--checkpoint-activations"; a name from a JSON includes its quotation marks */
    const char *typed;
    const char *text;   /* the last value given; values of a list are joined by spaces; NULL for flags */
    bool is_auto;       /* the JSON says "auto": the option is not given, and follows from others */
    const char *called; /* what messages call it unless it was typed; NULL: --NAME */
    bool is_wrong;      /* a value was refused */
    unsigned agreeing;  /* bit 1 << source for each weaker source that gives the same value */
} option_entry;

typedef struct option_problem {
    const char *text, *where; /* where: "rules.c:36", the source location of the rule that found it */
} option_problem;

/* A key of the JSON and the text of its value. */
typedef struct json_given {
    const char *path, *text;
} json_given;

struct mega_options {
    mega_arena arena; /* owns all strings and lists, including those in the values */
    option_table table;
    option_entry *entry; /* one per row */
    void *values;        /* the composition's struct of values */
    const mega_command *command;
    mega_list positional;
    option_problem *problem;
    size_t problems;
    int64_t problem_capacity;
    const char **warned; /* warnings of rules, each of which is given once */
    size_t warnings;
    int64_t warned_capacity;
    mega_status problem_status; /* MEGA_ERR_USAGE, unless every problem has another status */
    unsigned faulty;            /* bit set of topics */
    bool out_of_memory;
    const char *yaml_name; /* set when a YAML is read */
    const char *json_name; /* set when a JSON is read: its name in messages */
    json_given *given;     /* the keys of the JSON that are not blocks */
    size_t num_given;
    int64_t given_capacity;
    bool json_is_unread;    /* the JSON could not be read: options that seem missing may be in it */
    const char *preset;     /* "--preset gpt2" */
    const char *not_on_gpu; /* what was given of rows with not_on_gpu; NULL: nothing */
};

/* problem.c: mistakes, and notes on options given. */
/* Adds this thread's error record as a mistake; the record keeps its own source location. */
void options_problem_from_error(mega_options *o);
/* Logs one line for each reason why given options have no effect. */
void options_note_without_effect(mega_options *o);
/* Keeps what was given of a row with not_on_gpu, for rules; `text` NULL: a switch. */
void options_note_not_on_gpu(mega_options *o, const mega_option_row *row, const char *given, const char *text);

/* value.c: converts text to a field's value and back. mega_value_check returns the reason why a text is invalid,
 * allocated in the arena, or NULL if it is valid. */
const char *mega_value_check(mega_options *o, const mega_option_row *row, const char *text);
mega_status mega_value_set(mega_options *o, size_t index, const char *text);
mega_status mega_value_set_list(mega_options *o, size_t index, const char *const *texts, size_t count);
void *mega_value_at(const mega_options *o, size_t index); /* the address of the field; the row must have one */
/* For an option that is not implemented: returns whether the value changes nothing. text NULL: a flag was given. */
bool mega_value_is_neutral(const mega_option_row *row, const char *text);
/* Returns the row at an index. */
static inline const mega_option_row *row_at(const mega_options *o, size_t index)
{
    return o->table.line[index].row;
}
/* Returns how many ranks the run has along the axis named by the row's `alone`; 1 if the row has none. */
int64_t mega_option_ranks(const mega_options *o, const mega_option_row *row);
/* Prints a value as it would be typed: lists are joined by spaces, unset values are "None". Returns false if memory
 * runs out. */
bool mega_value_print(const mega_options *o, size_t index, mega_buffer *out);
/* Prints the shortest decimal that reads back as the same double, as Python does. */
bool mega_value_print_double(double x, mega_buffer *out);

/* The status of almost every mistake. */
#define USAGE MEGA_ERR_USAGE

/* json_read.c: sets options from the text of a JSON, or of a YAML that has been converted; `name`: of its file. */
void options_read_text(mega_options *o, const char *name, bool is_yaml, const char *text, size_t size);
/* json_tree.c: returns the tree, whose members are in the order of *text; NULL with an error. A member that is there
 * twice is a mistake; *text then becomes *out_copy, in which each member is there once. */
struct json_t;
struct json_error_t;
struct json_t *options_load_tree(mega_options *o, const char *name, const char **text, size_t *size, char **out_copy,
                                 struct json_error_t *error);
/* json_text.c: sets options from a JSON (a text, or a file name), except those that argv has set. */
void options_read_json(mega_options *o, const char *json);
/* The same for a YAML that has been converted to JSON. */
void options_read_yaml(mega_options *o, const char *name, const char *json);
/* json_keys.c: iterates over every known key of a DeepSpeed JSON: for (json_key_walk w = {.options = {.table = table}};
 * mega_json_key_next(&w);) Visits the paths of options (column json), keys that are not options here, and
 * "megalith.NAME" for each option. With is_yaml, those of Accelerate's YAML: the columns yaml, and each option as
 * Megatron's. */
typedef struct json_key_walk {
    bool is_yaml, is_named; /* is_named: the path is an option under its own name */
    bool is_setting;        /* the path is what a switch --disable-x turns off */
    const mega_option_row *row;
    size_t index; /* index of the row in the option table; SIZE_MAX: it is not an option here */
    char path[96];
    option_walk options;
    uint32_t command; /* bit set: visits the options of these commands alone; 0: all options */
    int part;
    size_t section, at;
    const char *rest; /* remaining paths of the row */
} json_key_walk;
bool mega_json_key_next(json_key_walk *w);
/* `of`: a walk before the first key, which says which file and which command. */
bool mega_key_find(const json_key_walk *of, const char *path, json_key_walk *out);
/* Whether there are keys such as PATH.x or PATH[0] */
bool mega_key_has_below(const json_key_walk *of, const char *path);
/* The same for a JSON. */
bool mega_json_key_find(const option_table *t, uint32_t command, const char *path, json_key_walk *out);
bool mega_json_key_has_below(const option_table *t, uint32_t command, const char *path);
/* Returns a text like '; did you mean "a.b"?', or "": it names the nearest key in the same object as `path`, or the
 * same key at another level. */
const char *mega_key_near(mega_options *o, const json_key_walk *of, const char *path);
/* json_group.c: the text of an option for a group of parameters that is given as an object; NULL: it has no
 * "params". */
struct json_t;
const char *json_group_text(mega_options *o, const struct json_t *group);
#define JSON_OWN "megalith" /* the JSON object whose keys are the options under their own names */
/* environment.c */
void options_note_environment_typos(void);

#endif
