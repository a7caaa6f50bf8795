/* The software driver's own declarations: libcuda.so.1 for programs (backend/cuda/driver.h) on top of the runner and
 * the watch. Work is queued, and runs only inside calls that wait, on the caller's thread, one piece at a time, in
 * any order that streams and events allow, drawn from a seed.
 *
 * Every function of the driver begins with software_enter and ends with software_leave, which hold one lock. All
 * others are called under it. */
#ifndef SOFTWARE_H
#define SOFTWARE_H

#include "driver.h"
#include "runner.h"
#include "watch.h"

enum {
    MOST_STREAMS = 16,
    MOST_MEMORY = 1024,
    MOST_OPERANDS = 48,
    MOST_ARGS = 4096,
    MOST_KERNELS = 1024,
    MOST_FUNCTIONS = 128,
    SOFTWARE_PAGE = 4096
};

#define X(name, symbol, params) cu_result symbol params;
MEGA_CUDA_FUNCTIONS(X)
#undef X
uint64_t mega_software_cuda_count(const char *name);
cu_result mega_software_cuda_operands(cu_stream stream, int count, const cu_address *at, const size_t *bytes,
                                      const unsigned *use);

/* ---- work ---- */

typedef enum { OP_COPY_IN, OP_COPY_OUT, OP_COPY, OP_FILL, OP_KERNEL, OP_CALL, OP_RECORD, OP_WAIT, OP_GRAPH } op_kind;

/* Work of another library in a stream (NCCL, cuBLASLt). Each launch of a graph has a copy of `user` of its own. */
typedef struct software_call {
    const char *name;
    void (*queued)(void *user); /* in the order of calls; may be NULL */
    bool (*run)(void *user);    /* false: it must be called again, for other ranks have not come so far */
    void (*note)(void *user);   /* reports to the watch what `run` has accessed */
    size_t user_bytes;
} software_call;

/* What is done: of a queue, or a node of a graph. */
typedef struct software_op {
    op_kind kind;
    char *to;
    const char *from;
    size_t bytes;                      /* of a row */
    size_t rows, to_pitch, from_pitch; /* 1 and 0 but of copies of rows */
    unsigned value;
    char *staged; /* a copy of pageable memory, its rows one after the other */
    device_launch launch;
    software_call call;
    void *memory; /* args of the launch, or `user` of the call */
    cu_event event;
    watch_operand *operands;
    int num_operands;
} software_op;

/* One record of an event, for the event and for all that wait for it. */
typedef struct event_record {
    bool is_done;
    int owners;
} event_record;

/* When it is done: where in a queue. */
typedef struct queued {
    software_op *op;
    bool owns_op;
    event_record *record;    /* OP_RECORD; OP_WAIT: the last one when it was queued */
    uint64_t sum;            /* OP_COPY_IN: of the source's bytes when it was queued */
    struct graph_run *graph; /* OP_GRAPH */
    void *user;              /* OP_CALL */
    watch_work order;        /* its place for the watch */
    struct queued *next;
} queued;

struct CUstream_st {
    unsigned magic;
    int number; /* its place in software_state */
    int lane;   /* of the watch */
    queued *first, **last;
    watch_clock clock;       /* what everything queued so far comes after, itself included */
    watch_operand *operands; /* declared for the next work */
    int num_operands;
    cu_graph capture;
    uint32_t need[MOST_STREAMS]; /* while captured: as in graph_node, of the next node */
};

struct CUevent_st {
    unsigned magic, flags;
    event_record *last; /* NULL: never recorded */
    uint64_t time;      /* of the last record */
    watch_clock clock;
    uint64_t capture_id; /* of the capture in which it was recorded, 0: none; `need` says after which nodes */
    uint32_t need[MOST_STREAMS];
};

struct CUctx_st {
    int device, retained;
};

/* ---- graphs ---- */

/* A node runs after the first need[b] nodes of each branch b. Branches are the streams that were captured; the nodes
 * of a branch run in their order. */
typedef struct graph_node {
    software_op *op;
    uint32_t need[MOST_STREAMS];
} graph_node;

typedef struct graph_branch {
    graph_node *nodes;
    uint32_t count, cap;
} graph_branch;

struct CUgraph_st {
    unsigned magic;
    uint64_t id; /* of the capture */
    int owners, origin;
    bool is_broken; /* a call that capture does not allow was made */
    graph_branch branch[MOST_STREAMS];
};

struct CUgraphExec_st {
    unsigned magic;
    int owners;
    cu_graph graph;
    int lane[MOST_STREAMS]; /* of the watch, by branch */
};

/* A launch of a graph on its way. */
typedef struct graph_run {
    cu_graph_exec exec;
    uint32_t start[MOST_STREAMS], done[MOST_STREAMS];
    watch_clock base;
    queued *nodes[MOST_STREAMS]; /* state of each node: sum, user */
} graph_run;

/* ---- memory, modules ---- */

typedef struct software_memory {
    char *at;
    size_t bytes;
} software_memory;

typedef struct software_counts {
    uint64_t calls, work, launches, copies, waits, most_allocated;
} software_counts;

