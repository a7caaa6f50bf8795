/* Lists that the ranks of a group must have alike: what they will call is known before, so that a difference is told by
 * name before one of them waits for a call that the others do not make. */
#ifndef MEGALITH_COMPARE_H
#define MEGALITH_COMPARE_H

#include "megalith/comm.h"

enum { MEGA_COMPARED_TEXT = 160 }; /* bytes of a description, in messages */

typedef struct mega_compared {
    const char *what, *item; /* "train programs", "collective" */
    const void *of;
    int64_t count;
    uint64_t (*hash)(const void *of, int64_t first); /* of the first so many items, at most count */
    void (*describe)(const void *of, int64_t i, char out[MEGA_COMPARED_TEXT]); /* i below count */
} mega_compared;

/* Collective over comm. If the lists differ every rank fails with the first item that does, by rank. */
mega_status mega_comm_compare(mega_comm *comm, const mega_compared *mine);

#endif
