/* The state of a launch, for runner.c and warp.c. */
#ifndef RUNNER_IMPL_H
#define RUNNER_IMPL_H

#include "fiber.h"
#include "runner.h"

enum { MOST_SITES = 1024, WARP = 32, MOST_WARPS = DEVICE_MOST_THREADS / WARP, MOST_SHARED = 8, MOST_COPIES = 512 };
typedef enum { THREAD_READY, THREAD_AT_BARRIER, THREAD_AT_WARP, THREAD_DONE } thread_state;
typedef enum {
    WARP_XOR,
    WARP_FROM,
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

/* What a lane brings to an operation of its warp, and takes from it. */
typedef struct lane_data {
    uint32_t word;
    int lane; /* a mask or the number of a lane */
    float *d;
    const uint32_t *a, *b;
    uint32_t *r;
    const uint16_t *row;
} lane_data;

typedef struct device_thread {
    fiber f;
    bool has_begun; /* its fiber waits in thread_main for the next block */
    unsigned x;
    thread_state state;
    warp_op op;
    int line; /* of the barrier or operation at which it is, or was last */
    lane_data data;
    async_copy *copies; /* that have not arrived */
    int num_copies, groups;
} device_thread;

typedef struct device_warp {
    unsigned lanes, arrived;
    uint32_t barriers;
} device_warp;

typedef struct device_shared_part {
    const void *which; /* the variable; NULL: the dynamic one */
    char *at;
    size_t bytes;
} device_shared_part;

typedef struct device_runner {
    device_thread thread[DEVICE_MOST_THREADS];
    device_warp warp[MOST_WARPS];
    unsigned ready[DEVICE_MOST_THREADS], num_ready;
    unsigned threads, arrived, done, at[3];
    device_shared_part shared[MOST_SHARED];
    int num_shared;
    size_t static_shared;
    const device_launch *launch;
    device_thread *now; /* NULL: the caller of device_run */
    fiber caller;
    device_place place;
    const device_observer *observer;
    uint64_t random, switches;
    device_site omitted; /* line 0: none */
    device_site *sites;  /* NULL: they are not noted */
    int num_sites;
    char error[400];
} device_runner;

extern device_runner *const runner;

uint32_t runner_draw(void);
/* The thread that runs now has ended or waits: goes on with one that is ready, or with the caller of device_run. */
void runner_go_on(void);
void runner_wake(device_thread *t);
/* Notes what is wrong with the kernel and ends the launch; does not return. */
_Noreturn void runner_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A thread is at this site. Returns whether it is left out. */
bool runner_omits(const char *op, int line);
void runner_note(const void *at, size_t bytes, bool is_write, const void *code);
const char *runner_op_name(warp_op op);
void runner_copies_arrive(int groups); /* all but the last groups of this thread */

#endif
