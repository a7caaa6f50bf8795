/* Identifies this process and others as the system describes them: which process wrote a file, and whether it still
 * runs. */
#ifndef MEGALITH_PROCESS_H
#define MEGALITH_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#define MEGA_HOST_BYTES  65
#define MEGA_TOKEN_BYTES 17

/* The name of this host; "host" where the system does not say. */
void mega_host_name(char out[MEGA_HOST_BYTES]);
/* Writes 16 random hex digits that no other call on any host returns: the identity of a run or of a lock. */
void mega_token_make(char out[MEGA_TOKEN_BYTES]);

/* Identifies a process. The process id is not enough: ids are reused, and each container on a machine has its own
 * numbering. */
typedef struct mega_process {
    char host[MEGA_HOST_BYTES];
    char kernel[96]; /* boot id and PID namespace; "" where /proc does not say */
    long pid;
    uint64_t start; /* clock ticks after boot; 0: not known, and then ignored in comparisons */
} mega_process;
void mega_process_self(mega_process *out);

typedef enum mega_process_state {
    MEGA_PROCESS_ALIVE,
    MEGA_PROCESS_DEAD,     /* includes a zombie, and a process whose id another process has now */
    MEGA_PROCESS_ELSEWHERE /* cannot be known: other host, other container, before a reboot, or no /proc */
} mega_process_state;
mega_process_state mega_process_look(const mega_process *p);

/* The fields of /proc/PID/stat of a process, or /proc/PID/task/TID/stat of a thread (man 5 proc_pid_stat). */
typedef struct mega_process_stat {
    char state; /* 'R' runs or waits for a core, 'S' and 'D' sleep, 'T' and 't' are stopped, 'Z' and 'X' have ended */
    int parent;
    uint64_t user, system; /* processor time used so far, in clock ticks (_SC_CLK_TCK a second) */
    long threads;
    uint64_t start; /* clock ticks after boot */
    int core;       /* where it last ran */
} mega_process_stat;
/* Returns false if there is no such file, or it cannot be parsed. */
bool mega_process_stat_read(const char *path, mega_process_stat *out);

#endif
