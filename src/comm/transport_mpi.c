/* Messages over MPI (3.1 and later; Open MPI and MPICH). Every message is started without blocking and waited for by
 * testing, so that the clock is checked and other ranks on the same core get to run. */
#include "comm_impl.h"

#if defined(MEGA_HAVE_MPI)
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    NAP_NS = 5000,
    NAP_DOUBLES = 4,
    NAP_MOST_NS = 80000,
    ABORT_NS = 300000000,
    FIRST_TAG = 7001 /* unlikely to collide with tags of a program that uses MPI itself */
};

struct comm_message {
    MPI_Request request;
    int peer; /* world rank */
    bool is_receive;
};

struct mega_transport {
    MPI_Comm all;     /* the ranks of this world */
    bool is_own_copy; /* `all` was created here, and is freed here */
    MPI_Comm host;    /* the ranks of this host; MPI_COMM_NULL: not created yet */
};

/* MPI can be initialized and finalized only once per process, however many worlds come and go. An exit handler can
 * access only globals. */
static struct {
    pid_t process; /* the process that initialized MPI here and finalizes it at exit; 0: the program does that itself */
    int worlds;    /* worlds that are not destroyed */
} mpi_life;

/* Set by mpirun, mpiexec and srun for the processes they start. MPI_Init in a process without launcher would work too,
 * but takes half a second and may fail without a network. */
static bool under_launcher(void)
{
    static const char *const sign[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "PMI_FD"};
    for (size_t i = 0; i < sizeof sign / sizeof *sign; i++)
        if (getenv(sign[i]) != NULL) return true;
    return false;
}

static mega_status mpi_failed(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    return MEGA_FAIL(MEGA_ERR_COMM, "%s: MPI reports: %.*s", what, length, text);
}

static bool is_finalized(void)
{
    int ended;
    MPI_Finalized(&ended);
    return ended != 0;
}

static bool is_initialized(void)
{
    int begun;
    MPI_Initialized(&begun);
    return begun != 0;
}

/* A process that exits with a world still open has failed: without MPI_Finalize the launcher notices and ends the other
 * ranks, which would otherwise wait for it. A forked child is not a rank. */
static void end_mpi(void)
{
    if (mpi_life.process == getpid() && mpi_life.worlds == 0 && !is_finalized()) MPI_Finalize();
}

static mega_status begin_mpi(void)
{
    int provided;
    const int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (code != MPI_SUCCESS) return mpi_failed("MPI_Init_thread", code);
    mpi_life.process = getpid();
    if (atexit(end_mpi) == 0) return MEGA_OK;
    return MEGA_NO_MEMORY("world of ranks", "the exit handler that finalizes MPI");
}

/* An MPI that the program initialized belongs to the program: its communicator is duplicated, so that messages and
 * error handler are separate from the program's. */
static mega_status choose_ranks(struct mega_transport *t, const int *communicator)
{
    t->all = t->host = MPI_COMM_NULL;
    if (is_finalized())
        return MEGA_FAIL(
            MEGA_ERR_COMM,
            "world of ranks: MPI_Finalize was called in this process, and MPI cannot be initialized again; destroy "
            "engines and worlds before it, and create none after it");
    if (is_initialized()) {
        const MPI_Comm of = communicator != NULL ? MPI_Comm_f2c((MPI_Fint)*communicator) : MPI_COMM_WORLD;
        if (of == MPI_COMM_NULL)
            return MEGA_MISTAKE("mega_world_create: options.communicator is MPI_COMM_NULL: this process "
                                "is not in that group; call it only in the processes of the group");
        const int code = MPI_Comm_dup(of, &t->all);
        if (code != MPI_SUCCESS) return mpi_failed("world of ranks: MPI_Comm_dup", code);
        t->is_own_copy = true;
        return MEGA_OK;
    }
    if (communicator != NULL)
        return MEGA_MISTAKE("mega_world_create: options.communicator is given, but MPI is not initialized "
                            "in this process; call MPI_Init_thread first, or leave it NULL");
    MEGA_TRY(begin_mpi());
    t->all = MPI_COMM_WORLD;
    return MEGA_OK;
}

