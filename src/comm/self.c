/* Transport `self`: groups of one rank. A collective counts itself and, where the result has another place than the
 * input, copies; everything else would be a no-op. */
#include "comm_impl.h"
#include "megalith/assert.h"

#include <string.h>

const char *mega_comm_name(const mega_comm *comm)
{
    return comm->name;
}

int mega_comm_rank(const mega_comm *comm)
{
    return comm->rank;
}

int mega_comm_size(const mega_comm *comm)
{
    return comm->size;
}

uint64_t mega_comm_sequence(const mega_comm *comm)
{
    return comm->sequence;
}

static void begin(mega_comm *comm, const char *name)
{
    MEGA_ASSERT(comm->size == 1, "%s of group %s: transport self has one rank, the group %d", name, comm->name,
                comm->size);
    comm->sequence++;
}

mega_status mega_comm_all_reduce(mega_comm *comm, const char *name, void *data, int64_t count, mega_dtype dtype,
                                 mega_reduce op)
{
    (void)data, (void)count, (void)dtype, (void)op;
    begin(comm, name);
    return MEGA_OK;
}

mega_status mega_comm_reduce_scatter(mega_comm *comm, const char *name, void *out, const void *in, int64_t count_out,
                                     mega_dtype dtype)
{
    begin(comm, name);
    if (out != in && count_out > 0) memmove(out, in, (size_t)count_out * mega_dtype_size(dtype));
    return MEGA_OK;
}

mega_status mega_comm_all_gather(mega_comm *comm, const char *name, void *out, const void *in, int64_t count_in,
                                 mega_dtype dtype)
{
    begin(comm, name);
    if (out != in && count_in > 0) memmove(out, in, (size_t)count_in * mega_dtype_size(dtype));
    return MEGA_OK;
}

mega_status mega_comm_broadcast(mega_comm *comm, const char *name, void *data, int64_t bytes, int root)
{
    (void)data, (void)bytes;
    begin(comm, name);
    if (root != 0)
        return MEGA_FAIL(MEGA_ERR_COMM, "broadcast %s in group %s: root %d is not in it; expected 0, its only rank",
                         name, comm->name, root);
    return MEGA_OK;
}

mega_status mega_comm_barrier(mega_comm *comm, const char *name)
{
    begin(comm, name);
    return MEGA_OK;
}

mega_status mega_comm_agree(mega_comm *comm, mega_status st)
{
    begin(comm, "agree");
    return st; /* with one rank its own message is the one that all would leave with */
}
