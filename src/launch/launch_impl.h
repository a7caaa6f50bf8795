/* megalith launch: what its files share. The options and hosts are read into a plan; the engine that is there (mpirun,
 * mpiexec, srun) gives a command line; a relay between the engine and the terminal tells lines of ranks apart. */
#ifndef MEGA_LAUNCH_IMPL_H
#define MEGA_LAUNCH_IMPL_H

#include "megalith/config.h"
#include "megalith/launch.h"
#include "megalith/memory.h"
#include "megalith/status.h"
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct launch_host {
    const char *name;
    int ranks;
    int slots; /* as the hostfile says, before filters */
    int line;  /* of the hostfile */
} launch_host;

typedef enum launch_kind { LAUNCH_NONE, LAUNCH_OPENMPI, LAUNCH_MPICH, LAUNCH_SLURM } launch_kind;

/* A list of words that grows; NULL-terminated. */
typedef struct launch_words {
    char **word;
    int count, capacity;
    bool failed; /* memory is short */
} launch_words;

typedef struct launch_plan {
    mega_arena arena; /* owns every string and list below */
    mega_buffer mistakes;

    const char *hostfile, *include, *exclude, *master_addr, *log_dir, *launcher;
    int64_t nproc, nodes; /* 0: not given */
    int64_t processes;    /* ranks of all hosts together; 0: not given */
    int64_t node_rank, max_restarts, master_port;
    bool dry_run, help, is_module;

    const mega_composition *commands;
    const char *command;    /* its name here, whatever the user wrote; of a program of the user's, what was typed */
    const char *own;        /* path of a program of the user's that is started in place of a command, or NULL */
    launch_words own_words; /* its first words: path, and with an interpreter options and script */
    int64_t attempt;        /* how often the ranks were started again */
    launch_words passed;    /* options of the command, out of those of launch */
    char **args;            /* all of the command's, NULL-terminated */
    int args_count;

    launch_host *host; /* in the hostfile's order; none: this machine, or those of the Slurm allocation */
    int hosts;
    int world; /* ranks in all */

    launch_kind kind;
    int major;           /* version of the engine; 0: not known */
    const char *engine;  /* its program */
    const char *program; /* this one */
} launch_plan;

