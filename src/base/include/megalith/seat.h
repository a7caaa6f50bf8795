/* Cores that threads lend each other. A thread may wait for milliseconds for another one that some other process keeps
 * from running, while its own core does nothing. Here it gives the other thread that core until the work is done.
 *
 * A thread is held up when it is at work and wants to run, but uses no processor time. It is moved by its affinity
 * mask, to a core that the mask allows; the mask is as before when it begins its next work. */
#ifndef MEGALITH_SEAT_H
#define MEGALITH_SEAT_H

#include <sched.h>
#include <stdbool.h>
#ifdef __cplusplus /* before C++23 there is no stdatomic.h; the types have one layout in both languages */
#include <atomic>
using std::atomic_bool;
using std::atomic_int;
#else
#include <stdatomic.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Where a thread runs, for those who wait for it. All zero at first; may lie in memory that processes share, where they
 * see each other's processes. */
typedef struct mega_seat {
    atomic_int tid, pid; /* 0: nobody yet */
    atomic_bool at_work;
    atomic_int lease;   /* seat_lease, of seat.c */
    int home;           /* the core where it was held up, */
    int given;          /* and the one that it is confined to */
    cpu_set_t allowed;  /* its mask before it was confined, */
    cpu_set_t first;    /* when it took the seat, */
    cpu_set_t narrowed; /* and that of mega_seat_narrow; empty: none */
} mega_seat;

void mega_seat_take(mega_seat *own);  /* by the thread that sits there, before its first work */
void mega_seat_begin(mega_seat *own); /* by the same: work that another thread may wait for begins, */
void mega_seat_end(mega_seat *own);   /* and ends */
/* By the same: ends its lease, so that its mask is as before. mega_seat_begin does it, too. To be called before a
 * thread is started or cores are counted, as a lease of the moment would be inherited for good. */
void mega_seat_free(mega_seat *own);
/* By the same: the mask of one core that it has now is its own choice among the cores that it had before. A core may be
 * lent to it nevertheless. Any other mask of one core is somebody's wish, and kept. */
void mega_seat_narrow(mega_seat *own);

/* Where `held` is held up, on another core: it gets this one, and the caller is to sleep. Looks for some 30 us. */
bool mega_seat_lend(mega_seat *held);
/* By the one that lent, when the work is done: sends the thread home. */
void mega_seat_return(mega_seat *held);
/* Where `held` is held up, on another core, the two exchange their cores. Each may go anywhere again when it begins
 * its next work. */
bool mega_seat_swap(mega_seat *held, mega_seat *own);
bool mega_seat_is_confined(const mega_seat *s);

#ifdef __cplusplus
}
#endif

#endif
