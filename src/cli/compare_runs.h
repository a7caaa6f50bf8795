/* The trainings and plans of compare_configurations. */
#ifndef MEGA_COMPARE_RUNS_H
#define MEGA_COMPARE_RUNS_H

#include "megalith/status.h"
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    COMPARE_FILES = 64,
    COMPARE_WORDS = 256,
    COMPARE_WARM = 2,     /* steps before those that are measured */
    COMPARE_LAYERS = 1024 /* of the largest model that is looked for; the plan of a deeper one takes long */
};

typedef struct comparison {
    const char *file[COMPARE_FILES];
    int files;
    const char *word[COMPARE_WORDS]; /* options of the training */
    int words;
    int ranks, steps;
    bool json;
    const char *memory; /* size in which the largest model is to fit; NULL: not asked for */
    char folder[64];    /* temporary; "": none */
    char flops[80];     /* the report of a flops profiler, in it */
    char program[PATH_MAX];
    const char *vocab_size; /* of the random data; NULL: the caller gives data */
} comparison;

typedef struct outcome {
    char error[512];        /* why it failed; "": it did not */
    double samples, tokens; /* per second */
    double planned, held;   /* bytes of a rank; held: the largest resident set of a process */
    int layers;             /* of the largest model; 0: not even one fits; COMPARE_LAYERS: more may fit */
    char parameters[32];
} outcome;

/* Creates the temporary folder and, unless the words name data, random data in it. compare_close removes it. */
mega_status compare_open(comparison *c);
void compare_close(comparison *c);
/* Trains with one configuration. A training that fails is an outcome; the status is about this command's own work, and
 * MEGA_ERR_INTERRUPTED after Ctrl-C. */
mega_status compare_run(const comparison *c, int file, outcome *out);

#endif
