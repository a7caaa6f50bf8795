/* Runs a whole training from one configuration: data, engine, checkpoints, evaluation, and log lines as Megatron
 * prints them. */
#ifndef MEGALITH_TRAIN_H
#define MEGALITH_TRAIN_H

#include "megalith/comm.h"
#include "megalith/memory.h"
#include "megalith/sentence_data.h"
#include "megalith/status.h"
#include "megalith/threads.h"
#include "megalith/train_options.h"
#include <signal.h>
#include <stdbool.h>

/* Where the lines of a run are written, and what may stop it. The library itself writes to no stream. */
typedef struct mega_train_io {
    void (*line)(void *user, const char *line); /* called with each line, without its newline */
    /* Shows a status line on a terminal: each one replaces the one before it, and the next real line erases it; ""
     * clears it. NULL if there is no terminal. */
    void (*status)(void *user, const char *line);
    /* called on every rank when everything is read and allocated and training begins; may be NULL */
    void (*began)(void *user);
    void *user;
    int columns;                       /* width of the terminal; 0: unknown */
    bool utf8;                         /* the terminal can show UTF-8, not only ASCII */
    const volatile sig_atomic_t *stop; /* the number of the signal that asked to save and exit; 0: none. May be NULL */
    void (*stop_line)(int number, char *out, size_t size); /* writes the line that names it; given if stop is */
    mega_world *world;                                     /* NULL: one rank. Only rank 0 prints lines */
    bool is_silent;                                        /* no line is wanted */
    bool is_brief;                                         /* no description of the run before the first step */
    bool is_detailed; /* the table of all options, and a line for each rank and data set */
} mega_train_io;

/* Collective: ranks. Checks that all ranks run the same build and were given the same options that affect the
 * training. If not, returns MEGA_ERR_COMM on every rank, with a message that lists the differing values by rank.
 * mega_train calls it first. */
mega_status mega_train_compare_ranks(mega_train_options *cfg, mega_comm *ranks);

/* What pretrain_bert or, with is_t5, pretrain_t5 makes its samples with. *out_words: memory that *out refers to. */
mega_status mega_train_sentences(const mega_train_options *cfg, bool is_t5, const mega_tokenizer *tokenizer,
                                 void **out_words, mega_sentence_options *out);

/* Collective: the world. Trains. After a failure, mega_world_failed returns whether every rank knows of it.
 * cfg: as mega_options_read (or mega_options_parse) left it; its mistakes are reported here, together with those of
 * the files that it names. Values taken from a checkpoint are written to it. */
mega_status mega_train(mega_train_options *cfg, mega_team *team, const mega_train_io *io);

/* Writes what mega_train would do, without doing it: parameters, memory by class, FLOPs, and the programs if
 * cfg->print_program is set. Allocates little and writes no file. With cfg->dry_run it fails where mega_train would
 * fail before its first step, with the same message. Without cfg->dry_run, options that are not given are not reported
 * as missing, and a run that does not fit in memory is shown. Collective: the world (NULL: one rank); rank 0 receives
 * the text. */
mega_status mega_train_plan(mega_train_options *cfg, mega_team *team, mega_world *world, mega_buffer *out);

#endif
