/* One attempt to run the ranks: the MPI launcher as a child process, its output to the relay, signals to it, and its
 * end within seconds once a rank has reported a failure. */
#include "launch_impl.h"
#include "megalith/streams.h"
#include "megalith/threads.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASK_AFTER_S   5.0 /* from a rank's failure to asking the MPI launcher to end */
#define FORCE_AFTER_S 8.0
#define LOST_ASK_S    1.0 /* the same if a host is lost, which cannot be told to end and is not waited for */
#define LOST_FORCE_S  2.5
#define MPIRUN_END_S  10.0 /* from asking the MPI launcher to end to killing it */
#define GIVEN_UP_S    2.0  /* the same if its ranks are gone */
#define OWN_LEAVES_S  30.0 /* from a signal for a user's own program to killing it; the same as torchrun */
#define HAND_ON_S     1.0  /* until a signal is passed on even if the MPI launcher never stops writing */
#define DRAIN_S       1.0  /* a process that outlives the MPI launcher may keep its output open */

/* The first signal that asked to end, 0: none; and the number of requests: SIGTERM and Ctrl-C count each time, the
 * others only if they are the first. A handler can access only globals. */
static volatile sig_atomic_t asked, asked_times;

int launch_asked(void)
{
    return asked;
}

static void note_signal(int number, const char *effect)
{
    mega_signal_answer("megalith launch: ", number,
                       asked_times == 0                ? effect
                       : mega_signal_is_urgent(number) ? "the ranks are ended"
                                                       : "the ranks have already been asked to stop");
    if (asked == 0) asked = number;
    asked_times += asked_times == 0 || mega_signal_is_urgent(number);
}

static void run_on_signal(int number, siginfo_t *info, void *context)
{
    (void)info;
    (void)context;
    note_signal(number, "the ranks are asked to stop; a training saves first, unless a rank hangs. A second SIGTERM or "
                        "Ctrl-C ends them at "
                        "once");
}

static void on_signal_of_own(int number, siginfo_t *info, void *context)
{
    (void)info;
    (void)context;
    note_signal(number, "it is passed on to the ranks, which end or save as the program does on that signal. A second "
                        "SIGTERM or Ctrl-C "
                        "ends them at once");
}

static void watch_signals(const launch_plan *p)
{
    mega_signals_install(p->own != NULL ? on_signal_of_own : run_on_signal, 0);
    mega_streams_guard(&asked);
    signal(SIGPIPE, SIG_IGN);
}

/* Blocks signals around fork: until the child executes the MPI launcher, a signal to it would reach our own handler and
 * be lost. Ignored signals stay ignored. */
static pid_t fork_deaf(void)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    const pid_t child = fork();
    if (child == 0) mega_signals_default();
    sigprocmask(SIG_SETMASK, &before, NULL);
    return child;
}

/* Variables that torchrun and others left in the environment would be mistaken for those of a launcher. */
static void set_environment(const launch_words *environment)
{
    static const char *const foreign[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "LOCAL_SIZE"};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) unsetenv(foreign[i]);
    for (int i = 0; i < environment->count; i++) {
        char *word = environment->word[i], *equals = strchr(word, '=');
        *equals = '\0';
        setenv(word, equals + 1, 0);
        *equals = '=';
    }
}

/* Generation reads prompts from standard input, which MPI launchers pass to rank 0. A terminal would stop a launcher
 * that reads from it in a background process group, so other commands get no input. */
static bool hands_on_input(const launch_plan *p)
{
    const bool is_read = p->own != NULL || mega_command_is_in(p->commands, p->command, p->commands->asks);
    return is_read && fcntl(0, F_GETFD) >= 0 && !isatty(0);
}

static void become_mpirun(const launch_plan *p, const launch_words *command, const launch_words *environment,
                          const int out[2], const int err[2])
{
    setpgid(0, 0); /* own process group: Ctrl-C on the terminal reaches only us */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGPIPE, SIG_DFL);
    const int input = hands_on_input(p) ? 0 : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input < 0 || dup2(input, 0) < 0 || dup2(out[1], 1) < 0 || dup2(err[1], 2) < 0) _exit(127);
    set_environment(environment);
    execv(command->word[0], command->word);
    const char *why = strerror(errno);
    dprintf(2, "megalith launch: error: %s: %s\n", command->word[0], why);
    _exit(127);
}

