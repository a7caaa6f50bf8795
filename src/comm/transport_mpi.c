/* Messages over MPI (3.1 and later; Open MPI and MPICH). Everything is begun without blocking and waited for by
 * testing, so that the clock is looked at and other ranks on the same core get to run. */
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
    FIRST_TAG = 7001 /* apart from what a program that uses MPI itself may take */
};

struct comm_message {
    MPI_Request request;
    int peer; /* world rank */
    bool is_receive;
};

struct mega_transport {
    MPI_Comm all;     /* the ranks of this world */
    bool is_own_copy; /* `all` was made here, and is freed here */
    MPI_Comm host;    /* the ranks of this host; MPI_COMM_NULL: not yet */
};

/* MPI begins once in a process and ends once, whatever worlds there are in between. An exit handler can reach nothing
 * but a global. */
static struct {
    pid_t process; /* that began MPI here and ends it at its exit; 0: none, so that the program ends MPI itself */
    int worlds;    /* that are not destroyed */
} mpi_life;

/* Set by mpirun, mpiexec, srun for the processes they start. MPI_Init in a process of its own would work as well, but
 * takes half a second and may fail where no network is. */
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
    return MEGA_FAIL(MEGA_ERR_COMM, "%s: MPI says: %.*s", what, length, text);
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

/* A process that leaves a world behind has failed: without MPI_Finalize its launcher knows, and ends the other ranks,
 * which would wait for it. A child of fork is no rank. */
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
    return MEGA_FAIL(MEGA_ERR_MEMORY, "world of ranks: no memory for the end of MPI at exit");
}

/* An MPI that the program began is the program's: its communicator gets a copy, whose messages and error handler are
 * apart from the program's own. */
static mega_status choose_ranks(struct mega_transport *t, const int *communicator)
{
    t->all = t->host = MPI_COMM_NULL;
    if (is_finalized())
        return MEGA_FAIL(MEGA_ERR_COMM,
                         "world of ranks: MPI_Finalize was called in this process, and MPI cannot begin again; destroy "
                         "engines and worlds before, and make none after");
    if (is_initialized()) {
        const MPI_Comm of = communicator != NULL ? MPI_Comm_f2c((MPI_Fint)*communicator) : MPI_COMM_WORLD;
        if (of == MPI_COMM_NULL)
            return MEGA_FAIL(MEGA_ERR_USAGE, "mega_world_create: options.communicator is MPI_COMM_NULL: this process "
                                             "is not in that group; call it in the processes of the group alone");
        const int code = MPI_Comm_dup(of, &t->all);
        if (code != MPI_SUCCESS) return mpi_failed("world of ranks: MPI_Comm_dup", code);
        t->is_own_copy = true;
        return MEGA_OK;
    }
    if (communicator != NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_world_create: options.communicator is given, and MPI is not initialized "
                                         "in this process; call MPI_Init_thread before, or leave it NULL");
    MEGA_TRY(begin_mpi());
    t->all = MPI_COMM_WORLD;
    return MEGA_OK;
}

/* Several hosts of one, for tests. */
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
    if (t == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "world of ranks: no memory for the transport");
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
    return code == MPI_SUCCESS ? MEGA_OK : mpi_failed("where each rank is", code);
}

mega_status transport_host_all(mega_world *world, bool *all)
{
    int mine = *all, least = 0;
    const int code = MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, world->transport->host);
    *all = least != 0;
    return code == MPI_SUCCESS ? MEGA_OK : mpi_failed("ranks of this host", code);
}

/* Whether all ranks have come here. A rank that does not is waited for as long as in any other wait. */
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

/* Where a rank is missing, the world counts as left behind (end_mpi). */
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
    nanosleep(&(struct timespec){.tv_nsec = ABORT_NS}, NULL); /* mpiexec drops what it has not read of the last words */
#endif
    MPI_Abort(world->transport->all, exit_status);
}

/* ---- messages ---- */

static mega_status reserve(comm_messages *m)
{
    if (mega_array_reserve(&m->list, &m->capacity, m->count + 1, sizeof *m->list)) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_MEMORY, "messages between ranks: no memory for %d of them", m->count + 1);
}

/* Single messages have tags of their own: collectives of the group begin theirs whenever they get on. */
static int tag_of(const comm_op *op)
{
    return FIRST_TAG + op->comm->tag + (op->messages == &op->own ? MEGA_COMM_TAGS : 0);
}

/* One message, or several where it is longer than one may be; both sides cut alike. */
static mega_status start(const comm_op *op, int peer, char *data, size_t bytes, bool is_receive)
{
    const int other = comm_world_rank(op->comm, peer), tag = tag_of(op);
    MPI_Comm all = op->comm->world->transport->all;
    for (size_t done = 0; done < bytes;) {
        const size_t left = bytes - done, most = op->comm->world->message_bytes, now = left < most ? left : most;
        MEGA_TRY(reserve(op->messages));
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
    return start(op, peer, (char *)(uintptr_t)data, bytes, false);
}

mega_status transport_receive(const comm_op *op, int peer, void *data, size_t bytes)
{
    return start(op, peer, data, bytes, true);
}

/* From the last to the first: what is through leaves the list, and a look that finds one missing ends. */
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

/* Where ranks outnumber cores, yielding alone hands the core round among those who wait; a nap leaves it to one that
 * computes. Naps are short at first, as what is waited for may be a piece of many, and grow to what costs next to
 * nothing. */
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

const char *transport_description(char *out, size_t size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    snprintf(out, size, "%.*s", (int)strcspn(version, ",\n"), version);
    for (char *tab = out; (tab = strchr(tab, '\t')) != NULL;) *tab = ' '; /* MPICH's */
    return out;
}
#else
typedef int mega_no_mpi; /* transport_none.c is built in its place */
#endif
