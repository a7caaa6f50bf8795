/* One life of the ranks: the engine as a child, its output to the relay, signals to the engine, and an end within
 * seconds once a rank has said that it fails. */
#include "launch_impl.h"
#include "megalith/signals.h"
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

#define ASK_AFTER_S   5.0 /* from a rank's failure to the engine's being asked to end */
#define FORCE_AFTER_S 8.0
#define LOST_ASK_S    1.0 /* the same where a host is lost: it cannot be told to end, and is not waited for */
#define LOST_FORCE_S  2.5
#define ENGINE_S      10.0 /* from asking the engine to end to its being killed */
#define GIVEN_UP_S    2.0  /* the same where its ranks are gone */
#define OWN_LEAVES_S  30.0 /* from a signal to a user's own program to its being ended; as torchrun */
#define HAND_ON_S     1.0  /* until a signal is handed on to an engine that never stops writing */
#define DRAIN_S       1.0  /* a process that outlives the engine may hold its output open */

/* The first signal that asked to end, 0: none; and how often one has asked: SIGTERM and Ctrl-C each time, the others
 * where none has. A handler can reach nothing but a global. */
static volatile sig_atomic_t asked, asked_times;

static void note_signal(int number, const char *effect)
{
    mega_signal_answer("megalith launch: ", number,
                       asked_times == 0                ? effect
                       : mega_signal_is_urgent(number) ? "the ranks are ended"
                                                       : "the ranks have been asked to stop before");
    if (asked == 0) asked = number;
    asked_times += asked_times == 0 || mega_signal_is_urgent(number);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)info;
    (void)context;
    note_signal(number, "the ranks are asked to stop; a training saves first. A second SIGTERM or Ctrl-C ends them at "
                        "once");
}

static void on_signal_of_own(int number, siginfo_t *info, void *context)
{
    (void)info;
    (void)context;
    note_signal(number, "the ranks get it too, and end or save as the program does then. A second SIGTERM or Ctrl-C "
                        "ends them at once");
}

static void watch_signals(const launch_plan *p)
{
    mega_signals_install(p->own != NULL ? on_signal_of_own : on_signal, 0);
    mega_streams_guard(&asked);
    signal(SIGPIPE, SIG_IGN);
}

/* Until the engine is there a signal to it would end in our own handler, and be lost. What is ignored stays so. */
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

/* What torchrun and others leave in the environment would be taken for a launcher's word. */
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

/* Generation reads prompts from standard input, which engines hand on to rank 0. A terminal would stop an engine that
 * reads it from a process group in the background, and nobody else reads. */
static bool hands_on_input(const launch_plan *p)
{
    const bool is_read = p->own != NULL || strcmp(p->command, "generate_samples_gpt") == 0;
    return is_read && fcntl(0, F_GETFD) >= 0 && !isatty(0);
}

static void become_engine(const launch_plan *p, const launch_words *command, const launch_words *environment,
                          const int out[2], const int err[2])
{
    setpgid(0, 0); /* the terminal's Ctrl-C comes through us alone */
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
    pid_t engine;
    int fd[2]; /* -1: at its end */
    launch_relay *relay;
    double failed_at, ended_at; /* 0: not yet */
    double asked_at;            /* when the first signal was seen; 0: none was */
    double force_at;            /* when the engine that was asked to end is killed; 0: it was not asked */
    bool is_dropped;            /* it was asked to end because of a signal, before its ranks were ready */
    bool given_up, is_forced;   /* launch_result; launch killed the engine */
    launch_watch watch;
    int told; /* signals handed on */
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

/* What the engine started goes with it. */
static void force(life *l)
{
    l->is_forced = true;
    launch_watch_end(l->engine, SIGKILL);
}

static void ask_to_end(life *l)
{
    l->force_at = mega_time_now() + ENGINE_S;
    kill(l->engine, SIGTERM);
}

/* Hydra dies of a signal that interrupts it in a write; where nothing waits to be read it is not in one. */
static bool has_output(const life *l)
{
    struct pollfd polled[2] = {{.fd = l->fd[0], .events = POLLIN}, {.fd = l->fd[1], .events = POLLIN}};
    return poll(polled, 2, 0) > 0;
}

/* A program of the user's gets the signal itself, as from torchrun. Engines hand on the two of users alone; the ranks
 * of this host are found below the engine. On several hosts the engine is asked, and gives its ranks two seconds. */
static void hand_on_to_own(life *l, const launch_plan *p)
{
    const bool is_of_users = asked == SIGUSR1 || asked == SIGUSR2;
    if (p->kind == LAUNCH_NONE || is_of_users) kill(l->engine, asked);
    else if (p->hosts <= 1 && p->kind != LAUNCH_SLURM)
        launch_watch_signal(l->engine, p, asked);
    else
        ask_to_end(l);
    if (!is_of_users && l->force_at == 0) l->force_at = mega_time_now() + OWN_LEAVES_S;
}

/* The first signal asks the ranks, which may save and leave in peace. SIGTERM would make mpirun kill them two seconds
 * later; SIGUSR1 every engine hands on, to all hosts, and the ranks take it for SIGTERM. The second ends them. Before
 * the ranks stand an engine hands on to nobody, or to a process that dies of it, which not every engine outlives: it is
 * asked to end itself, and nothing is lost, as nothing was trained. */
static void hand_on(life *l, const launch_plan *p)
{
    const launch_kind kind = p->kind;
    if (l->told == 1 && p->own != NULL) {
        hand_on_to_own(l, p);
        return;
    }
    if (l->told == 2 && kind == LAUNCH_OPENMPI && !l->is_dropped) {
        ask_to_end(l); /* it ends its ranks on all hosts */
    } else if (l->told > 1) {
        force(l);
    } else if (kind == LAUNCH_NONE) {
        kill(l->engine, asked);
    } else if (launch_relay_is_ready(l->relay)) {
        kill(l->engine, SIGUSR1);
    } else {
        l->is_dropped = true;
        ask_to_end(l);
    }
}

/* Other commands run in one rank alone, and say nothing of being ready. */
static bool awaits_ranks(const life *l, const launch_plan *p)
{
    static const char *const joins[] = {"pretrain_gpt", "generate_samples_gpt", "tasks"};
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++)
        if (strcmp(p->command, joins[i]) == 0) return p->kind != LAUNCH_NONE && !launch_relay_is_ready(l->relay);
    return false;
}

