/* Reads options from a command line and from a DeepSpeed JSON into C structs, as described by tables that the caller
 * supplies (megalith/option.h). This module contains no option of its own. A composition's rows drive parsing, --help,
 * suggestions, the argument dump, JSON and the generated pages of docs/. */
#ifndef MEGALITH_CONFIG_H
#define MEGALITH_CONFIG_H

#include "megalith/memory.h"
#include "megalith/option.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of DeepSpeed whose defaults and keys a JSON has. */
#define MEGA_DEEPSPEED_VERSION "0.19.8"

typedef enum mega_option_source {
    MEGA_SET_BY_DEFAULT = 0,
    MEGA_SET_BY_PRESET,
    MEGA_SET_BY_CHECKPOINT,
    MEGA_SET_BY_DERIVATION, /* follows from other options */
    MEGA_SET_BY_DEEPSPEED,  /* a JSON is given that leaves it to DeepSpeed's default */
    MEGA_SET_BY_YAML,       /* from Accelerate's YAML, --config_file */
    MEGA_SET_BY_JSON,       /* from mega_setup.config or --deepspeed_config */
    MEGA_SET_BY_COMMAND_LINE
} mega_option_source;

/* ---- the options that exist: supplied by the program that composes them ---- */

/* A section of one module's options, as part of a composition of several. */
typedef struct mega_option_part {
    const mega_option_section *section;
    uint32_t commands; /* bit set of the commands that accept its rows, except rows that set their own */
    size_t at;         /* offset in bytes of the module's struct in the composition's struct of values */
} mega_option_part;

typedef struct mega_command {
    const char *name;
    uint32_t bit;        /* this command's bit in the sets of parts and rows; 0: it accepts no options from the table */
    const char *aliases; /* "pretrain_gpt2|pretrain" */
    const char *summary;
    const char *positional; /* how --help shows arguments without dashes; NULL: the command accepts none */
    const char *scripts;    /* scripts of other programs that do the same: "run_clm|train"; NULL: none known */
    const char *replaces;   /* Python scripts that it takes the place of, under its own name or an alias; NULL: none */
} mega_command;

/* The result of reading: the source of each option, and the mistakes. The values are in a struct of the caller. */
typedef struct mega_options mega_options;

/* A constant description of all options and commands that the parser can read. */
typedef struct mega_composition {
    /* in the order of --help; parts with the same title are listed together, at the first of them */
    const mega_option_part *part;
    size_t parts;
    /* section of the first part whose rows are names from other programs: these are omitted from --help, from the
     * argument dump and from searches by destination; NULL: there is none */
    const mega_option_section *foreign;
    const mega_command *command;
    size_t commands;
    uint32_t of_ranks; /* bit set of the commands that run on several ranks, which say when all of them are there */
    uint32_t trains;   /* bit set of the commands whose work is a training */
    uint32_t asks;     /* bit set of the commands that may read standard input on rank 0 */
    /* DeepSpeed JSON keys that are not options here; only their JSON columns are used. Of two rows with one path, that
     * of the earlier section counts; an option's own key counts before both */
    const mega_option_section *const *key;
    size_t keys;
    const char *reader; /* if there are no commands: what reads these options, for messages ("this program's engine") */
    const char *instead; /* if there are no commands: what the user can call to list the options */
    /* Accelerate's YAML: keys that are not options here (their YAML columns are used), and a function that is called
     * after the command line has been read, and returns the file as a JSON text with the same lines, and its name;
     * NULL: none; "": it cannot be read, which has been reported.
     * NULL: the composition reads no YAML. */
    const mega_option_section *yaml_key;
    const char *(*yaml)(mega_options *o, const char **out_name);
    /* Called next. Returns the JSON to read: a text that begins with '{', or a file
     * name; NULL: none. json_name is the name of such a text in messages. */
    const char *(*json)(mega_options *o);
    const char *json_name;
    /* Returns whether unknown keys at the top of a JSON are passed over with a warning, as DeepSpeed does silently.
     * NULL: they are mistakes. */
    bool (*passes_unknown)(const mega_options *o);
    const char *derived_by; /* for messages: what set the MEGA_SET_BY_DERIVATION values before reading */
    /* called next: applies a preset and comments on what the user typed; may be NULL */
    void (*complete)(mega_options *o, int argc, char **argv);
    void (*derive)(mega_options *o); /* sets values that follow from other options */
    /* Checks the rules. shape: also check the rules about the shape of the network. */
    void (*check)(mega_options *o, bool shape);
    /* Returns whether the network's shape is known. If not, mega_options_check runs the shape rules later, after a
     * checkpoint has supplied the shape. NULL: the composition has no such shape. */
    bool (*knows_shape)(mega_options *o);
    /* Given a name that no command accepts, returns where it belongs ("it is an option of …"), or NULL. May be NULL. */
    const char *(*elsewhere)(mega_options *o, const char *name, size_t length);
    /* Writes line i of the extra lines in the argument dump; returns false after the last. May be NULL. */
    bool (*derived_line)(const mega_options *o, size_t i, const char **out_name, char out_text[32]);
} mega_composition;

