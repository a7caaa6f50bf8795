/* Exchanges of a GPU with those of other ranks, by NCCL: its library, communicators, and exchanges in streams beside
 * the one that computes. Events order them: an exchange begins when what was queued before it has run, and what is
 * queued after `await` begins when it is done. The host waits for none of them.
 *
 * The collectives of a rank run in one lane, in the order in which they were started, which is the same on all ranks.
 * Each direction between two neighbours of a pipeline has a communicator and a lane of its own: a send then waits for
 * its receive and for nothing else, as a message of MPI does, so that no schedule of a pipeline can end in ranks that
 * wait for each other. */
#include "gpu.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "nccl_calls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ENDINGS_S 1.0 /* how long a close waits for ncclCommAbort */

enum {
    OLDEST = 21000,  /* 2.10.0: the first that adds bf16 */
    LOOK_EVERY = 256 /* waits between questions for what failed on its own */
};

/* A communicator that a thread of its own ends. The last of the thread and the close frees it. */
typedef struct cuda_ending {
    nccl_result (*abort)(nccl_comm comm);
    nccl_comm comm;
    atomic_bool is_over;
    atomic_int owners;
} cuda_ending;

struct mega_exchange_group {
    nccl_comm comm; /* NULL: it was ended */
    cuda_ending *ending;
    char name[MEGA_EXCHANGE_NAME];
    int ranks, rank, lane;
    mega_exchange_group *next;
};

/* Events with times, which cost more. */
typedef struct exchange_times {
    cu_event began, ended;
} exchange_times;

struct cuda_exchanges {
    mega_nccl nccl;
    int version;
    mega_exchange_watch watch;
    cu_stream lane[MEGA_EXCHANGE_LANES]; /* those that a group has */
    cu_event ready, *done;               /* done: by place */
    exchange_times *times;               /* by place; NULL until one is timed */
    int places;
    size_t left; /* free memory when it was opened */
    mega_exchange_group *first;
    bool is_ended;
};

/* ---- the library ---- */

/* NCCL loads NVIDIA's driver by itself: it does not know of one that is named by MEGA_CUDA_LIBRARY. */
static mega_status nccl_library(void **out)
{
    static const char *const name = "libnccl.so.2";
    const char *path = getenv("MEGA_NCCL_LIBRARY"), *driver = getenv("MEGA_CUDA_LIBRARY");
    char found[MEGA_CUDA_PATH];
    if (path != NULL && path[0] != '\0') {
        *out = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        return *out != NULL ? MEGA_OK : MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "MEGA_NCCL_LIBRARY: %s", dlerror());
    }
    if (driver != NULL && driver[0] != '\0')
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "no NCCL that knows the driver of MEGA_CUDA_LIBRARY; MEGA_NCCL_LIBRARY names one");
    *out = mega_cuda_library_find(&name, 1, found);
    if (*out != NULL) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "no NCCL: %s is not where the loader, the toolkit or Python's wheels have libraries; pip install "
                     "nvidia-nccl-cu12 brings it, and MEGA_NCCL_LIBRARY names another place",
                     name);
}

static mega_status nccl_symbols(void *library, mega_nccl *out)
{
    void *symbol;
#define X(member, name, params)                                                                                   \
    symbol = dlsym(library, #name);                                                                               \
    if (symbol == NULL)                                                                                           \
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "NCCL has no function %s: it is too old; 2.10 or newer is needed", \
                         #name);                                                                                  \
    memcpy(&out->member, &symbol, sizeof symbol);
    MEGA_NCCL_FUNCTIONS(X)
    X(error_text, ncclGetErrorString, )
#undef X
    symbol = dlsym(library, "ncclGetLastError");
    memcpy(&out->last_error, &symbol, sizeof symbol);
    return MEGA_OK;
}

/* Fails with what NCCL says. `comm` may be NULL. */
static mega_status nccl_check(const mega_nccl *nccl, nccl_result result, nccl_comm comm, const char *what)
{
    const char *last = result != NCCL_OK && nccl->last_error != NULL ? nccl->last_error(comm) : NULL;
    if (result == NCCL_OK) return MEGA_OK;
    return MEGA_FAIL(
        MEGA_ERR_COMM, "%s: %s (error %u of NCCL)%s%s; NCCL_DEBUG=WARN in the environment makes it say more", what,
        nccl->error_text(result), result, last != NULL && last[0] != '\0' ? ": " : "", last != NULL ? last : "");
}

/* Since 2.9 a major version has 10000 numbers, before it had 1000. */
static void nccl_version_text(char text[MEGA_CUDA_TEXT], int version)
{
    const int major = version < 10000 ? 1000 : 10000;
    snprintf(text, MEGA_CUDA_TEXT, "%d.%d.%d", version / major, version % major / 100, version % 100);
}

static mega_status library_open(mega_nccl *nccl, int *version)
{
    void *library = NULL; /* stays loaded: NCCL has threads of its own */
    MEGA_TRY(nccl_library(&library));
    MEGA_TRY(nccl_symbols(library, nccl));
    MEGA_TRY(nccl_check(nccl, nccl->version(version), NULL, "ncclGetVersion"));
    char text[MEGA_CUDA_TEXT];
    nccl_version_text(text, *version);
    if (*version >= OLDEST) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "NCCL %s is too old; 2.10 or newer is needed", text);
}

