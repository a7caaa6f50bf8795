/* Names of temporary files and folders, which identify the writing process, and removal of those that dead processes
 * left. */
#include "file_impl.h"
#include "megalith/hash.h"
#include "megalith/memory.h"
#include "megalith/process.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEMPORARY     ".tmp-"
#define FOREIGN_AGE_S (24.0 * 3600.0)

enum { KERNEL_DIGITS = 8 };

/* Writes "HOST-KERNEL-", equal for processes that see each other's ids; containers on one host may share its name and
 * use the same ids. */
static int owner_begin(char *out, size_t size, const mega_process *p)
{
    const uint64_t kernel = mega_hash64(MEGA_HASH_START, p->kernel, strlen(p->kernel));
    return snprintf(out, size, "%s-%08" PRIx32 "-", p->host, (uint32_t)kernel);
}

char *mega_owned_path(const char *path, const char *mark)
{
    char begin[MEGA_HOST_BYTES + KERNEL_DIGITS + 3];
    mega_process self;
    mega_process_self(&self);
    owner_begin(begin, sizeof begin, &self);
    return mega_format("%s%s%s%ld", path, mark, begin, self.pid);
}

char *mega_temporary_path(const char *path)
{
    return mega_owned_path(path, TEMPORARY);
}

/* Returns where the digits of the process id begin in HOST-KERNEL-PID; NULL for any other text. */
static const char *owner_pid(const char *owner)
{
    static const char decimal[] = "0123456789", hexadecimal[] = "0123456789abcdef";
    const char *dash = strrchr(owner, '-');
    if (dash == NULL || dash - owner < 2 + KERNEL_DIGITS) return NULL;
    const char *kernel = dash - KERNEL_DIGITS, *pid = dash + 1;
    if (kernel[-1] != '-' || strspn(kernel, hexadecimal) != KERNEL_DIGITS) return NULL;
    return *pid != '\0' && pid[strspn(pid, decimal)] == '\0' ? pid : NULL;
}

bool mega_owner_is_dead(const char *owner, const char *path)
{
    char begin[MEGA_HOST_BYTES + KERNEL_DIGITS + 3];
    struct stat info;
    mega_process p;
    const char *pid = owner_pid(owner);
    if (pid == NULL) return false;
    mega_process_self(&p);
    const int n = owner_begin(begin, sizeof begin, &p);
    const bool is_here = pid - owner == n && strncmp(owner, begin, (size_t)n) == 0;
    if (is_here && strtol(pid, NULL, 10) == p.pid) return true;
    p.pid = strtol(pid, NULL, 10);
    p.start = 0;
    const mega_process_state state = is_here ? mega_process_look(&p) : MEGA_PROCESS_ELSEWHERE;
    if (state != MEGA_PROCESS_ELSEWHERE) return state == MEGA_PROCESS_DEAD;
    return stat(path, &info) == 0 && difftime(time(NULL), info.st_mtime) > FOREIGN_AGE_S;
}

bool mega_owner_is_known(const char *owner)
{
    return owner_pid(owner) != NULL;
}

/* Returns the owner in STEM.tmp-OWNER if the stem begins and ends as given; otherwise NULL. */
static const char *owner_in(const char *name, const char *begin, const char *end)
{
    const char *mark = NULL;
    for (const char *at = name; (at = strstr(at, TEMPORARY)) != NULL; at++) mark = at;
    const size_t stem = mark != NULL ? (size_t)(mark - name) : 0, a = strlen(begin), b = strlen(end);
    if (stem < a || stem < b || mark == NULL) return NULL;
    if (strncmp(name, begin, a) != 0 || strncmp(mark - b, end, b) != 0) return NULL;
    const char *owner = mark + sizeof TEMPORARY - 1;
    return mega_owner_is_known(owner) ? owner : NULL;
}

/* Must not fail its caller: allocates nothing and leaves files that it cannot remove. */
void mega_temporaries_remove(const char *folder, const char *begin, const char *end, bool is_locked)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) return;
    char path[PATH_MAX];
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        const char *owner = owner_in(entry->d_name, begin, end);
        if (owner == NULL) continue;
        const int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof path || !mega_file_exists(path)) continue;
        if (is_locked || mega_owner_is_dead(owner, path)) (void)unlink(path);
    }
    closedir(dir);
}
