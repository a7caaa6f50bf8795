/* A build without MPI: one rank. */
#include "comm_impl.h"

#if !defined(MEGA_HAVE_MPI)

#include <stdio.h>
#include <stdlib.h>

mega_status transport_open(mega_world *world, const int *communicator)
{
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    (void)world;
    if (communicator != NULL)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "mega_world_create: options.communicator is given, but this megalith was "
                         "built without MPI; install libopenmpi-dev or libmpich-dev and build "
                         "again");
    if (size == NULL) size = getenv("PMI_SIZE");
    if (size != NULL && atoi(size) > 1)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "a launcher started %s ranks, but this megalith was built without MPI; install libopenmpi-dev "
                         "or libmpich-dev and build again",
                         size);
    return MEGA_OK;
}

void transport_close(mega_world *world)
{
    (void)world;
}

void transport_abort(mega_world *world, int exit_status)
{
    (void)world, (void)exit_status;
}

static mega_status no_other(const comm_op *op)
{
    return MEGA_FAIL(MEGA_ERR_COMM, "group %s: built without MPI", op->comm->name);
}

mega_status transport_send(const comm_op *op, int peer, const void *data, size_t bytes)
{
    (void)peer, (void)data, (void)bytes;
    return no_other(op);
}

mega_status transport_receive(const comm_op *op, int peer, void *data, size_t bytes)
{
    (void)peer, (void)data, (void)bytes;
    return no_other(op);
}

mega_status transport_test(const comm_op *op, bool *through)
{
    *through = false;
    return no_other(op);
}

void transport_messages_fini(comm_messages *messages)
{
    (void)messages;
}

int transport_missing(const comm_op *op, int *ranks, int most)
{
    (void)op, (void)ranks, (void)most;
    return 0;
}

void transport_yield(const mega_world *world, long times)
{
    (void)world;
    (void)times;
}

void transport_progress(const mega_world *world)
{
    (void)world;
}

mega_status transport_host_broadcast(mega_world *world, void *data, size_t bytes)
{
    (void)world, (void)data, (void)bytes;
    return MEGA_OK;
}

mega_status transport_host_barrier(mega_world *world)
{
    (void)world;
    return MEGA_OK;
}

mega_status transport_all_gather(mega_world *world, const void *in, void *out, size_t bytes)
{
    (void)world, (void)in, (void)out, (void)bytes;
    return MEGA_OK;
}

mega_status transport_host_all(mega_world *world, bool *all)
{
    (void)world;
    (void)all;
    return MEGA_OK;
}

bool transport_is_open(void)
{
    return false;
}

const char *transport_description(char *out, size_t size)
{
    snprintf(out, size, "none (built without MPI)");
    return out;
}
#else
typedef int mega_with_mpi; /* transport_mpi.c is built instead */
#endif
