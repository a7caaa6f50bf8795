/* Messages over MPI (3.1 and later; Open MPI and MPICH). Everything is begun without blocking and waited for by
 * testing, so that the clock is looked at and other ranks on the same core get to run. */
#include "comm_impl.h"

#if defined(MEGA_HAVE_MPI)
#include "megalith/memory.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
    bool finalizes; /* MPI was begun here */
    MPI_Comm host;  /* the ranks of this host */
};

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

static mega_status begin_mpi(struct mega_transport *t)
{
    int begun, ended, provided;
    MPI_Finalized(&ended);
    if (ended)
        return MEGA_FAIL(MEGA_ERR_COMM,
                         "world of ranks: MPI was ended in this process and cannot begin again; make one "
                         "world a process");
    MPI_Initialized(&begun);
    if (begun) return MEGA_OK;
    const int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (code != MPI_SUCCESS) return mpi_failed("MPI_Init_thread", code);
    t->finalizes = true;
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

mega_status transport_open(mega_world *world)
{
    if (!under_launcher()) return MEGA_OK;
    struct mega_transport *t = mega_calloc(1, sizeof *t);
    if (t == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "world of ranks: no memory for the transport");
    world->transport = t;
    MEGA_TRY(begin_mpi(t));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world->size);
    const int code = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &t->host);
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
    const int code = MPI_Allgather(in, (int)bytes, MPI_BYTE, out, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    (void)world;
    return code == MPI_SUCCESS ? MEGA_OK : mpi_failed("where each rank is", code);
}

mega_status transport_host_all(mega_world *world, bool *all)
{
    int mine = *all, least = 0;
    const int code = MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, world->transport->host);
    *all = least != 0;
    return code == MPI_SUCCESS ? MEGA_OK : mpi_failed("ranks of this host", code);
}

void transport_close(mega_world *world)
{
    struct mega_transport *t = world->transport;
    if (t == NULL) return;
    if (t->finalizes) MPI_Finalize();
    mega_free(t);
    world->transport = NULL;
}

void transport_abort(mega_world *world, int exit_status)
{
    (void)world;
#if defined(MPICH_VERSION)
    nanosleep(&(struct timespec){.tv_nsec = ABORT_NS}, NULL); /* mpiexec drops what it has not read of the last words */
#endif
    MPI_Abort(MPI_COMM_WORLD, exit_status);
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
    for (size_t done = 0; done < bytes;) {
        const size_t left = bytes - done, most = op->comm->world->message_bytes, now = left < most ? left : most;
        MEGA_TRY(reserve(op->messages));
        struct comm_message *m = &op->messages->list[op->messages->count];
        const int code = is_receive
                             ? MPI_Irecv(data + done, (int)now, MPI_BYTE, other, tag, MPI_COMM_WORLD, &m->request)
                             : MPI_Isend(data + done, (int)now, MPI_BYTE, other, tag, MPI_COMM_WORLD, &m->request);
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
    if (world->local_size < world->size) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status);
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
