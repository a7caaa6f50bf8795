/* The events of a profile, and how the executor records them. */
#ifndef MEGA_PROFILE_IMPL_H
#define MEGA_PROFILE_IMPL_H

#include "graph_impl.h"
#include "megalith/profile.h"

typedef enum profile_kind {
    PROFILE_OP,
    PROFILE_WAIT /* for a collective that was started */,
    PROFILE_SPAN,
    PROFILE_STEP
} profile_kind;

typedef struct profile_event {
    profile_kind kind;
    const char *name, *scope, *phase; /* borrowed from the program, so read the profile before the program is
                                         destroyed */
    double begin, end, flops, bytes;
    double waited;                /* seconds that the first thread waited for the others of its team */
    int64_t begin_mark, end_mark; /* of the device, until the step ends; -1: begin and end are set */
    int64_t number;               /* PROFILE_STEP: iteration; PROFILE_OP, PROFILE_WAIT: instruction */
    bool is_exchange;
} profile_event;

struct mega_profile {
    profile_event *event;
    int64_t count, capacity, lost;
    struct mega_device *device; /* NULL: the host */
    int64_t first_of_step;      /* events before this one are of earlier steps */
};

void mega_profile_instruction(mega_profile *p, const mega_graph *g, int instruction, mega_profile_moment begin,
                              mega_profile_moment end);
/* Records the wait for the collective that this instruction started. begin and end: mega_time_now. */
void mega_profile_wait(mega_profile *p, const mega_graph *g, int instruction, mega_profile_moment begin,
                       mega_profile_moment end);

#endif
