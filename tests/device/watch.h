/* The watch: holds every access of a kernel, and of the driver's copies and fills, to five rules.
 *
 * 1. It lies inside an allocation, or inside shared memory, and is aligned.
 * 2. It lies inside the operands that the launch declares, where it declares some.
 * 3. What it reads has been written.
 * 4. Within a launch, it is ordered with other accesses to the same memory: by barriers between threads of a block, by
 *    warp barriers between lanes. Blocks are never ordered.
 * 5. Between launches, events and streams order it after what it depends on. Each launch has a vector clock.
 *
 * A library without the watch has watch_none.c in its place. */
#ifndef WATCH_H
#define WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WATCH_LANES = 64, WATCH_READS = 1, WATCH_WRITES = 2 };

/* A vector clock: of each lane, how many of its pieces of work are known to have ended. A stream is a lane, and so is
 * each branch of a graph. */
typedef struct watch_clock {
    uint32_t at[WATCH_LANES];
} watch_clock;

typedef struct watch_operand {
    const char *at;
    size_t bytes;
    unsigned use; /* WATCH_READS, WATCH_WRITES or both */
} watch_operand;

/* A piece of work: a launch, a copy, a fill. */
typedef struct watch_work {
    const char *name; /* must stay */
    int lane;         /* -1: it comes after all before it */
    uint32_t number;  /* in its lane, from 1 */
    watch_clock after;
    const watch_operand *operands; /* during the work; count 0: anything goes */
    int num_operands;
} watch_work;

void watch_begin(void); /* makes the watch the observer of the runner */
void watch_memory_add(const void *at, size_t bytes, bool is_written);
void watch_memory_remove(const void *at);
/* What is accessed from now on belongs to this work. */
void watch_work_begin(const watch_work *work);
/* The work accesses this range, outside of a kernel. */
void watch_range(const void *at, size_t bytes, bool is_write);

uint64_t watch_reports(void);
uint64_t watch_accesses(void);
/* Returns the first report since the last call of watch_forget, "" without one. */
const char *watch_first_report(void);
/* Forgets reports, work and memory. Reports go to standard error from now on, or only to watch_first_report. */
void watch_forget(bool is_quiet);

#endif