mega_status mega_cuda_nccl(char text[MEGA_CUDA_TEXT])
{
    mega_nccl nccl;
    int version;
    MEGA_TRY(library_open(&nccl, &version));
    nccl_version_text(text, version);
    return MEGA_OK;
}

/* ---- opening ---- */

static cuda_exchanges *exchanges_of(mega_device *device)
{
    return ((mega_cuda_gpu *)device)->exchanges;
}

static mega_status make_events(mega_cuda_gpu *g, cuda_exchanges *x)
{
    x->done = mega_calloc((size_t)x->places, sizeof *x->done);
    if (x->done == NULL) return MEGA_NO_MEMORY(g->name, "the events of its exchanges");
    MEGA_TRY(mega_cuda_check(&g->cuda, g->cuda.event_create(&x->ready, CU_NO_TIMING), "an event of exchanges"));
    for (int i = 0; i < x->places; i++)
        MEGA_TRY(mega_cuda_check(&g->cuda, g->cuda.event_create(&x->done[i], CU_NO_TIMING), "an event of exchanges"));
    return MEGA_OK;
}

/* 0: not known. */
static size_t free_memory(const mega_cuda_gpu *g)
{
    size_t left = 0, all;
    return g->failed.code == MEGA_OK && g->cuda.memory_info(&left, &all) == CU_OK ? left : 0;
}

static size_t exchanges_taken(mega_device *device)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    const size_t before = g->exchanges->left, now = mega_cuda_gpu_enter(g, 1) ? free_memory(g) : 0;
    mega_cuda_gpu_leave(g);
    return now > 0 && before > now ? before - now : 0;
}

static mega_status exchanges_open(mega_device *device, int places, const mega_exchange_watch *watch)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    cuda_exchanges *x = mega_calloc(1, sizeof *x);
    if (x == NULL) return MEGA_NO_MEMORY(g->name, "its exchanges");
    x->places = places;
    x->watch = *watch;
    mega_status st = library_open(&x->nccl, &x->version);
    if (st == MEGA_OK) {
        if (!mega_cuda_gpu_enter(g, 1)) st = mega_cuda_gpu_status(g);
        g->exchanges = x;
        x->left = free_memory(g);
        if (st == MEGA_OK) st = make_events(g, x);
        mega_cuda_gpu_leave(g);
        return st;
    }
    mega_free(x);
    return st;
}

static int exchanges_version(mega_device *device)
{
    return exchanges_of(device)->version;
}

static mega_status exchanges_id(mega_device *device, char out[MEGA_EXCHANGE_ID])
{
    const cuda_exchanges *x = exchanges_of(device);
    nccl_id id;
    MEGA_TRY(nccl_check(&x->nccl, x->nccl.id_get(&id), NULL, "ncclGetUniqueId"));
    memcpy(out, id.internal, MEGA_EXCHANGE_ID);
    return MEGA_OK;
}

/* ncclCommInitRank waits for the other ranks in the host, possibly for ever, so a thread of its own calls it. If the
 * wait is given up, that thread stays in the call, and frees nothing. */
typedef struct group_opening {
    mega_nccl nccl;
    mega_cuda_driver cuda;
    cu_context context;
    nccl_id id;
    int ranks, rank;
    nccl_comm comm;
    nccl_result result;
    atomic_bool is_done;
} group_opening;

