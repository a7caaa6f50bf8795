/* Files that several processes write, each at its own offsets. */
#include "file_impl.h"
#include "megalith/file.h"
#include "megalith/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

struct mega_patch {
    int fd;
    int64_t size, written; /* size of the whole file; bytes written by this process */
    char *path;
};

static void free_patch(mega_patch *p)
{
    MEGA_FREE(p->path, p);
}

static mega_status patch_fail(const mega_patch *p, const char *verb)
{
    return mega_file_too_large(p->path, verb, p->written, p->size, false);
}

mega_status mega_patch_open(const char *path, int64_t size, bool create, mega_patch **out)
{
    mega_patch *p = mega_calloc(1, sizeof *p);
    if (p == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to write it", path);
    *p = (mega_patch){.fd = -1, .size = size, .path = mega_strdup(path)};
    mega_status st = p->path != NULL ? MEGA_OK : MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory to write it", path);
    if (st == MEGA_OK) {
        p->fd = open(path, O_WRONLY | O_CLOEXEC | (create ? O_CREAT | O_TRUNC : 0), 0666);
        if (p->fd < 0) st = mega_file_refused(path, "open for writing");
    }
    if (st == MEGA_OK && create) mega_file_report("create", path, NULL, NULL, 0);
    if (st == MEGA_OK && create && ftruncate(p->fd, (off_t)size) != 0) st = patch_fail(p, "set its final size");
    if (st != MEGA_OK) {
        if (p->fd >= 0) close(p->fd);
        free_patch(p);
        return st;
    }
    *out = p;
    return MEGA_OK;
}

mega_status mega_patch_write(mega_patch *p, int64_t offset, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    while (n > 0) {
        const ssize_t done = pwrite(p->fd, at, n < (size_t)1 << 30 ? n : (size_t)1 << 30, (off_t)offset);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return patch_fail(p, "write");
        at += done;
        offset += done;
        n -= (size_t)done;
        p->written += done;
    }
    return MEGA_OK;
}

mega_status mega_patch_close(mega_patch *p, bool sync)
{
    if (p == NULL) return MEGA_OK;
    mega_status st = MEGA_OK;
    if (sync && fsync(p->fd) != 0) st = patch_fail(p, "sync");
    else if (sync)
        mega_file_report("fsync", p->path, NULL, NULL, 0);
    if (close(p->fd) != 0 && errno != EINTR && st == MEGA_OK) st = patch_fail(p, "close");
    free_patch(p);
    return st;
}
