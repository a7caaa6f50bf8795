/* Finds threads that are held up, by their processor time, and moves them by their affinity masks (core_lending.h). */
#include "megalith/core_lending.h"
#include "megalith/process.h"
#include "megalith/threads.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK     30e-6 /* seconds within which a running thread visibly uses processor time */
#define PATIENCE 0.1   /* seconds to wait for another thread to finish changing its lease */

typedef enum seat_lease {
    SEAT_FREE,     /* runs on any core the system picks */
    SEAT_CHANGING, /* a thread is changing the lease and the fields that depend on it */
    SEAT_LENT,     /* confined to the core of the thread that waits for it */
    SEAT_SETTLED   /* confined to a core until it begins its next work */
} seat_lease;

static bool take_lease(mega_seat *s, int from)
{
    return atomic_load(&s->lease) == from && atomic_compare_exchange_strong(&s->lease, &from, SEAT_CHANGING);
}

/* Returns false if the system refuses, because of a cpuset for example. The lease is SEAT_CHANGING. */
static bool seat_confine(mega_seat *s, int tid, int core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (sched_setaffinity(tid, sizeof one, &one) != 0) return false;
    s->given = core;
    return true;
}

/* Returns false if the user has set another mask since. */
static bool is_as_confined(const mega_seat *s, int tid)
{
    cpu_set_t now;
    return sched_getaffinity(tid, sizeof now, &now) == 0 && CPU_COUNT(&now) == 1 && CPU_ISSET(s->given, &now);
}

void mega_seat_take(mega_seat *own)
{
    if (sched_getaffinity(0, sizeof own->first, &own->first) != 0) CPU_ZERO(&own->first);
    CPU_ZERO(&own->narrowed);
    atomic_store(&own->pid, (int)getpid());
    atomic_store(&own->tid, (int)syscall(SYS_gettid));
}

void mega_seat_narrow(mega_seat *own)
{
    if (sched_getaffinity(0, sizeof own->narrowed, &own->narrowed) != 0) CPU_ZERO(&own->narrowed);
}

/* Restores the thread's mask; the lease is SEAT_CHANGING. */
static void seat_lift(mega_seat *s, int tid)
{
    if (is_as_confined(s, tid)) sched_setaffinity(tid, sizeof s->allowed, &s->allowed);
    atomic_store(&s->lease, SEAT_FREE);
}

static void send_home(mega_seat *s, int tid)
{
    if (is_as_confined(s, tid)) seat_confine(s, tid, s->home);
}

/* Waits until another thread has finished changing the lease; gives up if that thread's process seems stopped. */
static void wait_for_change(const mega_seat *own)
{
    if (atomic_load(&own->lease) != SEAT_CHANGING) return;
    const double end = mega_time_now() + PATIENCE;
    while (atomic_load(&own->lease) == SEAT_CHANGING && mega_time_now() < end) sched_yield();
}

void mega_seat_free(mega_seat *own)
{
    wait_for_change(own);
    const bool lent = take_lease(own, SEAT_LENT);
    if (lent) send_home(own, 0);
    if (lent || take_lease(own, SEAT_SETTLED)) seat_lift(own, 0);
}

void mega_seat_begin(mega_seat *own)
{
    mega_seat_free(own);
    atomic_store(&own->at_work, true);
}

void mega_seat_end(mega_seat *own)
{
    atomic_store(&own->at_work, false);
}

bool mega_seat_is_confined(const mega_seat *s)
{
    return atomic_load_explicit(&s->lease, memory_order_relaxed) != SEAT_FREE;
}

/* Processor time used by a thread of this process; for another process, by all its threads. -1: unknown. */
static int64_t time_used(const mega_seat *s)
{
    struct timespec t;
    clockid_t clock;
    const int pid = atomic_load(&s->pid);
    /* The kernel's id for a thread's clock; glibc derives it only from a pthread_t. */
    if (pid == (int)getpid()) clock = (clockid_t)(~(unsigned)atomic_load(&s->tid) << 3 | 6);
    else if (pid == 0 || clock_getcpuclockid(pid, &clock) != 0)
        return -1;
    return clock_gettime(clock, &t) == 0 ? (int64_t)t.tv_sec * 1000000000 + t.tv_nsec : -1;
}

