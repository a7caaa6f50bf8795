/* A profile: what a run of programs did, instruction by instruction, and what its owner did between. Filled by the
 * executor while a program has one (mega_program_profile), and by spans of the owner. Nothing is allocated while it is
 * filled: what does not fit is counted and left out. */
#ifndef MEGALITH_PROFILE_H
#define MEGALITH_PROFILE_H

#include "megalith/memory.h"
#include "megalith/program.h"
#include "megalith/threads.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_profile mega_profile;

/* Room for `capacity` events. */
mega_status mega_profile_create(int64_t capacity, mega_profile **out);
void mega_profile_destroy(mega_profile *p);

/* From now on the program's runs are written to the profile (borrowed); NULL: no more. */
void mega_program_profile(mega_program *program, mega_profile *profile);

/* Where an event begins or ends: mega_time_now, and the mega_team_waited of the team that it runs on. */
typedef struct mega_profile_moment {
    double at, waited;
} mega_profile_moment;
mega_profile_moment mega_profile_now(const mega_team *team);

/* Something that is no instruction: "data", "optimizer". bytes: what it moves, 0: not known. */
void mega_profile_span(mega_profile *p, const char *name, mega_profile_moment begin, mega_profile_moment end,
                       double bytes);
/* A whole step; all that happened in it must have been added before. */
void mega_profile_step(mega_profile *p, int64_t iteration, mega_profile_moment begin, mega_profile_moment end);

/* What the machine can do, for the column "of bound". */
typedef struct mega_profile_bound {
    double flops, bytes; /* a second */
} mega_profile_bound;

/* Time, the part of it in which the first thread waited for others, calls, GFLOP/s, GB/s and percent of the bound
 * (arithmetic or memory, whichever binds) of each kind, a step; then the time between, and the whole step, which is
 * their sum. */
void mega_profile_table(const mega_profile *p, const mega_profile_bound *bound, mega_buffer *out);
/* Chrome's trace format (chrome://tracing, Perfetto): the steps and their phases in one lane, instructions in another.
 * A rank is a process of the trace; times are counted from `start` (of mega_time_now). The events of one rank after
 * another, between head and tail, make a file. */
typedef struct mega_profile_rank {
    int rank, threads;
    double start;
} mega_profile_rank;
double mega_profile_begin(const mega_profile *p); /* the first event's; 0 where there is none */
void mega_profile_trace_head(mega_buffer *out);
void mega_profile_trace_events(const mega_profile *p, const mega_profile_rank *rank, mega_buffer *out);
void mega_profile_trace_tail(mega_buffer *out);
/* All of it, of one rank. */
void mega_profile_trace(const mega_profile *p, int threads, mega_buffer *out);

#ifdef __cplusplus
}
#endif

#endif
