/* What the transport, the collectives and the layout share. */
#ifndef MEGA_COMM_IMPL_H
#define MEGA_COMM_IMPL_H

#include "megalith/comm.h"

#define MEGA_COMM_NAME 16
#define MEGA_COMM_WORLD_TAG 6 /* behind those of a layout's groups */

/* Of a world: a reduction keeps a pointer to the numbers of each. */
#define MEGA_COMM_MOST_RANKS 4096

struct mega_comm {
    char name[MEGA_COMM_NAME];
    int rank, size;
    uint64_t sequence; /* collectives begun; names a call in a report: "all_reduce #118 of tp" */
    mega_world *world; /* NULL where size is 1 */
    int stride;        /* between the world ranks of neighbours in this group */
    int tag;           /* of its messages */
};

struct mega_world {
    int rank, size, local_size;
    bool failed; /* and every rank knows */
    mega_comm all;
    double timeout_s;
    size_t message_bytes, scratch_bytes;
    char *scratch;                      /* scratch_bytes; NULL where size is 1 */
    struct mega_transport *transport;   /* NULL where size is 1 */
    const char *collective, *call_name; /* what is under way, for reports */
};

/* World rank of another rank of the group. */
static inline int comm_world_rank(const mega_comm *comm, int peer)
{
    return comm->world->rank + (peer - comm->rank) * comm->stride;
}

/* transport_*.c: one is compiled, by whether there is MPI. Send and receive begin; wait ends all that were begun, or
 * fails after the time limit. Messages between two ranks with one tag keep their order. */
mega_status transport_open(mega_world *world);
void transport_close(mega_world *world);
void transport_abort(mega_world *world, int exit_status);
mega_status transport_send(mega_comm *comm, int peer, const void *data, size_t bytes);
mega_status transport_receive(mega_comm *comm, int peer, void *data, size_t bytes);
mega_status transport_wait(mega_comm *comm);
const char *transport_description(char *out, size_t size);

/* reduce.c: out[i] = the reduction over ranks, in their order, of from[rank][i]; out may be any of them. */
mega_status comm_check_reducible(mega_dtype dtype, const char *what);
void comm_reduce(void *out, const void *const *from, int ranks, int64_t count, mega_dtype dtype, mega_reduce op);

#endif
