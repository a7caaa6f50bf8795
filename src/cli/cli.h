/* What the commands share: reading the options or leaving, and printing what went wrong. */
#ifndef MEGA_CLI_H
#define MEGA_CLI_H

#include "megalith/comm.h"
#include "megalith/command_options.h"
#include "megalith/status.h"
#include "megalith/threads.h"
#include <stdbool.h>
#include <stdio.h>

/* Initialises cfg, reads the options of `command`, and shows the number of threads where the command computes. False:
 * the mistakes have been printed and *exit_status is set; cfg has been released. True: the caller ends with
 * mega_command_options_fini. Usage:
 *     mega_command_options cfg;
 *     int exit_status;
 *     if (!mega_cli_parse(&cfg, "tokenize", argc, argv, &exit_status)) return exit_status;
 */
bool mega_cli_parse(mega_command_options *cfg, const char *command, int argc, char **argv, int *exit_status);
/* The same, with what the command can find in files before it does anything: `check` adds mistakes to cfg
 * (mega_options_add_mistake), which may hold some already, and all are reported together, to the run and to --dry-run.
 */
typedef void mega_cli_check(mega_command_options *cfg);
bool mega_cli_parse_checked(mega_command_options *cfg, const char *command, int argc, char **argv,
                            mega_cli_check *check, int *exit_status);
/* The same, but for mistakes in the options: they stay in cfg, for the command to report (mega_options_report) together
 * with those that it finds in files. False: nothing could be read. */
bool mega_cli_read_on(mega_world *world, mega_command_options *cfg, const char *command, int argc, char **argv,
                      int *exit_status);
/* What is wrong is printed by the first rank; releases cfg, and returns false. */
bool mega_cli_give_up(mega_command_options *cfg, const char *command, mega_status st, int *exit_status);
/* Threads as the options say, or one where the options are wrong. */
mega_status mega_cli_team(mega_team **out, const mega_command_options *cfg);

/* Prints this thread's error record as "megalith COMMAND: error: …" and returns the exit status for it: 2 for a mistake
 * in the command line, 128 + its number where a signal asked to stop, 1 otherwise. */
int mega_cli_fail(const char *command, mega_status st);
int mega_cli_exit_status(mega_status st); /* that status; 0 for MEGA_OK */
/* The same with another mark for megalith launch than MEGA_MARK_FAILED. */
int mega_cli_fail_marked(const char *command, mega_status st, int mark);

/* What all ranks know is told once, by the first; what one rank alone met is told by it, and ends the others. */
int mega_cli_fail_on(mega_world *world, const char *command, mega_status st);
/* How long ranks wait for each other, and where it is told that they do. */
void mega_cli_watch(mega_world *world, const mega_command_options *cfg);
/* mega_comm_agree over the world; NULL: one rank. */
mega_status mega_cli_agree(mega_world *world, mega_status st);

/* Runs a command of several ranks: makes the world, reads the options, runs, tells what went wrong. What ranks but the
 * first print goes nowhere. on_signal: what the answer to a signal promises (signals.h). */
typedef mega_status mega_cli_run(mega_world *world, mega_command_options *cfg);
int mega_cli_on_ranks(const char *command, const char *on_signal, int argc, char **argv, mega_cli_run *run);

/* For what needs no world: a launcher started this process, and another one as its first rank. */
bool mega_cli_is_other_rank(void);

/* For --dry-run: "dry run: the options are in order; " and what would be done. */
void mega_cli_dry_run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

bool mega_cli_is_terminal(FILE *stream);
/* The locale of the environment is a UTF-8 one. */
bool mega_cli_speaks_utf8(void);

/* Where mega_log goes: info to standard output or standard error, warnings and errors to standard error. */
void mega_cli_log_to(bool standard_output);

#endif