/* Signals of the user to the ranks; and an end to ranks that outlive a failure. */
static void steer(life *l, const launch_plan *p)
{
    const double now = mega_time_now();
    int rank;
    if (asked_times > l->told && l->asked_at == 0) l->asked_at = now;
    if (asked_times > l->told && (!has_output(l) || now - l->asked_at > HAND_ON_S)) {
        l->told = asked_times;
        hand_on(l, p);
    }
    if (l->force_at == 0 && awaits_ranks(l, p) && launch_watch_gives_up(&l->watch, p, l->relay, l->engine)) {
        l->given_up = true;
        l->force_at = now + GIVEN_UP_S;
        launch_watch_end(l->engine, SIGTERM);
    }
    if (l->force_at > 0 && now > l->force_at) force(l);
    if (l->failed_at == 0 && launch_relay_cause(l->relay, &rank) != NULL) l->failed_at = now;
    if (l->failed_at == 0) return;
    const bool is_lost = launch_relay_has_lost_host(l->relay);
    if (now - l->failed_at > (is_lost ? LOST_FORCE_S : FORCE_AFTER_S)) force(l);
    else if (now - l->failed_at > (is_lost ? LOST_ASK_S : ASK_AFTER_S))
        kill(l->engine, SIGTERM);
}

static void live(life *l, const launch_plan *p)
{
    for (;;) {
        if (l->fd[0] >= 0 || l->fd[1] >= 0) read_output(l, 100);
        else
            usleep(20000);
        if (l->ended_at == 0 && waitpid(l->engine, &l->status, WNOHANG) == l->engine) l->ended_at = mega_time_now();
        if (l->ended_at == 0) steer(l, p);
        else if ((l->fd[0] < 0 && l->fd[1] < 0) || mega_time_now() - l->ended_at > DRAIN_S)
            return;
    }
}

/* Ranks that a signal made leave with nothing done; what their engine ends with does not say so. Hydra ends with 0
 * where it was asked to end before its ranks stood. */
static bool is_left_undone(const life *l)
{
    return launch_relay_is_stopped(l->relay) || (l->is_dropped && !launch_relay_has_trained(l->relay));
}

/* Where a signal ended a rank, mpirun and srun end with 128 + its number, and Hydra with the number itself: ranks of
 * their own accord end with 0, 1 or 2. */
static int exit_status_of(const life *l, const launch_plan *p)
{
    const bool may_be_signal = p->own == NULL || launch_relay_death_signal(l->relay) != 0;
    const bool ended_well = WIFEXITED(l->status) && WEXITSTATUS(l->status) == 0 && !is_left_undone(l);
    if (asked_times > 0 && !ended_well) return 128 + asked; /* and not the one that it was handed on as */
    /* Ranks that did not receive it themselves end as after SIGTERM, and which of them the engine goes by is chance. */
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
        return MEGA_FAIL(MEGA_ERR_IO, "no pipe to the ranks: %s", strerror(errno));
    watch_signals(p);
    fflush(NULL);
    life l = {.fd = {stdout_pipe[0], stderr_pipe[0]}, .relay = relay};
    l.engine = fork_deaf();
    if (l.engine == 0) become_engine(p, command, environment, stdout_pipe, stderr_pipe);
    close(stdout_pipe[1]);
    close(stderr_pipe[1]);
    if (l.engine > 0) {
        setpgid(l.engine, l.engine);
        live(&l, p);
    }
    for (int s = 0; s < 2; s++)
        if (l.fd[s] >= 0) close(l.fd[s]);
    if (l.engine < 0) return MEGA_FAIL(MEGA_ERR_IO, "no process for %s: %s", command->word[0], strerror(errno));
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
