/* The state of a launch, for runner.c, block.c and warp.c. */
#ifndef RUNNER_IMPL_H
#define RUNNER_IMPL_H

#include "fiber.h"
#include "runner.h"
#include <stdatomic.h>

enum { MOST_SITES = 1024, WARP = 32, MOST_WARPS = DEVICE_MOST_THREADS / WARP, MOST_SHARED = 8, MOST_COPIES = 512 };
typedef enum { THREAD_READY, THREAD_AT_BARRIER, THREAD_AT_WARP, THREAD_DONE } thread_state;
typedef enum {
    WARP_XOR,
    WARP_FROM,
    WARP_SUM,
    WARP_MAX,
    WARP_SUM_DOUBLE,
    WARP_MMA_BF16,
    WARP_MMA_F16,
    WARP_MMA_TF32,
    WARP_LOAD,
    WARP_LOAD_T,
    WARP_SYNC
} warp_op;

typedef struct async_copy {
    char *to;
    const char *from;
    int size, bytes, group;
} async_copy;

/* What a lane brings to a product or a load of its warp, and where it takes the result. */
typedef struct lane_data {
    float *d;
    const uint32_t *a, *b;
    uint32_t *r;
    const uint16_t *row;
} lane_data;

typedef struct device_thread {
    fiber *f; /* on which it waits; NULL: it has not begun, or has ended */
    unsigned x;
    thread_state state;
    int line; /* of the barrier or operation at which it is, or was last */
    lane_data data;
    async_copy *copies; /* that have not arrived; room for MOST_COPIES, or NULL */
    int num_copies, groups;
} device_thread;

typedef struct device_warp {
    unsigned arrived, first; /* first: the lane that arrived first */
    warp_op op;              /* at which lanes wait, of this line */
    int line;
    uint32_t barriers;
    uint32_t word[WARP]; /* of lanes that exchange */
    int lane[WARP];      /* a mask or the number of a lane */
    double number[WARP]; /* of lanes that add up doubles */
} device_warp;

typedef struct device_shared_part {
    const void *which; /* the variable; NULL: the dynamic one */
    char *at;
    size_t bytes;
} device_shared_part;

/* A launch: its blocks, which runners take one after the other. */
typedef struct device_team {
    const device_launch *launch;
    uint64_t seed, blocks, start; /* number n in order is block (start + n) % blocks */
    atomic_ullong next;           /* in order */
    atomic_bool has_failed;
} device_team;

/* Runs one block at a time, on a thread of the process. A fiber runs threads of the block: one after the other while
 * they end, and only one that waits keeps its fiber. */
typedef struct device_runner {
    device_thread *now; /* NULL: none */
    unsigned num_ready, threads, arrived, done, at[3];
    uint64_t random, switches, order; /* order: of the block in its launch */
    const device_launch *launch;
    const device_observer *observer;
    fiber caller;
    unsigned ready[DEVICE_MOST_THREADS];
    device_thread thread[DEVICE_MOST_THREADS];
    device_warp warp[MOST_WARPS];
    fiber fibers[DEVICE_MOST_THREADS], *free[DEVICE_MOST_THREADS];
    int num_fibers, num_free; /* that have begun in this launch; of those, that no thread has */
    device_shared_part shared[MOST_SHARED];
    int num_shared;
    size_t static_shared;
    device_place place;
    device_team *team;
    char error[400];
} device_runner;

/* Of the thread of the process that asks. */
extern _Thread_local device_runner *runner __attribute__((tls_model("initial-exec")));

/* block.c */
void runner_launch_begin(device_runner *r, device_team *team); /* it becomes the runner of this thread */
void runner_block_run(uint64_t order);
void runner_launch_end(void);
uint32_t runner_draw(void);
/* The thread that runs now waits: goes on with one that is ready, or with the caller of runner_block_run. */
void runner_go_on(void);
void runner_wake(device_thread *t);
void runner_error_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Notes what is wrong with the kernel and ends the launch; does not return. */
_Noreturn void runner_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void runner_note(const void *at, size_t bytes, bool is_write, const void *code);

/* runner.c: a thread is at this site. Returns whether it is left out. */
bool runner_omits(const char *op, int line);

/* warp.c */
const char *runner_op_name(warp_op op);
void runner_copies_arrive(int groups); /* all but the last groups of this thread */

#endif
