/* Signals that ask a command to stop: SIGTERM, SIGINT (Ctrl-C), SIGHUP, and SIGUSR1 and SIGUSR2, which launchers pass
 * on. The handler prints a line on standard error at once, whatever the command is doing, and sets a flag that the
 * command checks where it can stop. */
#ifndef MEGALITH_SIGNALS_H
#define MEGALITH_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Installs the handler. `rank` is one of several that a launcher started; -1: no launcher, and a second SIGTERM or
 * Ctrl-C ends the program at once. SIGHUP stays ignored under nohup. May be called again to set another rank, or after
 * a library may have installed handlers of its own. `command` and `effect` are borrowed for the life of the process. */
void mega_signals_watch(const char *command, int rank, const char *effect);
/* Sets whether a signal interrupts a blocking read with EINTR; initially it does not. */
void mega_signals_break(bool reads);
/* Sets the effect that the handler's line announces; NULL: the handler prints nothing from now on. */
void mega_signals_promise(const char *effect);
/* Sets an effect that the line announces in place of the promise for as long as the promise cannot be kept; NULL:
 * nothing does any more. */
void mega_signals_hold(const char *effect);
/* Returns 0, or the last signal that asked to stop. Borrowed for the life of the process. */
const volatile sig_atomic_t *mega_signals_stop(void);
/* Writes Megatron's line of a run that ends because of this signal. In a rank of megalith launch it begins with a mark
 * (MEGA_MARK_PASSED), for launch to name the signal that the user sent. */
void mega_signals_line(int number, char *out, size_t size);
/* Returns the exit status of a command that a signal stopped before it had done its work: 128 + the signal's number. */
int mega_signals_exit_status(void);

#endif
