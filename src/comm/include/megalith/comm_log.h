/* Counts the exchanges of this rank: how many of each kind and size, how long they took, and for how long the rank
 * waited. DeepSpeed's comms logger. */
#ifndef MEGALITH_COMM_LOG_H
#define MEGALITH_COMM_LOG_H

#include "megalith/comm.h"
#include "megalith/memory.h"

typedef struct mega_comm_log_options {
    bool verbose; /* also log each exchange */
    bool named;   /* distinguish exchanges by what they are for, too */
    /* kinds to count: "all_reduce", "send", …, also as PyTorch spells them; borrowed; ops 0: all */
    const char *const *op;
    size_t ops;
} mega_comm_log_options;

/* From now on the exchanges of this rank are counted. A world of one rank (or NULL) has none. */
mega_status mega_comm_log_start(mega_world *world, const mega_comm_log_options *o);
/* Appends a table with a line for each kind, size and group. Times of exchanges that overlap with other work count from
 * their start to their end; `exposed` is the part for which the rank did nothing but wait. Appends nothing if no
 * exchange was counted. */
void mega_comm_log_table(const mega_world *world, mega_buffer *out);
/* Collective over the world. Appends a table of the last 256 exchanges of each line: the time of the exchange itself,
 * which is the least that a rank of the group needed, and what this rank needed beyond that, waiting for the slowest.
 * `comm`: the groups to compare in, in the same order on all ranks; a group whose ranks have counted different
 * exchanges is left out. Appends nothing where a rank counts no exchanges. Returns the errors of mega_comm_all_reduce,
 * and MEGA_ERR_MEMORY. */
mega_status mega_comm_log_stragglers(mega_world *world, mega_comm *const *comm, int comms, mega_buffer *out);
void mega_comm_log_stop(mega_world *world); /* forgets all counts */

/* Copies between a device and the memory of the host through which this rank's exchanges of the device's memory have
 * gone, since the world was created. */
typedef struct mega_comm_staged {
    int64_t copies, bytes;
    int64_t held; /* bytes of that memory, which later exchanges use again */
} mega_comm_staged;
mega_comm_staged mega_comm_staged_get(const mega_world *world);

#endif