static void *opening_run(void *argument)
{
    group_opening *o = argument;
    cu_context own;
    o->result = NCCL_CUDA_ERROR;
    if (o->cuda.context_push(o->context) == CU_OK) {
        o->result = o->nccl.comm_init(&o->comm, o->ranks, o->id, o->rank);
        (void)o->cuda.context_pop(&own);
    }
    atomic_store(&o->is_done, true);
    return NULL;
}

static mega_status opening_wait(mega_cuda_gpu *g, const group_opening *o)
{
    const mega_exchange_watch *w = &g->exchanges->watch;
    mega_status st = MEGA_OK;
    long times = 0;
    while (!atomic_load(&o->is_done) && st == MEGA_OK) st = w->look(w->user, times++);
    if (times > 0) w->over(w->user);
    g->is_entered = true; /* the watch may have used the GPU */
    return st;
}

static mega_status group_make(mega_cuda_gpu *g, mega_exchange_group *p, const char *bytes)
{
    cuda_exchanges *x = g->exchanges;
    char what[MEGA_EXCHANGE_NAME + 192];
    pthread_t thread;
    group_opening *o = mega_calloc(1, sizeof *o);
    if (o == NULL) return MEGA_NO_MEMORY(g->name, "a group of its exchanges");
    *o = (group_opening){.nccl = x->nccl, .cuda = g->cuda, .context = g->context, .ranks = p->ranks, .rank = p->rank};
    memcpy(o->id.internal, bytes, MEGA_EXCHANGE_ID);
    snprintf(what, sizeof what, "%s: ncclCommInitRank of %s, rank %d of %d", g->name, p->name, p->rank, p->ranks);
    if (pthread_create(&thread, NULL, opening_run, o) != 0) {
        mega_free(o);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no thread for it", what);
    }
    const mega_status waited = opening_wait(g, o);
    if (waited != MEGA_OK) {
        (void)pthread_detach(thread);
        return waited;
    }
    (void)pthread_join(thread, NULL);
    p->comm = o->comm;
    const nccl_result made = o->result;
    mega_free(o);
    MEGA_TRY(nccl_check(&x->nccl, made, NULL, what));
    if (x->lane[p->lane] != NULL) return MEGA_OK;
    return mega_cuda_check(&g->cuda, g->cuda.stream_create(&x->lane[p->lane], CU_NON_BLOCKING),
                           "a stream of exchanges");
}

static mega_status group_open(mega_device *device, const char *name, const char id[MEGA_EXCHANGE_ID], int ranks,
                              int rank, int lane, mega_exchange_group **out)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    mega_exchange_group *p = mega_calloc(1, sizeof *p);
    *out = NULL;
    if (p == NULL) return MEGA_NO_MEMORY(g->name, "a group of its exchanges");
    *p = (mega_exchange_group){.ranks = ranks, .rank = rank, .lane = lane, .next = g->exchanges->first};
    snprintf(p->name, sizeof p->name, "%s", name);
    g->exchanges->first = p;
    if (mega_cuda_gpu_enter(g, 1)) (void)mega_cuda_gpu_keep(g, group_make(g, p, id));
    mega_cuda_gpu_leave(g);
    *out = p;
    return mega_cuda_gpu_status(g);
}

/* ---- exchanges ---- */

static unsigned nccl_type(mega_dtype dtype)
{
    switch (dtype) {
    case MEGA_F32: return NCCL_F32;
    case MEGA_BF16: return NCCL_BF16;
    case MEGA_F64: return NCCL_F64;
    case MEGA_F16: return NCCL_F16;
    case MEGA_I32: return NCCL_INT32;
    case MEGA_I64: return NCCL_INT64;
    default: return NCCL_INT8;
    }
}

/* Each rank sends a row to each other one; its own it has already. */
static nccl_result all_to_all(const mega_nccl *nccl, const mega_exchange_group *p, const mega_exchange *e, size_t row,
                              cu_stream lane)
{
    nccl_result r = nccl->group_start();
    if (r != NCCL_OK) return r;
    for (int k = 0; k < p->ranks && r == NCCL_OK; k++) {
        if (k == p->rank) continue;
        r = nccl->send((const char *)e->in + (size_t)k * row, row, NCCL_INT8, k, p->comm, lane);
        if (r == NCCL_OK) r = nccl->receive((char *)e->out + (size_t)k * row, row, NCCL_INT8, k, p->comm, lane);
    }
    const nccl_result ended = nccl->group_end();
    return r != NCCL_OK ? r : ended;
}

