/* Files that grow by appending and survive full disks and removal of the file. */
#include "megalith/append.h"
#include "file_impl.h"
#include "megalith/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Another process needs only milliseconds to rewrite a file; if it is stopped meanwhile, it must not stall a training
 * run: give up after these tries. */
enum { MOST_TRIES = 40, PAUSE_NS = 5000000 };

struct mega_append {
    int fd; /* -1: not open */
    char *path;
    int64_t written; /* bytes written so far to the open file */
};

mega_status mega_append_create(const char *path, mega_append **out)
{
    mega_append *a = mega_calloc(1, sizeof *a);
    char *copy = a != NULL ? mega_strdup(path) : NULL;
    if (copy == NULL) {
        mega_free(a);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to append to it", path);
    }
    *a = (mega_append){.fd = -1, .path = copy};
    *out = a;
    return MEGA_OK;
}

/* Returns whether the path still leads to the open file. Looks at the path before the open file, so a file that is
 * removed between the two calls counts as removed. */
static bool append_is_current(int fd, const char *path, bool *is_removed)
{
    struct stat here = {0}, there = {0};
    const bool is_there = stat(path, &there) == 0;
    *is_removed = fstat(fd, &here) == 0 && here.st_nlink == 0;
    return is_there && here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

static mega_status take_flock(int fd, int kind, const char *path)
{
    for (int i = 0; i < MOST_TRIES; i++) {
        if (flock(fd, kind | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR)) return MEGA_OK;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return MEGA_FAIL(MEGA_ERR_BUSY, "%s: another process has held its lock for %d ms", path,
                     MOST_TRIES * (PAUSE_NS / 1000000));
}

/* Opening does not block when a pipe has no reader; later writes may block as usual. */
static mega_status append_reopen(mega_append *a)
{
    const bool is_new = !mega_file_exists(a->path);
    a->fd = open(a->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (a->fd < 0) return mega_file_refused(a->path, "open for writing");
    fcntl(a->fd, F_SETFL, O_APPEND);
    if (is_new) mega_file_report("create", a->path, NULL, NULL, 0);
    return MEGA_OK;
}

static void append_close_file(mega_append *a)
{
    close(a->fd);
    a->fd = -1;
}

mega_status mega_append_open(mega_append *a, mega_append_found *out)
{
    struct stat info;
    bool is_removed;
    *out = (mega_append_found){0};
    if (a->fd >= 0) MEGA_TRY(take_flock(a->fd, LOCK_SH, a->path));
    if (a->fd >= 0 && !append_is_current(a->fd, a->path, &is_removed)) {
        out->was_left = true;
        out->was_lost = is_removed;
        append_close_file(a);
    }
    while (a->fd < 0) {
        MEGA_TRY(append_reopen(a));
        MEGA_TRY(take_flock(a->fd, LOCK_SH, a->path));
        if (append_is_current(a->fd, a->path, &is_removed)) break;
        append_close_file(a); /* it was replaced while this process waited */
    }
    const int64_t size = fstat(a->fd, &info) == 0 ? (int64_t)info.st_size : 0;
    out->is_empty = size == 0;
    /* A file that another process rewrote under mega_append_exclude still holds what this process wrote. */
    if (out->was_lost && size > 0 && size >= a->written) out->was_left = out->was_lost = false;
    if (out->was_left) a->written = 0;
    return MEGA_OK;
}

void mega_append_pause(mega_append *a)
{
    if (a->fd >= 0) flock(a->fd, LOCK_UN);
}

mega_status mega_append_exclude(int *out_held, const char *path)
{
    for (;;) {
        bool is_removed;
        const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0) return mega_file_refused(path, "open");
        const mega_status st = take_flock(fd, LOCK_EX, path);
        if (st == MEGA_OK && append_is_current(fd, path, &is_removed)) {
            *out_held = fd;
            return MEGA_OK;
        }
        close(fd);
        MEGA_TRY(st);
    }
}

void mega_append_admit(int held)
{
    close(held);
}

/* When the disk is full, removes the half that was written, unless another process has appended after it. */
static mega_status append_remove_half(mega_append *a, size_t half, size_t n)
{
    struct stat info;
    const int error = errno;
    const off_t end = lseek(a->fd, 0, SEEK_CUR);
    const bool is_last = half > 0 && fstat(a->fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == end;
    if (is_last && ftruncate(a->fd, end - (off_t)half) == 0) half = 0;
    const int64_t written = fstat(a->fd, &info) == 0 ? (int64_t)info.st_size : 0;
    errno = error;
    return mega_file_too_large(a->path, "write", written, written + (int64_t)(n - half), true);
}

mega_status mega_append_write(mega_append *a, const void *bytes, size_t n)
{
    size_t done = 0;
    while (done < n) {
        const ssize_t more = write(a->fd, (const char *)bytes + done, n - done);
        if (more < 0 && errno == EINTR) continue;
        if (more < 0) return append_remove_half(a, done, n);
        done += (size_t)more;
    }
    a->written += (int64_t)n;
    mega_file_report("write", a->path, NULL, bytes, n);
    return MEGA_OK;
}

mega_status mega_append_sync(mega_append *a)
{
    if (a->fd < 0) return MEGA_OK;
    if (fsync(a->fd) != 0) /* pipes and devices cannot be synced */
        return errno == EINVAL || errno == ENOTSUP ? MEGA_OK : mega_file_refused(a->path, "sync");
    mega_file_report("fsync", a->path, NULL, NULL, 0);
    return MEGA_OK;
}

const char *mega_append_path(const mega_append *a)
{
    return a->path;
}

mega_status mega_append_close(mega_append *a)
{
    if (a == NULL) return MEGA_OK;
    const bool failed = a->fd >= 0 && close(a->fd) != 0 && errno != EINTR;
    const mega_status st = failed ? mega_file_refused(a->path, "close") : MEGA_OK;
    MEGA_FREE(a->path, a);
    return st;
}
