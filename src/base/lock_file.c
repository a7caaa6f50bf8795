/* Operations on the lock file (lock_file.h). Nothing here allocates: the renewing thread runs beside training steps. */
#include "lock_file.h"
#include "file_impl.h"
#include "megalith/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HOLD_WAIT_MS = 20, HOLD_TRIES = 3000 }; /* a minute: the holder may be removing old checkpoints */
#define FIRST_LINE "megalith lock 1\n"

void lock_text_make(char out[LOCK_TEXT_BYTES])
{
    mega_process self;
    char token[MEGA_TOKEN_BYTES];
    mega_process_self(&self);
    mega_token_make(token);
    snprintf(out, LOCK_TEXT_BYTES,
             FIRST_LINE "host    %s\npid     %ld\nstart   %" PRIu64 "\nkernel  %s\nsince   %lld\ntoken   %s\n",
             self.host, self.pid, self.start, self.kernel, (long long)time(NULL), token);
}

/* Parses the value of a line "key     value", up to its newline. */
static bool lock_take_line(const char **at, const char *key, char *out, size_t size)
{
    const size_t n = strlen(key);
    if (strncmp(*at, key, n) != 0) return false;
    const char *value = *at + n + strspn(*at + n, " "), *end = strchr(value, '\n');
    if (end == NULL || (size_t)(end - value) >= size) return false;
    memcpy(out, value, (size_t)(end - value));
    out[end - value] = '\0';
    *at = end + 1;
    return true;
}

static bool lock_text_parse(lock_found *f)
{
    char pid[24], start[24], since[24], token[MEGA_TOKEN_BYTES];
    const char *at = f->text + sizeof FIRST_LINE - 1;
    return strncmp(f->text, FIRST_LINE, sizeof FIRST_LINE - 1) == 0 &&
           lock_take_line(&at, "host", f->process.host, sizeof f->process.host) &&
           lock_take_line(&at, "pid", pid, sizeof pid) && lock_take_line(&at, "start", start, sizeof start) &&
           lock_take_line(&at, "kernel", f->process.kernel, sizeof f->process.kernel) &&
           lock_take_line(&at, "since", since, sizeof since) && lock_take_line(&at, "token", token, sizeof token) &&
           sscanf(pid, "%ld", &f->process.pid) == 1 && sscanf(start, "%" SCNu64, &f->process.start) == 1 &&
           sscanf(since, "%lld", &f->since) == 1;
}

/* `shown`: the lock file's path, which messages give instead of the temporary file's. */
static mega_status write_and_close(int fd, const char *path, const char *shown, const char *text)
{
    const size_t n = strlen(text);
    mega_status st = MEGA_OK;
    if (write(fd, text, n) != (ssize_t)n) st = mega_file_too_large(shown, "write", 0, (int64_t)n, false);
    else if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        st = mega_file_refused(shown, "sync");
    if (close(fd) != 0 && errno != EINTR && st == MEGA_OK) st = mega_file_refused(shown, "close");
    if (st != MEGA_OK) mega_file_discard(path);
    return st;
}

mega_status lock_file_write(const char *path, const char *shown, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return fd >= 0 ? write_and_close(fd, path, shown, text) : mega_file_refused(shown, "create");
}

/* Creates the file directly; another process may see it before it has its text. */
static mega_status create_in_place(const char *path, const char *text, bool *taken)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *taken = fd >= 0;
    if (fd >= 0) return write_and_close(fd, path, path, text);
    return errno == EEXIST ? MEGA_OK : mega_file_refused(path, "create");
}

/* FAT and some FUSE file systems have no links, and most of them cannot rename without replacing. */
static mega_status put_without_links(const char *path, const char *beside, const char *text, bool *taken)
{
    *taken = renameat2(AT_FDCWD, beside, AT_FDCWD, path, RENAME_NOREPLACE) == 0;
    if (*taken || errno == EEXIST) return MEGA_OK;
    return create_in_place(path, text, taken);
}

/* A network file system may answer EEXIST to a link that it has made, if an answer was lost: the file then has two
 * names. */
mega_status lock_file_put(const char *path, const char *beside, const char *text, bool *taken)
{
    struct stat info;
    if (beside == NULL) return create_in_place(path, text, taken);
    *taken = link(beside, path) == 0;
    if (*taken) return MEGA_OK;
    const int error = errno;
    if (error == EPERM || error == EOPNOTSUPP || error == ENOSYS || error == EMLINK)
        return put_without_links(path, beside, text, taken);
    *taken = stat(beside, &info) == 0 && info.st_nlink == 2;
    errno = error;
    return *taken || error == EEXIST ? MEGA_OK : mega_file_refused(path, "create");
}