/* ---- */

/* Writes the default of every option to `values`, the struct that contains the parts. The caller zeroes it first and
 * must not move it. mega_options_destroy frees the strings and lists in it. */
mega_status mega_options_create(const mega_composition *composition, void *values, mega_options **out);
void mega_options_destroy(mega_options *o); /* NULL is valid */

/* Reads argv[1…argc-1] as options of `command` (its name or any alias: "tools/preprocess_data.py"; NULL where the
 * composition has no commands), then the YAML and the JSON, sets the values that follow from them, and checks every
 * rule. argv overrides the JSON, and both override the YAML; where two differ, a warning names both. Notes (repeated
 * options, options without effect) are logged as warnings. Call it once.
 * read fails only if memory runs out or the command is unknown; it keeps the mistakes, so that a command can add the
 * ones it finds when it opens its files. add_mistake adds this thread's error, unless st is MEGA_OK or the list
 * already has that text. report returns all mistakes as one error, one line each. parse calls read, then report. */
mega_status mega_options_read(mega_options *o, const char *command, int argc, char **argv);
void mega_options_add_mistake(mega_options *o, mega_status st);
mega_status mega_options_report(mega_options *o);
mega_status mega_options_parse(mega_options *o, const char *command, int argc, char **argv);
/* Derives values again and checks every rule, including those about the shape, on the current values. The error
 * message also contains the mistakes found earlier. */
mega_status mega_options_check(mega_options *o);

void *mega_options_values(const mega_options *o);                /* the struct passed to mega_options_create */
const char *mega_options_command(const mega_options *o);         /* canonical name, "pretrain_gpt"; "" before reading */
uint32_t mega_options_command_bit(const mega_options *o);        /* all bits set if there is no command */
const mega_list *mega_options_positional(const mega_options *o); /* arguments that are not options */

/* Returns whether a mistake was found in one of these topics (a bit set; the composition defines the bits). Checks
 * that depend on a faulty topic have to be skipped. */
#define MEGA_TOPIC_OPTIONS 1u /* the spelling of options, and the rules between them */
bool mega_options_is_faulty(const mega_options *o, unsigned topics);
void mega_options_set_faulty(mega_options *o, unsigned topics);

/* ---- for rules ---- */

