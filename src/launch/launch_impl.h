/* Shared by the files of megalith launch. The options and hosts are read into a plan; from it follows the command line
 * of the installed MPI launcher (mpirun, mpiexec, srun); a relay between that and the terminal separates the lines of
 * the ranks. */
#ifndef MEGA_LAUNCH_IMPL_H
#define MEGA_LAUNCH_IMPL_H

#include "megalith/config.h"
#include "megalith/launch.h"
#include "megalith/memory.h"
#include "megalith/option.h"
#include "megalith/status.h"
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

typedef struct launch_host {
    const char *typed; /* as in the hostfile: NAME or USER@NAME, which ssh takes */
    const char *name;
    const char *user; /* NULL: not given */
    int here;         /* 1: this machine, -1: another one, 0: not looked up yet; ask launch_host_is_here */
    int ranks;
    int slots; /* from the hostfile, before filters */
    int line;  /* line number in the hostfile */
} launch_host;

typedef enum launch_kind { LAUNCH_NONE, LAUNCH_OPENMPI, LAUNCH_MPICH, LAUNCH_SLURM } launch_kind;

/* A growing list of words; NULL-terminated. */
typedef struct launch_words {
    char **word;
    int count, capacity;
    bool failed; /* memory is short */
} launch_words;

typedef struct launch_given {
    const mega_option_row *row;
    const char *typed, *value;
} launch_given;

/* The file in --save that names the newest checkpoint; zero: there is none. */
typedef struct launch_tracker {
    ino_t inode;
    struct timespec time;
} launch_tracker;

typedef struct launch_plan {
    mega_arena arena; /* owns every string and list below */
    mega_buffer mistakes;

    const char *hostfile, *include, *exclude, *master_addr, *log_dir, *launcher;
    int64_t nproc, nodes; /* 0: not given */
    int64_t processes;    /* ranks of all hosts together; 0: not given */
    int64_t node_rank, max_restarts, master_port;
    bool dry_run, help, is_module;
    struct launch_given *given; /* options of launch with a value, in the order in which they were read */
    int givens;
    const char *config_file; /* Accelerate's YAML; NULL: none */
    bool is_accelerate;      /* started as accelerate launch */
    bool is_deepspeed;       /* started as deepspeed */
    bool use_deepspeed;      /* Accelerate's switch */
    bool says_zero_stage;    /* the configuration says a ZeRO stage, or names a DeepSpeed JSON */

    const mega_composition *commands;
    /* the command's name here, however the user spelled it; for a user's own program, the word typed */
    const char *command;
    const char *own;        /* path of a user's program that is started instead of a command, or NULL */
    bool is_python;         /* it runs in Python */
    launch_words own_words; /* its first words: the path, or an interpreter with its options and the script */
    int64_t attempt;        /* number of restarts so far */
    launch_tracker tracker; /* before the first start */
    launch_words passed;    /* options of launch that become options of the command */
    char **args;            /* all arguments of the command, NULL-terminated */
    int args_count;

    launch_host *host; /* in the hostfile's order; none: this machine, or the hosts of the Slurm allocation */
    int hosts;
    int world; /* ranks in all */

    launch_kind kind;
    int major;           /* version of the MPI launcher; 0: unknown */
    const char *mpirun;  /* path of mpirun, mpiexec or srun */
    const char *program; /* path of this program */
} launch_plan;

