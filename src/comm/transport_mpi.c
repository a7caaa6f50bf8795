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

enum {
    FIRST_TAG = 7001, /* apart from what a program that uses MPI itself may take */
    SPINS = 200,      /* tests before the core is given to others */
    CLOCK_EVERY = 256 /* tests between looks at the clock */
};

typedef struct pending {
    int peer; /* world rank */
    bool is_receive;
} pending;

struct mega_transport {
    MPI_Request *request;
    pending *pending;
    int count, capacity;
    bool finalizes; /* MPI was begun here */
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
    MPI_Comm host;
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) == MPI_SUCCESS) {
        MPI_Comm_size(host, &world->local_size);
        MPI_Comm_free(&host);
    }
    return MEGA_OK;
}

void transport_close(mega_world *world)
{
    struct mega_transport *t = world->transport;
    if (t == NULL) return;
    if (t->finalizes) MPI_Finalize();
    mega_free(t->request);
    mega_free(t->pending);
    mega_free(t);
    world->transport = NULL;
}

void transport_abort(mega_world *world, int exit_status)
{
    (void)world;
    MPI_Abort(MPI_COMM_WORLD, exit_status);
}

static mega_status reserve(struct mega_transport *t)
{
    if (t->count < t->capacity) return MEGA_OK;
    const int capacity = t->capacity == 0 ? 64 : 2 * t->capacity;
    MPI_Request *request = mega_realloc(t->request, (size_t)capacity * sizeof *request);
    if (request != NULL) t->request = request;
    pending *grown = mega_realloc(t->pending, (size_t)capacity * sizeof *grown);
    if (grown != NULL) t->pending = grown;
    if (request == NULL || grown == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "messages between ranks: no memory for %d of them", capacity);
    t->capacity = capacity;
    return MEGA_OK;
}

/* One message, or several where it is longer than one may be; both sides cut alike. */
static mega_status start(mega_comm *comm, int peer, char *data, size_t bytes, bool is_receive)
{
    struct mega_transport *t = comm->world->transport;
    const int other = comm_world_rank(comm, peer), tag = FIRST_TAG + comm->tag;
    for (size_t done = 0; done < bytes;) {
        const size_t left = bytes - done, most = comm->world->message_bytes, now = left < most ? left : most;
        MEGA_TRY(reserve(t));
        MPI_Request *r = &t->request[t->count];
        const int code = is_receive ? MPI_Irecv(data + done, (int)now, MPI_BYTE, other, tag, MPI_COMM_WORLD, r)
                                    : MPI_Isend(data + done, (int)now, MPI_BYTE, other, tag, MPI_COMM_WORLD, r);
        if (code != MPI_SUCCESS) return mpi_failed(comm->world->call_name, code);
        t->pending[t->count++] = (pending){other, is_receive};
        done += now;
    }
    return MEGA_OK;
}

mega_status transport_send(mega_comm *comm, int peer, const void *data, size_t bytes)
{
    return start(comm, peer, (char *)(uintptr_t)data, bytes, false);
}

mega_status transport_receive(mega_comm *comm, int peer, void *data, size_t bytes)
{
    return start(comm, peer, data, bytes, true);
}

/* Names the ranks whose messages have not come, or were not taken. */
static mega_status timed_out(const mega_comm *comm, double waited)
{
    const struct mega_transport *t = comm->world->transport;
    char ranks[128] = "";
    size_t used = 0;
    for (int i = 0; i < t->count && used + 24 < sizeof ranks; i++) {
        int done = 0;
        MPI_Request_get_status(t->request[i], &done, MPI_STATUS_IGNORE);
        if (!done)
            used += (size_t)snprintf(ranks + used, sizeof ranks - used, "%s%s rank %d", used > 0 ? ", " : "",
                                     t->pending[i].is_receive ? "from" : "to", t->pending[i].peer);
    }
    return MEGA_FAIL(
        MEGA_ERR_COMM,
        "rank %d waits in %s #%llu (%s) of group %s since %.0f s for messages %s: that rank is stuck, dead "
        "or somewhere else in the program. --distributed-timeout-minutes sets the limit",
        comm->world->rank, comm->world->collective, (unsigned long long)comm->sequence, comm->world->call_name,
        comm->name, waited, ranks);
}

mega_status transport_wait(mega_comm *comm)
{
    struct mega_transport *t = comm->world->transport;
    const double began = mega_time_now();
    for (long tests = 0;; tests++) {
        int done = 0;
        const int code = MPI_Testall(t->count, t->request, &done, MPI_STATUSES_IGNORE);
        if (code != MPI_SUCCESS) return mpi_failed(comm->world->call_name, code);
        if (done) break;
        if (tests < SPINS) continue;
        sched_yield();
        const double waited = tests % CLOCK_EVERY == 0 ? mega_time_now() - began : 0;
        if (waited > comm->world->timeout_s) return timed_out(comm, waited);
    }
    t->count = 0;
    return MEGA_OK;
}

const char *transport_description(char *out, size_t size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    snprintf(out, size, "%.*s", (int)strcspn(version, ",\n"), version);
    return out;
}
#else
typedef int mega_no_mpi; /* transport_none.c is built in its place */
#endif
