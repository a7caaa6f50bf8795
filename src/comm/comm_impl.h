/* Internal interface between the transport, the table of operations, the collectives and the layout. */
#ifndef MEGA_COMM_IMPL_H
#define MEGA_COMM_IMPL_H

#include "megalith/comm.h"
#include "megalith/comm_users.h"
#include "megalith/device_exchange.h"

#define MEGA_COMM_NAME 16

#define MEGA_TEST_HOSTS "MEGA_TEST_HOSTS" /* environment variable of every rank; see comm.h */

/* Collectives of groups with the same tag run one at a time and share one scratch buffer. */
enum { MEGA_COMM_TAGS = 12, MEGA_COMM_WORLD_TAG = MEGA_COMM_TAGS - 1 /* after the tags of a layout's groups */ };

/* Groups of a layout. The last (pp_back) only sends messages and needs no scratch for collectives. */
enum { MEGA_COMM_GROUPS = 8, MEGA_COMM_SUMMING = MEGA_COMM_GROUPS - 1 };
#define COMM_SCRATCH_BYTES ((size_t)4 << 20) /* unless mega_world_options sets another size */

/* Largest world: a reduction keeps a pointer for each rank. */
#define MEGA_COMM_MOST_RANKS 4096

struct mega_comm {
    char name[MEGA_COMM_NAME];
    int rank, size;
    uint64_t sequence; /* collectives started; identifies a call in a report: "all_reduce #118 of tp" */
    uint64_t messages; /* point-to-point messages started */
    mega_world *world; /* NULL if size is 1 */
    int stride;        /* distance between world ranks of neighbours in this group */
    int tag;           /* message tag */
    /* devices.c; NULL: exchanges of a device's memory are staged. forth: where this group's messages go, 1 or -1 */
    mega_device *device;
    mega_exchange_group *collectives, *to_next, *from_previous;
    int forth;
};

/* Messages that were started together; the transport owns the content. All zero: none. The list keeps its
 * allocation. */
typedef struct comm_messages {
    struct comm_message *list; /* request and peer of each message */
    int count;
    int64_t capacity;
} comm_messages;

typedef enum comm_kind {
    COMM_SEND,
    COMM_RECEIVE,
    COMM_ALL_REDUCE,
    COMM_REDUCE_SCATTER,
    COMM_ALL_GATHER,
    COMM_ALL_TO_ALL,
    COMM_MESSAGES, /* of a device: those of mega_comm_messages_start */
    COMM_BROADCAST,
    COMM_BARRIER,
    COMM_AGREE
} comm_kind;

/* A block of host memory in the place of memory that the host cannot reach (staging.c). world NULL: none. */
typedef struct comm_stage {
    mega_world *world;
    int number;
    char *data;
} comm_stage;

typedef enum comm_state {
    COMM_FREE,
    COMM_QUEUED,
    COMM_MOVING,
    COMM_DONE,
    COMM_OF_DEVICE, /* the device makes it */
    COMM_FAILED     /* operations queued after it never run */
} comm_state;

/* What the operation's current messages are; when they have arrived, comm_op_advance ends this phase and starts the
 * next. */
typedef enum comm_phase {
    COMM_BEGIN,
    COMM_CALLS,   /* descriptions of the calls, if these are compared */
    COMM_MESSAGE, /* a message, preceded by its sender's description */
    COMM_WHOLE,   /* all numbers from every rank to every rank */
    COMM_SCATTER, /* a piece of each slice to the rank that owns it */
    COMM_GATHER,  /* the summed piece back to all ranks */
    COMM_DOWN,    /* a broadcast from the parent in the tree */
    COMM_SHARED,  /* everything goes through shared memory of the host */
    COMM_LAST
} comm_phase;

/* Description of a rank's call, exchanged when calls are compared. */
typedef struct comm_call {
    uint64_t number;
    int64_t count;
    int32_t kind, dtype, reduce, peer;
    char name[40];
} comm_call;

typedef struct comm_op {
    comm_kind kind;
    comm_state state;
    mega_comm *comm;
    const char *name; /* purpose, given by the caller */
    uint64_t number;  /* counts the collectives of the group, or its messages */
    void *out;
    const void *in;
    const mega_message *list; /* COMM_MESSAGES, whose count is of bytes; valid while it is started */
    int listed;
    const mega_members *members; /* NULL: all ranks of the group */
    int64_t count;               /* elements; of one slice for kinds with slices */
    mega_dtype dtype;
    mega_reduce reduce;
    comm_stage stage; /* of `out` and `in`, if these are in the place of a device's memory, and ... */
    void *target;     /* ... where the result goes there */
    int peer;         /* the other end of a message; the root of a broadcast */
    bool is_awaited;  /* of a device: work that is given to it from now on comes after it */
    double limit_s;   /* time limit of the wait; 0: the world's. A wait with its own limit fails without a report */
    comm_phase phase;
    int64_t at;              /* elements of a slice that are done */
    int64_t turn;            /* used in COMM_SHARED */
    int next_member;         /* the next member to copy from in this turn */
    int next;                /* next in the queue of its tag; -1: last */
    uint32_t use;            /* counts how often this table slot was used; a request remembers its own number */
    double began;            /* when it was started; 0 unless exchanges are counted */
    double moved;            /* time of the last progress */
    comm_messages *messages; /* shared by its tag; for a single message `own` */
    comm_messages own;
    comm_call mine, theirs; /* used if calls are compared */
} comm_op;