/* For tests: divides one host into several. */
static mega_status cut_host(mega_world *world)
{
    const char *value = getenv(MEGA_TEST_HOSTS);
    const int hosts = value == NULL ? 1 : atoi(value);
    MPI_Comm whole = world->transport->host;
    if (hosts <= 1) return MEGA_OK;
    const int mine = (int)((int64_t)world->local_rank * hosts / world->local_size);
    const int code = MPI_Comm_split(whole, mine, 0, &world->transport->host);
    if (code != MPI_SUCCESS) return mpi_failed("ranks of this host", code);
    MPI_Comm_free(&whole);
    MPI_Comm_size(world->transport->host, &world->local_size);
    MPI_Comm_rank(world->transport->host, &world->local_rank);
    return MEGA_OK;
}

mega_status transport_open(mega_world *world, const int *communicator)
{
    if (!under_launcher() && communicator == NULL && (!is_initialized() || is_finalized())) return MEGA_OK;
    struct mega_transport *t = mega_calloc(1, sizeof *t);
    if (t == NULL) return MEGA_NO_MEMORY("world of ranks", "the transport");
    world->transport = t;
    mpi_life.worlds++;
    MEGA_TRY(choose_ranks(t, communicator));
    MPI_Comm_set_errhandler(t->all, MPI_ERRORS_RETURN);
    MPI_Comm_rank(t->all, &world->rank);
    MPI_Comm_size(t->all, &world->size);
    const int code = MPI_Comm_split_type(t->all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &t->host);
    if (code != MPI_SUCCESS) return mpi_failed("ranks of this host", code);
    MPI_Comm_size(t->host, &world->local_size);
    MPI_Comm_rank(t->host, &world->local_rank);
    return cut_host(world);
}

mega_status transport_host_broadcast(mega_world *world, void *data, size_t bytes)
{
    const int code = MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, world->transport->host);
    return code == MPI_SUCCESS ? MEGA_OK : mpi_failed("ranks of this host", code);
}

mega_status transport_host_barrier(mega_world *world)
{
    const int code = MPI_Barrier(world->transport->host);
    return code == MPI_SUCCESS ? MEGA_OK : mpi_failed("ranks of this host", code);
}

mega_status transport_all_gather(mega_world *world, const void *in, void *out, size_t bytes)
{
    const int code = MPI_Allgather(in, (int)bytes, MPI_BYTE, out, (int)bytes, MPI_BYTE, world->transport->all);
    return code == MPI_SUCCESS ? MEGA_OK : mpi_failed("the host of each rank", code);
}

mega_status transport_host_all(mega_world *world, bool *all)
{
    int mine = *all, least = 0;
    const int code = MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, world->transport->host);
    *all = least != 0;
    return code == MPI_SUCCESS ? MEGA_OK : mpi_failed("ranks of this host", code);
}

/* Returns whether all ranks have arrived here. Missing ranks are waited for as long as in any other wait. */
static bool all_leave(const mega_world *world)
{
    MPI_Request request;
    int done = 0;
    const double began = mega_time_now();
    if (world->stalled || world->lost_host) return false;
    if (MPI_Ibarrier(world->transport->all, &request) != MPI_SUCCESS) return false;
    for (long polls = 0; !done; polls++) {
        if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
        if (!done && mega_time_now() - began > world->timeout_s) return false;
        if (!done) transport_yield(world, polls);
    }
    return true;
}

/* If a rank is missing, the world counts as left open (see the exit handler above). */
void transport_close(mega_world *world)
{
    struct mega_transport *t = world->transport;
    if (t == NULL) return;
    const bool is_alive = !is_finalized();
    const bool is_whole = t->all == MPI_COMM_NULL || (is_alive && all_leave(world));
    if (is_whole && t->host != MPI_COMM_NULL) MPI_Comm_free(&t->host);
    if (is_whole && t->is_own_copy) MPI_Comm_free(&t->all);
    mpi_life.worlds -= is_whole || !is_alive;
    mega_free(t);
    world->transport = NULL;
}

void transport_abort(mega_world *world, int exit_status)
{
#if defined(MPICH_VERSION)
    /* mpiexec drops output that it has not read yet, such as the error message */
    nanosleep(&(struct timespec){.tv_nsec = ABORT_NS}, NULL);
#endif
    MPI_Abort(world->transport->all, exit_status);
}

