/* What the transports and the layout share. */
#ifndef MEGA_COMM_IMPL_H
#define MEGA_COMM_IMPL_H

#include "megalith/comm.h"

#define MEGA_COMM_NAME 16

struct mega_comm {
    char name[MEGA_COMM_NAME];
    int rank, size;
    uint64_t sequence; /* collectives begun; names a call in a report: "all_reduce #118 of tp" */
};

#endif