/* The queue of collectives with one tag, first in, first out. */
typedef struct comm_channel {
    int first, last; /* indices into the table of operations; -1: none */
    char *scratch;   /* NULL until a group with this tag has more than one rank */
    size_t scratch_bytes;
    comm_messages messages;
} comm_channel;

/* Environment variable MEGA_COMM: the faster transport, always MPI, or always shared memory. */
typedef enum comm_transport_choice {
    COMM_CHOOSE_FASTER,
    COMM_CHOOSE_MPI,
    COMM_CHOOSE_SHARED,
    COMM_CHOOSE_UNKNOWN
} comm_transport_choice;

typedef struct comm_watch {
    double looked, waited; /* seconds: time of the last look; how long there has been no progress */
    double moved;          /* time of the awaited operation's last progress */
    bool is_reported;
} comm_watch;

struct mega_world {
    int rank, size, local_rank, local_size;
    int host_first;         /* world rank of local rank 0 */
    bool is_crowded;        /* more ranks than cores on this host */
    struct mega_seat *lent; /* the rank to which this waiting rank has lent its core; NULL: none */
    bool checks_calls;      /* MEGA_CHECK=2 on any rank */
    bool failed;            /* the world has failed, and every rank knows */
    bool lost_host;         /* a host shows no sign of life */
    bool stalled;           /* a wait has ended without its message: agreement is no longer possible */
    mega_comm all;
    double timeout_s;
    size_t message_bytes, scratch_bytes; /* most bytes of one message; of the scratch of a tag */
    comm_channel channel[MEGA_COMM_TAGS];
    comm_op *op; /* a table of MEGA_COMM_REQUESTS; NULL if size is 1 */
    /* slots below `used` have been used; `in_progress` operations are started and not done */
    int used, in_progress;
    uint64_t moves;                   /* counts progress of any operation */
    struct mega_transport *transport; /* NULL if size is 1 */
    struct record_page *page;         /* records of all ranks of this host; NULL if size is 1 */
    struct mega_record *record;       /* this rank's record in the page */
    bool shares_page;                 /* all ranks of this host share the page */
    struct record_exchange *exchange; /* exchanges records with other hosts; NULL if there are none */
    struct comm_shared *shared;       /* memory for collectives within this host; NULL: none */
    comm_transport_choice transport_choice;
    comm_watch watch;             /* state of this rank's current wait */
    struct comm_log *log;         /* counts exchanges; NULL: they are not counted */
    struct comm_staging *staging; /* NULL: no exchange of a device's memory yet */
    /* operations of devices that were waited for and may not be done: the first that is not is what a device waits in.
     * -1: none; `next` of an operation leads on */
    int awaited, last_awaited, num_awaited;
    const comm_op *connecting; /* devices are being connected: what that waits for, in place of an operation */
    bool device_waits;         /* the host waits for a device, and its record says so ... */
    double device_began;       /* ... since then */
    mega_stall_report *report;
    void *report_user;
    mega_users users; /* engines, layouts; a report that runs */
};

/* Returns the world rank of a rank of the group. */
static inline int comm_world_rank(const mega_comm *comm, int peer)
{
    return comm->world->rank + (peer - comm->rank) * comm->stride;
}

/* transport_mpi.c or transport_none.c, depending on whether the build has MPI. Send and receive start a message and add
 * it to op->messages; test returns whether all of these are complete, and then empties the list. Messages between two
 * ranks with the same tag keep their order. */
/* `communicator` is that of mega_world_options. After a failure call transport_close, which frees a partial
 * transport. */
mega_status transport_open(mega_world *world, const int *communicator);
void transport_close(mega_world *world);
void transport_abort(mega_world *world, int exit_status);
mega_status transport_send(const comm_op *op, int peer, const void *data, size_t bytes);
mega_status transport_receive(const comm_op *op, int peer, void *data, size_t bytes);
mega_status transport_test(const comm_op *op, bool *through);
void transport_messages_fini(comm_messages *messages);
/* Lists the ranks whose messages are not complete: world ranks, each once, at most `most`. Returns their number. */
int transport_missing(const comm_op *op, int *ranks, int most);
void transport_yield(const mega_world *world, long times); /* `times`: the number of calls since the last progress */
/* For a rank that waits outside of MPI: lets MPI continue to deliver messages to other hosts. */
void transport_progress(const mega_world *world);
/* Called by all ranks of this host while the world is created: broadcast from the first of them; a barrier. */
mega_status transport_host_broadcast(mega_world *world, void *data, size_t bytes);
mega_status transport_host_barrier(mega_world *world);
/* Called by all ranks: gathers `bytes` bytes of each rank to out, in the order of ranks. */
mega_status transport_all_gather(mega_world *world, const void *in, void *out, size_t bytes);
mega_status transport_host_all(mega_world *world, bool *all); /* *all becomes true if it is true on all of them */
const char *transport_description(char *out, size_t size);
bool transport_is_open(void); /* whether a world of this process uses MPI */