void launch_word(launch_words *w, mega_arena *arena, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* What is wrong is collected, and told at once. */
void launch_mistake(launch_plan *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* options.c: options up to the command's name, then the command. Mistakes are collected. */
void launch_options_read(launch_plan *p, int argc, char **argv);

/* program.c: a program of the user's in place of a command. launch_program_command: the command that a word names, or
 * NULL. launch_program_read: finds the program `typed`, before which `python` words name an interpreter; sets p->own,
 * or adds a mistake. launch_program_arguments: its arguments, and after them what launch's own options hand on and the
 * user did not give; out has room for all; returns their number. launch_program_words: the words that make a rank
 * become it (start.c), before those arguments. */
const char *launch_program_command(const launch_plan *p, const char *typed);
void launch_program_read(launch_plan *p, char **words, int python, const char *typed);
int launch_program_arguments(const launch_plan *p, int argc, char **argv, char **out);
void launch_program_words(launch_plan *p, launch_words *command);

/* start.c: `megalith launch --start-rank NAME=VALUE… -- PROGRAM ARGS…` sets the environment and becomes the program;
 * returns an exit status if it cannot. */
#define LAUNCH_START_RANK "--start-rank"
enum { LAUNCH_NOT_STARTED = 126, LAUNCH_NOT_FOUND = 127 };
int launch_start_rank(char **words);

/* rank.c: the number of this rank on its host, as the engine's environment says; -1: no engine. */
int launch_rank_local(void);

/* hosts.c: hosts and ranks, from hostfile, filters and numbers. `text` is the hostfile's. */
void launch_hosts_read(launch_plan *p, const char *path, const char *text);
void launch_hosts_filter(launch_plan *p);
/* Leaves out hosts that answer no ssh; how many those were. */
int launch_hosts_reach(launch_plan *p);
/* The first host, this one apart, that answers no ssh, and what ssh said last; NULL: all do. Takes some seconds a host.
 */
const launch_host *launch_hosts_unreachable(const launch_plan *p, char *out_said, size_t size);

/* engine.c: finds the engine, fixes p->world, and gives its command line and environment ("NAME=VALUE" of what
 * is to be set where the user has not). */
void launch_engine_find(launch_plan *p);
/* Where the shell would find a program, in the plan's arena; NULL when it would not. */
const char *launch_find_program(launch_plan *p, const char *name);
/* command.c */
mega_status launch_engine_command(launch_plan *p, launch_words *command, launch_words *environment);

/* launch.c: whether this process stays beside the ranks; else it becomes the one rank. */
bool launch_stays(const launch_plan *p);

/* marks.c: the engine's mark of a rank at the begin of text: its bytes; 0: there is none; -1: more text is
 * needed to tell. in_line: a rank's line has begun, and not ended. */
int launch_mark(const launch_plan *p, bool in_line, const char *text, size_t size, int *out_rank);

/* relay.c: lines of the ranks out of what the engine hands on. */
typedef struct launch_relay launch_relay;
mega_status launch_relay_create(launch_relay **out, const launch_plan *p);
void launch_relay_destroy(launch_relay *r);
void launch_relay_take(launch_relay *r, bool is_error, const char *bytes, size_t count);
void launch_relay_end(launch_relay *r); /* what stands without a line's end */
/* A rank has said what ended it: the line, without its prefix; NULL: none has. */
const char *launch_relay_cause(const launch_relay *r, int *out_rank);
bool launch_relay_has_lost_host(const launch_relay *r); /* that cause: a host that cannot be told to end */
bool launch_relay_cause_is_last(const launch_relay *r); /* it is what the terminal shows last */
/* What the engine said of a rank that died without a word, to be shown; "" when nothing. */
const char *launch_relay_death(const launch_relay *r);
int launch_relay_death_signal(const launch_relay *r); /* the signal that ended it; 0: none, or not known */

/* The ranks stand: each notes signals, and rank 0 has seen all others (mega_launch_rank_say). */
bool launch_relay_is_ready(const launch_relay *r);
bool launch_relay_has_trained(const launch_relay *r);      /* it has begun to */
bool launch_relay_is_stopped(const launch_relay *r);       /* a signal to a rank is what ended them */
int launch_relay_signal(const launch_relay *r);            /* the one that a rank received; 0: none */
bool launch_relay_engine_complains(const launch_relay *r); /* the engine itself wrote to standard error */

/* watch.c: the processes below the engine, until the ranks are ready. All fields begin as zero. */
typedef struct launch_watch {
    double timeout;                       /* seconds, until the user is told */
    double began, looked, hopeless_since; /* 0: not yet */
    int ranks, most;                      /* of this host: that run now, that ran at once */
    bool has_told;
} launch_watch;
/* To be asked again and again until the ranks are ready: whether they cannot become so, as some have ended, or the
 * engine complained and started none, and it waits all the same. After a while the user hears what is waited for. */
bool launch_watch_gives_up(launch_watch *w, const launch_plan *p, const launch_relay *relay, pid_t engine);
/* Sends a signal to each rank of this host. */
void launch_watch_signal(pid_t engine, const launch_plan *p, int number);
/* Kills all below the engine on this host, and sends it a signal. */
void launch_watch_end(pid_t engine, int number);

/* run.c: one life of the ranks; the exit status, and whether a signal asked this program or a rank to end. */
typedef struct launch_result {
    int exit_status;
    bool interrupted;
    int asked_by;         /* the signal that this program received; 0: none */
    int killed_by;        /* the signal that ended the engine, and that launch did not send; 0: none */
    const char *given_up; /* the engine waited in vain for the ranks, and was ended: why; NULL: it was not */
} launch_result;
mega_status launch_run(const launch_plan *p, const launch_words *command, const launch_words *environment,
                       launch_relay *relay, launch_result *out);

/* What stands before a mark (MEGA_MARK_READY, …), and all of them but those of signals. */
#define LAUNCH_MARK  '\035'
#define LAUNCH_MARKS "RTFLSA"

/* signals.c, beside what commands use. "SIGTERM"; of SIGINT "Ctrl-C (SIGINT)". */
const char *mega_signal_name(int number);
/* Whether it asks to stop where it was received before; the others ask once, as several of them often come together. */
bool mega_signal_is_urgent(int number);
/* Async-signal-safe: "megalith COMMAND: received SIGTERM: EFFECT" on standard error, unless nobody reads that. */
void mega_signal_answer(const char *prefix, int number, const char *effect);
/* Installs the handler for the signals above. */
void mega_signals_install(void (*handler)(int number, siginfo_t *info, void *context), int flags);
/* Async-signal-safe: undoes it, in a child that becomes another program. */
void mega_signals_default(void);

#endif
