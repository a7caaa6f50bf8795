/* For the programs of tests/ranks, which mpirun starts: a rank that fails prints why and ends with status 1. */
#ifndef MEGALITH_TESTS_RANK_H
#define MEGALITH_TESTS_RANK_H

#include "megalith/status.h"

#include <stdio.h>
#include <stdlib.h>

static inline void need(mega_status st)
{
    if (st == MEGA_OK) return;
    fprintf(stderr, "%s\n", mega_error_message());
    exit(1);
}

#endif
