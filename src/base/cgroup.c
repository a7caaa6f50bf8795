/* Control groups: the limits of a container. Version 2 has one tree; version 1 has a tree for each controller
 * ("cpu,cpuacct", "memory"). Inside a container the tree is often mounted at the container's own group while
 * /proc/self/cgroup still shows the host's path, so the root and every existing level of the path are examined. */
#include "base_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 1024

bool mega_system_read(char *out, size_t size, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t used = 0;
    while (used + 1 < size) {
        const ssize_t n = read(fd, out + used, size - 1 - used);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        used += (size_t)n;
    }
    close(fd);
    out[used] = '\0';
    return true;
}

/* True when `name` is one of the names in the comma-separated list of `n` bytes. */
static bool list_has(const char *list, size_t n, const char *name)
{
    const size_t want = strlen(name);
    for (size_t at = 0; at <= n;) {
        const char *comma = memchr(list + at, ',', n - at);
        const size_t end = comma != NULL ? (size_t)(comma - list) : n;
        if (end - at == want && memcmp(list + at, name, want) == 0) return true;
        at = end + 1;
    }
    return false;
}

/* The group of this process in the tree of `controller` ("" = version 2). Lines: "number:controllers:/path". */
static bool own_group(char *out, const char *proc, const char *controller)
{
    char path[PATH_BYTES], text[8192];
    snprintf(path, sizeof path, "%s/self/cgroup", proc);
    if (!mega_system_read(text, sizeof text, path)) return false;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        const char *list = strchr(line, ':');
        const char *group = list != NULL ? strchr(list + 1, ':') : NULL;
        if (group == NULL || group[1] != '/') continue;
        const size_t n = (size_t)(group - list - 1);
        if (controller[0] == '\0' ? n != 0 : !list_has(list + 1, n, controller)) continue;
        snprintf(out, PATH_BYTES, "%s", group + 1);
        return true;
    }
    return false;
}

typedef void visit_level(const char *folder, void *user);

/* Calls visit for TREE/group, its parents, and TREE itself. */
static void walk_levels(const char *tree, const char *group, visit_level *visit, void *user)
{
    char path[2 * PATH_BYTES];
    snprintf(path, sizeof path, "%s%s", tree, group);
    const size_t root = strlen(tree);
    for (size_t n = strlen(path);; n--) {
        while (n > root && path[n - 1] == '/') n--;
        path[n < root ? root : n] = '\0';
        visit(path, user);
        if (n <= root) return;
        while (n > root && path[n - 1] != '/') n--;
    }
}

static bool read_level(char *out, size_t size, const char *folder, const char *file)
{
    char path[2 * PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return mega_system_read(out, size, path);
}

static void visit_cpu(const char *folder, void *user)
{
    double *least = user;
    char quota_text[64], period_text[64];
    double quota = -1, period = 0;
    if (read_level(quota_text, sizeof quota_text, folder, "cpu.max")) { /* "max 100000" or "150000 100000" */
        if (sscanf(quota_text, "%lf %lf", &quota, &period) != 2) return;
    } else if (read_level(quota_text, sizeof quota_text, folder, "cpu.cfs_quota_us") &&
               read_level(period_text, sizeof period_text, folder, "cpu.cfs_period_us")) {
        quota = strtod(quota_text, NULL); /* -1 = no limit */
        period = strtod(period_text, NULL);
    }
    if (quota <= 0 || period <= 0) return;
    if (*least == 0 || quota / period < *least) *least = quota / period;
}

/* The value after "key " in a file of lines "key value". */
static uint64_t stat_field(const char *text, const char *key)
{
    const size_t n = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, n) == 0 && line[n] == ' ') return strtoull(line + n, NULL, 10);
        line = strchr(line, '\n');
        if (line != NULL) line++;
    }
    return 0;
}

/* Microseconds in version 2, nanoseconds in version 1. */
static void visit_throttled(const char *folder, void *user)
{
    double *most = user;
    char stat[2048];
    if (!read_level(stat, sizeof stat, folder, "cpu.stat")) return;
    const double us = (double)stat_field(stat, "throttled_usec"), ns = (double)stat_field(stat, "throttled_time");
    const double seconds = us > 0 ? us * 1e-6 : ns * 1e-9;
    if (seconds > *most) *most = seconds;
}

static void visit_memory(const char *folder, void *user)
{
    uint64_t *least = user;
    char limit_text[64], used_text[64], stat[8192];
    const bool v2 = read_level(limit_text, sizeof limit_text, folder, "memory.max");
    if (!v2 && !read_level(limit_text, sizeof limit_text, folder, "memory.limit_in_bytes")) return;
    if (limit_text[0] < '0' || limit_text[0] > '9') return; /* "max" */
    const uint64_t limit = strtoull(limit_text, NULL, 10);
    if (limit >= (uint64_t)1 << 62) return; /* version 1 writes "no limit" as the largest number of whole pages */
    uint64_t used = 0;
    if (read_level(used_text, sizeof used_text, folder, v2 ? "memory.current" : "memory.usage_in_bytes")) {
        used = strtoull(used_text, NULL, 10);
    }
    /* cached file pages can be reclaimed, so they count as free */
    if (read_level(stat, sizeof stat, folder, "memory.stat")) {
        const uint64_t cached = stat_field(stat, v2 ? "inactive_file" : "total_inactive_file") +
                                stat_field(stat, v2 ? "active_file" : "total_active_file");
        used -= cached < used ? cached : used;
    }
    const uint64_t left = limit > used ? limit - used : 0;
    if (left < *least) *least = left;
}

/* Visits the tree of version 2 and every folder where version 1 may mount the controller's tree. */
static void visit_all(const char *proc, const char *sys, const char *controller, const char *const *mounts,
                      visit_level *visit, void *user)
{
    char group[PATH_BYTES], tree[PATH_BYTES];
    if (own_group(group, proc, "")) walk_levels(sys, group, visit, user);
    if (!own_group(group, proc, controller)) return;
    for (; *mounts != NULL; mounts++) {
        snprintf(tree, sizeof tree, "%s/%s", sys, *mounts);
        walk_levels(tree, group, visit, user);
    }
}

static const char *const cpu_mounts[] = {"cpu,cpuacct", "cpu", "cpuacct,cpu", NULL};

double mega_cgroup_cpus(const char *proc, const char *sys)
{
    double least = 0;
    visit_all(proc, sys, "cpu", cpu_mounts, visit_cpu, &least);
    return least;
}

double mega_cgroup_throttled(const char *proc, const char *sys)
{
    double most = 0;
    visit_all(proc, sys, "cpu", cpu_mounts, visit_throttled, &most);
    return most;
}

uint64_t mega_cgroup_memory_left(const char *proc, const char *sys)
{
    static const char *const mounts[] = {"memory", NULL};
    uint64_t least = UINT64_MAX;
    visit_all(proc, sys, "memory", mounts, visit_memory, &least);
    return least;
}
