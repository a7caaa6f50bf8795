/* The processes that train together, the layout of ranks, and named collectives. All communication goes through here
 * (law 4).
 *
 * A world is what a launcher started (mpirun, mpiexec, srun); without one it is this process alone. Messages go over
 * MPI point to point; the collectives are made of them here, with every sum taken in the order of ranks, in float where
 * the numbers have 16 bits, and rounded once: the same layout gives the same bits, whatever the MPI library. Nothing
 * blocks inside MPI: waiting looks at the clock and yields the core. */
#ifndef MEGALITH_COMM_H
#define MEGALITH_COMM_H

#include "megalith/dtype.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_comm mega_comm;   /* a group of ranks */
typedef struct mega_world mega_world; /* all ranks, and the transport between them */

typedef struct mega_world_options {
    size_t message_bytes;    /* longer messages are cut; 0: what MPI counts in an int. Equal on every rank */
    size_t scratch_bytes;    /* what the collectives of a group hold of other ranks at a time; 0: 4 MiB. Equal on every
                                rank */
    const int *communicator; /* a communicator as a Fortran handle, as MPI_Comm_c2f gives it, of an MPI that the program
                                has initialized; NULL: all processes. Read during mega_world_create only */
} mega_world_options;

/* Collective over the processes of a launcher, or of the communicator. `options` may be NULL. A process that no
 * launcher started is one rank, and MPI is not touched. If the program has initialized MPI (MPI_THREAD_FUNNELED or
 * more, calls from that thread), a copy of its communicator is used and MPI is left as it is: the program destroys its
 * worlds and engines, then calls MPI_Finalize. Otherwise MPI is initialized here, stays so when the world is destroyed,
 * and is finalized when the process exits, so that another world can be created; if a world was not destroyed by then,
 * it is not finalized, and the launcher takes the process for one that failed.
 * Returns MEGA_ERR_USAGE if a communicator is given and MPI is not initialized, or if it is MPI_COMM_NULL;
 * MEGA_ERR_UNSUPPORTED if this build has no MPI and a launcher or a communicator asks for it; MEGA_ERR_COMM if MPI
 * fails or was finalized; MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_world_create(mega_world **out, const mega_world_options *options);
/* Collective, after success. Layouts over it are destroyed first. Waits for the other ranks. */
void mega_world_destroy(mega_world *world);
/* After a failure that the other ranks do not know of: ends the processes of all ranks; the launcher's exit status is
 * `exit_status`. Does not come back where there are several ranks. */
void mega_world_abort(mega_world *world, int exit_status);
int mega_world_rank(const mega_world *world); /* of NULL: 0 of 1 */
int mega_world_size(const mega_world *world);
int mega_world_local_size(const mega_world *world);             /* ranks on this host */
int mega_world_local_rank(const mega_world *world);             /* which of them this is */
int mega_world_host_first(const mega_world *world);             /* the first of them */
void mega_world_set_timeout(mega_world *world, double seconds); /* of a wait; ten minutes until it is set */
/* Where a wait that gets on for no 10 s (half the limit where that is less) is told, once, by one rank of a host; who
 * waits for whom, and what the missing rank is doing (docs/stalls.md). Without it: mega_warn. Past the limit, the wait
 * fails with the same text as its message, on the rank that is first; the others follow 3 s later. */
typedef void mega_stall_report(void *user, const char *text);
void mega_world_set_stall_report(mega_world *world, mega_stall_report *report, void *user);
/* A host that gives no sign of life for so long while a rank waits for one of its ranks ends the run: 6 s, or what
 * MEGA_HOST_TIMEOUT in the environment says (seconds, at least 1). mega_world_lost_host is true from then on: nobody
 * there can be told that the run ends. MEGA_TEST_HOSTS=N is for tests: the ranks of this host are cut into N runs of
 * neighbours, which take each other for other hosts. */
double mega_world_host_timeout(void);
bool mega_world_lost_host(const mega_world *world);
mega_comm *mega_world_comm(mega_world *world); /* all of them */
/* For measurements: whether the collectives of a group that lies on one host go through memory that its ranks share,
 * where they can; otherwise they go over MPI. The bits are the same. Called on every rank, while nothing is under way.
 * Unasked, what MEGA_COMM=shm or MEGA_COMM=mpi in the environment says, or what is faster. */
