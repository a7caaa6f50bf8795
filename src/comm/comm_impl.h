/* What the transport, the operations under way, the collectives and the layout share. */
#ifndef MEGA_COMM_IMPL_H
#define MEGA_COMM_IMPL_H

#include "megalith/comm.h"

#define MEGA_COMM_NAME 16

#define MEGA_TEST_HOSTS "MEGA_TEST_HOSTS" /* in the environment of every rank; comm.h */

/* Groups of one tag take turns: at most one of their collectives is under way, and one scratch serves them. */
enum { MEGA_COMM_TAGS = 12, MEGA_COMM_WORLD_TAG = MEGA_COMM_TAGS - 1 /* after those of a layout's groups */ };

/* Groups of a layout. The last (pp_back) has messages alone, and no scratch for collectives. */
enum { MEGA_COMM_GROUPS = 7, MEGA_COMM_SUMMING = MEGA_COMM_GROUPS - 1 };
#define COMM_SCRATCH_BYTES ((size_t)4 << 20) /* where the world does not say another */

/* Of a world: a reduction keeps a pointer to the numbers of each. */
#define MEGA_COMM_MOST_RANKS 4096

struct mega_comm {
    char name[MEGA_COMM_NAME];
    int rank, size;
    uint64_t sequence; /* collectives begun; names a call in a report: "all_reduce #118 of tp" */
    uint64_t messages; /* point to point, begun */
    mega_world *world; /* NULL where size is 1 */
    int stride;        /* between the world ranks of neighbours in this group */
    int tag;           /* of its messages */
};

/* Messages that were begun together; what lies in it is the transport's. Zero: none. It keeps its room. */
typedef struct comm_messages {
    struct comm_message *list; /* request and peer of each */
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
    COMM_BROADCAST,
    COMM_BARRIER,
    COMM_AGREE
} comm_kind;

typedef enum comm_state {
    COMM_FREE,
    COMM_QUEUED,
    COMM_MOVING,
    COMM_DONE,
    COMM_FAILED /* and what stands after it in its queue never moves */
} comm_state;

/* What its messages are for; when they have come, comm_op_advance finishes this phase and begins the next. */
typedef enum comm_phase {
    COMM_BEGIN,
    COMM_CALLS,   /* what each member calls, where that is checked */
    COMM_MESSAGE, /* a message with what its sender calls it */
    COMM_WHOLE,   /* everyone's numbers to everyone */
    COMM_SCATTER, /* a piece of each slice to its rank */
    COMM_GATHER,  /* and, summed, back */
    COMM_DOWN,    /* a broadcast has come from above */
    COMM_SHARED,  /* all of it goes through memory that the ranks of a host share */
    COMM_LAST
} comm_phase;

/* What a rank calls, as it tells the others where calls are checked. */
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
    const char *name; /* what for */
    uint64_t number;  /* among the collectives of its group, or among the messages */
    void *out;
    const void *in;
    int64_t count; /* numbers: of a slice where the kind has slices */
    mega_dtype dtype;
    mega_reduce reduce;
    int peer;       /* of a message; root of a broadcast */
    double limit_s; /* of the wait; 0: the world's. Past another limit than the world's nothing is reported */
    comm_phase phase;
    int64_t at;              /* of a slice, is done */
    int64_t turn;            /* in COMM_SHARED */
    int next_member;         /* to be copied from, in this turn */
    int next;                /* in the queue of its tag; -1: the last */
    uint32_t use;            /* of this place in the table: a request knows its own */
    double moved;            /* when it last got on */
    comm_messages *messages; /* those of its tag; `own` where it is one message */
    comm_messages own;
    comm_call mine, theirs; /* where calls are compared */
} comm_op;

/* The collectives of one tag, first come first served. */
typedef struct comm_channel {
    int first, last; /* in the table of operations; -1: none */
    char *scratch;   /* NULL until a group of this tag has more than one rank */
    size_t scratch_bytes;
    comm_messages messages;
} comm_channel;

/* MEGA_COMM in the environment: what is faster, or always the one or the other. */
typedef enum comm_way { COMM_WAY_FASTER, COMM_WAY_MPI, COMM_WAY_SHARED, COMM_WAY_UNKNOWN } comm_way;

typedef struct comm_watch {
    double looked, waited; /* seconds: when it last looked, how long there was no progress */
    double moved;          /* when the awaited last got on */
    bool told;
} comm_watch;

struct mega_world {
    int rank, size, local_rank, local_size;
    int host_first;         /* the rank of local_rank 0 */
    bool is_crowded;        /* ranks of this host outnumber its cores */
    struct mega_seat *lent; /* of a rank that this one waits for and has given its core; NULL: none */
    bool checks_calls;      /* MEGA_CHECK=2, on any rank */
    bool failed;            /* and every rank knows */
    bool lost_host;         /* one gives no sign of life */
    bool stalled;           /* a wait has ended without its message: there is nobody to agree with */
    mega_comm all;
    double timeout_s;
    size_t message_bytes, scratch_bytes; /* of a message; of the scratch of a tag */
    comm_channel channel[MEGA_COMM_TAGS];
    comm_op *op;                      /* MEGA_COMM_REQUESTS of them; NULL where size is 1 */
    int used, under_way;              /* places below `used` were ever taken; `under_way` is begun and not done */
    uint64_t moves;                   /* how often something went on */
    struct mega_transport *transport; /* NULL where size is 1 */
    struct record_page *page;         /* where each rank of this host is; NULL where size is 1 */
    struct mega_record *record;       /* this rank's, in it */
    bool shares_page;                 /* with all ranks of this host */
    struct record_exchange *exchange; /* of records with other hosts; NULL where there is none */
    struct comm_shared *shared;       /* memory for collectives inside this host; NULL: there is none */
    comm_way way;
    comm_watch watch; /* over the wait of this rank */
    mega_stall_report *report;
    void *report_user;
};

