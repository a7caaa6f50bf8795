/* The processes that train together, the layout of ranks, and named collectives. All communication goes through here.
 *
 * A world consists of the processes that a launcher started (mpirun, mpiexec, srun); without a launcher it is this
 * process alone. Messages are MPI point-to-point messages, or copies in memory that ranks of a host share. The
 * collectives are implemented on top of them: every sum is taken in the order of ranks, 16-bit numbers are summed in
 * float and rounded once, so the same layout gives the same bits with any MPI library. Nothing blocks inside MPI:
 * waiting polls, checks the clock and yields the core. */
#ifndef MEGALITH_COMM_H
#define MEGALITH_COMM_H

#include "megalith/dtype.h"
#include "megalith/message.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_comm mega_comm;   /* a group of ranks */
typedef struct mega_world mega_world; /* all ranks and the transport between them */

typedef struct mega_world_options {
    size_t message_bytes; /* longer messages are split; 0: INT_MAX. Equal on every rank */
    size_t scratch_bytes; /* scratch per group for data of other ranks; 0: 4 MiB. Equal on every rank */
    /* communicator of an MPI that the program has initialized, as a Fortran handle (MPI_Comm_c2f); NULL: all
     * processes. Read during mega_world_create only */
    const int *communicator;
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
MEGA_CHECK_RESULT mega_status mega_world_create(const mega_world_options *options, mega_world **out);
/* Collective, after success. Waits for the other ranks. Destroy its engines, generators and layouts first: while there
 * is one, or a stall is being reported, this does nothing but warn. */
void mega_world_destroy(mega_world *world);
/* Call after a failure that the other ranks do not know of: ends the processes of all ranks; the launcher exits with
 * `exit_status`. Does not return if there are several ranks. */
void mega_world_abort(mega_world *world, int exit_status);
int mega_world_rank(const mega_world *world); /* NULL is a world of one rank, 0 */
int mega_world_size(const mega_world *world);
int mega_world_local_size(const mega_world *world);             /* number of ranks on this host */
int mega_world_local_rank(const mega_world *world);             /* this rank's index among them */
int mega_world_host_first(const mega_world *world);             /* world rank of the first of them */
void mega_world_set_timeout(mega_world *world, double seconds); /* limit of a wait; initially ten minutes */
/* Sets the function that reports a wait without progress. Each rank calls it when it has waited for 10 s (half the
 * limit if that is less), and with `is_over` when this wait has ended well. `text`, on one rank of each host, says who
 * waits for whom and what the missing rank is doing (docs/stalls.md); otherwise NULL. Without a function: mega_warn.
 * After the limit, the wait fails with the same text as its message on the first rank that notices; the others follow 3
 * s later. */
typedef void mega_stall_report(void *user, bool is_over, const char *text);
void mega_world_set_stall_report(mega_world *world, mega_stall_report *report, void *user);
/* Returns the seconds after which a host without a sign of life ends the run, if a rank waits for one of its ranks: 6,
 * or the value of the environment variable MEGA_HOST_TIMEOUT (at least 1). From then on mega_world_lost_host returns
 * true: the ranks of that host cannot be told that the run ends. For tests, the environment variable MEGA_TEST_HOSTS=N
 * divides the ranks of this host into N groups of neighbours, which treat each other as other hosts. */
double mega_world_host_timeout(void);
bool mega_world_lost_host(const mega_world *world);
mega_comm *mega_world_comm(mega_world *world); /* the group of all ranks */
/* For measurements: whether collectives of a group within one host go through memory that its ranks share, if possible,
 * or over MPI. The bits are the same. Call it on every rank, while no operation is in progress. Default: the
 * environment variable MEGA_COMM=shm or MEGA_COMM=mpi, otherwise the faster one. */
void mega_world_set_shared(mega_world *world, bool shared);
bool mega_world_can_share(const mega_world *world); /* whether the ranks of this host have such memory */
/* Returns whether mega_comm_agree over the whole world has failed: every rank then has the same status and message. */
bool mega_world_failed(const mega_world *world);
/* Makes the world usable again after such a failure. Every rank calls it, once it has returned or printed the message.
 * NULL is allowed. */
void mega_world_forget_failure(mega_world *world);
/* Returns the resident bytes of a process in a world of `ranks` ranks, beyond planned memory: code, libraries and their
 * data, and MPI with its shared memory, if there are several ranks or an MPI launcher started this one. Measured with
 * Open MPI 4 on x86-64, on a machine that maps 1/code_scale of the code that this one does. */
size_t mega_world_process_bytes(int64_t ranks, double code_scale);
/* Asked at the start of a program, before it maps files of data: the code that is mapped, compared with that machine. 1
 * unless they clearly differ, so that a plan gives the same numbers each time. */
double mega_world_code_scale(void);
/* Writes name and version of the MPI library, or that there is none, and returns out. */
const char *mega_world_transport(char *out, size_t size);

const char *mega_comm_name(const mega_comm *comm); /* "tp", "dp", "world" */
int mega_comm_rank(const mega_comm *comm);
int mega_comm_size(const mega_comm *comm);
uint64_t mega_comm_sequence(const mega_comm *comm); /* number of collectives started in this group */
/* Returns the bytes of this rank that collectives of the group fill if the largest moves `bytes` (of all ranks
 * together): in the memory that the ranks of a host share, or else in the group's scratch. A planned group is one of
 * ranks on one host. */
size_t mega_comm_buffer_bytes(const mega_comm *comm, size_t bytes);

/* Collective: every rank of comm calls these in the same order with the same counts, data types and reductions. Counts
 * are elements. `name` states the purpose, for reports. In a group of one nothing is sent. Reductions support f32, f64,
 * bf16, f16, i32 and i64; the other calls move any type. They return MEGA_ERR_COMM if a rank has failed, is missing or
 * makes another call, and MEGA_ERR_UNSUPPORTED for another type. */
MEGA_CHECK_RESULT mega_status mega_comm_all_reduce(mega_comm *comm, const char *name, void *data, int64_t count,
                                                   mega_dtype dtype, mega_reduce op);
/* in [size * count_out] → out [count_out], this rank's slice of the sum. out is that slice of `in`, or does not overlap
 * it. */
MEGA_CHECK_RESULT mega_status mega_comm_reduce_scatter(mega_comm *comm, const char *name, void *out, const void *in,
                                                       int64_t count_out, mega_dtype dtype);
/* in [count_in] → out [size * count_in], in the order of ranks. in is this rank's slice of out, or does not overlap
 * it. */
MEGA_CHECK_RESULT mega_status mega_comm_all_gather(mega_comm *comm, const char *name, void *out, const void *in,
                                                   int64_t count_in, mega_dtype dtype);
/* in [size, count] → out [size, count]: row r of in goes to rank r, row r of out comes from it. No overlap. */
MEGA_CHECK_RESULT mega_status mega_comm_all_to_all(mega_comm *comm, const char *name, void *out, const void *in,
                                                   int64_t count, mega_dtype dtype);
MEGA_CHECK_RESULT mega_status mega_comm_broadcast(mega_comm *comm, const char *name, void *data, int64_t bytes,
                                                  int root);
MEGA_CHECK_RESULT mega_status mega_comm_barrier(mega_comm *comm, const char *name);
/* Collective: call it after local work that may fail. All ranks return the status and message of the lowest failing
 * rank. After such a failure over the whole world, further calls return st at once, until mega_world_forget_failure,
 * which engine calls begin with. If the other ranks do not join, a failing rank waits 5 s, then returns its own
 * message, because the others may be waiting for it elsewhere: a caller that gets a failure while mega_world_failed is
 * false must end them with mega_world_abort. */
MEGA_CHECK_RESULT mega_status mega_comm_agree(mega_comm *comm, mega_status st);

/* Data may be memory of a device (device_memory.h): it then goes through memory of the host that the world keeps for
 * later exchanges, unless mega_layout_connect has connected the devices. Call this before the device is closed, which
 * gives that memory back. `world` may be NULL. */
struct mega_device;
void mega_comm_forget_device(mega_world *world, const struct mega_device *device);

/* ---- non-blocking calls ----
 *
 * A start call returns at once; the data and `name` must stay valid and the data unchanged until the wait on its
 * request. There is no progress thread: every wait, whatever it waits for, and mega_comm_poll make progress on all
 * operations. So requests may be waited for in any order, and ranks may poll at any time. The collectives of a group
 * run one after the other in the order in which they were started, which must be the same on all its ranks; groups do
 * not wait for each other (except groups of the same axis in several layouts). The bits are those of the blocking
 * calls, which start and wait, and may be mixed with these. In a group of one everything completes at once.
 *
 * A start returns MEGA_ERR_USAGE if MEGA_COMM_REQUESTS are in progress in this process, MEGA_ERR_UNSUPPORTED for a type
 * that cannot be summed, MEGA_ERR_MEMORY, or MEGA_ERR_COMM if an earlier call has failed. Nothing is allocated once
 * each slot of that table has held its longest message list: after the first step, if steps are alike. */
enum { MEGA_COMM_REQUESTS = 2048 };

/* All zero: no operation. Wait through only one copy of it. */
typedef struct mega_request {
    mega_world *world; /* private, like the other fields */
    int place;
    uint32_t use;
} mega_request;

/* Point to point; `peer` is another rank of the group. Messages between two ranks of a group match in the order in
 * which they were started, and both sides must give the same number of bytes. */
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
MEGA_CHECK_RESULT mega_status mega_comm_all_to_all_start(mega_comm *comm, const char *name, void *out_, const void *in,
                                                         int64_t count, mega_dtype dtype, mega_request *out);
/* Starts messages that go on together, in whatever order the ranks list them; those of two ranks in one direction match
 * in their order. Each of requests [count] is to be waited for, also after a failure; the list is read at once. */
MEGA_CHECK_RESULT mega_status mega_comm_messages_start(mega_comm *comm, const char *name, const mega_message *list,
                                                       int count, mega_request *requests);
/* Waits until the operation is complete and zeroes the request; does nothing if it is zero. Returns MEGA_ERR_USAGE for
 * a copy of a request that was already waited for, MEGA_ERR_COMM if a rank has failed or the limit has passed. */
MEGA_CHECK_RESULT mega_status mega_comm_wait(mega_request *request);
/* Makes progress on all operations without waiting. Free of cost if there are none. `world` may be NULL. */
MEGA_CHECK_RESULT mega_status mega_comm_poll(mega_world *world);

/* Some of the ranks of a group, ascending; this rank is rank[own]. */
typedef struct mega_members {
    mega_comm *comm;
    const int *rank; /* ranks in comm */
    int count, own;
    struct mega_exchange_group *devices; /* private: their devices' (mega_layout_connect); NULL: none */
} mega_members;
/* Collective over the members: each receives the sum of their numbers, taken in the order of members; that of devices
 * which are connected, in the order of NCCL. Otherwise uses messages, which share one order with the group's other
 * messages. scratch has mega_comm_members_scratch bytes, aligned to 64, and is not used for data of a device; lists has
 * mega_comm_members_lists bytes of the host's memory, as those of malloc. Returns the errors of
 * mega_comm_all_reduce. */
size_t mega_comm_members_lists(const mega_members *m);
size_t mega_comm_members_scratch(const mega_members *m, int64_t count, mega_dtype dtype);
MEGA_CHECK_RESULT mega_status mega_comm_members_sum(const mega_members *m, const char *name, void *data, int64_t count,
                                                    mega_dtype dtype, void *lists, void *scratch);

/* This rank's position on one axis. */
typedef struct mega_axis {
    int rank, size;
    mega_comm *comm;
} mega_axis;
static inline bool mega_axis_has_others(const mega_axis *axis) /* there is something to sum or gather */
{
    return axis->size > 1;
}

/* How the ranks of the world are divided; tp varies fastest, then cp, dp, pp (Megatron's order). Only layout.c computes
 * it. The experts of a layer are divided over ep, which lies inside dp: neighbours in dp are neighbours in ep; edp are
 * the ranks of dp that hold the same experts. `pp_back` has the same ranks as pp, for messages against the direction of
 * the pipeline (gradients), which would otherwise have to keep one order with those along it. */
typedef struct mega_layout {
    mega_axis world, tp, pp, dp, cp, ep, edp, pp_back;
} mega_layout;

typedef struct mega_layout_sizes {
    int tp, pp, cp, ep; /* dp = world / (tp*pp*cp); 0 means 1 */
    /* planned_ranks > 0: the layout of planned_rank in a world that is not running, for plans; its groups cannot
     * communicate */
    int planned_ranks, planned_rank;
} mega_layout_sizes;
/* Returns MEGA_ERR_USAGE if the sizes do not divide the world; the message lists sizes that do. `world` is borrowed;
 * NULL: one rank. */
MEGA_CHECK_RESULT mega_status mega_layout_create(mega_world *world, const mega_layout_sizes *sizes, mega_layout **out);
/* Where a group stands from the innermost (tp) to that of all ranks. All ranks come to an end of their collectives if
 * those of each group have, of the collectives over it and over groups of higher levels, the same list: then what came
 * before a collective, of all levels from the highest to the lowest, is one order for all groups. Messages of a
 * pipeline need another check (megalith/exchange_order.h). */
int mega_layout_level(const mega_layout *layout, const mega_comm *comm);
/* Before the device is closed to which mega_layout_connect has connected it. Does nothing but warn if it is an engine's
 * (mega_engine_layout). */
void mega_layout_destroy(mega_layout *layout);
/* Collective over the world: lets the devices of the ranks make exchanges of their memory themselves (NCCL), if each
 * rank has one of its own and its library was found. A wait for such an exchange returns at once: what the device is
 * given later comes after it. Messages are so only between neighbours of a pipeline, in the direction of the group, and
 * those of mega_comm_messages_start; sums over members, if they are in `members` [count], of ranks of pp, in the same
 * order on all ranks, which stay until the layout is destroyed.
 * `said` is what a user may want to know, or empty: one rank, or connected before. If they cannot, and `is_required`,
 * all ranks return MEGA_ERR_UNSUPPORTED with the reason; otherwise exchanges are staged. device NULL: the host. */
int mega_layout_links(const mega_layout *layout); /* how many groups of devices that are, for this rank; also planned */
enum { MEGA_COMM_SAID = 512 };
MEGA_CHECK_RESULT mega_status mega_layout_connect(mega_layout *layout, struct mega_device *device,
                                                  mega_members *const *members, int count, bool is_required,
                                                  char said[MEGA_COMM_SAID]);

#ifdef __cplusplus
}
#endif

#endif
