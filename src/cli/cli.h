/* Shared by the commands: reading the options (or exiting), and printing errors. */
#ifndef MEGA_CLI_H
#define MEGA_CLI_H

#include "megalith/comm.h"
#include "megalith/command_options.h"
#include "megalith/status.h"
#include "megalith/threads.h"
#include <stdbool.h>
#include <stdio.h>

/* Initialises cfg, reads the options of `command`, and, for a command that computes, prints the number of threads.
 * Returns false if there are mistakes: they have been printed, *exit_status is set and cfg is released. Returns true
 * otherwise; the caller then calls mega_command_options_fini at the end. Usage:
 *     mega_command_options cfg;
 *     int exit_status;
 *     if (!mega_cli_parse(&cfg, "tokenize", argc, argv, &exit_status)) return exit_status; */
bool mega_cli_parse(mega_command_options *cfg, const char *command, int argc, char **argv, int *exit_status);
/* Like mega_cli_parse, but also checks the files of the command before it does any work: `check` adds mistakes to cfg
 * (mega_options_add_mistake), which may already contain some. All mistakes are reported together, also with
 * --dry-run. */
typedef void mega_cli_check(mega_command_options *cfg);
bool mega_cli_parse_checked(mega_command_options *cfg, const char *command, int argc, char **argv,
                            mega_cli_check *check, int *exit_status);
/* Like mega_cli_parse, but mistakes in the options stay in cfg, so that the command reports them (mega_options_report)
 * together with those that it finds in files. Returns false if nothing could be read. */
bool mega_cli_read_on(mega_world *world, mega_command_options *cfg, const char *command, int argc, char **argv,
                      int *exit_status);
/* Checks the options for a run of this number of ranks, before any of them is started. Prints no warnings and no notes.
 * Returns false after printing the mistakes; *exit_status is then set. */
bool mega_cli_is_in_order(const char *command, int ranks, int argc, char **argv, int *exit_status);
/* The first rank prints the error; releases cfg and returns false. */
bool mega_cli_give_up(mega_command_options *cfg, const char *command, mega_status st, int *exit_status);
/* Creates the number of threads that the options give, or one thread if the options have mistakes. */
mega_status mega_cli_team(const mega_command_options *cfg, mega_team **out);

/* Prints this thread's error record as "megalith COMMAND: error: …" and returns the exit status for it: 2 for a
 * mistake in the command line, 128 + the signal's number if a signal stopped the command, 1 otherwise. */
int mega_cli_fail(const char *command, mega_status st);
int mega_cli_exit_status(mega_status st); /* the exit status for st, without printing; 0 for MEGA_OK */
/* Like mega_cli_fail, but reports `mark` to megalith launch instead of MEGA_MARK_FAILED. */
int mega_cli_fail_marked(const char *command, mega_status st, int mark);

/* Like mega_cli_fail, for several ranks: an error that all ranks know of is printed once, by the first rank; an error
 * of a single rank is printed by that rank, which then ends the others. */
int mega_cli_fail_on(mega_world *world, const char *command, mega_status st);
/* Sets how long ranks wait for each other, and where messages about waiting are printed. */
void mega_cli_watch(mega_world *world, const mega_command_options *cfg);
/* Calls mega_comm_agree over the world; NULL: one rank, returns st. */
mega_status mega_cli_agree(mega_world *world, mega_status st);

/* Runs a command on several ranks: creates the world, reads the options, calls `run`, and prints errors. Output of
 * ranks other than the first is discarded. on_signal: the text that is printed when a signal arrives, which says what
 * the command will do (signals.h). */
typedef mega_status mega_cli_run(mega_world *world, mega_command_options *cfg);
int mega_cli_on_ranks(const char *command, const char *on_signal, int argc, char **argv, mega_cli_run *run);

/* For commands that create no world: returns whether a launcher started this process as a rank other than the first. */
bool mega_cli_is_other_rank(void);

/* For --dry-run: prints "dry run: the options are in order; " and what the command would do. */
void mega_cli_dry_run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

bool mega_cli_is_terminal(FILE *stream);
/* Returns whether the environment's locale uses UTF-8. */
bool mega_cli_speaks_utf8(void);

/* Sets where mega_log prints: info to standard output or to standard error; warnings and errors always to standard
 * error. */
void mega_cli_log_to(bool standard_output);

#endif
