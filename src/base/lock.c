/* Lock files: acquires, renews, checks and releases one. lock.h describes the format. */
#include "megalith/lock.h"
#include "file_impl.h"
#include "lock_file.h"
#include "megalith/log.h"
#include "megalith/memory.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TRIES = 20, STACK_BYTES = 128 << 10 };

/* Identifies the file at a path; all zero: none. */
typedef struct file_id {
    dev_t device;
    ino_t inode;
    struct timespec written;
} file_id;

struct mega_lock {
    char *path, *subject, *beside; /* beside: the temporary path of the lock file */
    char *witness;                 /* or NULL: see mega_lock_request */
    file_id witnessed;
    char text[LOCK_TEXT_BYTES]; /* content of the lock file */
    atomic_bool is_lost;
    int held; /* descriptor of the file while it is under flock; otherwise -1 */
    bool has_thread, ending;
    lock_found former; /* the living process from which the lock was taken over; text "": none */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
};

/* ---- the renewing thread ---- */

static void *renew_main(void *argument)
{
    mega_lock *lock = argument;
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    next.tv_sec += MEGA_LOCK_RENEW_S;
    pthread_mutex_lock(&lock->mutex);
    while (!lock->ending) {
        if (pthread_cond_timedwait(&lock->changed, &lock->mutex, &next) != ETIMEDOUT) continue;
        pthread_mutex_unlock(&lock->mutex);
        mega_lock_renew(lock);
        pthread_mutex_lock(&lock->mutex);
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_sec += MEGA_LOCK_RENEW_S;
    }
    pthread_mutex_unlock(&lock->mutex);
    return NULL;
}

static mega_status thread_begin(mega_lock *lock)
{
    sigset_t all, before; /* block signals: other threads handle them */
    pthread_attr_t attributes;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&lock->thread, &attributes, renew_main, lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    lock->has_thread = error == 0;
    return error == 0 ? MEGA_OK
                      : MEGA_FAIL(MEGA_ERR_MEMORY, "%s: cannot start the thread that renews its lock: %s",
                                  lock->subject, strerror(error));
}

static void thread_end(mega_lock *lock)
{
    if (!lock->has_thread) return;
    pthread_mutex_lock(&lock->mutex);
    lock->ending = true;
    pthread_cond_signal(&lock->changed);
    pthread_mutex_unlock(&lock->mutex);
    pthread_join(lock->thread, NULL);
}

/* ---- messages ---- */

static void format_time(char out[32], long long since)
{
    const time_t seconds = (time_t)since;
    struct tm local;
    if (localtime_r(&seconds, &local) == NULL || strftime(out, 32, "%Y-%m-%d %H:%M:%S", &local) == 0)
        snprintf(out, 32, "%lld", since);
}

static mega_status lock_refuse(const mega_lock_request *r, const lock_found *f)
{
    char since[32], wait[128] = "";
    if (f->text[0] == '\0')
        return MEGA_FAIL(
            MEGA_ERR_BUSY,
            "%s: another process created %s %.0f s ago and has not written it yet (after %d s it counts as "
            "dead); try again, or %s",
            r->subject, r->path, f->age > 0 ? f->age : 0.0, MEGA_LOCK_STALE_S, r->remedy);
    if (!f->is_ours)
        return MEGA_FAIL(MEGA_ERR_BUSY, "%s: %s exists and is not a lock file of megalith; move it away or %s",
                         r->subject, r->path, r->remedy);
    format_time(since, f->since);
    if (f->state == MEGA_PROCESS_ELSEWHERE)
        snprintf(wait, sizeof wait, " (it renewed its lock %.0f s ago; after %d s without a renewal it counts as dead)",
                 f->age, MEGA_LOCK_STALE_S);
    return MEGA_FAIL(MEGA_ERR_BUSY,
                     "%s: process %ld on host %s has been writing there since %s%s; wait until it has ended, or %s",
                     r->subject, f->process.pid, f->process.host, since, wait, r->remedy);
}

static void tell_replaced(const mega_lock_request *r, const lock_found *f, bool is_stale)
{
    char since[32];
    format_time(since, f->since);
    if (!f->is_ours) return;
    if (is_stale)
        mega_info("%s: process %ld on host %s, which began to write there at %s, is dead; its lock is replaced",
                  r->subject, f->process.pid, f->process.host, since);
    else
        mega_warn("%s: taken over from process %ld on host %s, which has been writing there since %s; it stops when it "
                  "notices",
                  r->subject, f->process.pid, f->process.host, since);
}

/* ---- acquiring ---- */

/* One attempt. Sets *taken if the lock is ours now; MEGA_OK without it means that another attempt may succeed. */
static mega_status lock_try_once(mega_lock *lock, const mega_lock_request *r, bool *taken)
{
    lock_found found;
    MEGA_TRY(lock_file_put(r->path, lock->beside, lock->text, taken));
    if (*taken) return MEGA_OK;
    MEGA_TRY(lock_file_look(&found, r->path, lock->beside));
    if (!found.is_there) return MEGA_OK;
    const bool is_stale = lock_is_stale(&found);
    if (!is_stale && (!r->takeover || !found.is_ours)) return lock_refuse(r, &found);
    MEGA_TRY(lock_file_end(r->path, found.text, lock->beside, taken));
    if (*taken) tell_replaced(r, &found, is_stale);
    if (*taken && !is_stale) lock->former = found;
    return MEGA_OK;
}

