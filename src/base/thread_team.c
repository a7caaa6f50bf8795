/* A team of threads. Between two runs a worker spins for some microseconds and then sleeps; the caller does the same
 * while it waits for the last worker.
 *
 * Threads claim work instead of being dealt equal parts (mega_team_for), because one thread that another process holds
 * up would otherwise delay all. Each thread first claims pieces of its own share, which keeps its data in its own cache
 * from run to run, and then pieces of the other unfinished shares. A run ends when every piece is done, without waiting
 * for a worker that has not begun: that worker finds the gate closed when it comes. If the team is larger than the
 * number of cores, only as many threads claim as there are cores: more would only take turns, each with its own data in
 * the caches. A thread that is held up in a piece gets the core of the caller that waits for it
 * (megalith/core_lending.h); a caller that is held up exchanges cores with a worker that has nothing left to do.
 *
 * Sleeping and waking uses a pair of flags: a thread that goes to sleep announces it before it checks the condition for
 * the last time; a thread that changes the condition then looks for sleepers. Both orders are sequentially consistent,
 * and the mutex closes the gap between announcing and waiting. */
#include "base_impl.h"
#include "megalith/assert.h"
#include "megalith/core_lending.h"
#include "megalith/in_use.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define SPIN    50e-6  /* seconds that a thread spins before it sleeps */
#define LOOK_NS 300000 /* interval at which a waiting thread checks whether others are held up */
#define PART    8      /* a piece is 1/PART of the rest of a share, */
#define PIECES  64     /* but at least 1/PIECES of the share */
#define CLOSED  (1u << 30)
#ifdef MEGA_SHUFFLE_CLAIMS
#define SHUFFLES 1
#else
#define SHUFFLES 0
#endif

typedef struct worker {
    mega_team *team;
    int index;
    pthread_t thread;
} worker;

/* The unclaimed rest of a thread's share, in grains. */
typedef struct share {
    _Atomic int64_t next;
    int64_t end;
    char apart[112]; /* pads to two cache lines: the prefetcher loads lines in pairs */
} share;

/* Where workers sleep until a run begins. */
typedef struct waiting_room {
    pthread_cond_t start;
    atomic_int sleepers; /* asleep, or about to be */
} waiting_room;

typedef struct team_seat {
    mega_seat s;
    char apart[128];
} team_seat;

/* A run whose items are claimed. */
typedef struct claimed_run {
    mega_team_part *part;
    int64_t n, grain, least; /* items; items; grains in the smallest piece */
} claimed_run;

struct mega_team {
    int size, claimants; /* threads; those of them that claim: the first ones, at most one per core */
    double waited;
    mega_team_work *work; /* for a run in which every thread works once */
    void *user;
    claimed_run claimed;
    share *share;                               /* one per thread */
    team_seat *seat;                            /* one per thread */
    const volatile sig_atomic_t *asked_to_stop; /* set by mega_team_stop_on; NULL: never */
    atomic_uint generation;                     /* grows by two per run; odd: every thread works once */
    atomic_uint pending;                        /* workers that have not finished this run */
    atomic_uint gate;                           /* workers inside a claimed run; with the bit CLOSED none may enter */
    waiting_room claims, rests;                 /* where workers that claim sleep, and where the others do */
    atomic_bool caller_waits, stop, running;
    mega_users users; /* engines that run on it */
    pthread_mutex_t mutex;
    pthread_cond_t done;
    worker workers[];
};

void mega_block_signals(sigset_t *before)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* OpenMP libraries keep a thread count for each thread that calls them. Only our team should run in parallel, so each
 * of its threads sets that count to one. The function is looked up by name, so that this room does not depend on
 * OpenMP. */
static void one_openmp_thread(void)
{
    void (*set_num_threads)(int);
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (symbol == NULL) return;
    memcpy(&set_num_threads, &symbol, sizeof symbol);
    set_num_threads(1);
}

/* Spins until *value equals `wanted` (equal) or differs from it; returns false when that takes longer than SPIN. */
static bool spin_until(const atomic_uint *value, unsigned wanted, bool equal)
{
    const double end = mega_time_now() + SPIN;
    do {
        for (int i = 0; i < 16; i++) {
            if ((atomic_load_explicit(value, memory_order_acquire) == wanted) == equal) return true;
            cpu_relax();
        }
    } while (mega_time_now() < end);
    return false;
}

/* Called with the mutex held. */
static void sleep_a_while(mega_team *team, pthread_cond_t *condition)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(condition, &team->mutex, &until);
}

