/* The memory that this process uses and can still get. */
#include "base_impl.h"
#include "megalith/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Reads a field of /proc/self/statm in bytes: 0 virtual size, 1 resident, 2 of it pages of files, 5 data. */
static size_t statm_read(int index)
{
    char text[256], *at = text;
    if (!mega_system_read(text, sizeof text, "/proc/self/statm")) return 0;
    unsigned long long value = 0;
    for (int i = 0; i <= index; i++) value = strtoull(at, &at, 10);
    return (size_t)value * (size_t)sysconf(_SC_PAGESIZE);
}

size_t mega_memory_resident(void)
{
    return statm_read(1);
}

size_t mega_memory_mapped(void)
{
    return statm_read(2);
}

/* Returns the bytes of resident pages that mega_memory_peak leaves out. Code and libraries are mapped privately. */
static double others_part(void)
{
    char line[512], flags[8];
    unsigned long long kb, inode = 0, sum = 0;
    bool is_shared = false, is_file = false;
    FILE *f = fopen("/proc/self/smaps", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "%*x-%*x %7s %*x %*s %llu", flags, &inode) == 2) {
            is_shared = strchr(flags, 's') != NULL && inode != 0;
            is_file = strstr(line, " /memfd:") == NULL;
        } else if (is_shared && sscanf(line, "Rss: %llu", &kb) == 1) {
            sum += kb;
        } else if (is_shared && !is_file && sscanf(line, "Pss: %llu", &kb) == 1) { /* it comes after Rss */
            sum -= kb;
        }
    }
    if (f != NULL) fclose(f);
    return 1024.0 * (double)sum;
}

size_t mega_memory_peak(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    const double most = 1024.0 * (double)used.ru_maxrss - others_part();
    return most > 0 ? (size_t)most : 0;
}

/* Reads a field of /proc/meminfo, for example "MemTotal:", in bytes. */
static uint64_t meminfo_read(const char *name)
{
    char text[4096];
    if (!mega_system_read(text, sizeof text, "/proc/meminfo")) return UINT64_MAX;
    const char *at = strstr(text, name);
    if (at == NULL) return UINT64_MAX;
    return (uint64_t)strtoull(at + strlen(name), NULL, 10) * 1024;
}

static uint64_t rlimit_left(int resource, size_t used)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

void mega_memory_get_limits(mega_memory_limits *out)
{
    const uint64_t address_space = rlimit_left(RLIMIT_AS, statm_read(0)),
                   data = rlimit_left(RLIMIT_DATA, statm_read(5));
    out->machine = meminfo_read("MemTotal:");
    out->available = meminfo_read("MemAvailable:");
    out->cgroup_left = mega_cgroup_memory_left("/proc", "/sys/fs/cgroup");
    out->address_space_left = address_space;
    out->data_left = data;
    out->rlimit_left = address_space < data ? address_space : data;
}

uint64_t mega_memory_least(const mega_memory_limits *limits, const char **limit_name)
{
    const struct {
        uint64_t left;
        const char *name;
    } row[] = {{limits->available, "available memory of the machine"},
               {limits->cgroup_left, "cgroup"},
               {limits->address_space_left, "rlimit RLIMIT_AS, ulimit -v"},
               {limits->data_left, "rlimit RLIMIT_DATA, ulimit -d"}};
    size_t least = 0;
    for (size_t i = 1; i < sizeof row / sizeof *row; i++)
        if (row[i].left < row[least].left) least = i;
    if (limit_name != NULL) *limit_name = row[least].name;
    return row[least].left;
}

size_t mega_memory_available(const char **limit_name)
{
    mega_memory_limits limits;
    mega_memory_get_limits(&limits);
    const uint64_t least = mega_memory_least(&limits, limit_name);
    return least < SIZE_MAX ? (size_t)least : SIZE_MAX;
}
