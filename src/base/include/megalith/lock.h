/* Lock files: only one process at a time writes an output, on one host or on several that share a file system.
 *
 * A lock is a small text file beside the output. It is written under a temporary name, synced, and then given its real
 * name by link(2), which fails if the name is taken, even on network file systems:
 *
 *   megalith lock 1
 *   host    node7
 *   pid     4711
 *   start   8842193                     clock ticks from boot to the start of the process
 *   kernel  BOOT-ID/pid:[4026531836]    process ids have a meaning only within one of these
 *   since   1763810554                  seconds, Unix time
 *   token   0123456789abcdef            different for each lock
 *
 * A thread renews the file's time every 30 s. The lock of a dead process is stale at once if the process can be seen to
 * be dead (same host and kernel), otherwise after five minutes without renewal. Ages are differences between times that
 * the file system assigned, so the clocks of two hosts need not agree. A stale lock is replaced under flock(2), so that
 * two processes that find it do not replace each other's new one. */
#ifndef MEGALITH_LOCK_H
#define MEGALITH_LOCK_H

#include "megalith/status.h"
#include <stdbool.h>

#define MEGA_LOCK_RENEW_S 30
#define MEGA_LOCK_STALE_S 300

typedef struct mega_lock_request {
    const char *path;    /* path of the lock file; its folder exists */
    const char *subject; /* the protected output, for messages: "--save checkpoints" */
    const char *remedy;  /* what to do instead of waiting: "choose another --output-prefix" */
    const char *witness; /* or NULL: a file that every holder of this lock replaces when it begins to write */
    bool takeover;       /* take the lock from a living process, with a warning that names it */
} mega_lock_request;

typedef struct mega_lock mega_lock;
/* Returns MEGA_ERR_BUSY if another process holds the lock (the message names its host, id and time), or if this process
 * already holds it. */
mega_status mega_lock_acquire(const mega_lock_request *request, mega_lock **out);
/* Records that this process has replaced the witness file. */
void mega_lock_mark(mega_lock *lock);
/* Checks that this process still holds the lock. Returns MEGA_ERR_BUSY after a takeover, naming the new holder. A lock
 * file that was removed by hand is created again with a warning, unless another process has replaced the witness
 * meanwhile (MEGA_ERR_BUSY). NULL is allowed: MEGA_OK. */
mega_status mega_lock_check(mega_lock *lock);
/* Like mega_lock_check; afterwards nobody can take the lock over (flock) until mega_lock_let_go: used while an output
 * gets its final name. Both accept NULL; let_go also accepts a lock that is not held this way. */
mega_status mega_lock_hold(mega_lock *lock);
void mega_lock_let_go(mega_lock *lock);
/* Returns whether the lock was taken from a living process, which may keep writing until it notices. NULL: true. */
bool mega_lock_took_over(const mega_lock *lock);
/* Returns the result of the last renewal without disk access: safe inside a training step. */
bool mega_lock_is_lost(const mega_lock *lock);
/* Renews the file's time, or creates the file again as mega_lock_check does; called by the renewing thread. Temporary
 * failures are retried at the next renewal. */
void mega_lock_renew(mega_lock *lock);
/* Removes the file if it is still this lock's, and frees the lock. NULL is allowed. */
void mega_lock_release(mega_lock *lock);
/* Releases a lock under which nothing was written, because the process failed before it began. A lock that was taken
 * over from a living process is returned to that process, which continues unless it has noticed. */
void mega_lock_give_back(mega_lock *lock);
/* Returns whether acquire would be refused now, without taking the lock: for a dry run. */
mega_status mega_lock_probe(const mega_lock_request *request);

#endif