static mega_status lock_take(mega_lock *lock, const mega_lock_request *r)
{
    bool taken = false;
    lock_text_make(lock->text);
    mega_status st = lock_file_write(lock->beside, r->path, lock->text);
    if (st != MEGA_OK) mega_error_prepend("%s: cannot create its lock file", r->subject);
    for (int i = 0; i < MOST_TRIES && st == MEGA_OK && !taken; i++) st = lock_try_once(lock, r, &taken);
    mega_file_discard(lock->beside);
    if (st == MEGA_OK && !taken)
        st = MEGA_FAIL(MEGA_ERR_BUSY, "%s: other processes keep taking and releasing %s; %s", r->subject, r->path,
                       r->remedy);
    return st;
}

static void free_lock(mega_lock *lock)
{
    pthread_cond_destroy(&lock->changed);
    pthread_mutex_destroy(&lock->mutex);
    MEGA_FREE(lock->path, lock->subject, lock->beside, lock->witness, lock);
}

/* Containers on one host may share its name and use the same process ids, so the name contains a random token too. */
static char *temporary_name(const char *lock)
{
    char token[MEGA_TOKEN_BYTES];
    mega_token_make(token);
    char *unique = mega_format("%s.%s", lock, token), *path = unique != NULL ? mega_temporary_path(unique) : NULL;
    mega_free(unique);
    return path;
}

static mega_lock *lock_make(const mega_lock_request *r)
{
    pthread_condattr_t attributes;
    mega_lock *lock = mega_calloc(1, sizeof *lock);
    if (lock == NULL) return NULL;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&lock->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&lock->mutex, NULL);
    lock->held = -1;
    lock->path = mega_strdup(r->path);
    lock->subject = mega_strdup(r->subject);
    lock->beside = temporary_name(r->path);
    if (r->witness != NULL) lock->witness = mega_strdup(r->witness);
    const bool is_whole = lock->path != NULL && lock->subject != NULL && lock->beside != NULL;
    if (is_whole && (r->witness == NULL || lock->witness != NULL)) return lock;
    free_lock(lock);
    return NULL;
}

mega_status mega_lock_acquire(const mega_lock_request *r, mega_lock **out)
{
    mega_lock *lock = lock_make(r);
    char *folder = mega_path_folder(r->path);
    mega_status st = MEGA_OK;
    if (lock == NULL || folder == NULL) {
        st = MEGA_NO_MEMORY(r->subject, "its lock");
        goto end;
    }
    st = lock_take(lock, r);
    if (st != MEGA_OK) goto end;
    mega_lock_mark(lock);
    mega_temporaries_remove(folder, mega_path_base(r->path), "", false);
    st = thread_begin(lock);
    if (st == MEGA_OK) *out = lock;
    else
        mega_lock_release(lock);
    lock = NULL;
end:
    mega_free(folder);
    if (lock != NULL) free_lock(lock);
    return st;
}

mega_status mega_lock_probe(const mega_lock_request *r)
{
    lock_found found;
    MEGA_TRY(lock_file_look(&found, r->path, NULL));
    const bool is_free = !found.is_there || lock_is_stale(&found) || (r->takeover && found.is_ours);
    return is_free ? MEGA_OK : lock_refuse(r, &found);
}

/* ---- holding and releasing ---- */

static file_id file_id_at(const char *path)
{
    struct stat info;
    if (path == NULL || stat(path, &info) != 0) return (file_id){0};
    return (file_id){info.st_dev, info.st_ino, info.st_mtim};
}

void mega_lock_mark(mega_lock *lock)
{
    if (lock == NULL) return;
    pthread_mutex_lock(&lock->mutex);
    lock->witnessed = file_id_at(lock->witness);
    pthread_mutex_unlock(&lock->mutex);
}

/* Returns whether another process held the lock and wrote after our lock file was removed; it may have ended since. */
static bool others_wrote(const mega_lock *lock)
{
    const file_id now = file_id_at(lock->witness), then = lock->witnessed;
    return now.inode != 0 && (now.device != then.device || now.inode != then.inode ||
                              now.written.tv_sec != then.written.tv_sec || now.written.tv_nsec != then.written.tv_nsec);
}

static mega_status refuse_lost(const mega_lock *lock, const lock_found *f)
{
    char since[32];
    if (!f->is_ours)
        return MEGA_FAIL(MEGA_ERR_BUSY,
                         "%s: %s is no longer the lock of this process but a file with other content; nothing more is "
                         "written there",
                         lock->subject, lock->path);
    format_time(since, f->since);
    return MEGA_FAIL(MEGA_ERR_BUSY, "%s: process %ld on host %s took over at %s; nothing more is written there",
                     lock->subject, f->process.pid, f->process.host, since);
}

