/* Lock files: one process at a time writes an output, on one host or on several that share a file system.
 *
 * A lock is a small text file beside the output. It is written under a name of its own, synced and then given its name
 * by link(2), which fails where the name is taken, on network file systems too:
 *
 *   megalith lock 1
 *   host    node7
 *   pid     4711
 *   start   8842193                     clock ticks from boot to the start of the process
 *   kernel  BOOT-ID/pid:[4026531836]    process ids have a meaning only within one of these
 *   since   1763810554                  seconds, Unix time
 *   token   0123456789abcdef            another one for each lock
 *
 * A thread sets the file's time every 30 s. The lock of a dead process is stale at once where that process can be seen
 * to be dead (same host and kernel), else after five minutes without renewal. Ages are differences of times that the
 * file system gave, so that the clocks of two hosts do not matter. A stale lock is replaced under flock(2), so that two
 * processes that find it do not replace each other's new one. */
#ifndef MEGALITH_LOCK_H
#define MEGALITH_LOCK_H

#include "megalith/status.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MEGA_LOCK_RENEW_S 30
#define MEGA_LOCK_STALE_S 300

typedef struct mega_lock_request {
    const char *path;    /* of the lock file; its folder exists */
    const char *subject; /* what it protects, for messages: "--save checkpoints" */
    const char *remedy;  /* what to do instead of waiting: "choose another --output-prefix" */
    const char *witness; /* or NULL: a file that every holder of this lock replaces as it begins to write */
    bool takeover;       /* take it from a process that lives, with a warning that names the process */
} mega_lock_request;

typedef struct mega_lock mega_lock;
/* Returns MEGA_ERR_BUSY when another process holds the lock; the message names its host, id and time. Also when this
 * process holds it already. */
mega_status mega_lock_acquire(mega_lock **out, const mega_lock_request *request);
/* The witness is now the file that this process made. */
void mega_lock_mark(mega_lock *lock);
/* Whether this process still holds it: MEGA_ERR_BUSY after a takeover, with the process that took it. A file that was
 * removed by hand is made again with a warning, unless the witness is another's by now (MEGA_ERR_BUSY). NULL is fine:
 * there is nothing to hold. */
mega_status mega_lock_check(mega_lock *lock);
/* The same, and until mega_lock_let_go nobody can take the lock over (flock): for the moment in which an output gets
 * its name. Both accept NULL; let_go also a lock that is not held so. */
mega_status mega_lock_hold(mega_lock *lock);
void mega_lock_let_go(mega_lock *lock);
/* Whether it was taken from a process that lives, which may go on writing until it notices. NULL: true. */
bool mega_lock_took_over(const mega_lock *lock);
/* What the last renewal found, without looking at the disk: safe inside a training step. */
bool mega_lock_is_lost(const mega_lock *lock);
/* Sets the file's time, or makes the file again as mega_lock_check does; the thread calls it. What fails for a moment
 * is tried again at the next renewal. */
void mega_lock_renew(mega_lock *lock);
/* Removes the file, if it still is this lock's, and frees it. NULL is fine. */
void mega_lock_release(mega_lock *lock);
/* The same where nothing was written under the lock, because the process fails before it begins: a lock that was taken
 * over from a process that lives is that one's again, which goes on unless it has noticed. */
void mega_lock_give_back(mega_lock *lock);
/* Whether acquire would be refused now. Takes nothing: for a run that only looks at what it would do. */
mega_status mega_lock_probe(const mega_lock_request *request);

#ifdef __cplusplus
}
#endif

#endif
