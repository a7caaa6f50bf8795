/* The runner: executes a launch of a kernel on the CPU. Blocks run in any order, on as many threads of the process as
 * device_threads says; the threads of a block are fibers that change at barriers and operations of warps, in an order
 * drawn from a seed: a result that depends on the order differs from seed to seed. One launch at a time. */
#ifndef RUNNER_H
#define RUNNER_H

#include "device.h"
#include <stdbool.h>

enum {
    DEVICE_STATIC_SHARED = 48 << 10,
    DEVICE_MOST_SHARED = 99 << 10,
    DEVICE_MOST_THREADS = 1024,
    DEVICE_MOST_RUNNERS = 16
};

typedef struct device_launch {
    const device_kernel *kernel;
    const void *args; /* kernel->args_bytes */
    unsigned grid[3];
    size_t shared_bytes; /* of SHARED_DYNAMIC */
} device_launch;

/* Runs all blocks. Returns NULL, or what is wrong with the kernel's use of barriers, warps, copies or shared memory;
 * the launch then ends there, and the text is valid until the next one. */
const char *device_run(const device_launch *launch);
void device_seed(uint64_t seed);
/* How many threads of the process run blocks from now on; 1 before, and always while an observer looks on. The order of
 * a block's threads does not depend on it. */
void device_threads(int threads);
uint64_t device_switches(void); /* of fibers, since the process began */

/* A place of a kernel's source that orders threads or copies: block_barrier, warp_barrier, copy_async_commit or
 * copy_async_wait. */
typedef struct device_site {
    char kernel[64], op[24];
    int line;
} device_site;
/* From now on the runner leaves this one out, to see whether anybody notices; NULL: none. */
void device_site_omit(const device_site *site);
/* Returns the sites that launches have come by so far; *count receives their number. Noted only after
 * device_sites_note, which takes time. */
void device_sites_note(void);
const device_site *device_sites(int *count);

/* Where the thread is that runs now. */
typedef struct device_place {
    const char *kernel;
    unsigned block, thread; /* numbers; warp: thread / 32 */
    uint32_t barriers;      /* that the block has passed */
    uint32_t warp_barriers; /* that the warp has passed */
    const char *stack, *stack_end, *args, *args_end;
} device_place;
/* Returns NULL while no thread of a kernel runs. */
const device_place *device_place_now(void);

/* The calls by which the watch (watch.h) learns of accesses and of shared memory. Kernels report what they access if
 * they are compiled with -fsanitize=thread; the runner reports what operations of warps and copies access. */
typedef struct device_observer {
    void (*access)(const void *at, size_t bytes, bool is_write, const void *code);
    void (*shared)(const void *at, size_t bytes); /* new, or of a new block: its contents are undefined */
    void (*shared_end)(void);                     /* the launch has ended */
} device_observer;
void device_observe(const device_observer *observer);

#endif