/* Sleeps until a run other than `seen` has begun; while the caller works, checks now and then whether the caller is
 * held up. */
static void sleep_until_run(mega_team *team, int thread, unsigned seen)
{
    mega_seat *caller = &team->seat[0].s, *own = &team->seat[thread].s;
    pthread_mutex_lock(&team->mutex);
    atomic_fetch_add(&team->claims.sleepers, 1);
    while (atomic_load(&team->generation) == seen) {
        if (mega_seat_is_confined(own) || !atomic_load(&caller->at_work)) {
            pthread_cond_wait(&team->claims.start, &team->mutex);
            continue;
        }
        pthread_mutex_unlock(&team->mutex);
        mega_seat_swap(caller, own);
        pthread_mutex_lock(&team->mutex);
        if (atomic_load(&team->generation) == seen) sleep_a_while(team, &team->claims.start);
    }
    atomic_fetch_sub(&team->claims.sleepers, 1);
    pthread_mutex_unlock(&team->mutex);
}

/* A worker that never claims sleeps until a run in which every thread works. */
static void sleep_until_needed(mega_team *team, unsigned seen)
{
    pthread_mutex_lock(&team->mutex);
    atomic_fetch_add(&team->rests.sleepers, 1);
    for (unsigned now; (now = atomic_load(&team->generation)) == seen || now % 2 == 0;)
        pthread_cond_wait(&team->rests.start, &team->mutex);
    atomic_fetch_sub(&team->rests.sleepers, 1);
    pthread_mutex_unlock(&team->mutex);
}

/* Waits until a run other than `seen` has begun. On a core that was lent to it, a worker sleeps at once instead of
 * spinning. */
static unsigned wait_for_run(mega_team *team, int thread, unsigned seen)
{
    if (thread >= team->claimants) sleep_until_needed(team, seen);
    else if (mega_seat_is_confined(&team->seat[thread].s) || !spin_until(&team->generation, seen, false))
        sleep_until_run(team, thread, seen);
    return atomic_load(&team->generation);
}

/* ---- claims ---- */

#ifdef MEGA_SHUFFLE_CLAIMS

/* For tests of kernels: pieces of odd sizes in a shuffled order, as if every claim had come late. All threads claim
 * from the first share, whose piece number i becomes piece i * STRIDE modulo SHUFFLED. */
enum { SHUFFLED = 61, STRIDE = 37 };

static void claim_pieces(mega_team *team, int thread)
{
    const claimed_run *r = &team->claimed;
    for (int64_t i; (i = atomic_fetch_add(&team->share[0].next, 1)) < SHUFFLED;) {
        const int64_t at = i * STRIDE % SHUFFLED, grains = (r->n + r->grain - 1) / r->grain;
        const int64_t first = grains * at / SHUFFLED * r->grain, last = grains * (at + 1) / SHUFFLED * r->grain;
        if (first < last) r->part(team->user, thread, first, last < r->n ? last : r->n);
    }
}

static void lay_out(mega_team *team, int64_t grains)
{
    (void)grains;
    atomic_store(&team->share[0].next, 0);
}

#else

/* Claims 1/PART of the rest, at least `least` grains: large pieces first, small ones at the end so that threads finish
 * together. */
static bool share_claim(share *s, int64_t least, int64_t *begin, int64_t *end)
{
    *begin = atomic_load_explicit(&s->next, memory_order_relaxed);
    do {
        const int64_t left = s->end - *begin, part = left / PART;
        if (left <= 0) return false;
        *end = *begin + (part > least ? part : least < left ? least : left);
    } while (!atomic_compare_exchange_weak_explicit(&s->next, begin, *end, memory_order_relaxed, memory_order_relaxed));
    return true;
}

static void claim_pieces(mega_team *team, int thread)
{
    const claimed_run *r = &team->claimed;
    int64_t begin, end;
    for (int i = 0; i < team->claimants; i++) {
        share *s = &team->share[(thread + i) % team->claimants];
        while (share_claim(s, r->least, &begin, &end))
            r->part(team->user, thread, begin * r->grain, end * r->grain < r->n ? end * r->grain : r->n);
    }
}

static void lay_out(mega_team *team, int64_t grains)
{
    const int n = team->claimants;
    for (int i = 0; i < n; i++) {
        atomic_store_explicit(&team->share[i].next, grains * i / n, memory_order_relaxed);
        team->share[i].end = grains * (i + 1) / n;
    }
    const int64_t most = (grains + n - 1) / n;
    team->claimed.least = (most + PIECES - 1) / PIECES;
}

#endif

/* ---- workers ---- */