static nccl_result messages(const mega_nccl *nccl, const mega_exchange_group *p, const mega_exchange *e, cu_stream lane)
{
    nccl_result r = nccl->group_start();
    if (r != NCCL_OK) return r;
    for (int64_t i = 0; i < e->count && r == NCCL_OK; i++) {
        const mega_message *m = &e->messages[i];
        r = m->is_received ? nccl->receive(m->data, (size_t)m->bytes, NCCL_INT8, m->peer, p->comm, lane)
                           : nccl->send(m->data, (size_t)m->bytes, NCCL_INT8, m->peer, p->comm, lane);
    }
    const nccl_result ended = nccl->group_end();
    return r != NCCL_OK ? r : ended;
}

/* What is moved but not summed is bytes to NCCL. */
static nccl_result nccl_call(const mega_nccl *nccl, const mega_exchange_group *p, const mega_exchange *e,
                             cu_stream lane)
{
    static const unsigned reductions[] = {
        [MEGA_REDUCE_SUM] = NCCL_SUM, [MEGA_REDUCE_MAX] = NCCL_MAX, [MEGA_REDUCE_MIN] = NCCL_MIN};
    const size_t count = (size_t)e->count, bytes = count * mega_dtype_size(e->dtype);
    const unsigned type = nccl_type(e->dtype);
    switch (e->kind) {
    case MEGA_EXCHANGE_ALL_REDUCE:
        return nccl->all_reduce(e->in, e->out, count, type, reductions[e->reduce], p->comm, lane);
    case MEGA_EXCHANGE_REDUCE_SCATTER: return nccl->reduce_scatter(e->in, e->out, count, type, NCCL_SUM, p->comm, lane);
    case MEGA_EXCHANGE_ALL_GATHER: return nccl->all_gather(e->in, e->out, bytes, NCCL_INT8, p->comm, lane);
    case MEGA_EXCHANGE_ALL_TO_ALL: return all_to_all(nccl, p, e, bytes, lane);
    case MEGA_EXCHANGE_BROADCAST: return nccl->broadcast(e->in, e->out, bytes, NCCL_INT8, e->peer, p->comm, lane);
    case MEGA_EXCHANGE_MESSAGES: return messages(nccl, p, e, lane);
    case MEGA_EXCHANGE_SEND: return nccl->send(e->in, bytes, NCCL_INT8, e->peer, p->comm, lane);
    default: return nccl->receive(e->out, bytes, NCCL_INT8, e->peer, p->comm, lane);
    }
}

static bool make_times(mega_cuda_gpu *g, int place)
{
    cuda_exchanges *x = g->exchanges;
    if (x->times == NULL) x->times = mega_calloc((size_t)x->places, sizeof *x->times);
    if (x->times == NULL) return mega_cuda_gpu_keep(g, MEGA_NO_MEMORY(g->name, "the times of its exchanges"));
    exchange_times *t = &x->times[place];
    return t->ended != NULL || (mega_cuda_gpu_is_done(g, g->cuda.event_create(&t->began, 0), "an event of exchanges") &&
                                mega_cuda_gpu_is_done(g, g->cuda.event_create(&t->ended, 0), "an event of exchanges"));
}

static bool note_time(mega_cuda_gpu *g, const mega_exchange *e, bool is_end, cu_stream lane)
{
    if (!e->is_timed) return true;
    if (!is_end && !make_times(g, e->place)) return false;
    const exchange_times *t = &g->exchanges->times[e->place];
    return mega_cuda_gpu_is_done(g, g->cuda.event_record(is_end ? t->ended : t->began, lane), "an event of exchanges");
}

static bool queue_exchange(mega_cuda_gpu *g, const mega_exchange_group *p, const mega_exchange *e)
{
    static const char *const names[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclSend and ncclRecv",
                                        "ncclBroadcast", "ncclSend",          "ncclRecv",      "ncclSend and ncclRecv"};
    const cuda_exchanges *x = g->exchanges;
    const cu_stream lane = x->lane[p->lane];
    char what[2 * MEGA_EXCHANGE_NAME + 192];
    if (!mega_cuda_gpu_is_done(g, g->cuda.event_record(x->ready, g->stream), "an event of exchanges") ||
        !mega_cuda_gpu_is_done(g, g->cuda.stream_wait_event(lane, x->ready, 0), "an event of exchanges") ||
        !note_time(g, e, false, lane))
        return false;
    const nccl_result made = nccl_call(&x->nccl, p, e, lane);
    if (made != NCCL_OK)
        snprintf(what, sizeof what, "%s: %s (%s) of %s, rank %d of %d", g->name, names[e->kind], e->name, p->name,
                 p->rank, p->ranks);
    return mega_cuda_gpu_keep(g, nccl_check(&x->nccl, made, p->comm, what)) && note_time(g, e, true, lane) &&
           mega_cuda_gpu_is_done(g, g->cuda.event_record(x->done[e->place], lane), "an event of exchanges");
}

