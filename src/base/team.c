/* A team of threads. Between two runs a worker spins for some microseconds and then sleeps; so does the caller while it
 * waits for the last worker. Spinning is only for teams that have a core for each thread: on fewer cores it would take
 * the time from the very thread that it waits for.
 *
 * Sleeping and waking is the usual pair of flags: who goes to sleep announces it before it looks at the condition a
 * last time, who changes the condition looks for sleepers afterwards; both orders are sequentially consistent, and the
 * mutex covers the gap between announcing and waiting. */
#include "base_impl.h"
#include "megalith/assert.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#define SPINS 4000

typedef struct worker {
    mega_team *team;
    int index;
    pthread_t thread;
} worker;

struct mega_team {
    int size, spins;
    mega_team_work *work;
    void *user;
    const volatile sig_atomic_t *asked_to_stop; /* by the caller; NULL: never */
    atomic_uint generation;                     /* grows by one per run */
    atomic_int pending;                         /* workers that have not finished this run */
    atomic_int sleepers;                        /* workers asleep, or about to be */
    atomic_bool caller_waits, stop, running;
    pthread_mutex_t mutex;
    pthread_cond_t start, done;
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

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Libraries built on OpenMP keep one number of threads for each thread that calls them. Ours is the only team, so each
 * of its threads asks them for one. Looked up by name: this room does not depend on any OpenMP. */
static void one_openmp_thread(void)
{
    void (*set_num_threads)(int);
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (symbol == NULL) return;
    memcpy(&set_num_threads, &symbol, sizeof symbol);
    set_num_threads(1);
}

/* Waits until a run later than `seen` has begun. */
static void wait_for_run(mega_team *team, unsigned seen)
{
    for (int i = 0; i < team->spins; i++) {
        if (atomic_load_explicit(&team->generation, memory_order_acquire) != seen) return;
        relax();
    }
    pthread_mutex_lock(&team->mutex);
    atomic_fetch_add(&team->sleepers, 1);
    while (atomic_load(&team->generation) == seen) pthread_cond_wait(&team->start, &team->mutex);
    atomic_fetch_sub(&team->sleepers, 1);
    pthread_mutex_unlock(&team->mutex);
}

static void *worker_main(void *argument)
{
    worker *self = argument;
    mega_team *team = self->team;
    one_openmp_thread();
    for (unsigned seen = 0;; seen++) {
        wait_for_run(team, seen);
        if (atomic_load(&team->stop)) return NULL;
        team->work(team->user, self->index, team->size);
        if (atomic_fetch_sub(&team->pending, 1) == 1 && atomic_load(&team->caller_waits)) {
            pthread_mutex_lock(&team->mutex);
            pthread_cond_signal(&team->done);
            pthread_mutex_unlock(&team->mutex);
        }
    }
}

static void begin_run(mega_team *team)
{
    atomic_fetch_add(&team->generation, 1);
    if (atomic_load(&team->sleepers) == 0) return;
    pthread_mutex_lock(&team->mutex);
    pthread_cond_broadcast(&team->start);
    pthread_mutex_unlock(&team->mutex);
}

static void end_run(mega_team *team)
{
    for (int i = 0; i < team->spins; i++) {
        if (atomic_load_explicit(&team->pending, memory_order_acquire) == 0) return;
        relax();
    }
    pthread_mutex_lock(&team->mutex);
    atomic_store(&team->caller_waits, true);
    while (atomic_load(&team->pending) != 0) pthread_cond_wait(&team->done, &team->mutex);
    atomic_store(&team->caller_waits, false);
    pthread_mutex_unlock(&team->mutex);
}

/* Stops and joins the first `started` workers, and frees the team. */
static void dissolve(mega_team *team, int started)
{
    atomic_store(&team->stop, true);
    begin_run(team);
    for (int i = 0; i < started; i++) pthread_join(team->workers[i].thread, NULL);
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->start);
    pthread_mutex_destroy(&team->mutex);
    mega_free(team);
}

mega_status mega_team_create(mega_team **out, int size)
{
    if (size < 1) return MEGA_FAIL(MEGA_ERR_USAGE, "number of threads: found %d, expected at least 1", size);
    mega_team *team = mega_calloc(1, sizeof *team + (size_t)(size - 1) * sizeof team->workers[0]);
    if (team == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a team of %d threads", size);
    team->size = size;
    team->spins = size <= mega_cpu_count() ? SPINS : 0;
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->start, NULL);
    pthread_cond_init(&team->done, NULL);

    /* Signals are for the caller: a worker that took one would run a handler in the middle of a kernel. */
    sigset_t before;
    mega_block_signals(&before);
    int started = 0, rc = 0;
    for (; started < size - 1; started++) {
        worker *w = &team->workers[started];
        w->team = team;
        w->index = started + 1;
        rc = pthread_create(&w->thread, NULL, worker_main, w);
        if (rc != 0) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        dissolve(team, started);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "thread %d of %d could not be started: %s; use fewer with --num-threads",
                         started + 2, size, strerror(rc));
    }
    one_openmp_thread();
    *out = team;
    return MEGA_OK;
}

void mega_team_destroy(mega_team *team)
{
    if (team != NULL) dissolve(team, team->size - 1);
}

int mega_team_sleepers(const mega_team *team)
{
    return atomic_load(&team->sleepers);
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

void mega_team_run(mega_team *team, mega_team_work *work, void *user)
{
    if (team == NULL || team->size == 1) {
        work(user, 0, 1);
        return;
    }
    const bool reentered = atomic_exchange(&team->running, true);
    MEGA_ASSERT(!reentered, "a team of %d was asked to run while it was running", team->size);
    (void)reentered;
    team->work = work;
    team->user = user;
    atomic_store(&team->pending, team->size - 1);
    begin_run(team);
    work(user, 0, team->size);
    end_run(team);
    atomic_store(&team->running, false);
}
