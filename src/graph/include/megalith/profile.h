/* A profile: a list of timed events. The executor records one event per instruction of a program that has a profile
 * (mega_program_profile); the owner adds spans for its own work in between. Recording allocates nothing: events that do
 * not fit are counted and dropped. */
#ifndef MEGALITH_PROFILE_H
#define MEGALITH_PROFILE_H

#include "megalith/memory.h"
#include "megalith/program.h"
#include "megalith/threads.h"

typedef struct mega_profile mega_profile;

/* Creates a profile that holds up to `capacity` events. */
mega_status mega_profile_create(int64_t capacity, mega_profile **out);
void mega_profile_destroy(mega_profile *p);

/* Records all later runs of the program in the profile (borrowed). NULL stops recording. */
void mega_program_profile(mega_program *program, mega_profile *profile);

/* The start or end of an event: mega_time_now, and mega_team_waited of the team that runs it, both in seconds; the mark
 * of a device that runs it (device_memory.h), whose time takes the place of the host's; -1: the host runs it. */
typedef struct mega_profile_moment {
    double at, waited;
    int64_t mark;
} mega_profile_moment;
mega_profile_moment mega_profile_now(const mega_team *team);
/* A moment of what is put to work in a queue. A profile is of one device. */
mega_profile_moment mega_profile_queued(mega_profile *p, const mega_queue *queue);
/* Times of the device since then are noted: before a step. */
void mega_profile_begin_step(mega_profile *p, const mega_queue *queue);

/* Records an instruction of another kind of program. The texts must stay valid as long as the profile. */
typedef struct mega_profile_event {
    const char *name, *scope, *phase;
    double bytes;     /* memory traffic; 0: unknown */
    int64_t number;   /* of the instruction */
    bool is_wait;     /* a wait for what the instruction started */
    bool is_exchange; /* it exchanges data with other ranks: its time is exposed, nothing is computed in it */
} mega_profile_event;
void mega_profile_work(mega_profile *p, const mega_profile_event *e, mega_profile_moment begin,
                       mega_profile_moment end);

/* Records work that is not an instruction, such as "data". bytes: memory traffic of the work; 0:
 * unknown. */
void mega_profile_span(mega_profile *p, const char *name, mega_profile_moment begin, mega_profile_moment end,
                       double bytes);
/* Records that this rank waited for others, as "pipeline wait". */
void mega_profile_idle(mega_profile *p, const char *name, double begin, double end);
/* Records a whole step, after all events of that step. Waits for the device; the step ends no earlier than its last
 * event. */
void mega_profile_step(mega_profile *p, int64_t iteration, mega_profile_moment begin, mega_profile_moment end);

/* Peak rates of the machine, for the column "of bound". */
typedef struct mega_profile_bound {
    double flops, bytes; /* per second */
} mega_profile_bound;

/* Calls `each` for every instruction recorded so far. The texts are those of mega_profile_event. */
typedef struct mega_profile_item {
    const char *name, *scope, *phase;
    double seconds, flops;
    bool is_wait;
} mega_profile_item;
void mega_profile_each(mega_profile *p, void (*each)(void *user, const mega_profile_item *item), void *user);

/* Writes a table with one row per op or span: time per step, the part of it in which the first thread waited for
 * others, calls per step, GFLOP/s, GB/s and percent of the bound (arithmetic or memory, whichever binds). Two rows
 * follow: "between" for time that no event covers, and "step" for the sum of all rows. If ranks exchanged data, a
 * second table has the exposed time of each kind of exchange: the time in which this rank only started it or waited for
 * it. */
void mega_profile_table(const mega_profile *p, const mega_profile_bound *bound, mega_buffer *out);
/* Writes Chrome's trace format (chrome://tracing, Perfetto): steps and spans in one lane, instructions in another. Each
 * rank is one process of the trace; times count from `start`, a value of mega_time_now. A file is the head, then the
 * events of each rank, then the tail. */
typedef struct mega_profile_rank {
    int rank, threads;
    double start;
} mega_profile_rank;
double mega_profile_begin(const mega_profile *p); /* when the earliest event began; 0 if there are no events */
void mega_profile_trace_head(mega_buffer *out);
void mega_profile_trace_events(const mega_profile *p, const mega_profile_rank *rank, mega_buffer *out);
void mega_profile_trace_tail(mega_buffer *out);

#endif
