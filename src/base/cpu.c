/* Features of the processor, and the number of cores that this process may use. */
#include "base_impl.h"
#include "megalith/threads.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* The affinity mask may be longer than cpu_set_t; the system then returns EINVAL, and a larger set is tried. */
int mega_cpu_affinity(void)
{
    for (int bits = CPU_SETSIZE; bits <= 1 << 20; bits *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)bits);
        if (set == NULL) break;
        const size_t bytes = CPU_ALLOC_SIZE((size_t)bits);
        const int rc = sched_getaffinity(0, bytes, set);
        const int count = rc == 0 ? CPU_COUNT_S(bytes, set) : 0;
        const bool longer = rc != 0 && errno == EINVAL;
        CPU_FREE(set);
        if (count > 0) return count;
        if (!longer) break;
    }
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online <= INT_MAX ? (int)online : 1;
}

double mega_cpu_quota(void)
{
    return mega_cgroup_cpus("/proc", "/sys/fs/cgroup");
}

int mega_cpu_count(void)
{
    int count = mega_cpu_affinity();
    const double quota = mega_cpu_quota();
    if (quota > 0 && quota < count) { /* round up: a fraction of a core is worth a thread */
        const int whole = (int)quota;
        count = quota > whole ? whole + 1 : whole;
    }
    return count < 1 ? 1 : count;
}

int mega_threads_from_environment(void)
{
    const char *text = getenv("OMP_NUM_THREADS"); /* may be a list, one number per nesting level */
    if (text == NULL) return 0;
    char *end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    return errno == 0 && end != text && (*end == '\0' || *end == ',') && n > 0 && n <= 4096 ? (int)n : 0;
}

int mega_default_threads(void)
{
    const int given = mega_threads_from_environment();
    return given > 0 ? given : mega_cpu_count();
}

#if defined(__x86_64__)
static uint64_t enabled_state(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Linux lets a process use AMX tiles only after it asks; the permission holds for all its threads. */
static bool ask_for_tiles(void)
{
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

static mega_isa detect_isa(void)
{
    uint32_t a, b, c, d, b7, c7, d7;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return MEGA_ISA_PORTABLE;
    const uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
    if ((c & (fma | osxsave | avx | f16c)) != (fma | osxsave | avx | f16c)) return MEGA_ISA_PORTABLE;
    /* whether the system saves XMM and YMM (bits 1, 2), and ZMM and masks (5 to 7) */
    const uint64_t state = enabled_state();
    if ((state & 0x6) != 0x6) return MEGA_ISA_PORTABLE;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7)) return MEGA_ISA_PORTABLE;
    const uint32_t avx2 = 1u << 5, bmi2 = 1u << 8;
    if ((b7 & (avx2 | bmi2)) != (avx2 | bmi2)) return MEGA_ISA_PORTABLE;
    const uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F, DQ, BW, VL */
    if ((b7 & avx512) != avx512 || (state & 0xe6) != 0xe6) return MEGA_ISA_AVX2;
    if (a < 1 || !__get_cpuid_count(7, 1, &a, &b, &c, &d) || (a & 1u << 5) == 0) return MEGA_ISA_AVX512;
    /* bf16 and int8 tiles; the system must save their configuration and data (bits 17, 18) */
    const uint32_t amx = 1u << 22 | 1u << 24;
    if ((d7 & amx) != amx || (state & 3u << 17) != 3u << 17 || !ask_for_tiles()) return MEGA_ISA_AVX512_BF16;
    return MEGA_ISA_AMX;
}
#else
static mega_isa detect_isa(void)
{
    return MEGA_ISA_PORTABLE;
}
#endif

static const char *const isa_names[] = {"portable", "avx2", "avx512", "avx512_bf16", "amx"};

/* The instruction set plus 1, possibly lowered by mega_cpu_isa_lower; 0: not determined yet. Cached because the
 * processor does not change, and CPUID is slow in a virtual machine, where the hypervisor answers it. */
static atomic_int known_isa;

mega_isa mega_cpu_isa_of_processor(void)
{
    int answer = atomic_load_explicit(&known_isa, memory_order_relaxed);
    if (answer == 0) {
        answer = (int)detect_isa() + 1;
        atomic_store_explicit(&known_isa, answer, memory_order_relaxed);
    }
    return (mega_isa)(answer - 1);
}

void mega_cpu_isa_lower(mega_isa most)
{
    if (mega_cpu_isa_of_processor() > most) atomic_store_explicit(&known_isa, (int)most + 1, memory_order_relaxed);
}

mega_isa mega_cpu_isa_plan(mega_isa target)
{
    const mega_isa found = mega_cpu_isa_of_processor();
    atomic_store_explicit(&known_isa, (int)target + 1, memory_order_relaxed);
    return found;
}

mega_isa mega_cpu_isa(void)
{
    const mega_isa found = mega_cpu_isa_of_processor();
    const char *wanted = getenv("MEGA_ISA");
    if (wanted == NULL) return found;
    for (int i = 0; i < (int)found; i++) {
        if (strcmp(wanted, isa_names[i]) == 0) return (mega_isa)i;
    }
    return found;
}

const char *mega_isa_name(mega_isa isa)
{
    return (unsigned)isa < sizeof isa_names / sizeof isa_names[0] ? isa_names[isa] : "unknown";
}

const char *mega_cpu_model(char *out, int size)
{
    char text[4096];
    snprintf(out, (size_t)size, "unknown");
    if (!mega_system_read(text, sizeof text, "/proc/cpuinfo")) return out;
    const char *at = strstr(text, "model name");
    at = at != NULL ? strchr(at, ':') : NULL;
    if (at == NULL) return out;
    at++;
    while (*at == ' ') at++;
    snprintf(out, (size_t)size, "%.*s", (int)strcspn(at, "\n"), at);
    return out;
}

double mega_time_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
