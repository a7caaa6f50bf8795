/* Files that are there whole or not at all, and what remains of those that were never finished. */
#include "file_impl.h"
#include "megalith/memory.h"
#include "megalith/process.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEMPORARY     ".tmp-"
#define FOREIGN_AGE_S (24.0 * 3600.0)

char *mega_temporary_path(const char *path)
{
    char host[MEGA_HOST_BYTES];
    mega_host_name(host);
    return mega_format("%s" TEMPORARY "%s-%ld", path, host, (long)getpid());
}

bool mega_owner_is_dead(const char *owner, const char *path)
{
    char host[MEGA_HOST_BYTES];
    mega_host_name(host);
    const char *dash = strrchr(owner, '-');
    const bool here =
        dash == NULL || (strlen(host) == (size_t)(dash - owner) && strncmp(owner, host, strlen(host)) == 0);
    const long pid = strtol(dash != NULL ? dash + 1 : owner, NULL, 10);
    if (here) return pid <= 0 || pid == (long)getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
    struct stat info;
    return stat(path, &info) == 0 && difftime(time(NULL), info.st_mtime) > FOREIGN_AGE_S;
}

/* The owner in STEM.tmp-OWNER with a stem that fits; else NULL. OWNER ends in the digits of a process id. */
static const char *owner_in(const char *name, const char *begin, const char *end)
{
    const char *mark = NULL;
    for (const char *at = name; (at = strstr(at, TEMPORARY)) != NULL; at++) mark = at;
    const size_t stem = mark != NULL ? (size_t)(mark - name) : 0, a = strlen(begin), b = strlen(end);
    if (stem < a || stem < b || mark == NULL) return NULL;
    if (strncmp(name, begin, a) != 0 || strncmp(mark - b, end, b) != 0) return NULL;
    const char *owner = mark + sizeof TEMPORARY - 1, *dash = strrchr(owner, '-');
    const char *pid = dash != NULL ? dash + 1 : owner;
    return *pid != '\0' && pid[strspn(pid, "0123456789")] == '\0' ? owner : NULL;
}

/* A courtesy that must not fail its caller: it allocates nothing and leaves what it cannot remove. */
void mega_temporaries_remove(const char *folder, const char *begin, const char *end)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) return;
    char path[PATH_MAX];
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        const char *owner = owner_in(entry->d_name, begin, end);
        if (owner == NULL) continue;
        const int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (length > 0 && (size_t)length < sizeof path && mega_file_exists(path) && mega_owner_is_dead(owner, path))
            (void)unlink(path);
    }
    closedir(dir);
}

static mega_status write_whole(const char *path, const void *bytes, size_t n)
{
    mega_writer *writer = NULL;
    MEGA_TRY(mega_writer_create(&writer, path));
    mega_writer_expect(writer, (int64_t)n);
    const mega_status st = mega_writer_write(writer, bytes, n);
    if (st == MEGA_OK) return mega_writer_close(writer, true);
    mega_writer_abandon(writer);
    return st;
}

static mega_status replace_file(const char *path, const void *bytes, size_t n)
{
    char *beside = mega_temporary_path(path), *folder = mega_path_folder(path);
    mega_status st = MEGA_OK;
    if (beside == NULL || folder == NULL) {
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for a path", path);
        goto end;
    }
    mega_temporaries_remove(folder, mega_path_base(path), mega_path_base(path));
    st = write_whole(beside, bytes, n);
    if (st == MEGA_OK) st = mega_file_rename(beside, path);
    if (st == MEGA_OK) st = mega_folder_sync(folder);
    else
        mega_file_discard(beside);
end:
    mega_free(folder);
    mega_free(beside);
    return st;
}

mega_status mega_file_write_atomic(const char *path, const void *bytes, size_t n)
{
    if (mega_file_exists(path) && !mega_file_is_regular(path)) return write_whole(path, bytes, n);
    char *target = mega_path_follow(path);
    if (target == NULL) return mega_file_refused(path, "follow the link");
    const mega_status st = replace_file(target, bytes, n);
    mega_free(target);
    return st;
}
