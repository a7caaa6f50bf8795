/* Lists that must be equal on all ranks of a group. Ranks compare the calls that they will make before they start, so
 * that a difference is reported by name before one of them waits for a call that the others never make. */
#ifndef MEGALITH_COMPARE_H
#define MEGALITH_COMPARE_H

#include "megalith/comm.h"
#include "megalith/option.h"
#include <stdbool.h>

enum { MEGA_COMPARED_TEXT = 512 }; /* bytes of the description of an item, in messages */
enum { MEGA_COMPARED_MOST = 8 };   /* most items that are named when items are independent */

typedef struct mega_compared {
    const char *what, *item; /* name of the list and of an item: "train programs", "collective" */
    /* last line of the message; NULL: "start all ranks with one program and the same options" */
    const char *remedy;
    bool is_independent; /* items after the first difference may still be equal, so several differences are named */
    const void *list;
    int64_t count;
    /* Hash of items begin … end - 1; end is at most count. begin is 0 unless the items are independent. */
    uint64_t (*hash)(const void *list, int64_t begin, int64_t end);
    void (*describe)(const void *list, int64_t i, char out[MEGA_COMPARED_TEXT]); /* i is less than count */
} mega_compared;

/* Collective over comm. If the lists differ, every rank returns MEGA_ERR_COMM with the first item that differs (of
 * independent items the first MEGA_COMPARED_MOST), as each rank describes it. */
mega_status mega_comm_compare(mega_comm *comm, const mega_compared *mine);
/* The same of lines of text, each independent of the others. A long one is cut in the middle, and its hash shown.
 * Collective over ranks. */
mega_status mega_comm_compare_lines(mega_comm *ranks, const char *what, const char *remedy, const mega_list *lines);

#endif
