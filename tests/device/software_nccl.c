/* libnccl.so.2 in software, for ranks that are processes of one host: each collective is work in a stream of the
 * software device. A rank puts its numbers into memory that all ranks share when its stream has come so far, and
 * takes the result when all have; long ones go in pieces. Sums are made in the order of ranks. A send ends only when
 * it is received: NCCL may hold less, and a program must not depend on it. */
#include "number.h"
#include "software.h"
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define X(name, symbol, params) nccl_result symbol params;
MEGA_NCCL_FUNCTIONS(X)
#undef X
const char *ncclGetErrorString(nccl_result error);

enum { MOST_RANKS = 16, MAILBOX = 64 << 10, MOST_GROUP = 256, COMM_MAGIC = 0x434f4d4d };
typedef enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, SEND, RECEIVE } collective;
static const char *const names[] = {"all-reduce", "all-gather", "reduce-scatter", "broadcast", "send", "receive"};

/* What a rank asks for: the same on all ranks. */
typedef struct request {
    uint32_t kind, type, op, root;
    uint64_t count;
} request;

/* A mailbox is written when all have taken what was in it before: `posted` counts what was written, `taken` what the
 * rank has finished with. */
typedef struct mailbox {
    atomic_ullong posted, taken;
    request asked;
    char data[MAILBOX];
} mailbox;

typedef struct shared_comm {
    atomic_uint opened, aborted;          /* the number of ranks that have done so */
    mailbox all[MOST_RANKS];              /* of collectives, by rank */
    mailbox pair[MOST_RANKS][MOST_RANKS]; /* from, to */
} shared_comm;

struct ncclComm {
    unsigned magic; /* 0 when it was destroyed or aborted; it stays, for work that is queued still uses it */
    shared_comm *shared;
    int rank, ranks;
    atomic_bool is_aborted; /* by any thread, and so is the error read */
    _Atomic(nccl_result) error;
    time_t waits_since;                                           /* for other ranks, 0: no */
    uint64_t collectives, sent[MOST_RANKS], received[MOST_RANKS]; /* pieces that were queued so far */
};

/* One collective in a stream. */
typedef struct piece_work {
    nccl_comm comm;
    request asked;
    const char *in;
    char *out;
    uint64_t first;  /* number of the first piece */
    uint64_t done;   /* pieces */
    bool has_posted; /* the present piece */
} piece_work;

/* Those of ncclGroupStart to ncclGroupEnd in one stream: they go on together. */
typedef struct group_work {
    int count;
    piece_work work[MOST_GROUP];
} group_work;

/* ---- numbers ---- */

/* Each partial sum is rounded to the type, but for 16 bits, which are added in f32 as NCCL does. */
static double combine(double a, double b, uint32_t type, uint32_t op)
{
    if (op == NCCL_MAX) return a > b ? a : b;
    if (op == NCCL_MIN) return a < b ? a : b;
    return type == NCCL_F64 || type == NCCL_INT64 || type == NCCL_INT32 ? a + b : (double)((float)a + (float)b);
}

/* ---- pieces of collectives ---- */

/* Elements of each rank's part in a piece. */
static size_t piece_elements(const piece_work *w)
{
    const size_t all = MAILBOX / number_bytes(w->asked.type);
    return w->asked.kind == REDUCE_SCATTER ? all / (size_t)w->comm->ranks : all;
}

static uint64_t pieces_of(const piece_work *w)
{
    const size_t n = piece_elements(w);
    return w->asked.count == 0 ? 1 : (w->asked.count + n - 1) / n;
}

/* The present piece's first element, and the number of its elements. */
static size_t piece_range(const piece_work *w, size_t *count)
{
    const size_t n = piece_elements(w), first = (size_t)w->done * n;
    *count = w->asked.count - first < n ? w->asked.count - first : n;
    return first;
}

static bool is_sent_alone(const piece_work *w)
{
    return w->asked.kind == SEND || w->asked.kind == RECEIVE;
}