static double seconds_of(const struct timespec *t)
{
    return (double)t->tv_sec + 1e-9 * (double)t->tv_nsec;
}

/* Reads the text of an open lock file and adds a NUL. */
static bool lock_read(char out[LOCK_TEXT_BYTES], int fd)
{
    const ssize_t n = pread(fd, out, LOCK_TEXT_BYTES - 1, 0);
    if (n < 0) return false;
    out[n] = '\0';
    return true;
}

mega_status lock_file_look(lock_found *f, const char *path, const char *beside)
{
    struct stat info, now;
    struct timespec present;
    memset(f, 0, sizeof *f);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT ? MEGA_OK : mega_file_refused(path, "open for reading");
    if (!lock_read(f->text, fd) || fstat(fd, &info) != 0) {
        const mega_status st = mega_file_refused(path, "read");
        close(fd);
        return st;
    }
    close(fd);
    clock_gettime(CLOCK_REALTIME, &present);
    if (beside != NULL && stat(beside, &now) == 0) present = now.st_mtim;
    f->is_there = true;
    f->age = seconds_of(&present) - seconds_of(&info.st_mtim);
    f->is_ours = lock_text_parse(f);
    if (f->is_ours) f->state = mega_process_look(&f->process);
    return MEGA_OK;
}

bool lock_is_stale(const lock_found *f)
{
    const bool is_old = f->age > MEGA_LOCK_STALE_S;
    if (!f->is_ours) return f->text[0] == '\0' && is_old;
    return f->state == MEGA_PROCESS_DEAD || (f->state == MEGA_PROCESS_ELSEWHERE && is_old);
}

/* Returns whether `path` still leads to the open file. */
static bool path_leads_to(const char *path, int fd)
{
    struct stat a, b;
    return stat(path, &a) == 0 && fstat(fd, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Returns true if the file is locked for us, or the file system has no flock; false if another process holds it. */
static bool try_flock(int fd)
{
    int rc;
    while ((rc = flock(fd, LOCK_EX | LOCK_NB)) != 0 && errno == EINTR) {
    }
    return rc == 0 || errno != EWOULDBLOCK;
}

/* A network file system allows flock only on files that are open for writing; elsewhere a lock file left by another
 * user's dead process may be readable only, in a folder where we may write. */
static int open_to_hold(const char *path)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    return fd < 0 && errno == EACCES ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : fd;
}

mega_status lock_file_hold(const char *path, int *out)
{
    *out = -1;
    const int fd = open_to_hold(path);
    if (fd < 0) return errno == ENOENT ? MEGA_OK : mega_file_refused(path, "open");
    for (int tries = 0; !try_flock(fd); tries++) {
        if (tries == HOLD_TRIES) {
            close(fd);
            return MEGA_FAIL(MEGA_ERR_BUSY,
                             "%s: the process that holds it has been renaming its output for %d s and does not "
                             "finish; look at that process, and end it if it hangs",
                             path, HOLD_TRIES * HOLD_WAIT_MS / 1000);
        }
        nanosleep(&(struct timespec){.tv_nsec = HOLD_WAIT_MS * 1000000L}, NULL);
    }
    if (path_leads_to(path, fd)) *out = fd;
    else
        close(fd);
    return MEGA_OK;
}

/* Everyone who removes a lock file holds flock on the open file from looking at it until removing it, so that nobody
 * else can remove it and create a new one in between. Without flock that rare race is possible. */
mega_status lock_file_end(const char *path, const char *text, const char *successor, bool *ended)
{
    char now[LOCK_TEXT_BYTES];
    int fd;
    *ended = false;
    MEGA_TRY(lock_file_hold(path, &fd));
    if (fd < 0) return MEGA_OK;
    mega_status st = MEGA_OK;
    if (lock_read(now, fd) && strcmp(now, text) == 0) {
        *ended = (successor != NULL ? rename(successor, path) : unlink(path)) == 0;
        if (!*ended) st = mega_file_refused(path, successor != NULL ? "replace" : "remove");
    }
    close(fd);
    return st;
}

bool lock_file_touch(const char *path, const char *text)
{
    char now[LOCK_TEXT_BYTES];
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno != ENOENT;
    const bool is_read = lock_read(now, fd), is_mine = is_read && strcmp(now, text) == 0;
    if (is_mine) (void)futimens(fd, NULL);
    close(fd);
    return is_mine || !is_read;
}
