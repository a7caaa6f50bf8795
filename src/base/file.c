/* Reads, renames and removes whole files; reports changes to the observer. */
#include "megalith/file.h"
#include "file_impl.h"
#include "megalith/file_kind.h"
#include "megalith/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

static _Thread_local mega_file_observer *current_observer;
static _Thread_local void *current_user;

void mega_file_observe(mega_file_observer *observer, void *user)
{
    current_observer = observer;
    current_user = user;
}

void mega_file_report(const char *op, const char *a, const char *b, const void *bytes, size_t size)
{
    if (current_observer != NULL) current_observer(current_user, op, a, b, bytes, size);
}

static const char *errno_remedy(int error)
{
    switch (error) {
    case ENOENT: return "; check the path";
    case ENOTDIR: return "; a part of the path is a file, not a folder";
    case EISDIR: return "; a file is expected there";
    case EACCES:
    case EPERM: return "; check the permissions of the file and of the folders above it";
    case EROFS: return "; choose a folder on a writable file system";
    case ENOSPC:
    case EDQUOT: return "; free some space or choose another folder";
    case EFBIG:
        return "; raise the limit on the size of files (ulimit -f), or choose a file system that allows such large "
               "files";
    case EMFILE:
    case ENFILE: return "; raise the limit on open files (ulimit -n)";
    default: return "";
    }
}

static mega_status status_of(int error)
{
    return error == ENOENT || error == ENOTDIR ? MEGA_ERR_NOT_FOUND : error == ENOMEM ? MEGA_ERR_MEMORY : MEGA_ERR_IO;
}

mega_status mega_file_refused(const char *path, const char *verb)
{
    const int error = errno;
    if (error == ENOENT && mega_file_is_annexed(path))
        return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                         "%s: cannot %s: it is a link of git-annex, and the file itself is not here: "
                         "git annex get %s",
                         path, verb, path);
    return MEGA_FAIL(status_of(error), "%s: cannot %s: %s%s", path, verb, strerror(error), errno_remedy(error));
}

mega_status mega_folder_refused(const char *path)
{
    const int error = errno;
    char full[PATH_MAX];
    if (realpath(path, full) == NULL) snprintf(full, sizeof full, "%s", path);
    return MEGA_FAIL(status_of(error), "cannot create files in %s: %s%s", full, strerror(error),
                     error == EACCES || error == EPERM ? "; check the folder's permissions" : errno_remedy(error));
}

bool mega_file_available(const char *path, unsigned long long *out)
{
    struct statvfs fs;
    char *at = mega_strdup(path);
    bool found = false;
    while (at != NULL && !(found = statvfs(at, &fs) == 0)) {
        char *folder = mega_path_folder(at);
        const bool is_last = folder == NULL || strcmp(folder, at) == 0;
        mega_free(at);
        at = is_last ? NULL : folder;
        if (is_last) mega_free(folder);
    }
    mega_free(at);
    if (!found || fs.f_blocks == 0) return false;
    *out = (unsigned long long)fs.f_bavail * fs.f_frsize;
    return true;
}

mega_status mega_file_too_large(const char *path, const char *verb, int64_t written, int64_t needed, bool or_more)
{
    const int error = errno;
    unsigned long long available = 0;
    const bool is_limit = error == EFBIG; /* the process's own limit, however much space the disk has */
    const bool is_full = error == ENOSPC && mega_file_available(path, &available);
    char room[64] = "";
    if (!is_limit && !is_full) {
        errno = error;
        return mega_file_refused(path, verb);
    }
    if (is_full) snprintf(room, sizeof room, ", %llu available", available);
    return MEGA_FAIL(MEGA_ERR_IO, "%s: cannot %s: %s; the file needs %lld bytes%s, %lld are written%s%s", path, verb,
                     strerror(error), (long long)needed, or_more ? " or more" : "", (long long)written, room,
                     errno_remedy(error));
}

static mega_status refuse_kind(const char *path, mode_t mode)
{
    const char *kind = S_ISFIFO(mode) ? "a named pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
    if (S_ISDIR(mode)) {
        errno = EISDIR;
        return mega_file_refused(path, "open for reading");
    }
    return MEGA_FAIL(MEGA_ERR_IO, "%s: this is %s, not a file; give a file, or copy what it holds into one", path,
                     kind);
}

/* The pipe of the shell's `<(command)` or of /dev/stdin: it has a writer, and no name of its own. */
static bool is_anonymous_pipe(int fd, mode_t mode)
{
    struct statfs fs;
    return S_ISFIFO(mode) && fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC;
}

/* /dev/null, or a terminal at which a user types. */
static bool is_harmless_device(int fd, const struct stat *info)
{
    struct stat null;
    if (!S_ISCHR(info->st_mode)) return false;
    return isatty(fd) || (stat("/dev/null", &null) == 0 && null.st_rdev == info->st_rdev);
}

