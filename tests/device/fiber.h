/* Fibers: functions with stacks of their own, which give each other the processor by name. */
#ifndef FIBER_H
#define FIBER_H

enum { FIBER_STACK = 256 << 10, FIBER_GUARD = 64 << 10 }; /* a page of any processor */

typedef struct fiber {
    void *position; /* its stack pointer, or its context, while others run */
    char *stack; /* FIBER_STACK bytes, of which the first FIBER_GUARD cannot be touched; NULL: the thread's own stack */
} fiber;

/* Gives a fiber a stack (the first time) and lets it begin with main, which must not return, at the next switch to
 * it. Fibers of different numbers begin at different offsets, for else a cache holds the same lines of few of them. */
void fiber_begin(fiber *f, unsigned number, void (*main)(void));
/* Saves the caller in `from` and goes on with `to`. */
void fiber_switch(fiber *from, fiber *to);

#endif
