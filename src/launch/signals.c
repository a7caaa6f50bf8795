/* Signals that ask a command to stop. Everything that a handler calls here is async-signal-safe. */
#include "megalith/signals.h"
#include "launch_impl.h"
#include "megalith/streams.h"
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A handler can access only globals. */
static struct {
    volatile sig_atomic_t stop;     /* read by the command */
    volatile sig_atomic_t received; /* the first signal; 0: none */
    volatile sig_atomic_t urgent;   /* number of signals whose second one ends the program */
    volatile sig_atomic_t rank;     /* -1: no launcher */
    char prefix[72];                /* begins with a mark (MEGA_MARK_SIGNAL + number) in a rank of megalith launch */
    bool is_marked;
    _Atomic(const char *) effect, hold; /* the promise; what is said instead of it */
} state = {.rank = -1};

#define WATCHED_ROW(number, is_urgent)                                        \
    {                                                                         \
        number, #number, "received " #number, "receiving " #number, is_urgent \
    }
static const struct {
    int number;
    const char *name, *words, *in_line;
    bool is_urgent;
} watched[] = {WATCHED_ROW(SIGTERM, true),
               {SIGINT, "Ctrl-C (SIGINT)", "interrupted by Ctrl-C (SIGINT)", "receiving SIGINT", true},
               WATCHED_ROW(SIGHUP, false),
               WATCHED_ROW(SIGUSR1, false),
               WATCHED_ROW(SIGUSR2, false),
               WATCHED_ROW(SIGALRM, false)}; /* only where megalith launch started the rank */
enum { WATCHED = sizeof watched / sizeof watched[0] };
#define OF_LAUNCHER "SIGTERM from the MPI launcher"

const char *mega_signal_name(int number)
{
    for (int i = 0; i < WATCHED; i++)
        if (watched[i].number == number) return watched[i].name;
    return "a signal";
}

const char *mega_signal_words(int number, bool is_line)
{
    if (number == LAUNCH_SIGTERM) return is_line ? "receiving " OF_LAUNCHER : "received " OF_LAUNCHER;
    for (int i = 0; i < WATCHED; i++)
        if (watched[i].number == number) return is_line ? watched[i].in_line : watched[i].words;
    return is_line ? "receiving a signal" : "received a signal";
}

bool mega_signal_is_urgent(int number)
{
    for (int i = 0; i < WATCHED; i++)
        if (watched[i].number == number) return watched[i].is_urgent;
    return false;
}

static size_t signals_put(char *line, size_t used, size_t size, const char *text)
{
    const size_t n = strlen(text), most = size - used;
    memcpy(line + used, text, n < most ? n : most);
    return used + (n < most ? n : most);
}

/* One write call, so that lines of several ranks do not mix; only if it does not block. */
void mega_signal_answer(const char *prefix, int number, const char *effect)
{
    char line[512];
    const size_t most = sizeof line - 1;
    const int saved = errno;
    struct pollfd to = {.fd = mega_streams_error_fd(), .events = POLLOUT};
    size_t n = signals_put(line, 0, most, prefix);
    n = signals_put(line, n, most, mega_signal_words(number, false));
    n = signals_put(line, n, most, ": ");
    n = signals_put(line, n, most, effect);
    line[n++] = '\n';
    if (poll(&to, 1, 0) == 1 && (to.revents & POLLOUT) != 0 && write(to.fd, line, n) < 0) errno = saved;
    errno = saved;
}

int mega_signal_passed_on(launch_kind kind, int number)
{
    return number != SIGINT ? SIGUSR1 : kind == LAUNCH_MPICH ? SIGALRM : SIGUSR2;
}

/* megalith launch passes signals on as those that MPI launchers let through: what the user probably sent, for the exit
 * status of a rank that no launch hears. */
static int signals_meant(int number)
{
    if (!state.is_marked) return number;
    return number == SIGUSR2 || number == SIGALRM ? SIGINT : number == SIGUSR1 ? SIGTERM : number;
}

/* A launcher sends a signal to all ranks, and rank 0 prints the line; a signal to one rank is printed by that rank. */
static void signals_on_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    const bool is_passed_on = state.rank >= 0 && info->si_code <= 0 && info->si_pid == getppid();
    const int meant = is_passed_on ? signals_meant(number) : number;
    const int named = is_passed_on && number == SIGTERM ? LAUNCH_SIGTERM : number;
    state.urgent += mega_signal_is_urgent(meant);
    if (state.received == 0) state.received = meant;
    state.stop = named;
    const bool ends = state.rank < 0 && state.urgent > 1;
    const char *hold = atomic_load(&state.hold), *effect = atomic_load(&state.effect);
    if (ends) effect = "the second one, so the program ends at once";
    else if (effect != NULL && hold != NULL)
        effect = hold;
    if (state.is_marked) state.prefix[1] = (char)((is_passed_on ? MEGA_MARK_PASSED : MEGA_MARK_SIGNAL) + number);
    if (effect != NULL && (state.rank <= 0 || !is_passed_on)) mega_signal_answer(state.prefix, named, effect);
    if (!ends) return;
    signal(number, SIG_DFL);
    raise(number);
}

/* nohup ignores SIGHUP, and it stays ignored. Shells ignore SIGINT in background jobs of a script; it is handled all
 * the same, because only a deliberate kill sends it there. */
void mega_signals_install(void (*handler)(int number, siginfo_t *info, void *context), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags}, before;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < WATCHED; i++) {
        const int number = watched[i].number;
        if (number == SIGALRM && !state.is_marked) continue;
        const bool is_ignored = sigaction(number, NULL, &before) == 0 && (before.sa_flags & SA_SIGINFO) == 0 &&
                                before.sa_handler == SIG_IGN;
        if (number != SIGHUP || !is_ignored) sigaction(number, &action, NULL);
    }
}

void mega_signals_default(void)
{
    struct sigaction now;
    for (int i = 0; i < WATCHED; i++)
        if (sigaction(watched[i].number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0)
            signal(watched[i].number, SIG_DFL);
}

void mega_signals_watch(const char *command, int rank, const char *effect)
{
    char mark[3], name[24] = "";
    mega_launch_rank_mark(mark, MEGA_MARK_SIGNAL);
    if (rank > 0) snprintf(name, sizeof name, "rank %d: ", rank);
    state.is_marked = mark[0] != '\0';
    snprintf(state.prefix, sizeof state.prefix, "%smegalith %.28s: %s", mark, command, name);
    state.rank = rank;
    mega_streams_guard(&state.stop);
    mega_signals_promise(effect);
    mega_signals_install(signals_on_signal, SA_RESTART);
}

void mega_signals_break(bool reads)
{
    mega_signals_install(signals_on_signal, reads ? 0 : SA_RESTART);
}

void mega_signals_promise(const char *effect)
{
    atomic_store(&state.effect, effect);
}

void mega_signals_hold(const char *effect)
{
    atomic_store(&state.hold, effect);
}

const volatile sig_atomic_t *mega_signals_stop(void)
{
    return &state.stop;
}

void mega_signals_line(int number, char *out, size_t size)
{
    char mark[3];
    mega_launch_rank_mark(mark, MEGA_MARK_PASSED + (number == LAUNCH_SIGTERM ? SIGTERM : number));
    snprintf(out, size, "%sexiting program after %s.", mark, mega_signal_words(number, true));
}

int mega_signals_exit_status(void)
{
    return 128 + (state.received != 0 ? state.received : SIGTERM); /* another rank received it */
}