static mailbox *own_box(const piece_work *w)
{
    const int rank = w->comm->rank;
    return w->asked.kind == SEND ? &w->comm->shared->pair[rank][w->asked.root] : &w->comm->shared->all[rank];
}

/* Whether everybody has finished with what was in the mailbox before. */
static bool is_free(const piece_work *w)
{
    const uint64_t before = w->first + w->done;
    if (w->asked.kind == SEND) return atomic_load(&own_box(w)->taken) >= before;
    for (int r = 0; r < w->comm->ranks; r++)
        if (atomic_load(&w->comm->shared->all[r].taken) < before) return false;
    return true;
}

static void post(piece_work *w)
{
    mailbox *box = own_box(w);
    size_t count;
    const size_t first = piece_range(w, &count), size = number_bytes(w->asked.type);
    if (w->asked.kind == REDUCE_SCATTER)
        for (int r = 0; r < w->comm->ranks; r++)
            memcpy(box->data + (size_t)r * count * size, w->in + ((size_t)r * w->asked.count + first) * size,
                   count * size);
    else if (w->asked.kind != BROADCAST || (int)w->asked.root == w->comm->rank)
        memcpy(box->data, w->in + first * size, count * size);
    box->asked = w->asked;
    atomic_store(&box->posted, w->first + w->done + 1);
    w->has_posted = true;
}

static bool has_come(const piece_work *w)
{
    const uint64_t number = w->first + w->done + 1;
    shared_comm *s = w->comm->shared;
    if (w->asked.kind == SEND) return atomic_load(&own_box(w)->taken) >= number;
    if (w->asked.kind == RECEIVE) return atomic_load(&s->pair[w->asked.root][w->comm->rank].posted) >= number;
    for (int r = 0; r < w->comm->ranks; r++)
        if (atomic_load(&s->all[r].posted) < number) return false;
    return true;
}

/* All ranks must have asked for the same: NCCL would hang, or write somewhere. */
static void check_same(const piece_work *w)
{
    const shared_comm *s = w->comm->shared;
    const int rank = w->comm->rank;
    for (int r = 0; r < w->comm->ranks; r++) {
        const request *o = is_sent_alone(w) ? &s->pair[w->asked.root][rank].asked : &s->all[r].asked;
        const bool is_same = is_sent_alone(w) ? o->count == w->asked.count && o->type == w->asked.type
                                              : memcmp(o, &w->asked, sizeof *o) == 0;
        if (is_same || w->comm->error != NCCL_OK) continue;
        w->comm->error = NCCL_INVALID_USAGE;
        software_say("NCCL: rank %d calls %s of %llu elements, and rank %d %s of %llu", rank, names[w->asked.kind],
                     (unsigned long long)w->asked.count, is_sent_alone(w) ? (int)w->asked.root : r, names[o->kind],
                     (unsigned long long)o->count);
    }
}

static void reduce(const piece_work *w, size_t first, size_t count)
{
    const request *a = &w->asked;
    const size_t skip = a->kind == REDUCE_SCATTER ? (size_t)w->comm->rank * count : 0;
    for (size_t i = 0; i < count; i++) {
        double sum = number_get(w->comm->shared->all[0].data, a->type, skip + i);
        for (int r = 1; r < w->comm->ranks; r++)
            sum = combine(sum, number_get(w->comm->shared->all[r].data, a->type, skip + i), a->type, a->op);
        number_set(w->out, a->type, first + i, sum);
    }
}