void mega_world_set_shared(mega_world *world, bool shared);
bool mega_world_can_share(const mega_world *world); /* the ranks of this host have such memory */
/* mega_comm_agree over the whole world has failed: every rank knows, and says the same. */
bool mega_world_failed(const mega_world *world);
/* Every rank has noted that failure and goes on, to look for others: the world is whole again. NULL is fine. */
void mega_world_forget_failure(mega_world *world);
/* Bytes resident in a process of a world of `ranks` ranks, beyond what is planned: its code, its libraries and their
 * data; with several ranks also MPI and what it shares. Measured with Open MPI 4 on x86-64. */
size_t mega_world_process_bytes(int64_t ranks);
/* Name and version of the MPI library, or that there is none. */
const char *mega_world_transport(char *out, size_t size);

typedef enum mega_reduce { MEGA_REDUCE_SUM, MEGA_REDUCE_MAX, MEGA_REDUCE_MIN } mega_reduce;

const char *mega_comm_name(const mega_comm *comm); /* "tp", "dp", "world" */
int mega_comm_rank(const mega_comm *comm);
int mega_comm_size(const mega_comm *comm);
uint64_t mega_comm_sequence(const mega_comm *comm); /* collectives so far in this group */

/* Collective: every rank of comm calls these in the same order with the same counts, types and reductions. Counts are
 * elements. `name` says what for, in reports. In a group of one nothing is sent. Reductions know f32, f64, bf16, f16,
 * i32, i64; the others move any type. */
MEGA_CHECK_RESULT mega_status mega_comm_all_reduce(mega_comm *comm, const char *name, void *data, int64_t count,
                                                   mega_dtype dtype, mega_reduce op);
/* in [size * count_out] → out [count_out], this rank's slice of the sum. out is that slice of `in`, or apart from it.
 */
MEGA_CHECK_RESULT mega_status mega_comm_reduce_scatter(mega_comm *comm, const char *name, void *out, const void *in,
                                                       int64_t count_out, mega_dtype dtype);
/* in [count_in] → out [size * count_in], by rank. in is this rank's slice of out, or apart from it. */
MEGA_CHECK_RESULT mega_status mega_comm_all_gather(mega_comm *comm, const char *name, void *out, const void *in,
                                                   int64_t count_in, mega_dtype dtype);
/* in [size, count] → out [size, count]: row r of in goes to rank r, row r of out came from it. Apart from each other.
 */
MEGA_CHECK_RESULT mega_status mega_comm_all_to_all(mega_comm *comm, const char *name, void *out, const void *in,
                                                   int64_t count, mega_dtype dtype);
MEGA_CHECK_RESULT mega_status mega_comm_broadcast(mega_comm *comm, const char *name, void *data, int64_t bytes,
                                                  int root);
MEGA_CHECK_RESULT mega_status mega_comm_barrier(mega_comm *comm, const char *name);
/* Collective: after local work that may fail. All ranks leave with the status and message of the lowest failing rank.
 * Once that was a failure over the whole world, the world is at its end: further calls give st back without a word,
 * until mega_world_forget_failure, with which the calls of the engine begin. A failing rank waits 5 s for the world,
 * then leaves with its own message (the others may wait elsewhere for it): who gets a failure while mega_world_failed
 * is false ends them with mega_world_abort. */
MEGA_CHECK_RESULT mega_status mega_comm_agree(mega_comm *comm, mega_status st);

/* ---- begun now, waited for later ----
 *
 * A start begins and comes back; what it was given stays untouched (and `name` valid) until the wait on its request.
 * There is no progress thread: things move on in every wait, whatever it is for, and in mega_comm_poll. So requests may
 * be waited for in any order, and ranks may poll whenever they like. The collectives of a group move one after the
 * other in the order in which they were begun, which is the same on all its ranks; groups do not wait for each other
 * (but those of one axis in several layouts do). The bits are those of the blocking calls, which begin and wait, and
 * may be mixed with these. In a group of one all is done at once.
 *
 * At most MEGA_COMM_REQUESTS may be under way in a process; another is refused. Nothing is allocated once each place of
 * that table has served the longest message list it will: after the first step, where steps are alike. */