static mega_status exchanges_start(mega_device *device, mega_exchange_group *group, const mega_exchange *what)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    if (mega_cuda_gpu_enter(g, 1)) (void)queue_exchange(g, group, what);
    mega_cuda_gpu_leave(g);
    return mega_cuda_gpu_status(g);
}

static mega_status exchanges_await(mega_device *device, int place)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    if (mega_cuda_gpu_enter(g, 1))
        (void)mega_cuda_gpu_is_done(g, g->cuda.stream_wait_event(g->stream, g->exchanges->done[place], 0),
                                    "an event of exchanges");
    mega_cuda_gpu_leave(g);
    return mega_cuda_gpu_status(g);
}

static mega_status exchanges_is_done(mega_device *device, int place, bool *out)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    *out = false;
    if (mega_cuda_gpu_enter(g, 1)) {
        const cu_result r = g->cuda.event_query(g->exchanges->done[place]);
        *out = r == CU_OK;
        if (r != CU_NOT_READY) (void)mega_cuda_gpu_is_done(g, r, "waiting for an exchange");
    }
    mega_cuda_gpu_leave(g);
    return mega_cuda_gpu_status(g);
}

static mega_status exchanges_seconds(mega_device *device, int place, double *out)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    const exchange_times *t = &g->exchanges->times[place];
    float milliseconds = 0;
    if (mega_cuda_gpu_enter(g, 1))
        (void)mega_cuda_gpu_is_done(g, g->cuda.event_elapsed(&milliseconds, t->began, t->ended),
                                    "the time of an exchange");
    mega_cuda_gpu_leave(g);
    *out = (double)milliseconds * 1e-3;
    return mega_cuda_gpu_status(g);
}

/* ---- waiting ---- */

/* Asks what has failed without a call that could have said so: a link, a rank that is gone. */
static mega_status ask(const mega_cuda_gpu *g)
{
    const cuda_exchanges *x = g->exchanges;
    char what[MEGA_EXCHANGE_NAME + 192];
    for (const mega_exchange_group *p = x->first; p != NULL; p = p->next) {
        nccl_result error = NCCL_OK;
        if (p->comm == NULL) continue;
        snprintf(what, sizeof what, "%s: ncclCommGetAsyncError of %s, rank %d of %d", g->name, p->name, p->rank,
                 p->ranks);
        MEGA_TRY(nccl_check(&x->nccl, x->nccl.comm_error(p->comm, &error), p->comm, what));
        if (error != NCCL_IN_PROGRESS) MEGA_TRY(nccl_check(&x->nccl, error, p->comm, what));
    }
    return MEGA_OK;
}

static cu_result query(const mega_cuda_gpu *g, cu_stream stream, cu_event event)
{
    return event != NULL ? g->cuda.event_query(event) : g->cuda.stream_query(stream);
}

bool mega_cuda_exchanges_wait(mega_cuda_gpu *g, cu_stream stream, cu_event event, const char *what)
{
    const mega_exchange_watch *w = &g->exchanges->watch;
    cu_result r = query(g, stream, event);
    mega_status st = MEGA_OK;
    long times = 0;
    for (; r == CU_NOT_READY && st == MEGA_OK; r = query(g, stream, event)) {
        if (times % LOOK_EVERY == LOOK_EVERY - 1) st = ask(g);
        if (st == MEGA_OK) st = w->look(w->user, times++);
        g->is_entered = true; /* the watch may have used the GPU */
        if (st == MEGA_OK) st = mega_cuda_gpu_status(g);
    }
    if (times > 0) w->over(w->user);
    g->is_entered = true;
    return mega_cuda_gpu_keep(g, st) && mega_cuda_gpu_is_done(g, r, what);
}

/* ---- ending after a failure ---- */