/* collectives_messages.c: called when op starts, and whenever the messages of its phase are complete: ends that phase
 * and starts the next. *done: the operation is complete. */
mega_status comm_op_advance(comm_op *op, bool *done);
const char *comm_kind_name(comm_kind kind);
/* Rank r owns slice r of the numbers: its number of elements; the number of these in the piece that begins at op->at,
 * at most `most`; its address. */
int64_t comm_slice_elements(const comm_op *op);
int64_t comm_piece_elements(const comm_op *op, int r, int64_t most);
int64_t comm_slice_offset(const comm_op *op, int r);

/* collectives_shared.c: whether op goes through shared memory; starting it; continuing it (*moved: it made progress).
 * Fails if another member makes another call. comm_shared_missing is like transport_missing. */
bool comm_shares(const comm_op *op);
void comm_shared_begin(comm_op *op);
mega_status comm_shared_move(comm_op *op, bool *moved, bool *through);
int comm_shared_missing(const comm_op *op, int *ranks, int most);

/* shared.c: collective over the ranks of the host, after their page is open. */
mega_status shared_open(mega_world *world);
void shared_close(mega_world *world);

/* staging.c: puts host memory into the place of an operation's, if that is a device's; copies what the operation has
 * made back to it; its wait gives the memory back. For calls that are made of several operations: takes memory for the
 * exchange of what is at `of`, copies from and to the device, and gives the memory back. */
mega_status comm_stage_op(comm_op *op);
void comm_unstage_op(const comm_op *op);
mega_status comm_stage_take(mega_world *world, const void *of, size_t bytes, comm_stage *out);
void comm_stage_in(const comm_stage *stage, size_t at, const void *from, size_t bytes);
void comm_stage_out(const comm_stage *stage, size_t at, void *to, size_t bytes);
void comm_stage_give(const comm_stage *stage);
void comm_staging_close(mega_world *world);

/* devices.c: whether the devices of the ranks make this operation themselves; starting it; its wait, by which work of
 * the device that is given to it later comes after it. The others: see mega_layout_connect. */
bool comm_of_devices(const comm_op *op);
mega_status comm_devices_start(comm_op *op, int place);
mega_status comm_devices_await(comm_op *op, int place);
/* Frees the table's places of those that are done. */
mega_status comm_devices_retire(mega_world *world);
int comm_devices_missing(const comm_op *op, int *ranks, int most);
/* Before groups of a layout end. */
void comm_devices_close(mega_comm *group, int groups);

/* operations.c: the table of operations in progress. comm_begin copies *op into the table and returns a request for it;
 * groups have more than one rank. */
mega_status comm_begin(const comm_op *op, mega_request *out);
/* Allocates scratch for the collectives of this group, unless it has one rank or the scratch exists. */
mega_status comm_channel_open(const mega_comm *comm);
size_t comm_scratch_bytes(const mega_comm *comm); /* the bytes of that scratch; also for a planned group */
void comm_operations_close(mega_world *world);
/* Lists the ranks that op waits for: world ranks, each once, at most `most`. Returns their number. */
int comm_missing(const comm_op *op, int *ranks, int most);

/* stall.c: called from time to time during a wait; checks the clock and the other processes. Fails if the wait must
 * end: its limit has passed, or a rank is dead. */
void stall_begin(mega_world *world, double now);
mega_status stall_poll(const comm_op *op, double now);
void stall_wait_ended(mega_world *world); /* the wait has ended well */
/* If another process keeps a rank that op waits for from running, lends it this rank's core (base/core_lending.h). */
void stall_lend_core(const comm_op *op);
/* Call before returning a failure that other ranks do not know of. The first rank of a host that calls it returns at
 * once, prints its message and ends all ranks; the others return after STALL_FOLLOW_S, if they still run then. */
#define STALL_FOLLOW_S 3.0
void stall_abort(mega_world *world);
/* The same on a rank that knows which rank has failed: that rank prints the message, unless another already does. */
void stall_abort_by(mega_world *world, int rank);

/* check_calls.c: used with MEGA_CHECK=2, and always in shared memory. */
comm_call comm_call_of(const comm_op *op);
mega_status comm_check_same(const comm_op *op, const comm_call *mine, const comm_call *theirs, int peer);

/* log.c: counts a completed operation; `waited`: seconds that this rank waited for it. world->log must exist. */
void comm_log_add(const comm_op *op, double waited);

/* reduce.c: out[i] = the reduction of from[rank][i] over the ranks in order; out may be one of them. */
mega_status comm_check_reducible(mega_dtype dtype, const char *what);
void comm_reduce(void *out, const void *const *from, int ranks, int64_t count, mega_dtype dtype, mega_reduce op);

#endif