enum { MEGA_COMM_REQUESTS = 2048 };

/* Zero: nothing under way. Wait through one copy of it. */
typedef struct mega_request {
    mega_world *world; /* private, like the others */
    int place;
    uint32_t use;
} mega_request;

/* Point to point; `peer` is a rank of the group, another than the own. Messages between two ranks of a group meet in
 * the order in which they were begun, and both sides say the same number of bytes. */
MEGA_CHECK_RESULT mega_status mega_comm_send_start(mega_comm *comm, const char *name, int peer, const void *data,
                                                   int64_t bytes, mega_request *out);
MEGA_CHECK_RESULT mega_status mega_comm_receive_start(mega_comm *comm, const char *name, int peer, void *data,
                                                      int64_t bytes, mega_request *out);
MEGA_CHECK_RESULT mega_status mega_comm_all_reduce_start(mega_comm *comm, const char *name, void *data, int64_t count,
                                                         mega_dtype dtype, mega_reduce reduce, mega_request *out);
MEGA_CHECK_RESULT mega_status mega_comm_reduce_scatter_start(mega_comm *comm, const char *name, void *out_,
                                                             const void *in, int64_t count_out, mega_dtype dtype,
                                                             mega_request *out);
MEGA_CHECK_RESULT mega_status mega_comm_all_gather_start(mega_comm *comm, const char *name, void *out_, const void *in,
                                                         int64_t count_in, mega_dtype dtype, mega_request *out);
/* Ends the request, which is zero after it; of zero: nothing. MEGA_ERR_USAGE for a copy of one that was ended. */
MEGA_CHECK_RESULT mega_status mega_comm_wait(mega_request *request);
/* Moves on what is under way, without waiting. Costs nothing where nothing is. `world` may be NULL. */
MEGA_CHECK_RESULT mega_status mega_comm_poll(mega_world *world);

/* Some of the ranks of a group, ascending; this rank is member `own`. */
typedef struct mega_members {
    mega_comm *comm;
    const int *rank; /* in comm */
    int count, own;
} mega_members;
/* Collective over the members: the sum of their numbers, in the order of members, in every one of them. Made of
 * messages, which keep one order with the others of the group. scratch has mega_comm_members_scratch bytes, aligned to
 * 64. */
size_t mega_comm_members_scratch(const mega_members *m, int64_t count, mega_dtype dtype);
MEGA_CHECK_RESULT mega_status mega_comm_members_sum(const mega_members *m, const char *name, void *data, int64_t count,
                                                    mega_dtype dtype, void *scratch);

/* One coordinate of this rank. */
typedef struct mega_axis {
    int rank, size;
    mega_comm *comm;
} mega_axis;

/* How the world's ranks divide; tp varies fastest, then cp, dp, pp (Megatron's order). Read by everyone, written here
 * alone. `pp_back`: the ranks of pp once more, for messages against the stream (gradients), which would else have to
 * keep one order with those along it. */
typedef struct mega_layout {
    mega_axis world, tp, pp, dp, cp, ep, pp_back;
} mega_layout;

typedef struct mega_layout_sizes {
    int tp, pp, cp, ep;              /* dp = world / (tp*pp*cp); 0 stands for 1 */
    int planned_ranks, planned_rank; /* ranks > 0: the layout of that rank in a world that nobody started, to make
                                        plans with; its groups cannot communicate */
} mega_layout_sizes;
/* A layout that does not divide the world is refused with those that do. `world` is borrowed; NULL: one rank. */
MEGA_CHECK_RESULT mega_status mega_layout_create(mega_layout **out, mega_world *world, const mega_layout_sizes *sizes);
void mega_layout_destroy(mega_layout *layout);
/* What its collectives take, planned or real: scratch_bytes for each axis with several ranks, a little for the world.
 */
size_t mega_layout_bytes(const mega_layout *layout);

#ifdef __cplusplus
}
#endif

#endif