/* Adds a problem: a mistake in the options or, with another status, what is not built or not there. */
#define mega_options_problem(o, status, ...) mega_options_problem_at((o), (status), __FILE__, __LINE__, __VA_ARGS__)
#define mega_options_mistake(o, ...)         mega_options_problem((o), MEGA_ERR_USAGE, __VA_ARGS__)
void mega_options_problem_at(mega_options *o, mega_status status, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
size_t mega_options_problems(const mega_options *o); /* the number of mistakes */
/* Logs a warning of a rule, once: rules are checked again after a checkpoint or the data have been read. */
void mega_options_warn(mega_options *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns a formatted string that is valid until the options are destroyed; "" if memory runs out, which
 * mega_options_report then reports. */
const char *mega_options_text(mega_options *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns whether the program may still derive this option's value; if so, marks it as derived. */
bool mega_options_derives(mega_options *o, const char *dest);
/* Returns whether a JSON was given but could not be read: rules then do not report an option as missing, because it
 * may be in that JSON. */
bool mega_options_may_be_in_json(const mega_options *o);
/* Returns whether the user gave the option, in argv, in a JSON or in a YAML. */
bool mega_options_is_given(const mega_options *o, const char *dest);
/* Whether a value that the user gave was refused, as of a kind or out of a range that it cannot have. */
bool mega_options_is_wrong(const mega_options *o, const char *dest);
/* Whether the JSON gives "auto" as its value, and no other source has set it. */
bool mega_options_is_auto(const mega_options *o, const char *dest);
/* Returns the text of the value that the JSON gives for a key ("optimizer.type"), without quotation marks; NULL:
 * none. */
const char *mega_options_json_value(const mega_options *o, const char *path);
/* Returns what the user gave of the options that ask for memory of the host beside that of a GPU (not_on_gpu), as it
 * was given, with commas between; NULL: none. */
const char *mega_options_not_on_gpu(const mega_options *o);
/* Whether a JSON was read. */
bool mega_options_has_json(const mega_options *o);
/* Sets an option that nobody has set to DeepSpeed's default, given as text. Returns false if somebody has. */
bool mega_options_set_deepspeed(mega_options *o, const char *dest, const char *text);
/* Returns a line that lists what mega_options_set_deepspeed has set; NULL: nothing. */
const char *mega_options_deepspeed_defaults(mega_options *o);
/* Returns the option as the user typed it (`name`: any name in the table); NULL: it is not in argv. */
const char *mega_options_typed(const mega_options *o, const char *name);
/* Sets the text ("--preset gpt2") that messages give as the source of MEGA_SET_BY_PRESET values. */
void mega_options_name_preset(mega_options *o, const char *text);
/* Rules for every composition: upper limits of derived values; values that must equal those of another option; options
 * that have no effect where the number of ranks is one; environment variables. */
void mega_options_rule_most(mega_options *o);
void mega_options_rule_equal(mega_options *o);
void mega_options_rule_alone(mega_options *o);
void mega_options_rule_environment(mega_options *o);
/* Writes the divisors of n near `around`, at most eight, in ascending order. */
void mega_options_divisors(int64_t n, int64_t around, char *out, size_t size);
/* Parse decimal numbers: 12, -3, .01, 5e8. Return false for any other text. */
bool mega_value_int(const char *text, int64_t *out);
bool mega_value_float(const char *text, double *out);

/* These take the destination name ("num_layers"). was_set: set on the command line, by a preset or
 * from a checkpoint. */
bool mega_options_was_set(const mega_options *o, const char *dest);
mega_option_source mega_options_set_by(const mega_options *o, const char *dest);
/* Returns whether `source` gives the value that the option has, also where a stronger source gives the same value; for
 * a JSON also whether it leaves the value to others ("auto"). What a file implies besides the value (the defaults of
 * DeepSpeed) depends on this and not on set_by: repeating a key of the file on the command line changes nothing. */
bool mega_options_says(const mega_options *o, const char *dest, mega_option_source source);
/* Returns the option as the user gave it, for messages: "--num-layers 3 (argument 5)" when on the command line,
 * "\"zero_optimization.stage\" 3 (ds.json, line 7)" when in a JSON or a YAML. */
const char *mega_options_origin(mega_options *o, const char *dest);
/* Returns how the user should write this option, for a message that asks for it: as typed if it was given; else
 * "--lr", or "\"optimizer.params.lr\"" where a JSON is read and there are no commands. */
const char *mega_options_spelling(mega_options *o, const char *dest);
/* Rewrites the message of this thread's error, whose status is st: an option named "--lr" there is spelled as the user
 * writes it. Returns st. Does nothing if o is NULL or st is MEGA_OK. */
mega_status mega_options_name_as_given(mega_options *o, mega_status st);
/* Sets what messages call an option that the user did not type: "--output_dir" for save. `name` is borrowed. */
void mega_options_call(mega_options *o, const char *dest, const char *name);
/* Sets an option that has a field from text, as if typed, and records the source. */
mega_status mega_options_set(mega_options *o, const char *dest, const char *text, mega_option_source source);
mega_status mega_options_set_int(mega_options *o, const char *dest, int64_t value, mega_option_source source);

/* Writes the argument dump that Megatron prints at startup: sorted lines "  name .... value" between two rules; then,
 * if a JSON was read, the options that it has set, with their keys and lines. */
mega_status mega_options_dump_arguments(const mega_options *o, mega_buffer *out);
/* Writes the options that differ from their defaults as they would be typed, several in a line, by what has set them;
 * those that follow from others are left out. At most 7 lines. */
mega_status mega_options_differences(const mega_options *o, mega_buffer *out);
/* Writes a JSON array with one object for each option of the command that works, in the order of --help:
 * {"option": "num_layers", "value": "12", "set_by": "command line", "origin": "--num-layers 12 (argument 3)"}. set_by
 * is "default", "preset", "checkpoint", "derived", "DeepSpeed's default", "YAML", "JSON" or "command line". */
mega_status mega_options_origins(mega_options *o, mega_buffer *out);
/* Writes {"num_layers": 12, …}: every option of the command that has a field. Lossless: floats have all digits. */
mega_status mega_options_to_json(const mega_options *o, mega_buffer *out);
/* Sets the options named in the JSON object, except those given on the command line. Ignores unknown names. */
mega_status mega_options_from_json(mega_options *o, const char *json, mega_option_source source);

/* Collects the options that must be equal on every rank: "--lr 0.001" for each implemented option of `command` (NULL:
 * of any command), except those that may differ between hosts (threads, memory, log level, folders). */
mega_status mega_options_alike(mega_options *o, const char *command, mega_list *out);

/* Lists "--adam-beta2 was 0.999, is 0.95" for each option that differs and changes what a resumed run computes.
 * `stored` is the text that mega_options_to_json wrote for the earlier run. Omits options that are not in it, and
 * options that have a message of their own: data, seed, shape, length of the training. is_schedule_kept: the run uses
 * the checkpoint's schedule, so that options of the schedule have no effect. */
mega_status mega_options_changes(mega_options *o, const char *stored, bool is_schedule_kept, mega_list *out);

/* Write --help of one command; docs/options.md (`works`: the options that work) or docs/options-of-other-systems.md
 * (all others); docs/deepspeed-json.md; a list of the implemented options by title. */
mega_status mega_options_help(const mega_composition *composition, const char *command, mega_buffer *out);
mega_status mega_options_options_page(const mega_composition *composition, bool works, mega_buffer *out);
/* `of` reads the JSON in a C program, `commands` in a command, where some keys have another answer. */
mega_status mega_options_json_page(const mega_composition *composition, const mega_composition *commands,
                                   mega_buffer *out);
mega_status mega_options_yaml_page(const mega_composition *composition, mega_buffer *out);
mega_status mega_options_list(const mega_composition *composition, mega_buffer *out);
mega_status mega_environment_page(mega_buffer *out); /* docs/environment.md */

/* Returns the name of the Python launcher ("torchrun", "deepspeed") that started this process as one of several. These
 * processes are not ranks of this program. *out_mark is the environment variable that identifies it, *out_processes
 * the number of processes. NULL if there is none, or if an MPI launcher started this process later. */
const char *mega_options_python_launcher(const char **out_mark, int64_t *out_processes);

/* Finds the program's next environment variable with an invalid value; `out` receives the value and what is expected.
 * Returns false after the last. Set *at to 0 before the first call. Every command reports these with its other
 * mistakes. */
bool mega_environment_mistake(size_t *at, char *out, size_t size);

/* Finds the command that a user typed ("tools/preprocess_data.py" is preprocess_data), or NULL. */
const mega_command *mega_command_find(const mega_composition *composition, const char *typed);
const char *mega_command_name(const mega_composition *composition, const char *typed); /* the command's name, or NULL */
/* Whether it is one of a bit set of commands. */
bool mega_command_is_in(const mega_composition *composition, const char *typed, uint32_t set);
/* Returns the option that a command has under a name of `length` bytes, also one of another program: "save" for
 * "output_dir". Of a name that sets several options it is the last; NULL: there is none, or no memory. */
const char *mega_command_option(const mega_composition *composition, const char *typed, const char *name,
                                size_t length);
/* Returns the command that does the same as a script of another program ("run_clm.py": pretrain_gpt); NULL: none
 * known. */
const char *mega_command_of_script(const mega_composition *composition, const char *typed);
/* Whether a command takes the place of this Python script of Megatron-LM or transformers
 * ("tools/preprocess_data.py"). */
bool mega_command_replaces(const mega_composition *composition, const char *typed);

/* Appends a hint for a folder that does not exist: " (did you mean good?)", " (ck holds iterations 10, 20)", or
 * nothing. */
void mega_options_put_near(mega_buffer *out, const char *folder);

/* Returns the one of n names that was probably meant, or NULL: one that few edits lead to (few for the length of what
 * was typed, and with the same number, where both have one), else the only one of mega_options_longer. */
const char *mega_options_nearest(const char *typed, const char *const *names, size_t n);
/* Finds the names that begin with what was typed, or, if none does, those that have it inside as a word or as words.
 * Writes up to `most` to `out` and returns how many there are; 0 for less than three letters. */
size_t mega_options_longer(const char *typed, const char *const *names, size_t n, const char **out, size_t most);
/* Appends "--a, --b or --c" of n names; of more than MEGA_OPTIONS_LISTED, the first ones and "or another of N". `names`
 * holds at least as many as are listed. */
enum { MEGA_OPTIONS_LISTED = 3 };
void mega_options_list_names(mega_buffer *out, const char *const *names, size_t n, const char *dashes);

#endif