typedef struct life {
    pid_t mpirun;
    int fd[2]; /* -1: at end of file */
    launch_relay *relay;
    double failed_at, ended_at; /* times; 0: not yet */
    double asked_at;            /* when the first signal was seen; 0: none was */
    double force_at;            /* when to kill the MPI launcher after asking it to end; 0: it was not asked */
    bool is_dropped;            /* it was asked to end by a signal before its ranks were ready */
    bool given_up, is_forced;   /* as in launch_result; launch killed the MPI launcher */
    launch_watch watch;
    int told; /* signals passed on */
    int status;
} life;

static void read_output(life *l, int timeout_ms)
{
    struct pollfd polled[2] = {{.fd = l->fd[0], .events = POLLIN}, {.fd = l->fd[1], .events = POLLIN}};
    if (poll(polled, 2, timeout_ms) <= 0) return;
    char bytes[16384];
    for (int s = 0; s < 2; s++) {
        if (polled[s].revents == 0) continue;
        const ssize_t n = read(l->fd[s], bytes, sizeof bytes);
        if (n > 0) {
            launch_relay_take(l->relay, s == 1, bytes, (size_t)n);
        } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
            close(l->fd[s]);
            l->fd[s] = -1;
        }
    }
}

/* Kills the MPI launcher and all that it started. */
static void run_force(life *l)
{
    l->is_forced = true;
    launch_watch_end(l->mpirun, SIGKILL);
}

static void ask_to_end(life *l)
{
    l->force_at = mega_time_now() + MPIRUN_END_S;
    kill(l->mpirun, SIGTERM);
}

/* Hydra dies if a signal interrupts it in a write; while there is nothing to read from it, it is not in one. */
static bool run_has_output(const life *l)
{
    struct pollfd polled[2] = {{.fd = l->fd[0], .events = POLLIN}, {.fd = l->fd[1], .events = POLLIN}};
    return poll(polled, 2, 0) > 0;
}

/* A user's program gets the signal itself, as under torchrun. MPI launchers pass on only SIGUSR1 and SIGUSR2, so the
 * ranks of this host are found below the launcher. With several hosts the launcher is asked to end, and gives its ranks
 * two seconds. */
static void hand_on_to_own(life *l, const launch_plan *p)
{
    const bool is_of_users = asked == SIGUSR1 || asked == SIGUSR2;
    if (p->kind == LAUNCH_NONE || is_of_users) kill(l->mpirun, asked);
    else if (launch_hosts_are_here(p) && p->kind != LAUNCH_SLURM)
        launch_watch_signal(l->mpirun, p, asked);
    else
        ask_to_end(l);
    if (!is_of_users && l->force_at == 0) l->force_at = mega_time_now() + OWN_LEAVES_S;
}

/* The first signal asks the ranks to stop, which may save first. SIGTERM would make mpirun kill them two seconds later,
 * so one is sent that it passes on, and the ranks name what it stands for. The second signal ends the ranks. Before the
 * ranks are ready, a launcher passes a signal to nobody, or to a process that dies of it, which not every launcher
 * survives: it is asked to end itself, and nothing is lost, because nothing was trained. */
static void hand_on(life *l, const launch_plan *p)
{
    const launch_kind kind = p->kind;
    if (l->told == 1 && p->own != NULL) {
        hand_on_to_own(l, p);
        return;
    }
    if (l->told == 2 && kind == LAUNCH_OPENMPI && !l->is_dropped) {
        ask_to_end(l); /* the launcher ends its ranks on all hosts */
    } else if (l->told > 1) {
        run_force(l);
    } else if (kind == LAUNCH_NONE) {
        kill(l->mpirun, asked);
    } else if (launch_relay_is_ready(l->relay)) {
        kill(l->mpirun, mega_signal_passed_on(kind, asked));
    } else {
        l->is_dropped = true;
        ask_to_end(l);
    }
}

/* The other commands run in one rank only and never report that they are ready, nor does a user's program. */
static bool awaits_ranks(const life *l, const launch_plan *p)
{
    return p->kind != LAUNCH_NONE && p->own == NULL && !launch_relay_is_ready(l->relay) &&
           mega_command_is_in(p->commands, p->command, p->commands->of_ranks);
}

/* Passes the user's signals on to the ranks, and ends ranks that outlive a failure. */
static void run_steer(life *l, const launch_plan *p)
{
    const double now = mega_time_now();
    int rank;
    if (asked_times > l->told && l->asked_at == 0) l->asked_at = now;
    if (asked_times > l->told && (!run_has_output(l) || now - l->asked_at > HAND_ON_S)) {
        l->told = asked_times;
        hand_on(l, p);
    }
    if (l->force_at == 0 && awaits_ranks(l, p) && launch_watch_gives_up(&l->watch, p, l->relay, l->mpirun)) {
        l->given_up = true;
        l->force_at = now + GIVEN_UP_S;
        launch_watch_end(l->mpirun, SIGTERM);
    }
    if (l->force_at > 0 && now > l->force_at) run_force(l);
    if (l->failed_at == 0 && launch_relay_cause(l->relay, &rank) != NULL) l->failed_at = now;
    if (l->failed_at == 0) return;
    const bool is_lost = launch_relay_has_lost_host(l->relay);
    if (now - l->failed_at > (is_lost ? LOST_FORCE_S : FORCE_AFTER_S)) run_force(l);
    else if (now - l->failed_at > (is_lost ? LOST_ASK_S : ASK_AFTER_S))
        kill(l->mpirun, SIGTERM);
}

