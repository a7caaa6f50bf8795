#include "megalith/seat.h"
#include "base_impl.h"
#include "megalith/process.h"
#include "megalith/threads.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK 30e-6 /* seconds in which a thread that runs uses processor time */

typedef enum seat_lease {
    SEAT_FREE,     /* runs where the system puts it */
    SEAT_CHANGING, /* one thread is changing `home` or `allowed` */
    SEAT_LENT,     /* confined to the core of the one that waits for it */
    SEAT_SETTLED   /* confined to the core where it belongs, until it begins work */
} seat_lease;

static bool take_lease(mega_seat *s, int from)
{
    return atomic_load(&s->lease) == from && atomic_compare_exchange_strong(&s->lease, &from, SEAT_CHANGING);
}

/* False: not allowed, by the control group of the processor sets, say. */
static bool confine(int tid, int core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return sched_setaffinity(tid, sizeof one, &one) == 0;
}

void mega_seat_take(mega_seat *own)
{
    if (sched_getaffinity(0, sizeof own->first, &own->first) != 0) CPU_ZERO(&own->first);
    atomic_store(&own->pid, (int)getpid());
    atomic_store(&own->tid, (int)syscall(SYS_gettid));
}

/* Gives it its mask again; the lease is SEAT_CHANGING. */
static void lift(mega_seat *s, int tid)
{
    sched_setaffinity(tid, sizeof s->allowed, &s->allowed);
    atomic_store(&s->lease, SEAT_FREE);
}

void mega_seat_free(mega_seat *own)
{
    const bool lent = take_lease(own, SEAT_LENT);
    if (lent) confine(0, own->home);
    if (lent || take_lease(own, SEAT_SETTLED)) lift(own, 0);
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

/* Of a thread of this process; of another process all that its threads have used. -1: not known. */
static int64_t time_used(const mega_seat *s)
{
    struct timespec t;
    clockid_t clock;
    const int pid = atomic_load(&s->pid);
    /* The system's name for the clock of a thread: glibc makes it from a pthread_t alone. */
    if (pid == (int)getpid()) clock = (clockid_t)(~(unsigned)atomic_load(&s->tid) << 3 | 6);
    else if (pid == 0 || clock_getcpuclockid(pid, &clock) != 0)
        return -1;
    return clock_gettime(clock, &t) == 0 ? (int64_t)t.tv_sec * 1000000000 + t.tv_nsec : -1;
}

/* Whether a thread waits for a core, and on which; one that sleeps, until a disk has answered say, waits for none. */
static bool wants_core(const mega_seat *s, int *core)
{
    char path[64];
    mega_process_stat stat;
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", atomic_load(&s->pid), atomic_load(&s->tid));
    if (!mega_process_stat_read(&stat, path) || stat.state != 'R') return false;
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

/* A mask of one core may be that of another lease, or the user's wish. */
static bool may_move(const mega_seat *held, const cpu_set_t *mask, int core)
{
    return held->was_narrowed ? CPU_ISSET(core, &held->first) : CPU_COUNT(mask) > 1 && CPU_ISSET(core, mask);
}

/* Moves it here; its lease is SEAT_CHANGING if so. */
static bool fetch(mega_seat *held)
{
    const int here = sched_getcpu(), tid = atomic_load(&held->tid);
    cpu_set_t mask;
    int there = here;
    if (mega_seat_is_confined(held) || !atomic_load(&held->at_work) || here < 0) return false;
    if (sched_getaffinity(tid, sizeof mask, &mask) != 0 || !may_move(held, &mask, here)) return false;
    if (!is_held_up(held, &there) || there == here || !take_lease(held, SEAT_FREE)) return false;
    held->home = there;
    held->allowed = mask;
    if (confine(tid, here)) return true;
    atomic_store(&held->lease, SEAT_FREE);
    return false;
}

bool mega_seat_lend(mega_seat *held)
{
    if (!fetch(held)) return false;
    atomic_store(&held->lease, SEAT_LENT);
    return true;
}

void mega_seat_return(mega_seat *held)
{
    if (!take_lease(held, SEAT_LENT)) return;
    const int tid = atomic_load(&held->tid);
    confine(tid, held->home);
    if (atomic_load(&held->at_work)) lift(held, tid); /* at something else, which nobody here waits for */
    else
        atomic_store(&held->lease, SEAT_SETTLED);
}

bool mega_seat_swap(mega_seat *held, mega_seat *own)
{
    if (!take_lease(own, SEAT_FREE)) return false;
    const bool moved = sched_getaffinity(0, sizeof own->allowed, &own->allowed) == 0 && fetch(held);
    if (moved) {
        confine(0, held->home);
        atomic_store(&held->lease, SEAT_SETTLED);
        /* It was done meanwhile, and has perhaps looked for its lease before this was written. */
        if (!atomic_load(&held->at_work) && take_lease(held, SEAT_SETTLED)) lift(held, atomic_load(&held->tid));
    }
    atomic_store(&own->lease, moved ? SEAT_SETTLED : SEAT_FREE);
    return moved;
}