static mega_status check_kind(int fd, struct stat *info, const char *path)
{
    if (fstat(fd, info) != 0) return mega_file_refused(path, "ask for its size");
    const bool is_pipe = is_anonymous_pipe(fd, info->st_mode);
    if (S_ISREG(info->st_mode) || is_harmless_device(fd, info)) return MEGA_OK;
    if (!is_pipe) return refuse_kind(path, info->st_mode);
    return fcntl(fd, F_SETFL, 0) == 0 ? MEGA_OK : mega_file_refused(path, "open for reading");
}

/* Opens without blocking: open() of a named pipe would otherwise wait for a writer. */
mega_status mega_file_open_to_read(int *out, struct stat *info, const char *path)
{
    if (path == NULL) return MEGA_MISTAKE("a file to read: its path is NULL; give one");
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENXIO && stat(path, info) == 0) return refuse_kind(path, info->st_mode);
    if (fd < 0) return mega_file_refused(path, "open for reading");
    const mega_status st = check_kind(fd, info, path);
    if (st == MEGA_OK) *out = fd;
    else
        close(fd);
    return st;
}

/* Reads to the end of the file. `guess` is the size at opening, which is 0 for pipes and /proc. */
static mega_status file_read_all(mega_buffer *content, int fd, size_t guess, const char *path)
{
    mega_buffer_reserve(content, guess + 1);
    while (!content->failed) {
        if (!mega_buffer_reserve(content, 4096)) break;
        size_t room = content->capacity - content->size - 1;
        if (room > (size_t)1 << 30) room = (size_t)1 << 30;
        const ssize_t n = read(fd, content->data + content->size, room);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return mega_file_refused(path, "read");
        if (n == 0) break;
        content->size += (size_t)n;
    }
    MEGA_TRY(mega_buffer_check(content, path));
    content->data[content->size] = '\0';
    return MEGA_OK;
}

mega_status mega_file_read(const char *path, char **out, size_t *out_size)
{
    int fd = -1;
    struct stat info = {0};
    MEGA_TRY(mega_file_open_to_read(&fd, &info, path));
    mega_buffer content = {0};
    const size_t guess = info.st_size > 0 ? (size_t)info.st_size + 4096 : 0;
    const mega_status st = file_read_all(&content, fd, guess, path);
    close(fd);
    if (st != MEGA_OK) {
        mega_buffer_fini(&content);
        return st;
    }
    *out = content.data;
    if (out_size != NULL) *out_size = content.size;
    return MEGA_OK;
}

mega_status mega_path_check_access(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) return MEGA_OK;
        return mega_file_refused(path, "be checked");
    }
    const bool is_folder = S_ISDIR(info.st_mode);
    if (faccessat(AT_FDCWD, path, is_folder ? R_OK | X_OK : R_OK, AT_EACCESS) == 0) return MEGA_OK;
    return mega_file_refused(path, is_folder ? "read the folder" : "read");
}

bool mega_file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
}

bool mega_file_is_regular(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool mega_folder_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

mega_status mega_file_size(const char *path, int64_t *out)
{
    struct stat info;
    if (stat(path, &info) != 0) return mega_file_refused(path, "ask for its size");
    *out = (int64_t)info.st_size;
    return MEGA_OK;
}

mega_status mega_file_rename(const char *from, const char *to)
{
    if (rename(from, to) != 0) {
        const mega_status st = mega_file_refused(from, "rename");
        mega_error_prepend("renaming to %s", to);
        return st;
    }
    mega_file_report("rename", from, to, NULL, 0);
    return MEGA_OK;
}

/* For file systems that cannot exchange two names in one call. For a moment `a` does not exist. */
static mega_status exchange_by_renames(const char *a, const char *b)
{
    char *aside = mega_owned_path(a, ".exchange-");
    if (aside == NULL) return MEGA_NO_MEMORY(a, "a path");
    mega_status st = mega_file_rename(a, aside);
    if (st == MEGA_OK) st = mega_file_rename(b, a);
    if (st == MEGA_OK) st = mega_file_rename(aside, b);
    mega_free(aside);
    return st;
}

mega_status mega_file_exchange(const char *a, const char *b)
{
    if (renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0) {
        mega_file_report("exchange", a, b, NULL, 0);
        return MEGA_OK;
    }
    if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return exchange_by_renames(a, b);
    const mega_status st = mega_file_refused(a, "exchange");
    mega_error_prepend("exchanging with %s", b);
    return st;
}

mega_status mega_file_remove(const char *path)
{
    if (unlink(path) != 0) return errno == ENOENT ? MEGA_OK : mega_file_refused(path, "remove");
    mega_file_report("unlink", path, NULL, NULL, 0);
    return MEGA_OK;
}

void mega_file_discard(const char *path)
{
    mega_error_record why;
    mega_error_get(&why);
    MEGA_IGNORE(mega_file_remove(path));
    (void)mega_error_restore(&why);
}
