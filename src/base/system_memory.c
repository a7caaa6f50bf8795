/* How much memory this process holds and may still get. */
#include "base_impl.h"
#include "megalith/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Field of /proc/self/statm in bytes: 0 virtual size, 1 resident, 5 data. */
static size_t statm(int index)
{
    char text[256], *at = text;
    if (!mega_system_read(text, sizeof text, "/proc/self/statm")) return 0;
    unsigned long long value = 0;
    for (int i = 0; i <= index; i++) value = strtoull(at, &at, 10);
    return (size_t)value * (size_t)sysconf(_SC_PAGESIZE);
}

size_t mega_memory_resident(void)
{
    return statm(1);
}

static uint64_t meminfo_available(void)
{
    char text[4096];
    if (!mega_system_read(text, sizeof text, "/proc/meminfo")) return UINT64_MAX;
    const char *at = strstr(text, "MemAvailable:");
    if (at == NULL) return UINT64_MAX;
    return (uint64_t)strtoull(at + strlen("MemAvailable:"), NULL, 10) * 1024;
}

static uint64_t rlimit_left(int resource, size_t used)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

size_t mega_memory_available(const char **limit_name)
{
    const struct {
        const char *name;
        uint64_t left;
    } limits[] = {
        {"available", meminfo_available()},
        {"cgroup", mega_cgroup_memory_left("/proc", "/sys/fs/cgroup")},
        {"rlimit", rlimit_left(RLIMIT_AS, statm(0))},
        {"rlimit", rlimit_left(RLIMIT_DATA, statm(5))},
    };
    size_t least = 0;
    for (size_t i = 1; i < sizeof limits / sizeof limits[0]; i++) {
        if (limits[i].left < limits[least].left) least = i;
    }
    if (limit_name != NULL) *limit_name = limits[least].name;
    return (size_t)limits[least].left;
}
