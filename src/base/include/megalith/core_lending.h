/* Threads lend each other their cores. When a thread waits for another thread that some other process keeps from
 * running, its own core would be idle for milliseconds. It therefore lends that core to the other thread until the work
 * is done.
 *
 * A thread is held up when it has work and wants to run, but gets no processor time. It is moved by its affinity mask,
 * to a core that the mask allowed; its mask is restored when it begins its next work. */
#ifndef MEGALITH_CORE_LENDING_H
#define MEGALITH_CORE_LENDING_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Where a thread runs, for the threads that wait for it. Initially all zero. May be in shared memory if the processes
 * see each other's process ids. */
typedef struct mega_seat {
    atomic_int tid, pid; /* 0: no thread yet */
    atomic_bool at_work;
    atomic_int lease;   /* seat_lease of core_lending.c */
    int home;           /* the core on which it was held up */
    int given;          /* the core to which it is confined */
    cpu_set_t allowed;  /* its mask before it was confined */
    cpu_set_t first;    /* its mask when it took the seat */
    cpu_set_t narrowed; /* its mask from mega_seat_narrow; empty: none */
} mega_seat;

void mega_seat_take(mega_seat *own);  /* called by the owner, the thread that has this seat, before its first work */
void mega_seat_begin(mega_seat *own); /* called by the owner when it begins work that another thread may wait for */
void mega_seat_end(mega_seat *own);   /* called by the owner when it has done that work */
/* Called by the owner: ends a lease and restores its mask; mega_seat_begin does so too. Call it before a thread is
 * started or cores are counted, which would otherwise inherit the temporary mask for good. */
void mega_seat_free(mega_seat *own);
/* Called by the owner after it has bound itself to one of its cores: it may still be moved to the others. If a thread
 * is bound to one core and has not made this call, the binding counts as the user's choice, and the thread is never
 * moved. */
void mega_seat_narrow(mega_seat *own);

/* If `held` is held up on another core, moves it to the caller's core and returns true; the caller must then sleep.
 * Observes `held` for some 30 us. */
bool mega_seat_lend(mega_seat *held);
/* Called by the lender when the work is done: sends the thread back. */
void mega_seat_return(mega_seat *held);
/* If `held` is held up on another core, the two threads exchange cores. Each may go anywhere again when it begins its
 * next work. */
bool mega_seat_swap(mega_seat *held, mega_seat *own);
bool mega_seat_is_confined(const mega_seat *s);

#endif
