/* Fibers: functions with stacks of their own, which give each other the processor by name. */
#ifndef FIBER_H
#define FIBER_H

#include <stddef.h>

#if defined(__has_feature) /* clang */
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

enum { FIBER_STACK = 256 << 10, FIBER_GUARD = 64 << 10 }; /* a page of any processor */

typedef struct fiber {
    void *position; /* its stack pointer, or its context, while others run */
    char *stack; /* FIBER_STACK bytes, of which the first FIBER_GUARD cannot be touched; NULL: the thread's own stack */
#ifdef __SANITIZE_ADDRESS__
    const void *bottom; /* of its stack, and how large that is */
    size_t size;
    void *frames; /* what the sanitizer keeps of it while others run */
#endif
} fiber;

/* Gives a fiber a stack (the first time) and lets it begin with main at the next switch to it; main must call
 * fiber_begun first, and must not return. Fibers of different numbers begin at different offsets, for else a cache
 * holds the same lines of few of them. */
void fiber_begin(fiber *f, unsigned number, void (*main)(void));
void fiber_begun(void);
/* Saves the caller in `from` and goes on with `to`. */
void fiber_switch(fiber *from, fiber *to);

#endif
