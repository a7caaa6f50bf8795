/* A whole training run from one configuration: data, engine, checkpoints, evaluation, and Megatron's lines. */
#ifndef MEGALITH_TRAIN_H
#define MEGALITH_TRAIN_H

#include "megalith/comm.h"
#include "megalith/memory.h"
#include "megalith/status.h"
#include "megalith/threads.h"
#include "megalith/train_options.h"
#include <signal.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where a run's lines go, and what may stop it. The library itself writes to no stream. */
typedef struct mega_train_io {
    void (*line)(void *user, const char *line); /* without its newline */
    /* On a terminal: a line that is drawn over the one before it and goes when a real line comes; "" clears it. NULL
     * where there is no terminal. */
    void (*status)(void *user, const char *line);
    void (*began)(void *user); /* on every rank: all is read and allocated, and training begins; may be NULL */
    void *user;
    int columns;                       /* width of the terminal; 0: unknown */
    bool utf8;                         /* it shows more than ASCII */
    const volatile sig_atomic_t *stop; /* the signal that asked to save and leave; 0: none. May be NULL */
    mega_world *world;                 /* NULL: one rank. Lines come from rank 0 alone */
} mega_train_io;

/* Collective: ranks. Returns MEGA_ERR_COMM on every rank, with what differs and the values by rank, where ranks run
 * different builds or were given different options that enter the training. mega_train calls it first. */
mega_status mega_train_compare_ranks(mega_train_options *cfg, mega_comm *ranks);

/* Collective: the world. After a failure mega_world_failed tells whether every rank knows of it.
 * cfg as mega_options_read (or mega_options_parse) left it: its mistakes are reported here, together with those of the
 * files that it names. What is taken from a checkpoint is set in it. */
mega_status mega_train(mega_train_options *cfg, mega_team *team, const mega_train_io *io);

/* What mega_train would do, without doing it: parameters, memory by class, FLOPs, and with cfg->print_program the
 * programs. Allocates little, writes nothing. With cfg->dry_run it fails where mega_train would fail before its first
 * step, with the same message; without, what is not given is not missing, and a run that does not fit is shown.
 * Collective: the world, of which rank 0 gets the text; NULL: one rank. */
mega_status mega_train_plan(mega_train_options *cfg, mega_team *team, mega_world *world, mega_buffer *out);

#ifdef __cplusplus
}
#endif

#endif