static void wake_caller(mega_team *team)
{
    if (!atomic_load(&team->caller_waits)) return;
    pthread_mutex_lock(&team->mutex);
    pthread_cond_signal(&team->done);
    pthread_mutex_unlock(&team->mutex);
}

/* A finished run has closed the gate. If a later run has opened it again, this worker may claim that run's pieces
 * instead. */
static void join_claimed(mega_team *team, int thread)
{
    mega_seat_begin(&team->seat[thread].s); /* before entering the gate, where it would delay the run */
    if ((atomic_fetch_add(&team->gate, 1) & CLOSED) == 0) claim_pieces(team, thread);
    mega_seat_end(&team->seat[thread].s);
    if (atomic_fetch_sub(&team->gate, 1) == CLOSED + 1) wake_caller(team);
}

static void *team_worker_main(void *argument)
{
    worker *self = argument;
    mega_team *team = self->team;
    one_openmp_thread();
    mega_seat_take(&team->seat[self->index].s);
    for (unsigned seen = 0;;) {
        seen = wait_for_run(team, self->index, seen);
        if (atomic_load(&team->stop)) return NULL;
        if (seen % 2 == 0) {
            join_claimed(team, self->index);
            continue;
        }
        mega_seat_free(&team->seat[self->index].s);
        team->work(team->user, self->index, team->size);
        if (atomic_fetch_sub(&team->pending, 1) == 1) wake_caller(team);
    }
}

static void team_wake(mega_team *team, waiting_room *room)
{
    if (atomic_load(&room->sleepers) == 0) return;
    pthread_mutex_lock(&team->mutex);
    pthread_cond_broadcast(&room->start);
    pthread_mutex_unlock(&team->mutex);
}

/* `every`: each worker works once; otherwise the claiming workers may take pieces. */
static void begin_run(mega_team *team, bool every)
{
    const unsigned now = atomic_load(&team->generation);
    atomic_store(&team->generation, ((now | 1) + 1) | every);
    team_wake(team, &team->claims);
    if (every) team_wake(team, &team->rests);
}

/* Lends this core to a worker that is held up, one at a time. Returns its seat; NULL: none. */
static mega_seat *team_lend(mega_team *team, mega_seat *lent)
{
    if (lent != NULL && atomic_load(&lent->at_work)) return lent;
    if (lent != NULL) mega_seat_return(lent);
    for (int i = 1; i < team->claimants; i++)
        if (mega_seat_lend(&team->seat[i].s)) return &team->seat[i].s;
    return NULL;
}

/* Waits until *count is `last`; with `lends`, helps workers that are held up in a piece. */
static void wait_for_workers(mega_team *team, const atomic_uint *count, unsigned last, bool lends)
{
    if (spin_until(count, last, true)) return;
    mega_seat *lent = NULL;
    pthread_mutex_lock(&team->mutex);
    atomic_store(&team->caller_waits, true);
    while (atomic_load(count) != last) {
        if (!lends) {
            pthread_cond_wait(&team->done, &team->mutex);
            continue;
        }
        pthread_mutex_unlock(&team->mutex);
        lent = team_lend(team, lent);
        pthread_mutex_lock(&team->mutex);
        if (atomic_load(count) != last) sleep_a_while(team, &team->done);
    }
    atomic_store(&team->caller_waits, false);
    pthread_mutex_unlock(&team->mutex);
    if (lent != NULL) mega_seat_return(lent);
}

/* Stops and joins the first `started` workers, and frees the team. */
static void team_dissolve(mega_team *team, int started)
{
    atomic_store(&team->stop, true);
    begin_run(team, true);
    for (int i = 0; i < started; i++) pthread_join(team->workers[i].thread, NULL);
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->claims.start);
    pthread_cond_destroy(&team->rests.start);
    pthread_mutex_destroy(&team->mutex);
    MEGA_FREE(team->share, team->seat, team);
}