static void take(piece_work *w)
{
    size_t count;
    const size_t first = piece_range(w, &count), size = number_bytes(w->asked.type), bytes = count * size;
    shared_comm *s = w->comm->shared;
    if (w->asked.kind != SEND) check_same(w);
    if (w->asked.kind == ALL_REDUCE || w->asked.kind == REDUCE_SCATTER) reduce(w, first, count);
    else if (w->asked.kind == ALL_GATHER)
        for (int r = 0; r < w->comm->ranks; r++)
            memcpy(w->out + ((size_t)r * w->asked.count + first) * size, s->all[r].data, bytes);
    else if (w->asked.kind == BROADCAST)
        memcpy(w->out + first * size, s->all[w->asked.root].data, bytes);
    else if (w->asked.kind == RECEIVE)
        memcpy(w->out + first * size, s->pair[w->asked.root][w->comm->rank].data, bytes);
    if (w->asked.kind == RECEIVE) atomic_store(&s->pair[w->asked.root][w->comm->rank].taken, w->first + w->done + 1);
    else if (w->asked.kind != SEND)
        atomic_store(&s->all[w->comm->rank].taken, w->first + w->done + 1);
    w->has_posted = false;
    w->done++;
}

/* Whether a rank has waited so long for others, since the time that it keeps, that one of them has surely died. */
static bool is_late(time_t *since)
{
    const char *text = getenv("MEGA_SOFTWARE_CUDA_PATIENCE");
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (*since == 0) *since = now.tv_sec;
    return now.tv_sec - *since >= (text != NULL ? atol(text) : 120);
}

/* Returns whether the rank gives up. */
static bool wait_more(nccl_comm c)
{
    if (!is_late(&c->waits_since)) return false;
    c->error = NCCL_REMOTE_ERROR;
    software_say("NCCL: rank %d waits for a rank that does not come", c->rank);
    return true;
}

/* Goes on as far as the others have come. Returns whether all pieces are done, or will never be. */
static bool piece_run(piece_work *w)
{
    while (w->done < pieces_of(w)) {
        if (w->comm->is_aborted || w->comm->error != NCCL_OK) return true;
        if (!w->has_posted && w->asked.kind != RECEIVE) {
            if (!is_free(w)) return wait_more(w->comm);
            post(w);
        }
        if (!has_come(w)) return wait_more(w->comm);
        take(w);
        w->comm->waits_since = 0;
    }
    return true;
}

static bool group_run(void *user)
{
    group_work *g = user;
    bool is_done = true;
    for (int i = 0; i < g->count; i++) is_done = piece_run(&g->work[i]) && is_done;
    return is_done;
}

/* Numbers of pieces are given in the order of calls, and so are the same on all ranks. */
static void group_queued(void *user)
{
    group_work *g = user;
    for (int i = 0; i < g->count; i++) {
        piece_work *w = &g->work[i];
        uint64_t *next = w->asked.kind == SEND      ? &w->comm->sent[w->asked.root]
                         : w->asked.kind == RECEIVE ? &w->comm->received[w->asked.root]
                                                    : &w->comm->collectives;
        w->first = *next;
        *next += pieces_of(w);
    }
}

static void group_note(void *user)
{
    const group_work *g = user;
    for (int i = 0; i < g->count; i++) {
        const piece_work *w = &g->work[i];
        const size_t part = w->asked.count * number_bytes(w->asked.type), all = part * (size_t)w->comm->ranks;
        const bool is_root = w->asked.kind != BROADCAST || (int)w->asked.root == w->comm->rank;
        if (w->asked.kind != RECEIVE && is_root)
            watch_range(w->in, w->asked.kind == REDUCE_SCATTER ? all : part, false);
        if (w->asked.kind != SEND) watch_range(w->out, w->asked.kind == ALL_GATHER ? all : part, true);
    }
}

/* ---- groups ---- */

typedef struct group_state {
    int depth;
    nccl_result error; /* of a call since the group began: the whole group is not made */
    cu_stream stream;
    group_work work;
} group_state;

/* Of this thread. (A library that is loaded has little room for variables of threads.) */
static group_state *group_get(void)
{
    static _Thread_local group_state *group;
    if (group == NULL && (group = calloc(1, sizeof *group)) == NULL) abort();
    return group;
}

static nccl_result group_queue(void)
{
    group_state *group = group_get();
    const size_t bytes = offsetof(group_work, work) + (size_t)group->work.count * sizeof *group->work.work;
    if (group->work.count == 0) return NCCL_OK;
    const uint32_t kind = group->work.work[0].asked.kind;
    const software_call call = {names[kind], group_queued, group_run, group_note, bytes};
    const cu_result r = software_call_queue(group->stream, &call, &group->work);
    group->work.count = 0;
    return r == CU_OK ? NCCL_OK : NCCL_CUDA_ERROR;
}

