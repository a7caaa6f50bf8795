/* megalith launch starts the ranks of a command, and what a rank tells it. */
#ifndef MEGALITH_LAUNCH_H
#define MEGALITH_LAUNCH_H

#include "megalith/comm.h"
#include "megalith/config.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads options that stand in front of a command of `program` (argv[0] is launch itself), starts its ranks and stays beside them, or
 * becomes the one rank. Prints what is to be told, but not the error that it returns. */
mega_status mega_launch(const mega_composition *program, int argc, char **argv, int *exit_status);
bool mega_launch_knows(const char *name, size_t length); /* an option by its full name, - and _ being equal */
void mega_launch_help(FILE *stream);
#define MEGA_LAUNCH_EXAMPLE "megalith launch --nproc_per_node 2 pretrain_gpt --preset tiny …"
/* How many of the words are what a script of Python has in front of the command's name: python3 -u -m, megalith. */
int mega_launch_python_words(int argc, char **argv);

/* How many ranks a launcher started, and which of them this is, as its environment tells. */
int mega_launched_ranks(int *rank);

/* On the side of the ranks. */
int mega_launch_rank_number(void); /* as its environment says; -1: no launcher */
/* Marks tell megalith launch what happens in a rank, so that it never has to understand a message. A rank prints them
 * only where launch started it; they are not shown. */
enum {
    MEGA_MARK_READY = 'R',    /* a line of rank 0: all ranks are there */
    MEGA_MARK_TRAINING = 'T', /* a line of rank 0: training begins, all was read and allocated */
    MEGA_MARK_FAILED = 'F',   /* inside a line on standard error: after it stands what ended this rank */
    MEGA_MARK_LOST = 'L',     /* the same, and a host is lost */
    MEGA_MARK_STOPPED = 'S',  /* the same, and a signal asked it to: not a failure, and nothing to try again */
    MEGA_MARK_ABORTS = 'A',   /* a line on standard error: what the MPI library prints after it says nothing new */
    MEGA_MARK_SIGNAL = 'a'    /* + its number: inside a line on standard error: a rank received this signal */
};
void mega_launch_rank_say(int mark);               /* a line of its own */
void mega_launch_rank_mark(char out[3], int mark); /* to be put into a line; "" where launch did not start it */
/* A rank takes its share of the host's cores for itself. */
void mega_launch_rank_begin(mega_world *world, int64_t num_threads);

#ifdef __cplusplus
}
#endif

#endif