static void make_conditions(mega_team *team)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->claims.start, &monotonic);
    pthread_cond_init(&team->rests.start, &monotonic);
    pthread_cond_init(&team->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

mega_status mega_team_create(int size, mega_team **out)
{
    if (size < 1) return MEGA_MISTAKE("number of threads: found %d, expected at least 1", size);
    mega_team *team = mega_calloc(1, sizeof *team + (size_t)(size - 1) * sizeof team->workers[0]);
    share *shares = mega_calloc((size_t)size, sizeof *shares);
    team_seat *seats = mega_calloc((size_t)size, sizeof *seats);
    if (team == NULL || shares == NULL || seats == NULL) {
        MEGA_FREE(seats, shares, team);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a team of %d threads", size);
    }
    team->share = shares;
    team->seat = seats;
    mega_seat_take(&seats[0].s);
    atomic_store(&team->gate, CLOSED);
    team->size = size;
    team->claimants = SHUFFLES || size < mega_cpu_count() ? size : mega_cpu_count();
    make_conditions(team);

    /* Signals are for the caller: a worker that took one would run a handler in the middle of a kernel. */
    sigset_t before;
    mega_block_signals(&before);
    int started = 0, rc = 0;
    for (; started < size - 1; started++) {
        worker *w = &team->workers[started];
        w->team = team;
        w->index = started + 1;
        rc = pthread_create(&w->thread, NULL, team_worker_main, w);
        if (rc != 0) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        team_dissolve(team, started);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "thread %d of %d could not be started: %s; use fewer with --num-threads",
                         started + 2, size, strerror(rc));
    }
    one_openmp_thread();
    *out = team;
    return MEGA_OK;
}

void mega_team_destroy(mega_team *team)
{
    if (team == NULL) return;
    const bool is_used = atomic_load(&team->users) > 0 || atomic_load(&team->running);
    if (mega_refuse_destroy(is_used, "mega_team_destroy", "an engine, a generator or a run of the team")) return;
    team_dissolve(team, team->size - 1);
}

mega_users *mega_team_users(mega_team *team)
{
    return team != NULL ? &team->users : NULL;
}

int mega_team_sleepers(const mega_team *team)
{
    return atomic_load(&team->claims.sleepers) + atomic_load(&team->rests.sleepers);
}

bool mega_team_caller_sleeps(const mega_team *team)
{
    return atomic_load(&team->caller_waits);
}

void mega_team_stop_on(mega_team *team, const volatile sig_atomic_t *stop)
{
    team->asked_to_stop = stop;
}

bool mega_team_is_stopped(const mega_team *team)
{
    return team != NULL && team->asked_to_stop != NULL && *team->asked_to_stop != 0;
}

int mega_team_size(const mega_team *team)
{
    return team != NULL ? team->size : 1;
}

static void team_take(mega_team *team)
{
    const bool reentered = atomic_exchange(&team->running, true);
    MEGA_ASSERT(!reentered, "a team of %d threads was asked to run while it was running", team->size);
    (void)reentered;
}

void mega_team_run(mega_team *team, mega_team_work *work, void *user)
{
    if (team == NULL || team->size == 1) {
        work(user, 0, 1);
        return;
    }
    team_take(team);
    team->work = work;
    team->user = user;
    atomic_store(&team->pending, (unsigned)team->size - 1);
    begin_run(team, true);
    work(user, 0, team->size);
    wait_for_workers(team, &team->pending, 0, false);
    atomic_store(&team->running, false);
}

void mega_team_for(mega_team *team, int64_t n, int64_t grain, mega_team_part *part, void *user)
{
    const int64_t grains = (n + grain - 1) / grain;
    if (team == NULL || (team->claimants == 1 && !SHUFFLES) || grains <= 1) {
        if (n > 0) part(user, 0, 0, n);
        return;
    }
    team_take(team);
    team->user = user;
    team->claimed = (claimed_run){.part = part, .n = n, .grain = grain};
    lay_out(team, grains);
    if (atomic_load(&team->seat[0].s.tid) != gettid()) mega_seat_take(&team->seat[0].s);
    mega_seat_begin(&team->seat[0].s);
    atomic_fetch_and(&team->gate, ~CLOSED);
    begin_run(team, false);
    claim_pieces(team, 0);
    atomic_fetch_or(&team->gate, CLOSED);
    mega_seat_end(&team->seat[0].s);
    const double done = mega_time_now();
    wait_for_workers(team, &team->gate, CLOSED, true);
    team->waited += mega_time_now() - done;
    /* from here on the caller may start threads, which must not inherit the lent core */
    mega_seat_free(&team->seat[0].s);
    atomic_store(&team->running, false);
}

double mega_team_waited(const mega_team *team)
{
    return team != NULL ? team->waited : 0;
}

#define SMALL_ZERO ((int64_t)1 << 16) /* bytes that one thread clears before another would wake */

static void zero_range(void *user, int thread, int64_t begin, int64_t end)
{
    (void)thread;
    memset((char *)user + begin, 0, (size_t)(end - begin));
}

void mega_team_zero(mega_team *team, void *data, size_t bytes)
{
    mega_team_for((int64_t)bytes < SMALL_ZERO ? NULL : team, (int64_t)bytes, 4096, zero_range, data);
}