/* The file was removed by hand. It is created the same way as at first, so only one of several processes gets it; the
 * witness shows whether a second run began and ended in the meantime. */
static mega_status make_again(const mega_lock *lock, bool *taken)
{
    bool ended;
    MEGA_TRY(mega_folder_create_for(lock->path));
    MEGA_TRY(lock_file_write(lock->beside, lock->path, lock->text));
    const mega_status st = lock_file_put(lock->path, lock->beside, lock->text, taken);
    mega_file_discard(lock->beside);
    if (st != MEGA_OK || !*taken) return st;
    if (others_wrote(lock)) {
        (void)lock_file_end(lock->path, lock->text, NULL, &ended);
        return MEGA_FAIL(MEGA_ERR_BUSY,
                         "%s: the lock of this process, %s, was removed or taken over, and another process has written "
                         "there since; nothing more is written there",
                         lock->subject, lock->path);
    }
    mega_warn("%s: %s was removed while this process writes there; it has been created again", lock->subject,
              lock->path);
    return MEGA_OK;
}

static mega_status check_or_make_again(const mega_lock *lock)
{
    bool taken = false;
    for (int i = 0; i < MOST_TRIES && !taken; i++) {
        lock_found found;
        MEGA_TRY(lock_file_look(&found, lock->path, NULL));
        if (found.is_there) return strcmp(found.text, lock->text) == 0 ? MEGA_OK : refuse_lost(lock, &found);
        MEGA_TRY(make_again(lock, &taken));
    }
    return taken ? MEGA_OK
                 : MEGA_FAIL(MEGA_ERR_BUSY, "%s: other processes keep taking and releasing %s", lock->subject,
                             lock->path);
}

/* Temporary failures are retried at the next renewal. */
void mega_lock_renew(mega_lock *lock)
{
    const bool is_mine = lock_file_touch(lock->path, lock->text);
    atomic_store(&lock->is_lost, !is_mine && mega_lock_check(lock) == MEGA_ERR_BUSY);
}

bool mega_lock_took_over(const mega_lock *lock)
{
    return lock == NULL || lock->former.text[0] != '\0';
}

bool mega_lock_is_lost(const mega_lock *lock)
{
    return lock != NULL && atomic_load(&lock->is_lost);
}

mega_status mega_lock_check(mega_lock *lock)
{
    if (lock == NULL) return MEGA_OK;
    pthread_mutex_lock(&lock->mutex); /* the renewing thread creates the file again too */
    const mega_status st = check_or_make_again(lock);
    pthread_mutex_unlock(&lock->mutex);
    return st;
}

mega_status mega_lock_hold(mega_lock *lock)
{
    if (lock == NULL) return MEGA_OK;
    mega_lock_let_go(lock);
    mega_status st = MEGA_OK;
    for (int i = 0; i < MOST_TRIES && st == MEGA_OK; i++) {
        mega_lock_let_go(lock);
        MEGA_TRY(lock_file_hold(lock->path, &lock->held));
        st = mega_lock_check(lock);
        if (st == MEGA_OK && lock->held >= 0) return MEGA_OK; /* otherwise the file is new and not under flock yet */
    }
    mega_lock_let_go(lock);
    return st != MEGA_OK ? st : MEGA_FAIL(MEGA_ERR_BUSY, "%s: %s keeps being removed", lock->subject, lock->path);
}

void mega_lock_let_go(mega_lock *lock)
{
    if (lock == NULL || lock->held < 0) return;
    close(lock->held);
    lock->held = -1;
}

/* Renames the former holder's text over our lock file, in one step. */
static void restore_former(mega_lock *lock)
{
    const lock_found *f = &lock->former;
    bool is_back = false;
    pthread_mutex_lock(&lock->mutex);
    if (lock_file_write(lock->beside, lock->path, f->text) == MEGA_OK)
        (void)lock_file_end(lock->path, lock->text, lock->beside, &is_back);
    pthread_mutex_unlock(&lock->mutex);
    if (is_back) mega_info("%s: given back to process %ld on host %s", lock->subject, f->process.pid, f->process.host);
    else
        mega_file_discard(lock->beside);
}

void mega_lock_give_back(mega_lock *lock)
{
    mega_error_record why;
    mega_error_get(&why);
    if (lock != NULL && mega_lock_took_over(lock) && mega_process_look(&lock->former.process) != MEGA_PROCESS_DEAD) {
        mega_lock_let_go(lock);
        restore_former(lock);
    }
    mega_error_restore(&why);
    mega_lock_release(lock); /* removes the file if it is still ours */
}

/* A failure here must not hide the error of the output itself; a lock file that remains is stale once the process has
 * ended. */
void mega_lock_release(mega_lock *lock)
{
    mega_error_record why;
    bool ended;
    if (lock == NULL) return;
    thread_end(lock);
    mega_lock_let_go(lock);
    mega_error_get(&why);
    (void)lock_file_end(lock->path, lock->text, NULL, &ended);
    mega_error_restore(&why);
    free_lock(lock);
}
