/* Output that nobody reads (a stopped pager, Ctrl-S, a stalled pipe) blocks a program, as it should: no line is lost.
 * But once a signal has asked to stop, it must not block any longer, so that a training saves whatever happens to its
 * log. */
#ifndef MEGALITH_STREAMS_H
#define MEGALITH_STREAMS_H

#include <signal.h>
#include <stdbool.h>

/* Replaces the streams stdout and stderr, once: as soon as *stop is not 0, writing waits at most half a second in all,
 * and drops output that cannot be written then. Files are written as before. `stop` is borrowed for the life of the
 * process. */
void mega_streams_guard(const volatile sig_atomic_t *stop);
/* Reports how much was dropped, if that can be reported. */
void mega_streams_end(void);
/* Async-signal-safe: returns a descriptor of standard error whose writes do not block, if possible. */
int mega_streams_error_fd(void);
/* Discards standard output from now on. Returns false with errno on failure. */
bool mega_streams_silence(void);

#endif
