/* Shared by the files of base/ only. */
#ifndef MEGALITH_BASE_IMPL_H
#define MEGALITH_BASE_IMPL_H

#include "megalith/cpu_load.h"
#include "megalith/threads.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called around the start of a thread, so that signals sent to the process reach the thread that was there first.
 * Signals that a thread causes itself (SIGBUS, SIGSEGV and the like) are not blocked. */
void mega_block_signals(sigset_t *before);

/* Returns whether a log sink is set, so that mega_log does something. */
bool mega_log_is_heard(void);

/* Limits of the control group that this process is in, of version 1 or 2. `proc` and `sys` are "/proc" and
 * "/sys/fs/cgroup"; tests pass folders of their own. The strictest limit on the path up to the root counts. */
double mega_cgroup_cpus(const char *proc, const char *sys);          /* cores by quota; 0 = no limit */
uint64_t mega_cgroup_memory_left(const char *proc, const char *sys); /* UINT64_MAX = no limit */
/* Core seconds so far during which a quota stopped threads that wanted to run; the largest value over the levels of the
 * tree. 0: no quota. */
double mega_cgroup_throttled(const char *proc, const char *sys);

/* Reads the first bytes of a small system file (/proc, sysfs) and terminates them with NUL. Returns false if there is
 * no such file. */
bool mega_system_read(char *out, size_t size, const char *path);

/* Adds the cores of a list like "0-3,8" to the set of `size` cores. Returns false if the list names none. */
bool mega_cpu_list_read(const char *list, bool *set, int size);
/* Like mega_cpu_meter_create (cpu_load.h), but tests pass folders and times of their own. Process id 0 means
 * /proc/self. */
mega_status mega_cpu_meter_create_at(const char *proc, const char *sys, const int *pids, int count, double now,
                                     mega_cpu_meter **out);
bool mega_cpu_meter_read_at(mega_cpu_meter *meter, double now, double least_s, mega_cpu_load *out);
const char *mega_cpu_kinds_at(char *out, int size, const char *devices, const int *core, int count);

/* Like mega_cpu_isa, but MEGA_ISA does not lower it, so that it is fast: for loops whose numbers do not depend on
 * it. */
mega_isa mega_cpu_isa_of_processor(void);

/* For a test that must meet a sleeping team: the number of workers that sleep until the next run, and whether the
 * caller sleeps until its run has ended. */
int mega_team_sleepers(const mega_team *team);
bool mega_team_caller_sleeps(const mega_team *team);

/* The CRC without the processor's instruction, for a test that compares both. */
uint32_t mega_crc32c_portable(uint32_t crc, const void *bytes, size_t n);

/* device_far.c, of builds with MEGA_FAR: nobody can touch the block, unless work has begun. */
void device_far_add(void *block, size_t bytes, const char *what);
void device_far_remove(const void *block);
bool device_far_has(const void *at);

#endif
