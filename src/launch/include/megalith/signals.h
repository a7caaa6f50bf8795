/* Signals that ask a command to stop: SIGTERM, SIGINT (Ctrl-C), SIGHUP, and SIGUSR1 and SIGUSR2, which launchers pass
 * on. The handler answers at once with a line on standard error, whatever the command is doing, and sets a flag that
 * the command reads where it can stop. */
#ifndef MEGALITH_SIGNALS_H
#define MEGALITH_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From here on signals ask. `rank` of several, which a launcher started; -1: there is no launcher, and a second SIGTERM
 * or Ctrl-C ends the program at once. SIGHUP stays ignored under nohup. Called again to set another rank, or where a
 * library may have put handlers of its own. `command` and `effect` are kept, not copied. */
void mega_signals_watch(const char *command, int rank, const char *effect);
/* Whether a signal ends a read that waits, with EINTR. At first it does not. */
void mega_signals_break(bool reads);
/* What the answer to a signal promises from now on; NULL: signals are not answered any more. */
void mega_signals_promise(const char *effect);
/* 0, or the last signal that asked to stop; SIGTERM for what a launcher passed on as another. Borrowed for the life of
 * the process. */
const volatile sig_atomic_t *mega_signals_stop(void);
/* The exit status of a command that a signal stopped before it had done its work: 128 + the signal's number. */
int mega_signals_exit_status(void);

#ifdef __cplusplus
}
#endif

#endif