/* World rank of another rank of the group. */
static inline int comm_world_rank(const mega_comm *comm, int peer)
{
    return comm->world->rank + (peer - comm->rank) * comm->stride;
}

/* transport_*.c: one is compiled, by whether there is MPI. Send and receive begin and add to `messages`, test tells
 * whether all of these are through (and then empties the list), or leaves them. Messages between two ranks with one tag
 * keep their order. */
/* `communicator`: of mega_world_options. What fails may leave a transport, which transport_close frees. */
mega_status transport_open(mega_world *world, const int *communicator);
void transport_close(mega_world *world);
void transport_abort(mega_world *world, int exit_status);
mega_status transport_send(const comm_op *op, int peer, const void *data, size_t bytes);
mega_status transport_receive(const comm_op *op, int peer, void *data, size_t bytes);
mega_status transport_test(const comm_op *op, bool *through);
void transport_messages_fini(comm_messages *messages);
/* Whose messages have not come through: world ranks, each once, at most `most`. */
int transport_missing(const comm_op *op, int *ranks, int most);
void transport_yield(const mega_world *world, long times); /* called so often without anything having moved */
/* For a rank that waits outside of MPI: what MPI still has to hand to other hosts goes on. */
void transport_progress(const mega_world *world);
/* Between the ranks of this host, while the world is made: from the first; all of them are there. */
mega_status transport_host_broadcast(mega_world *world, void *data, size_t bytes);
mega_status transport_host_barrier(mega_world *world);
/* Between all ranks: in [bytes] of each → out, by rank. */
mega_status transport_all_gather(mega_world *world, const void *in, void *out, size_t bytes);
mega_status transport_host_all(mega_world *world, bool *all); /* whether all of them say so */
const char *transport_description(char *out, size_t size);

/* collectives_advance.c: the messages of op's phase are through (or it begins): finishes the phase and begins the next.
 * *done: nothing is left. */
mega_status comm_op_advance(comm_op *op, bool *done);
const char *comm_kind_name(comm_kind kind);
/* Slice r of the numbers is rank r's: its elements; those under way now, after the first op->at, at most so many;
 * where they lie. */
int64_t comm_slice_elements(const comm_op *op);
int64_t comm_held(const comm_op *op, int r, int64_t most);
int64_t comm_place(const comm_op *op, int r);

/* collectives_shared.c: whether op goes through shared memory; then begin and, until it is through, move (*moved: it
 * made progress). Fails where another member makes another call. Missing: as transport_missing. */
bool comm_shares(const comm_op *op);
void comm_shared_begin(comm_op *op);
mega_status comm_shared_move(comm_op *op, bool *moved, bool *through);
int comm_shared_missing(const comm_op *op, int *ranks, int most);

/* shared.c: collective over the ranks of the host, when their page is there. */
mega_status shared_open(mega_world *world);
void shared_close(mega_world *world);

/* operations.c: the table of what is under way. Begin copies *op into it, and says so in *out; groups have more than
 * one rank. */
mega_status comm_begin(const comm_op *op, mega_request *out);
/* Scratch for the collectives of this group; nothing where there is one rank, or where it is there. */
mega_status comm_channel_open(const mega_comm *comm);
size_t comm_scratch_bytes(const mega_comm *comm); /* what that takes; also of a planned group */
void comm_operations_close(mega_world *world);
/* For whom op waits: world ranks, each once, at most `most`. */
int comm_missing(const comm_op *op, int *ranks, int most);

/* stall.c: a look at the clock and at the other processes, from time to time during a wait. Fails when the wait is to
 * end: past its limit, or a rank is dead. */
void stall_begin(mega_world *world, double now);
mega_status stall_look(const comm_op *op, double now);
/* A rank that this one waits for, and that another process keeps from running, gets this one's core (base/seat.h). */
void stall_lend(const comm_op *op);
/* Call before returning a failure that other ranks do not know of. The first rank of a host that calls it returns at
 * once, to print its message and end all ranks; the others return after STALL_FOLLOW_S, if they still run then. */
#define STALL_FOLLOW_S 3.0
void stall_end(mega_world *world);
/* The same on a rank that knows which rank has failed: that one prints the message, unless another is at it. */
void stall_end_by(mega_world *world, int rank);

/* check.c: MEGA_CHECK=2, and in shared memory always */
comm_call comm_call_of(const comm_op *op);
mega_status comm_check_same(const comm_op *op, const comm_call *mine, const comm_call *theirs, int peer);

/* reduce.c: out[i] = the reduction over ranks, in their order, of from[rank][i]; out may be any of them. */
mega_status comm_check_reducible(mega_dtype dtype, const char *what);
void comm_reduce(void *out, const void *const *from, int ranks, int64_t count, mega_dtype dtype, mega_reduce op);

#endif