/* Returns whether a thread waits for a core, and for which; a sleeping thread (waiting for a disk, for example) does
 * not. */
static bool wants_core(const mega_seat *s, int *core)
{
    char path[64];
    mega_process_stat stat;
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", atomic_load(&s->pid), atomic_load(&s->tid));
    if (!mega_process_stat_read(path, &stat) || stat.state != 'R') return false;
    *core = stat.core;
    return true;
}

static bool is_held_up(const mega_seat *s, int *core)
{
    const int64_t before = time_used(s);
    if (before < 0) return false;
    for (const double end = mega_time_now() + LOOK; mega_time_now() < end;)
        if (!atomic_load(&s->at_work)) return false;
    return time_used(s) == before && wants_core(s, core);
}

/* A mask of one core may come from another lease or from the user, and must be kept; a mask that the thread narrowed
 * itself may be changed. */
static bool may_move(const mega_seat *held, const cpu_set_t *mask, int core)
{
    if (CPU_COUNT(&held->narrowed) > 0 && CPU_EQUAL(mask, &held->narrowed)) return CPU_ISSET(core, &held->first);
    return CPU_COUNT(mask) > 1 && CPU_ISSET(core, mask);
}

/* Moves the thread to the caller's core; returns true with its lease SEAT_CHANGING. `other`: the mask of the thread
 * that takes its core, or NULL. */
static bool seat_fetch(mega_seat *held, const cpu_set_t *other)
{
    const int here = sched_getcpu(), tid = atomic_load(&held->tid);
    cpu_set_t mask;
    int there = here;
    if (mega_seat_is_confined(held) || !atomic_load(&held->at_work) || here < 0) return false;
    if (sched_getaffinity(tid, sizeof mask, &mask) != 0 || !may_move(held, &mask, here)) return false;
    if (!is_held_up(held, &there) || there == here) return false;
    if ((other != NULL && !CPU_ISSET(there, other)) || !take_lease(held, SEAT_FREE)) return false;
    held->home = there;
    held->allowed = mask;
    if (seat_confine(held, tid, here)) return true;
    atomic_store(&held->lease, SEAT_FREE);
    return false;
}

bool mega_seat_lend(mega_seat *held)
{
    if (!seat_fetch(held, NULL)) return false;
    atomic_store(&held->lease, SEAT_LENT);
    return true;
}

/* Ends a settled lease if whether the thread is working matches `at_work`. The thread that settles a lease checks again
 * afterwards, because the thread may have begun or ended work meanwhile and looked at its lease too early. */
static void seat_lift_if(mega_seat *held, bool at_work)
{
    if (atomic_load(&held->at_work) == at_work && take_lease(held, SEAT_SETTLED))
        seat_lift(held, atomic_load(&held->tid));
}

void mega_seat_return(mega_seat *held)
{
    if (!take_lease(held, SEAT_LENT)) return;
    send_home(held, atomic_load(&held->tid));
    atomic_store(&held->lease, SEAT_SETTLED);
    seat_lift_if(held, true); /* it works on something else, which nobody here waits for */
}

/* Moves the other thread first and writes its lease before this one moves: this one may have to wait long for its new
 * core. */
bool mega_seat_swap(mega_seat *held, mega_seat *own)
{
    if (!take_lease(own, SEAT_FREE)) return false;
    const bool moved = sched_getaffinity(0, sizeof own->allowed, &own->allowed) == 0 && seat_fetch(held, &own->allowed);
    const int there = held->home;
    if (moved) {
        atomic_store(&held->lease, SEAT_SETTLED);
        seat_lift_if(held, false); /* its work is done: it may run anywhere */
    }
    const bool goes = moved && seat_confine(own, 0, there);
    atomic_store(&own->lease, goes ? SEAT_SETTLED : SEAT_FREE);
    return moved;
}
