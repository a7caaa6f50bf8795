/* megalith launch, which starts the ranks of a command, and the marks by which a rank reports to it. */
#ifndef MEGALITH_LAUNCH_H
#define MEGALITH_LAUNCH_H

#include "megalith/comm.h"
#include "megalith/config.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Reads the options before the name of a command of `program` (argv[0] is launch itself), starts its ranks and stays
 * beside them, or becomes the single rank. Prints all messages except the error that it returns. */
mega_status mega_launch(const mega_composition *program, int argc, char **argv, int *exit_status);
bool mega_launch_knows(const char *name,
                       size_t length); /* whether launch has this option: the full name, - equal to _ */
void mega_launch_help(FILE *stream);
#define MEGA_LAUNCH_EXAMPLE "megalith launch --nproc_per_node 2 pretrain_gpt --preset tiny …"
/* Returns the number of words that a Python script has before the command's name: python3 -u -m, megalith. */
int mega_launch_python_words(int argc, char **argv);

/* Returns the value of the last --config_file in a command's arguments, borrowed; NULL: it is not given. */
const char *mega_launch_config_of(int argc, char **argv);
enum { MEGA_LAUNCH_MOST_RANKS = 1 << 20 };
/* Returns the num_processes of a configuration of Accelerate; 0: it is not given, cannot be read, or is no number of
 * ranks. */
int64_t mega_launch_config_ranks(const char *path);
/* Whether a launcher started this process, or megalith launch became it. */
bool mega_launch_was_used(void);

/* Returns the number of ranks that a launcher started, from its environment, and the number of this rank. */
int mega_launched_ranks(int *rank);

/* ---- called by the ranks ---- */
int mega_launch_rank_number(void); /* from the environment; -1: no launcher */
/* Marks report events in a rank to megalith launch, which therefore never parses messages. A rank prints them only if
 * launch started it; launch does not show them. */
enum {
    MEGA_MARK_READY = 'R',    /* a line of rank 0: all ranks have joined */
    MEGA_MARK_TRAINING = 'T', /* a line of rank 0: training begins; everything has been read and allocated */
    MEGA_MARK_FAILED = 'F',   /* within a line on standard error: the rest of the line is what ended this rank */
    MEGA_MARK_LOST = 'L',     /* the same, and a host is lost */
    MEGA_MARK_STOPPED = 'S',  /* the same, because of a signal: not a failure, no restart */
    MEGA_MARK_STATUS = 'P', /* at the beginning of a line of rank 0: the rest is drawn over the status line before it */
    MEGA_MARK_ABORTS = 'A', /* a line on standard error: whatever the MPI library prints after it is not shown */
    MEGA_MARK_SIGNAL = 'a', /* + the signal's number, within a line on standard error: a rank received this signal */
    /* + the signal's number, at the beginning of a line that names it: an MPI launcher passed it on, and launch names
     * what the user sent */
    MEGA_MARK_PASSED = '0'
};
/* Returns the columns of the terminal on which launch draws status lines; 0: there is none. */
int mega_launch_columns(void);
void mega_launch_rank_say(int mark);               /* prints the mark as a line of its own */
void mega_launch_rank_mark(char out[3], int mark); /* the mark as text for a line; "" unless launch started this rank */
/* Binds a rank to its share of the host's cores. */
void mega_launch_rank_begin(mega_world *world, int64_t num_threads);

#endif
