/* Standard output and standard error that nobody reads (a stopped pager, Ctrl-S, a pipe without a reader) block a
 * program, as they should: no line is lost. Once a signal has asked to stop they do so no longer, so that a training
 * saves whatever becomes of its log. */
#ifndef MEGALITH_STREAMS_H
#define MEGALITH_STREAMS_H

#include <signal.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From here on, once *stop is not 0, writing waits for half a second in all, and what cannot be written then is
 * dropped. Files are written as before. `stop` is kept. Replaces the streams stdout and stderr; once. */
void mega_streams_guard(const volatile sig_atomic_t *stop);
/* Says how much was dropped, where that can be said. */
void mega_streams_end(void);
/* Async-signal-safe: a descriptor of standard error whose writes do not block where that can be had. */
int mega_streams_error_fd(void);
/* Standard output goes nowhere from here on. False: errno says why not. */
bool mega_streams_silence(void);

#ifdef __cplusplus
}
#endif

#endif