/* What copies to the host have brought since a kernel was the last that ran: MEGA_SOFTWARE_CUDA_SUMS. */
typedef struct kernel_sum {
    const device_kernel *kernel;
    uint64_t sum;
} kernel_sum;

/* One call of those of a name; "": of all. */
typedef struct chosen_call {
    char name[64];
    uint64_t at, count; /* at 0: none; count: calls so far */
} chosen_call;

typedef struct software_state {
    bool is_initialized, is_open;
    bool ends_at_report;                 /* the process ends with 88 at the first report of the watch */
    cu_result sticky;                    /* after a kernel failed, all calls return its error */
    char *base;                          /* `span` bytes that can be touched only while work runs */
    size_t span, used, limit, taken;     /* taken: by another process */
    software_memory memory[MOST_MEMORY]; /* by address */
    int num_memory;
    software_memory pinned[MOST_MEMORY];
    int num_pinned;
    cu_stream stream[MOST_STREAMS]; /* NULL: none */
    struct CUctx_st context[8];
    int devices, version, capability;
    int place[8];         /* of each device among those of the host, some of which CUDA_VISIBLE_DEVICES leaves out */
    int instance;         /* of MIG, from 1 */
    bool is_instance;     /* of MIG */
    cu_result fail_error; /* what the call that fails returns; CU_OK: what is usual for it */
    watch_clock host;     /* what the host has waited for */
    uint32_t lane_count[WATCH_LANES];
    int next_lane;
    uint64_t captures;
    uint64_t random;
    chosen_call fails, hangs, left_out;
    software_counts counts;
    kernel_sum *sums; /* MOST_KERNELS, the last one that ran at last_sum; NULL: they are not wanted */
    int num_sums, last_sum;
} software_state;

extern software_state software;

uint32_t software_draw(void);
/* `error` is what the call returns when it is chosen to fail. */
cu_result software_enter(const char *name, cu_result error);
cu_result software_enter_context(const char *name, cu_result error); /* the thread must have set a context */
cu_result software_leave(cu_result result);
/* Whether this call is the one that does nothing. */
bool software_leaves_out(const char *name);
/* The functions of other libraries (NCCL, cuBLASLt) begin with software_fails instead, which returns whether the call
 * is chosen to fail and holds no lock, and then enter, if they ask or change anything here. */
bool software_fails(const char *name);
cu_result software_enter_library(bool needs_context);
/* Says that `name` was called with a handle that is not, or no longer, valid. Returns CU_INVALID_HANDLE. */
cu_result software_refuse(const char *name, const char *what);
/* Prints one line. */
void software_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Forgets all work, memory and errors: for tests that are linked with the driver. */
void software_reset(uint64_t seed);

/* software_memory.c */
/* Returns zeroed memory of a handle, which is never given back, or NULL. */
void *software_handle(size_t bytes);
void software_memory_begin(void);
void software_memory_reset(void);
void software_guard(void); /* a fault is explained: again where somebody else has taken the signal */
void software_open(void);  /* device memory can be touched, until software_close */
void software_close(void);
bool software_is_device(const void *at, size_t bytes);
bool software_is_pinned(const void *at, size_t bytes);

/* software_queue.c */
#define NO_STREAM "no stream, or one that is destroyed"
bool stream_is_valid(cu_stream s);
void stream_end(cu_stream s); /* what is still queued is forgotten */
/* Returns a lane of the watch beside those of streams. When all are in use they are used again, and the watch may then
 * miss what is not ordered between two graphs. */
int software_lane(void);
bool event_is_valid(cu_event e);
software_op *op_make(op_kind kind);
void op_free(software_op *op);
/* Queues the op, or makes it a node of the graph that the stream is captured into. Takes the op. */
cu_result stream_add(cu_stream s, software_op *op);
queued *queued_make(software_op *op, bool owns_op);
void queued_free(queued *q);
void queued_begin(queued *q);           /* what happens when work is queued: sums, fills of targets */
bool queued_run(const queued *q);       /* false: not yet */
bool software_pump(void);               /* runs one piece of work; false: none can run */
cu_result software_finish(cu_stream s); /* runs until the stream is empty */
cu_result software_finish_all(void);
void clock_join(watch_clock *a, const watch_clock *b);

/* software_graph.c */
cu_result graph_add(cu_stream s, software_op *op);
cu_result graph_queue(cu_graph_exec exec, cu_stream s);
unsigned graph_run_ready(const graph_run *run);     /* how many nodes can run now */
bool graph_run_one(graph_run *run, unsigned which); /* false: not yet */
bool graph_run_is_done(const graph_run *run);
void graph_run_free(graph_run *run);
/* A call that waits or asks was made while streams are captured. */
cu_result graph_break(cu_graph graph);
/* Returns the capture under way in which the event was recorded, or NULL. */
cu_graph event_capture(cu_event e);

/* For libraries that queue work of their own. The function that calls it has asked software_fails. */
cu_result software_call_queue(cu_stream stream, const software_call *call, const void *user);

#endif
