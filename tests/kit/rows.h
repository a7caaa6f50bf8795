/* Programs of tests/ranks whose rows of settings are run one after the other by one start of ranks, because a start
 * takes longer than a row:   PROGRAM SETTING… [-- SETTING…]…      (all_pass of tests/kit/ranks.sh) */
#ifndef MEGALITH_TESTS_ROWS_H
#define MEGALITH_TESTS_ROWS_H

#include "megalith/comm.h"
#include "megalith/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs one row, whose settings are argv[1] to argv[argc - 1]. Returns the number of failures that this rank found;
 * ranks that find none must still make the calls of the others, for the rows after it. */
typedef int rows_run(mega_world *world, int argc, char **argv);

/* The first rank prints a row before it begins, so that the last one printed is the one that ended the run. */
static inline void rows_begin(const mega_world *world, int argc, char **argv)
{
    if (mega_world_rank(world) != 0) return;
    printf("%d ranks", mega_world_size(world));
    for (int i = 1; i < argc; i++) printf(" %s", argv[i]);
    printf("\n");
    fflush(stdout);
}

/* Runs all rows, each in a world of its own. Returns the exit status of the program. */
static inline int rows_main(int argc, char **argv, rows_run *run)
{
    int failed = 0;
    for (int first = 0, end; first < argc; first = end) {
        mega_world *world = NULL;
        for (end = first + 1; end < argc && strcmp(argv[end], "--") != 0;) end++;
        if (mega_world_create(NULL, &world) != MEGA_OK) {
            fprintf(stderr, "%s\n", mega_error_message());
            exit(1);
        }
        rows_begin(world, end - first, argv + first);
        if (run(world, end - first, argv + first) > 0) {
            fprintf(stderr, "FAILED: on rank %d:", mega_world_rank(world));
            for (int i = first + 1; i < end; i++) fprintf(stderr, " %s", argv[i]);
            fprintf(stderr, "\n");
            failed++;
        }
        fflush(stdout);
        mega_world_destroy(world);
    }
    return failed == 0 ? 0 : 1;
}

#endif