/* The outermost group ends: it is made, or forgotten if one of its calls has failed. */
static nccl_result group_end(void)
{
    group_state *group = group_get();
    const nccl_result error = group->error;
    group->error = NCCL_OK;
    if (error == NCCL_OK) return group_queue();
    group->work.count = 0;
    return error;
}

static nccl_result group_fail(nccl_result error)
{
    group_state *group = group_get();
    if (group->depth > 0 && group->error == NCCL_OK) group->error = error;
    return error;
}

nccl_result ncclGroupStart(void)
{
    if (software_fails("ncclGroupStart")) return NCCL_INTERNAL_ERROR;
    group_get()->depth++;
    return NCCL_OK;
}

nccl_result ncclGroupEnd(void)
{
    group_state *group = group_get();
    if (group->depth == 0) return NCCL_INVALID_USAGE;
    const nccl_result error = software_fails("ncclGroupEnd") ? group_fail(NCCL_SYSTEM_ERROR) : NCCL_OK;
    return --group->depth == 0 ? group_end() : error;
}

static bool is_comm(const char *name, nccl_comm comm)
{
    if (comm != NULL && comm->magic == COMM_MAGIC) return true;
    software_refuse(name, "no communicator, or one that was destroyed or aborted");
    return false;
}

static nccl_result add(collective kind, const void *in, void *out, size_t count, unsigned type, unsigned op,
                       unsigned root, nccl_comm comm, cu_stream stream)
{
    static const char *const functions[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter",
                                            "ncclBroadcast", "ncclSend",      "ncclRecv"};
    group_state *group = group_get();
    if (software_fails(functions[kind])) return group_fail(NCCL_SYSTEM_ERROR);
    if (!is_comm(functions[kind], comm) || number_bytes(type) == 0 || op > NCCL_MIN || root >= (unsigned)comm->ranks)
        return group_fail(NCCL_INVALID_ARGUMENT);
    if (comm->error != NCCL_OK) return group_fail(comm->error);
    if (group->work.count > 0 && (group->stream != stream || group->work.count == MOST_GROUP)) {
        software_say("NCCL: a group of more than one stream, or of more than %d calls", MOST_GROUP);
        return group_fail(NCCL_INVALID_USAGE);
    }
    group->stream = stream;
    group->work.work[group->work.count++] =
        (piece_work){.comm = comm, .asked = {kind, type, op, root, count}, .in = in, .out = out};
    return group->depth > 0 ? NCCL_OK : group_queue();
}

nccl_result ncclAllReduce(const void *in, void *out, size_t count, unsigned type, unsigned op, nccl_comm comm,
                          cu_stream stream)
{
    return add(ALL_REDUCE, in, out, count, type, op, 0, comm, stream);
}
nccl_result ncclAllGather(const void *in, void *out, size_t count, unsigned type, nccl_comm comm, cu_stream stream)
{
    return add(ALL_GATHER, in, out, count, type, NCCL_SUM, 0, comm, stream);
}
nccl_result ncclReduceScatter(const void *in, void *out, size_t count, unsigned type, unsigned op, nccl_comm comm,
                              cu_stream stream)
{
    return add(REDUCE_SCATTER, in, out, count, type, op, 0, comm, stream);
}
nccl_result ncclBroadcast(const void *in, void *out, size_t count, unsigned type, int root, nccl_comm comm,
                          cu_stream stream)
{
    return add(BROADCAST, in, out, count, type, NCCL_SUM, (unsigned)root, comm, stream);
}
nccl_result ncclSend(const void *in, size_t count, unsigned type, int to, nccl_comm comm, cu_stream stream)
{
    return add(SEND, in, NULL, count, type, NCCL_SUM, (unsigned)to, comm, stream);
}
nccl_result ncclRecv(void *out, size_t count, unsigned type, int from, nccl_comm comm, cu_stream stream)
{
    return add(RECEIVE, NULL, out, count, type, NCCL_SUM, (unsigned)from, comm, stream);
}