void launch_word(launch_words *w, mega_arena *arena, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Adds a mistake; all are reported together. */
void launch_mistake(launch_plan *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

extern const mega_option_section launch_other_section; /* src/foreign/launchers.txt */
/* options.c: reads the options up to the command's name, then the command. Mistakes are collected. */
void launch_options_read(launch_plan *p, int argc, char **argv);
/* Passes --NAME VALUE on as that option of launch does, unless it has been passed already. */
void launch_option_pass(launch_plan *p, const char *name, const char *value);

/* config_file.c: takes ranks and hosts from Accelerate's YAML, where no option gives them; passes its other settings on
 * to a program of the user's own. */
void launch_config_read(launch_plan *p);
void launch_config_pass(launch_plan *p);

/* user_program.c: a user's program instead of a command. launch_program_command: the command that a word names, or
 * NULL. launch_program_read: finds the program `typed`, which `python` words of an interpreter precede; sets p->own, or
 * adds a mistake. launch_program_arguments: writes its arguments, followed by options of launch that are passed on and
 * that the user did not give; out has room for all; returns their number. launch_program_words: the words that make a
 * rank become the program (start.c), before those arguments. */
const char *launch_program_command(const launch_plan *p, const char *typed);
bool launch_is_same_option(const char *a, const char *b); /* "--a_b=1" and "--a-b" */
void launch_program_read(launch_plan *p, char **words, int python, const char *typed);
int launch_program_arguments(const launch_plan *p, int argc, char **argv, char **out);
void launch_program_words(launch_plan *p, launch_words *command);

/* start.c: `megalith launch --start-rank NAME=VALUE… -- PROGRAM ARGS…` sets the environment and executes the program;
 * returns an exit status only if it cannot. */
#define LAUNCH_START_RANK "--start-rank"
enum { LAUNCH_NOT_STARTED = 126, LAUNCH_NOT_FOUND = 127 };
int launch_start_rank(char **words);

/* rank.c: the index of this rank on its host, from the MPI launcher's environment; -1: no launcher. */
int launch_rank_local(void);

/* host_names.c: reads NAME or USER@NAME, or adds a mistake about `where` and returns false. `typed` lives as long as
 * the plan. */
bool launch_host_read(launch_plan *p, const char *where, char *typed, launch_host *out);
bool launch_host_is_own_user(const launch_host *h); /* no user is given, or the one that runs this program */
/* Looks the name up; every shortcut for ranks of this machine asks it, because a hostfile of one host may name
 * another. */
bool launch_host_is_here(launch_host *h);
bool launch_hosts_are_here(const launch_plan *p); /* whether all ranks run on this machine */
/* The variables by which an MPI launcher is told how to call ssh. */
#define LAUNCH_AGENT_4     "OMPI_MCA_plm_rsh_agent"
#define LAUNCH_AGENT_5     "PRTE_MCA_plm_ssh_agent"
#define LAUNCH_AGENT_MPICH "HYDRA_LAUNCHER_EXTRA_ARGS"
/* The user that ssh is told, NULL: none. */
const char *launch_hosts_user(const launch_plan *p);
/* Adds mistakes about names and users that this kind of MPI launcher does not take. */
void launch_hosts_check(launch_plan *p, launch_kind kind);

/* slurm.c: whether there is a Slurm allocation; takes hosts and ranks from it; in a rank, the number of ranks on its
 * host, 0: not known. */
bool launch_slurm_is_here(void);
void launch_slurm_use(launch_plan *p);
int launch_slurm_local_size(void);

/* hosts.c: determines hosts and ranks from the hostfile, the filters and the numbers given. `text` is the hostfile's
 * content. */
void launch_hosts_read(launch_plan *p, const char *path, const char *text);
void launch_hosts_filter(launch_plan *p);
/* Removes hosts that do not answer ssh, except this one; returns their number. */
int launch_hosts_reach(launch_plan *p);
/* Returns the first host, except this one, that does not answer ssh, and the last line that ssh printed; NULL: all
 * answer. Takes some seconds per host. */
const launch_host *launch_hosts_unreachable(const launch_plan *p, char *out_said, size_t size);

/* mpirun_find.c, mpirun_command.c: finds the MPI launcher and sets p->world; launch_mpirun_command builds its command
 * line and environment ("NAME=VALUE", to be set unless the user has set it). */
void launch_mpirun_find(launch_plan *p);
/* Returns where the shell would find a program, in the plan's arena; NULL if it would not. */
const char *launch_find_program(launch_plan *p, const char *name);
/* command.c */
mega_status launch_mpirun_command(launch_plan *p, launch_words *command, launch_words *environment);

/* launch.c: returns whether this process stays beside the ranks; otherwise it becomes the single rank. */
bool launch_stays(const launch_plan *p);

/* marks.c: recognises the MPI launcher's mark of a rank at the beginning of text. Returns the mark's length; 0: no
 * mark; -1: more text is needed. in_line: the text continues a rank's line. */
int launch_mark(const launch_plan *p, bool in_line, const char *text, size_t size, int *out_rank);

/* The columns of the terminal that this process writes to, for the ranks; 0: it is none. */
#define LAUNCH_COLUMNS "MEGA_LAUNCH_COLUMNS"
int launch_terminal_columns(void);

/* relay.c: reassembles the ranks' lines from the MPI launcher's output. */
typedef struct launch_relay launch_relay;
mega_status launch_relay_create(launch_relay **out, const launch_plan *p);
void launch_relay_destroy(launch_relay *r);
void launch_relay_take(launch_relay *r, bool is_error, const char *bytes, size_t count);
void launch_relay_end(launch_relay *r); /* prints lines that have not ended */
/* Returns the line in which a rank reported what ended it, without its prefix; NULL: none did. */
const char *launch_relay_cause(const launch_relay *r, int *out_rank);
bool launch_relay_has_lost_host(const launch_relay *r); /* that cause: a lost host, which cannot be told to end */
bool launch_relay_cause_is_last(const launch_relay *r); /* the cause is the last line on the terminal */
/* Returns what the MPI launcher said about a rank that died without a message; "" if nothing. */
const char *launch_relay_death(const launch_relay *r);
/* Returns what the MPI launcher called an error of its own, which is shown only where nothing else is known; "":
 * nothing. */
const char *launch_relay_internal(const launch_relay *r);
int launch_relay_death_signal(const launch_relay *r); /* the signal that ended that rank; 0: none, or unknown */

/* Returns whether the ranks are ready: each handles signals, and rank 0 has seen all others (mega_launch_rank_say). */
bool launch_relay_is_ready(const launch_relay *r);
bool launch_relay_has_trained(const launch_relay *r);      /* training has begun */
bool launch_relay_is_stopped(const launch_relay *r);       /* a signal to a rank ended the ranks */
int launch_relay_signal(const launch_relay *r);            /* the signal that a rank received; 0: none */
bool launch_relay_mpirun_complains(const launch_relay *r); /* the MPI launcher itself wrote to standard error */

/* watch.c: watches the processes below the MPI launcher until the ranks are ready. Initially all zero. */
typedef struct launch_watch {
    double timeout;                       /* seconds until the user gets a report */
    double began, looked, hopeless_since; /* times; 0: not yet */
    int ranks, most;                      /* on this host: ranks running now; most at one time */
    bool has_told;
} launch_watch;
/* Call repeatedly until the ranks are ready. Returns true if they cannot become ready, because some have ended, or
 * because the MPI launcher reported an error and started none, and yet it keeps waiting. Reports after a while what it
 * waits for. */
bool launch_watch_gives_up(launch_watch *w, const launch_plan *p, const launch_relay *relay, pid_t mpirun);
/* Sends a signal to each rank of this host. */
void launch_watch_signal(pid_t mpirun, const launch_plan *p, int number);
/* Kills all processes below the MPI launcher on this host, and sends it a signal. */
void launch_watch_end(pid_t mpirun, int number);

/* run.c: one attempt to run the ranks. */
typedef struct launch_result {
    int exit_status;
    bool interrupted;
    int asked_by;  /* the signal that asked this program to end; 0: none */
    int killed_by; /* the signal that ended the MPI launcher and that launch did not send; 0: none */
    /* the MPI launcher waited in vain for the ranks and was ended: the reason; NULL: it was not */
    const char *given_up;
} launch_result;
mega_status launch_run(const launch_plan *p, const launch_words *command, const launch_words *environment,
                       launch_relay *relay, launch_result *out);

/* The byte before a mark (MEGA_MARK_READY, …), and all marks except those of signals. */
#define LAUNCH_MARK  '\035'
#define LAUNCH_MARKS "RTFLSAP"

/* SIGTERM that the MPI launcher sent to a rank. Open MPI ends its ranks with it, also when the user sent the launcher
 * Ctrl-C or SIGHUP, or when another rank died: only the launcher knows which. */
enum { LAUNCH_SIGTERM = 64 + SIGTERM };
/* signals.c, beyond signals.h. Returns "SIGTERM", for example; for SIGINT "Ctrl-C (SIGINT)". */
const char *mega_signal_name(int number);
/* Returns what is said of a signal in a line that is marked by MEGA_MARK_PASSED: "received SIGTERM", "interrupted by
 * Ctrl-C (SIGINT)"; is_line: in that of mega_signals_line, "receiving SIGINT". `number` may be LAUNCH_SIGTERM. */
const char *mega_signal_words(int number, bool is_line);
/* Returns whether each further signal of this kind counts; the others count once, because several often arrive
 * together. */
bool mega_signal_is_urgent(int number);
/* The first signal that asked megalith launch to end; 0: none. */
int launch_asked(void);
/* Returns the signal by which megalith launch passes on the one that it received, to be sent to an MPI launcher of this
 * kind, which hands it to the ranks of all hosts: SIGUSR1, and another one for Ctrl-C, so that a rank can name it.
 * Hydra hands on SIGUSR1 and SIGALRM and dies of SIGUSR2; Open MPI hands on SIGUSR1 and SIGUSR2. */
int mega_signal_passed_on(launch_kind kind, int number);
/* Async-signal-safe: prints "megalith COMMAND: received SIGTERM: EFFECT" on standard error, unless that would block. */
void mega_signal_answer(const char *prefix, int number, const char *effect);
/* Installs the handler for the signals above. */
void mega_signals_install(void (*handler)(int number, siginfo_t *info, void *context), int flags);
/* Async-signal-safe: restores the default handlers, in a child that becomes another program. */
void mega_signals_default(void);

#endif
