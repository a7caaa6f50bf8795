/* Reading options: words of a command line and a DeepSpeed JSON into structs of values, by tables that the caller
 * gives (megalith/option.h). Nothing here knows an option. Parsing, --help, suggestions, the argument dump, JSON and the
 * pages of docs/ come from the rows of a composition.
 */
#ifndef MEGALITH_CONFIG_H
#define MEGALITH_CONFIG_H

#include "megalith/memory.h"
#include "megalith/option.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mega_option_source {
    MEGA_SET_BY_DEFAULT = 0,
    MEGA_SET_BY_PRESET,
    MEGA_SET_BY_CHECKPOINT,
    MEGA_SET_BY_DERIVATION, /* follows from other options */
    MEGA_SET_BY_JSON,       /* of mega_setup.config or --deepspeed_config */
    MEGA_SET_BY_COMMAND_LINE
} mega_option_source;

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

/* What was read: who set each option, and mistakes. The values lie in a struct of the caller's. */
typedef struct mega_options mega_options;

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
    const char *reader;  /* who reads these options, for messages, if there are no commands: "an engine" */
    const char *instead; /* what lists them there */
    /* After the words: the JSON to read, a text that begins with '{' or the name of a file; NULL: none. json_name: how
     * messages call a text. */
    const char *(*json)(mega_options *o);
    const char *json_name;
    const char *derived_by; /* what has set values before the reading (MEGA_SET_BY_DERIVATION), for messages */
    void (*complete)(mega_options *o, int argc, char **argv); /* then: a preset, notes on what was typed; may be NULL */
    void (*derive)(mega_options *o);                          /* what follows from other options */
    /* The rules. shape: those on the shape of a network too. */
    void (*check)(mega_options *o, bool shape);
    /* Whether that shape is known; if not, mega_options_check runs its rules, once a checkpoint has told it. NULL: there
     * is none. */
    bool (*knows_shape)(mega_options *o);
    /* Of a name that no command has: where it belongs ("it is an option of …"), or NULL. May be NULL. */
    const char *(*elsewhere)(mega_options *o, const char *name, size_t length);
    /* Line i of what the dump of arguments shows beside options; false after the last. May be NULL. */
    bool (*derived_line)(const mega_options *o, size_t i, const char **out_name, char out_text[32]);
} mega_composition;

/* ---- */

/* Writes the defaults of every option to `values`, the struct that the parts lie in, which is all zero and stays where
 * it is. Texts and lists in it are released by mega_options_destroy. */
mega_status mega_options_create(mega_options **out, const mega_composition *of, void *values);
void mega_options_destroy(mega_options *o); /* NULL is valid */

/* Reads argv[1…argc-1] as options of `command` (canonical or any alias: "tools/preprocess_data.py"; NULL where the
 * composition has no commands), then the JSON, fills in what follows from them, and checks every rule. What argv says
 * counts before what the JSON says, and a warning names both where they differ. Notes (repeated options, options without
 * effect) are logged as warnings. Options are read once.
 * read fails only without memory or for an unknown command; mistakes stay, so that a command adds those that it finds
 * when it opens its files. add_mistake: adds this thread's error, unless st is MEGA_OK or the list already has that
 * text. report: all mistakes as one error, a line each. parse: read, then report. */
mega_status mega_options_read(mega_options *o, const char *command, int argc, char **argv);
void mega_options_add_mistake(mega_options *o, mega_status st);
mega_status mega_options_report(mega_options *o);
mega_status mega_options_parse(mega_options *o, const char *command, int argc, char **argv);
/* Derives again and checks every rule (shape included) on the values as they stand. The message also holds the mistakes
 * that were found before. */
mega_status mega_options_check(mega_options *o);

void *mega_options_values(const mega_options *o);                /* the struct of mega_options_create */
const char *mega_options_command(const mega_options *o);         /* canonical name, "pretrain_gpt"; "" before reading */
uint32_t mega_options_command_bit(const mega_options *o);        /* all bits where there is no command */
const mega_list *mega_options_positional(const mega_options *o); /* arguments that are no option */

/* Whether a mistake was found in one of these topics (a set of bits, which the composition names); what depends on it
 * cannot be looked at any further. */
#define MEGA_TOPIC_OPTIONS 1u /* how options are written, and rules between them */
bool mega_options_is_faulty(const mega_options *o, unsigned topics);
void mega_options_set_faulty(mega_options *o, unsigned topics);

/* ---- for rules ---- */