/* ---- communicators ---- */

nccl_result ncclGetVersion(int *version)
{
    if (software_fails("ncclGetVersion")) return NCCL_SYSTEM_ERROR;
    *version = 22000;
    return NCCL_OK;
}

const char *ncclGetErrorString(nccl_result error)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return error < sizeof texts / sizeof *texts ? texts[error] : "unknown result code";
}

nccl_result ncclGetUniqueId(nccl_id *out)
{
    static atomic_uint made;
    if (software_fails("ncclGetUniqueId")) return NCCL_SYSTEM_ERROR;
    memset(out, 0, sizeof *out);
    snprintf(out->internal, sizeof out->internal, "/mega_nccl_%d_%u", (int)getpid(), atomic_fetch_add(&made, 1));
    return NCCL_OK;
}

nccl_result ncclCommInitRank(nccl_comm *out, int ranks, nccl_id id, int rank)
{
    if (ranks < 1 || ranks > MOST_RANKS || rank < 0 || rank >= ranks) return NCCL_INVALID_ARGUMENT;
    if (software_fails("ncclCommInitRank")) return NCCL_SYSTEM_ERROR;
    if (software_leave(software_enter_library(true)) != CU_OK) return NCCL_CUDA_ERROR;
    const int file = shm_open(id.internal, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(shared_comm)) != 0) return NCCL_SYSTEM_ERROR;
    shared_comm *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    nccl_comm c = calloc(1, sizeof *c);
    if (s == MAP_FAILED || c == NULL) return NCCL_SYSTEM_ERROR;
    c->magic = COMM_MAGIC;
    c->shared = s;
    c->rank = rank;
    c->ranks = ranks;
    atomic_fetch_add(&s->opened, 1);
    bool is_given_up = false;
    time_t since = 0;
    while (atomic_load(&s->opened) < (unsigned)ranks && !(is_given_up = is_late(&since))) sched_yield();
    if (rank == 0 || is_given_up) shm_unlink(id.internal);
    if (is_given_up) {
        munmap(s, sizeof *s);
        free(c);
        return NCCL_SYSTEM_ERROR;
    }
    *out = c;
    return NCCL_OK;
}

nccl_result ncclCommDestroy(nccl_comm comm)
{
    if (software_fails("ncclCommDestroy")) return NCCL_INTERNAL_ERROR;
    if (!is_comm("ncclCommDestroy", comm)) return NCCL_INVALID_ARGUMENT;
    comm->magic = 0;
    return NCCL_OK;
}

/* Ends it also where the call is chosen to fail. Like the real one it may wait for the same call on the other ranks. */
nccl_result ncclCommAbort(nccl_comm comm)
{
    const bool fails = software_fails("ncclCommAbort");
    const struct timespec nap = {.tv_nsec = 1000000};
    time_t since = 0;
    if (!is_comm("ncclCommAbort", comm)) return NCCL_INVALID_ARGUMENT;
    comm->magic = 0;
    comm->is_aborted = true;
    atomic_fetch_add(&comm->shared->aborted, 1);
    while (atomic_load(&comm->shared->aborted) < (unsigned)comm->ranks && !is_late(&since)) nanosleep(&nap, NULL);
    return fails ? NCCL_INTERNAL_ERROR : NCCL_OK;
}

/* The call that is chosen to fail finds that another rank is lost: all later calls say so. */
nccl_result ncclCommGetAsyncError(nccl_comm comm, nccl_result *error)
{
    const bool fails = software_fails("ncclCommGetAsyncError");
    if (!is_comm("ncclCommGetAsyncError", comm)) return NCCL_INVALID_ARGUMENT;
    if (fails) comm->error = NCCL_REMOTE_ERROR;
    *error = comm->error;
    return NCCL_OK;
}
