/* A team of threads. Between two runs a worker spins for some microseconds and then sleeps; so does the caller while it
 * waits for the last worker. Spinning is only for teams that have a core for each thread: on fewer cores it would take
 * the time from the very thread that it waits for.
 *
 * Work is claimed, not dealt (mega_team_for): a thread that another process holds up would otherwise hold up all. Each
 * thread first claims pieces of its own share, which keeps what it reads in its own cache from run to run, and then
 * pieces of the shares that are not done. A run ends when every piece is done: a worker that has not even begun is not
 * waited for. It finds the gate closed when it comes.
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

#define SPINS  4000
#define PIECES 8 /* of a thread's share */
#define CLOSED (1 << 30)
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

/* What is left of a thread's share, in grains. */
typedef struct share {
    _Atomic int64_t next; /* beyond `end` once all is claimed */
    int64_t end;
    char apart[112]; /* two cache lines: no other share in the line, nor in the one that is fetched with it */
} share;

/* Items that are claimed. */
typedef struct claimed_run {
    mega_team_part *part;
    int64_t n, grain, piece; /* items, items, grains */
} claimed_run;

struct mega_team {
    int size, spins;
    double waited;
    mega_team_work *work; /* of a run in which every thread works once */
    void *user;
    claimed_run claimed;
    share *share;                               /* of each thread */
    const volatile sig_atomic_t *asked_to_stop; /* by the caller; NULL: never */
    atomic_uint generation;                     /* grows by two per run; odd: every thread works once */
    atomic_int pending;                         /* workers that have not finished this run */
    atomic_int gate;                            /* workers inside a claimed run; below 0: none may enter */
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

/* Waits until a run other than `seen` has begun. */
static unsigned wait_for_run(mega_team *team, unsigned seen)
{
    for (int i = 0; i < team->spins; i++) {
        const unsigned now = atomic_load_explicit(&team->generation, memory_order_acquire);
        if (now != seen) return now;
        relax();
    }
    pthread_mutex_lock(&team->mutex);
    atomic_fetch_add(&team->sleepers, 1);
    while (atomic_load(&team->generation) == seen) pthread_cond_wait(&team->start, &team->mutex);
    atomic_fetch_sub(&team->sleepers, 1);
    pthread_mutex_unlock(&team->mutex);
    return atomic_load(&team->generation);
}

/* ---- claims ---- */

static bool claim(share *s, int64_t piece, int64_t *begin, int64_t *end)
{
    if (atomic_load_explicit(&s->next, memory_order_relaxed) >= s->end) return false;
    *begin = atomic_fetch_add_explicit(&s->next, piece, memory_order_relaxed);
    *end = *begin + piece < s->end ? *begin + piece : s->end;
    return *begin < s->end;
}

#ifdef MEGA_SHUFFLE_CLAIMS

/* For tests of kernels: pieces of odd sizes in an order of no sense, as if every claim had come late. All threads claim
 * from the first share, where piece i stands for piece i * STRIDE of SHUFFLED. */
enum { SHUFFLED = 61, STRIDE = 37 };

static void claim_pieces(mega_team *team, int thread)
{
    const claimed_run *r = &team->claimed;
    int64_t i, end;
    while (claim(&team->share[0], 1, &i, &end)) {
        const int64_t at = i * STRIDE % SHUFFLED, grains = (r->n + r->grain - 1) / r->grain;
        const int64_t first = grains * at / SHUFFLED * r->grain, last = grains * (at + 1) / SHUFFLED * r->grain;
        if (first < last) r->part(team->user, thread, first, last < r->n ? last : r->n);
    }
}

static void lay_out(mega_team *team, int64_t grains)
{
    (void)grains;
    atomic_store(&team->share[0].next, 0);
    team->share[0].end = SHUFFLED;
}

#else

static void claim_pieces(mega_team *team, int thread)
{
    const claimed_run *r = &team->claimed;
    int64_t begin, end;
    for (int i = 0; i < team->size; i++) {
        share *s = &team->share[(thread + i) % team->size];
        while (claim(s, r->piece, &begin, &end))
            r->part(team->user, thread, begin * r->grain, end * r->grain < r->n ? end * r->grain : r->n);
    }
}

static void lay_out(mega_team *team, int64_t grains)
{
    for (int i = 0; i < team->size; i++) {
        atomic_store_explicit(&team->share[i].next, grains * i / team->size, memory_order_relaxed);
        team->share[i].end = grains * (i + 1) / team->size;
    }
    const int64_t most = (grains + team->size - 1) / team->size;
    team->claimed.piece = (most + PIECES - 1) / PIECES;
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

/* A run that is over has closed the gate; the one that is open may be a later one, which is as good. */
static void join_claimed(mega_team *team, int thread)
{
    if (atomic_fetch_add(&team->gate, 1) >= 0) claim_pieces(team, thread);
    if (atomic_fetch_sub(&team->gate, 1) == 1 - CLOSED) wake_caller(team);
}

static void *worker_main(void *argument)
{
    worker *self = argument;
    mega_team *team = self->team;
    one_openmp_thread();
    for (unsigned seen = 0;;) {
        seen = wait_for_run(team, seen);
        if (atomic_load(&team->stop)) return NULL;
        if (seen % 2 == 0) {
            join_claimed(team, self->index);
            continue;
        }
        team->work(team->user, self->index, team->size);
        if (atomic_fetch_sub(&team->pending, 1) == 1) wake_caller(team);
    }
}

/* `every`: the workers work once each; otherwise they may. */
static void begin_run(mega_team *team, bool every)
{
    const unsigned now = atomic_load(&team->generation);
    atomic_store(&team->generation, ((now | 1) + 1) | every);
    if (atomic_load(&team->sleepers) == 0) return;
    pthread_mutex_lock(&team->mutex);
    pthread_cond_broadcast(&team->start);
    pthread_mutex_unlock(&team->mutex);
}

/* Until the count is `last`. */
static void wait_for_workers(mega_team *team, atomic_int *count, int last)
{
    for (int i = 0; i < team->spins; i++) {
        if (atomic_load_explicit(count, memory_order_acquire) == last) return;
        relax();
    }
    pthread_mutex_lock(&team->mutex);
    atomic_store(&team->caller_waits, true);
    while (atomic_load(count) != last) pthread_cond_wait(&team->done, &team->mutex);
    atomic_store(&team->caller_waits, false);
    pthread_mutex_unlock(&team->mutex);
}

/* Stops and joins the first `started` workers, and frees the team. */
static void dissolve(mega_team *team, int started)
{
    atomic_store(&team->stop, true);
    begin_run(team, true);
    for (int i = 0; i < started; i++) pthread_join(team->workers[i].thread, NULL);
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->start);
    pthread_mutex_destroy(&team->mutex);
    mega_free(team->share);
    mega_free(team);
}

mega_status mega_team_create(mega_team **out, int size)
{
    if (size < 1) return MEGA_FAIL(MEGA_ERR_USAGE, "number of threads: found %d, expected at least 1", size);
    mega_team *team = mega_calloc(1, sizeof *team + (size_t)(size - 1) * sizeof team->workers[0]);
    share *shares = mega_calloc((size_t)size, sizeof *shares);
    if (team == NULL || shares == NULL) {
        mega_free(shares);
        mega_free(team);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a team of %d threads", size);
    }
    team->share = shares;
    atomic_store(&team->gate, -CLOSED);
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

static void take(mega_team *team)
{
    const bool reentered = atomic_exchange(&team->running, true);
    MEGA_ASSERT(!reentered, "a team of %d was asked to run while it was running", team->size);
    (void)reentered;
}

void mega_team_run(mega_team *team, mega_team_work *work, void *user)
{
    if (team == NULL || team->size == 1) {
        work(user, 0, 1);
        return;
    }
    take(team);
    team->work = work;
    team->user = user;
    atomic_store(&team->pending, team->size - 1);
    begin_run(team, true);
    work(user, 0, team->size);
    wait_for_workers(team, &team->pending, 0);
    atomic_store(&team->running, false);
}

void mega_team_for(mega_team *team, int64_t n, int64_t grain, mega_team_part *part, void *user)
{
    const int64_t grains = (n + grain - 1) / grain;
    if (team == NULL || (team->size == 1 && !SHUFFLES) || grains <= 1) {
        if (n > 0) part(user, 0, 0, n);
        return;
    }
    take(team);
    team->user = user;
    team->claimed = (claimed_run){.part = part, .n = n, .grain = grain};
    lay_out(team, grains);
    atomic_fetch_add(&team->gate, CLOSED);
    begin_run(team, false);
    claim_pieces(team, 0);
    atomic_fetch_sub(&team->gate, CLOSED);
    const double done = mega_time_now();
    wait_for_workers(team, &team->gate, -CLOSED);
    team->waited += mega_time_now() - done;
    atomic_store(&team->running, false);
}

double mega_team_waited(const mega_team *team)
{
    return team != NULL ? team->waited : 0;
}

#define SMALL_ZERO ((int64_t)1 << 16) /* bytes that one thread sets before another would wake */

static void zero(void *user, int thread, int64_t begin, int64_t end)
{
    (void)thread;
    memset((char *)user + begin, 0, (size_t)(end - begin));
}

void mega_team_zero(mega_team *team, void *data, size_t bytes)
{
    mega_team_for((int64_t)bytes < SMALL_ZERO ? NULL : team, (int64_t)bytes, 4096, zero, data);
}
