/* Files that grow piece by piece, and outlive full disks and removals. */
#include "megalith/append.h"
#include "file_impl.h"
#include "megalith/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct mega_append {
    int fd; /* -1: not open */
    char *path;
};

mega_status mega_append_create(mega_append **out, const char *path)
{
    mega_append *a = mega_calloc(1, sizeof *a);
    char *copy = a != NULL ? mega_strdup(path) : NULL;
    if (copy == NULL) {
        mega_free(a);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to append to it", path);
    }
    *a = (mega_append){-1, copy};
    *out = a;
    return MEGA_OK;
}

/* Whether the path still leads to the open file. The path is asked first: a file that is removed between the two
 * questions counts as removed. */
static bool is_current(const mega_append *a, bool *is_removed)
{
    struct stat here = {0}, there = {0};
    const bool is_there = stat(a->path, &there) == 0;
    *is_removed = fstat(a->fd, &here) == 0 && here.st_nlink == 0;
    return is_there && here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/* Does not wait for the reader of a pipe, but then writes as usual. */
static mega_status open_again(mega_append *a)
{
    const bool is_new = !mega_file_exists(a->path);
    a->fd = open(a->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (a->fd < 0) return mega_file_refused(a->path, "open for writing");
    fcntl(a->fd, F_SETFL, O_APPEND);
    if (is_new) mega_file_report("create", a->path, NULL, NULL, 0);
    return MEGA_OK;
}

mega_status mega_append_open(mega_append *a, mega_append_found *out)
{
    struct stat info;
    *out = (mega_append_found){0};
    if (a->fd >= 0 && !is_current(a, &out->was_lost)) {
        out->was_left = true;
        close(a->fd);
        a->fd = -1;
    }
    if (a->fd < 0) MEGA_TRY(open_again(a));
    out->is_empty = fstat(a->fd, &info) == 0 && info.st_size == 0;
    return MEGA_OK;
}

/* The half that fits on a full disk goes again, unless another process has appended something after it. */
static mega_status take_back(mega_append *a, size_t half, size_t n)
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
        if (more < 0) return take_back(a, done, n);
        done += (size_t)more;
    }
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
    mega_free(a->path);
    mega_free(a);
    return st;
}