static void run_live(life *l, const launch_plan *p)
{
    for (;;) {
        if (l->fd[0] >= 0 || l->fd[1] >= 0) read_output(l, 100);
        else
            usleep(20000);
        if (l->ended_at == 0 && waitpid(l->mpirun, &l->status, WNOHANG) == l->mpirun) l->ended_at = mega_time_now();
        if (l->ended_at == 0) run_steer(l, p);
        else if ((l->fd[0] < 0 && l->fd[1] < 0) || mega_time_now() - l->ended_at > DRAIN_S)
            return;
    }
}

/* Returns whether a signal made the ranks leave before they had done their work. The launcher's exit status does not
 * show that: Hydra ends with 0 if it was asked to end before its ranks were ready. */
static bool is_left_undone(const life *l)
{
    return launch_relay_is_stopped(l->relay) || (l->is_dropped && !launch_relay_has_trained(l->relay));
}

/* If a signal ended a rank, mpirun and srun exit with 128 + its number, and Hydra with the number itself; ranks that
 * end by themselves exit with 0, 1 or 2. */
static int exit_status_of(const life *l, const launch_plan *p)
{
    const bool may_be_signal = p->own == NULL || launch_relay_death_signal(l->relay) != 0;
    const bool ended_well = WIFEXITED(l->status) && WEXITSTATUS(l->status) == 0 && !is_left_undone(l);
    if (asked_times > 0 && !ended_well) return 128 + asked; /* not the signal that it was passed on as */
    /* Ranks that did not receive the signal themselves end as after SIGTERM, and it is chance which rank determines the
     * launcher's exit status. */
    if (launch_relay_is_stopped(l->relay) && launch_relay_signal(l->relay) != 0)
        return 128 + launch_relay_signal(l->relay);
    if (l->given_up && (WIFSIGNALED(l->status) || ended_well)) return 1;
    if (WIFSIGNALED(l->status)) return 128 + WTERMSIG(l->status);
    const int status = WEXITSTATUS(l->status);
    if (status == 0 && !ended_well) return 128 + SIGTERM;
    return p->kind == LAUNCH_MPICH && may_be_signal && status > 2 && status <= SIGRTMAX ? 128 + status : status;
}

mega_status launch_run(const launch_plan *p, const launch_words *command, const launch_words *environment,
                       launch_relay *relay, launch_result *out)
{
    int stdout_pipe[2], stderr_pipe[2];
    if (pipe2(stdout_pipe, O_CLOEXEC) != 0 || pipe2(stderr_pipe, O_CLOEXEC) != 0)
        return MEGA_FAIL(MEGA_ERR_IO, "cannot create a pipe to the ranks: %s", strerror(errno));
    watch_signals(p);
    fflush(NULL);
    life l = {.fd = {stdout_pipe[0], stderr_pipe[0]}, .relay = relay};
    l.mpirun = fork_deaf();
    if (l.mpirun == 0) become_mpirun(p, command, environment, stdout_pipe, stderr_pipe);
    close(stdout_pipe[1]);
    close(stderr_pipe[1]);
    if (l.mpirun > 0) {
        setpgid(l.mpirun, l.mpirun);
        run_live(&l, p);
    }
    for (int s = 0; s < 2; s++)
        if (l.fd[s] >= 0) close(l.fd[s]);
    if (l.mpirun < 0)
        return MEGA_FAIL(MEGA_ERR_IO, "cannot create a process for %s: %s", command->word[0], strerror(errno));
    launch_relay_end(relay);
    *out = (launch_result){.exit_status = exit_status_of(&l, p),
                           .interrupted = asked != 0 || launch_relay_is_stopped(relay),
                           .asked_by = asked,
                           .killed_by = WIFSIGNALED(l.status) && !l.is_forced ? WTERMSIG(l.status) : 0,
                           .given_up = !l.given_up                    ? NULL
                                       : l.watch.ranks < l.watch.most ? "a rank ended before all had joined"
                                                                      : "the ranks could not all start"};
    return MEGA_OK;
}
