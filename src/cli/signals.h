/* Signals that ask a command to stop: SIGTERM, SIGINT (Ctrl-C), SIGHUP, and SIGUSR1 and SIGUSR2, which launchers pass
 * on. The handler answers at once with a line on standard error, whatever the command is doing, and sets a flag that
 * the command reads where it can stop. */
#ifndef MEGA_CLI_SIGNALS_H
#define MEGA_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* From here on signals ask. `rank` of several, which a launcher started; -1: there is no launcher, and a second SIGTERM
 * or Ctrl-C ends the program at once. SIGHUP stays ignored under nohup. Called again to set another rank, or where a
 * library may have put handlers of its own. `command` and `effect` are kept, not copied. */
void mega_cli_signals_watch(const char *command, int rank, const char *effect);
/* Whether a signal ends a read that waits, with EINTR. At first it does not. */
void mega_cli_signals_break(bool reads);
/* What the answer to a signal promises from now on; NULL: signals are not answered any more. */
void mega_cli_signals_promise(const char *effect);
/* 0, or the last signal that asked to stop; SIGTERM for what a launcher passed on as another. Borrowed for the life of
 * the process. */
const volatile sig_atomic_t *mega_cli_signals_stop(void);
/* The exit status of a command that a signal stopped before it had done its work: 128 + the signal's number. */
int mega_cli_signals_exit_status(void);

/* What `megalith launch` shares with the commands. "SIGTERM"; of SIGINT "Ctrl-C (SIGINT)". */
const char *mega_cli_signal_name(int number);
/* Whether it asks to stop where it was received before; the others ask once, as several of them often come together. */
bool mega_cli_signal_is_urgent(int number);
/* Async-signal-safe: "megalith COMMAND: received SIGTERM: EFFECT" on standard error, unless nobody reads that. */
void mega_cli_signal_answer(const char *prefix, int number, const char *effect);
/* Installs the handler for the signals above. */
void mega_cli_signals_install(void (*handler)(int number, siginfo_t *info, void *context), int flags);
/* Async-signal-safe: undoes it, in a child that becomes another program. */
void mega_cli_signals_default(void);

#endif