/* ---- messages ---- */

static mega_status messages_reserve(comm_messages *m)
{
    if (mega_array_reserve(&m->list, &m->capacity, m->count + 1, sizeof *m->list)) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_MEMORY, "messages between ranks: no memory for %d of them", m->count + 1);
}

/* Single messages have tags of their own, because collectives of the group start their messages at unpredictable
 * times. */
static int tag_of(const comm_op *op)
{
    return FIRST_TAG + op->comm->tag + (op->messages == &op->own ? MEGA_COMM_TAGS : 0);
}

/* Starts one message, or several if it is longer than the limit; both sides split it alike. */
static mega_status message_start(const comm_op *op, int peer, char *data, size_t bytes, bool is_receive)
{
    const int other = comm_world_rank(op->comm, peer), tag = tag_of(op);
    MPI_Comm all = op->comm->world->transport->all;
    for (size_t done = 0; done < bytes;) {
        const size_t left = bytes - done, most = op->comm->world->message_bytes, now = left < most ? left : most;
        MEGA_TRY(messages_reserve(op->messages));
        struct comm_message *m = &op->messages->list[op->messages->count];
        const int code = is_receive ? MPI_Irecv(data + done, (int)now, MPI_BYTE, other, tag, all, &m->request)
                                    : MPI_Isend(data + done, (int)now, MPI_BYTE, other, tag, all, &m->request);
        if (code != MPI_SUCCESS) return mpi_failed(op->name, code);
        m->peer = other;
        m->is_receive = is_receive;
        op->messages->count++;
        done += now;
    }
    return MEGA_OK;
}

mega_status transport_send(const comm_op *op, int peer, const void *data, size_t bytes)
{
    return message_start(op, peer, (char *)(uintptr_t)data, bytes, false);
}

mega_status transport_receive(const comm_op *op, int peer, void *data, size_t bytes)
{
    return message_start(op, peer, data, bytes, true);
}

/* From last to first: completed messages leave the list; stops at the first that is incomplete. */
mega_status transport_test(const comm_op *op, bool *through)
{
    comm_messages *m = op->messages;
    for (*through = false; m->count > 0; m->count--) {
        int done = 0;
        const int code = MPI_Test(&m->list[m->count - 1].request, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) return mpi_failed(op->name, code);
        if (!done) return MEGA_OK;
    }
    *through = true;
    return MEGA_OK;
}

void transport_messages_fini(comm_messages *messages)
{
    mega_free(messages->list);
    *messages = (comm_messages){0};
}

int transport_missing(const comm_op *op, int *ranks, int most)
{
    const comm_messages *m = op->messages;
    int count = 0;
    for (int i = 0; i < m->count && count < most; i++) {
        int done = 0, known = 0;
        MPI_Request_get_status(m->list[i].request, &done, MPI_STATUS_IGNORE);
        while (known < count && ranks[known] != m->list[i].peer) known++;
        if (!done && known == count) ranks[count++] = m->list[i].peer;
    }
    return count;
}

/* With more ranks than cores, yielding alone passes the core around among ranks that wait; a nap leaves it to a rank
 * that computes. Naps are short at first, because the awaited message may be one piece of many, and grow until they
 * cost almost nothing. */
void transport_yield(const mega_world *world, long times)
{
    const long nap = times < NAP_DOUBLES ? NAP_NS << times : NAP_MOST_NS;
    if (world->is_crowded || world->lent != NULL) nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
    else
        sched_yield();
}

void transport_progress(const mega_world *world)
{
    int found;
    MPI_Status status;
    if (world->local_size < world->size)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world->transport->all, &found, &status);
}

bool transport_is_open(void)
{
    return mpi_life.worlds > 0;
}

const char *transport_description(char *out, size_t size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    snprintf(out, size, "%.*s", (int)strcspn(version, ",\n"), version);
    for (char *tab = out; (tab = strchr(tab, '\t')) != NULL;) *tab = ' '; /* MPICH's text contains tabs */
    return out;
}
#else
typedef int mega_no_mpi; /* transport_none.c is built instead */
#endif