static void ending_leave(cuda_ending *e)
{
    if (atomic_fetch_sub(&e->owners, 1) == 1) mega_free(e);
}

static void *ending_run(void *user)
{
    cuda_ending *e = user;
    (void)e->abort(e->comm);
    e->is_over = true;
    ending_leave(e);
    return NULL;
}

/* ncclCommAbort tells the communicator's work to end, and then may wait: for the same call on other ranks, which do not
 * know of the failure yet, or for work that comes after another communicator's, which is still to be ended (before NCCL
 * 2.22 no group of calls ends several at once). So nobody waits for it. */
static cuda_ending *ending_begin(const mega_nccl *nccl, nccl_comm comm)
{
    pthread_t thread;
    cuda_ending *e = mega_calloc(1, sizeof *e);
    if (e == NULL) return NULL; /* then the end of the process ends it */
    *e = (cuda_ending){.abort = nccl->comm_abort, .comm = comm, .owners = 2};
    if (pthread_create(&thread, NULL, ending_run, e) == 0) {
        (void)pthread_detach(thread);
        return e;
    }
    mega_free(e);
    return NULL;
}

void mega_cuda_exchanges_abort(mega_cuda_gpu *g)
{
    cuda_exchanges *x = g->exchanges;
    if (x == NULL || x->is_ended) return;
    x->is_ended = true;
    for (mega_exchange_group *p = x->first; p != NULL; p = p->next) {
        if (p->comm != NULL) p->ending = ending_begin(&x->nccl, p->comm);
        p->comm = NULL;
    }
}

/* A moment for the ends: what the GPU has is given back then. */
static void endings_finish(const cuda_exchanges *x)
{
    const double until = mega_time_now() + ENDINGS_S;
    const struct timespec nap = {.tv_nsec = 1000000};
    for (const mega_exchange_group *p = x->first; p != NULL; p = p->next)
        for (; p->ending != NULL && !p->ending->is_over; nanosleep(&nap, NULL))
            if (mega_time_now() > until) return;
}

/* ---- closing ---- */

/* What is not done by now keeps others from their end, too. */
static void lanes_finish(mega_cuda_gpu *g)
{
    for (int i = 0; i < MEGA_EXCHANGE_LANES; i++)
        if (g->exchanges->lane[i] != NULL && g->failed.code == MEGA_OK)
            (void)mega_cuda_exchanges_wait(g, g->exchanges->lane[i], NULL, "waiting for exchanges");
}

static void exchanges_close(mega_device *device)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    cuda_exchanges *x = g->exchanges;
    if (x == NULL) return;
    if (mega_cuda_gpu_enter(g, 1)) lanes_finish(g);
    mega_cuda_gpu_leave(g);
    endings_finish(x);
    (void)mega_cuda_gpu_enter_to_end(g);
    for (mega_exchange_group *p = x->first, *next; p != NULL; p = next) {
        next = p->next;
        if (p->comm != NULL) (void)x->nccl.comm_destroy(p->comm);
        if (p->ending != NULL) ending_leave(p->ending);
        mega_free(p);
    }
    for (int i = 0; i < x->places && x->done != NULL; i++)
        if (x->done[i] != NULL) (void)g->cuda.event_destroy(x->done[i]);
    for (int i = 0; i < x->places && x->times != NULL; i++) {
        if (x->times[i].began != NULL) (void)g->cuda.event_destroy(x->times[i].began);
        if (x->times[i].ended != NULL) (void)g->cuda.event_destroy(x->times[i].ended);
    }
    if (x->ready != NULL) (void)g->cuda.event_destroy(x->ready);
    for (int i = 0; i < MEGA_EXCHANGE_LANES; i++)
        if (x->lane[i] != NULL) (void)g->cuda.stream_destroy(x->lane[i]);
    g->exchanges = NULL;
    mega_cuda_gpu_leave(g);
    mega_free(x->done);
    mega_free(x->times);
    mega_free(x);
}

const mega_device_exchanges mega_cuda_exchanges = {.open = exchanges_open,
                                                   .version = exchanges_version,
                                                   .id = exchanges_id,
                                                   .group_open = group_open,
                                                   .start = exchanges_start,
                                                   .await = exchanges_await,
                                                   .is_done = exchanges_is_done,
                                                   .seconds = exchanges_seconds,
                                                   .taken = exchanges_taken,
                                                   .close = exchanges_close};