/* Adds a mistake. */
#define mega_options_problem(o, status, ...) mega_options_problem_at((o), (status), __FILE__, __LINE__, __VA_ARGS__)
void mega_options_problem_at(mega_options *o, mega_status status, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
size_t mega_options_problems(const mega_options *o); /* how many there are */
/* Text that lives as long as the options; "" when memory is short, which the report then says. */
const char *mega_options_text(mega_options *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* May this option still be derived? Marks it as derived if so. */
bool mega_options_derives(mega_options *o, const char *dest);
/* Whether a JSON was given that could not be read: rules then do not report as missing what may be in it. */
bool mega_options_may_be_in_json(const mega_options *o);
/* Whether the user wrote it, in argv or in a JSON. */
bool mega_options_is_given(const mega_options *o, const char *dest);
/* As it was typed, of any name in the table; NULL: argv has not given it. */
const char *mega_options_typed(const mega_options *o, const char *name);
/* "--preset gpt2": where the values come from that are set by MEGA_SET_BY_PRESET. */
void mega_options_name_preset(mega_options *o, const char *text);
/* Rules that hold for every composition: the greatest values that were derived; values that must be those of another
 * option; options that have no effect where ranks are one; variables of the environment. */
void mega_options_rule_most(mega_options *o);
void mega_options_rule_equal(mega_options *o);
void mega_options_rule_alone(mega_options *o);
void mega_options_rule_environment(mega_options *o);
/* The divisors of n from near `around`, at most eight, in rising order. */
void mega_options_divisors(int64_t n, int64_t around, char *out, size_t size);
/* Decimal numbers: 12, -3, .01, 5e8. False for any other text. */
bool mega_value_int(const char *text, int64_t *out);
bool mega_value_float(const char *text, double *out);

/* By destination name ("num_layers"). was_set: on the command line, by a preset or from a checkpoint. */
bool mega_options_was_set(const mega_options *o, const char *dest);
mega_option_source mega_options_set_by(const mega_options *o, const char *dest);
/* "--num-layers" as typed, for messages ("--num-layers 3 (argument 5)" when on the command line, and
 * "\"zero_optimization.stage\" 3 (ds.json, line 7)" when in a JSON). */
const char *mega_options_origin(mega_options *o, const char *dest);
/* How the user writes this option, for a message that asks for it: as typed where it is given; else "--lr", or
 * "\"optimizer.params.lr\"" where a JSON is read. */
const char *mega_options_spelling(mega_options *o, const char *dest);
/* Rewrites this thread's error, the failure st, so that each option in it that is named "--lr" is spelled as the user
 * writes it. Returns st. NULL or MEGA_OK: nothing is done. */
mega_status mega_options_respell(mega_options *o, mega_status st);
/* Sets an option that has a field from text, as if typed, remembering the source. */
mega_status mega_options_set(mega_options *o, const char *dest, const char *text, mega_option_source source);
mega_status mega_options_set_int(mega_options *o, const char *dest, int64_t value, mega_option_source source);

/* The argument dump of Megatron's start: sorted lines "  name .... value" between two rules. */
mega_status mega_options_dump_arguments(const mega_options *o, mega_buffer *out);
/* {"num_layers": 12, …}: every option of the command that has a field. Lossless: floats with all digits. */
mega_status mega_options_to_json(const mega_options *o, mega_buffer *out);
/* Sets the options named in the object, but for those given on the command line. Unknown names are ignored. */
mega_status mega_options_from_json(mega_options *o, const char *json, mega_option_source source);

/* What every rank of a training must be given alike: "--lr 0.001" for each option of `command` (NULL: of any) that works, but for
 * those that a host may set for itself (threads, memory, log level, folders of its own). */
mega_status mega_options_alike(mega_options *o, const char *command, mega_list *out);

/* "--adam-beta2 was 0.999, is 0.95" for each option that changes what a resumed run computes; `stored` is what
 * mega_options_to_json wrote for the run before. Options that it does not hold are left out, and so are those that have
 * a message of their own: data, seed, shape, length of the training. is_schedule_kept: the run takes the schedule of
 * the checkpoint, so that options of it change nothing. */
mega_status mega_options_changes(mega_options *o, const char *stored, bool is_schedule_kept, mega_list *out);

/* --help of one command; docs/options.md; docs/deepspeed-json.md; the options that work, by their titles. */
mega_status mega_options_help(const mega_composition *of, const char *command, mega_buffer *out);
mega_status mega_options_options_page(const mega_composition *of, mega_buffer *out);
mega_status mega_options_json_page(const mega_composition *of, mega_buffer *out);
mega_status mega_options_list(const mega_composition *of, mega_buffer *out);
mega_status mega_environment_page(mega_buffer *out); /* docs/environment.md */

/* The launcher of Python ("torchrun", "deepspeed") that started this process as one of several, which are no ranks
 * here: its mark in the environment, and how many processes. NULL when there is none, or when an MPI launcher has
 * started this process since. */
const char *mega_options_python_launcher(const char **out_mark, int64_t *out_processes);

/* The next variable of this program in the environment whose value it does not know, and what it expects there; false
 * after the last. *at begins at 0. Every command refuses them with its other mistakes. */
bool mega_environment_mistake(size_t *at, char *out, size_t size);

/* The command for what a user typed ("tools/preprocess_data.py" is preprocess_data), or NULL. */
const mega_command *mega_command_find(const mega_composition *of, const char *typed);
const char *mega_command_name(const mega_composition *of, const char *typed); /* its name, or NULL */
/* The command that does what a script of another program does ("run_clm.py": pretrain_gpt); NULL: none known. */
const char *mega_command_of_script(const mega_composition *of, const char *typed);

/* For a folder that is not there: " (did you mean good?)", " (ck holds iterations 10, 20)", or nothing. */
void mega_options_put_near(mega_buffer *out, const char *folder);

/* The nearest of n names, or NULL when none is near. Same rule as for unknown options. */
const char *mega_options_nearest(const char *typed, const char *const *names, size_t n);

#ifdef __cplusplus
}
#endif

#endif
