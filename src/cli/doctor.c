/* megalith doctor: reports what this program found on this machine and what it will use. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "commands.h"
#include "megalith/assert.h"
#include "megalith/comm.h"
#include "megalith/command_options.h"
#include "megalith/cpu_load.h"
#include "megalith/cuda.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include "megalith/launch.h"
#include <jansson.h>
#include <math.h>
#include <pcre2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <utf8proc.h>
#include <zlib.h>
#include <zstd.h>

static void row(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void row(const char *name, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    printf("  %-18s", name);
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
}

static void show_program(void)
{
    printf("megalith %s\n", MEGA_VERSION);
#if defined(__clang__)
    row("compiler", "clang %d.%d.%d", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
    row("compiler", "gcc %d.%d.%d", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
#ifdef MEGA_ASSERTS
    const char *assertions = "on";
#else
    const char *assertions = "off";
#endif
    row("checks", "assertions %s, MEGA_CHECK level %d", assertions, mega_check_level());
}

/* Shows the instruction sets in /proc/cpuinfo that matter to the kernels. */
static void show_instruction_sets(void)
{
    static const char *const names[] = {"sse4_2",      "avx",         "f16c",     "fma",      "bmi2",        "avx2",
                                        "avx512f",     "avx512dq",    "avx512bw", "avx512vl", "avx512_vnni", "avx_vnni",
                                        "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"};
    char *text = NULL;
    mega_buffer found = {0};
    if (mega_file_read("/proc/cpuinfo", &text, NULL) == MEGA_OK) {
        const char *line = strstr(text, "\nflags");
        const size_t length = line != NULL ? strcspn(line + 1, "\n") + 1 : 0;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            const size_t n = strlen(names[i]);
            for (const char *at = line; at != NULL; at = strstr(at + 1, names[i])) {
                if (at >= line + length) break;
                if (at == line || at[-1] != ' ' || (at[n] != ' ' && at[n] != '\n')) continue;
                mega_buffer_printf(&found, "%s%s", found.size != 0 ? " " : "", names[i]);
                break;
            }
        }
    }
    row("instruction sets", "%s", found.size != 0 ? found.data : "the system does not list them");
    mega_buffer_fini(&found);
    mega_free(text);
}

/* Shows what other processes use while this one sleeps: "others took 46 % of the cores (core 1: 91 %)". */
static void show_load(mega_cpu_meter *meter)
{
    enum { MOST_SHOWN = 8 };
    const struct timespec pause = {.tv_nsec = 200000000};
    mega_cpu_load load;
    char text[128];
    mega_buffer busy = {0};
    mega_cpu_meter_begin(meter);
    nanosleep(&pause, NULL);
    const bool is_known = mega_cpu_meter_read(meter, 0, &load);
    const char *taken = is_known ? mega_cpu_load_text(text, sizeof text, &load) : "the system does not say";
    int shown = 0;
    for (int i = 0; i < mega_cpu_meter_cores(meter) && is_known; i++) {
        const mega_cpu_core_load core = mega_cpu_meter_core(meter, i);
        /* the sum of two counters with different resolutions may exceed 1 */
        const double taken_of_it = fmin(core.busy + core.stolen, 1);
        if (taken_of_it < MEGA_CPU_LOAD_MARK || ++shown > MOST_SHOWN) continue;
        mega_buffer_printf(&busy, "%score %d: %.0f %%", shown > 1 ? ", " : " (", core.number, 100 * taken_of_it);
    }
    if (shown > MOST_SHOWN) mega_buffer_printf(&busy, ", %d more", shown - MOST_SHOWN);
    row("taken now", "%s%s%s", taken != NULL ? taken : "nothing", busy.size != 0 ? busy.data : "",
        busy.size != 0 ? ")" : "");
    mega_buffer_fini(&busy);
}

/* Shows the cores in the affinity mask, one by one. */
static void show_cores(void)
{
    mega_cpu_meter *meter = NULL;
    char text[256];
    if (mega_cpu_meter_create(NULL, 0, &meter) != MEGA_OK) return;
    const int count = mega_cpu_meter_cores(meter);
    int *core = mega_calloc((size_t)count + 1, sizeof *core);
    for (int i = 0; i < count && core != NULL; i++) core[i] = mega_cpu_meter_core(meter, i).number;
    const char *kinds = core != NULL ? mega_cpu_kinds(text, sizeof text, core, count) : NULL;
    if (kinds != NULL) row("kinds of cores", "%s", kinds);
    show_load(meter);
    mega_free(core);
    mega_cpu_meter_destroy(meter);
}

static void show_processor(void)
{
    char model[128], quota_text[64] = "no quota";
    const double quota = mega_cpu_quota();
    if (quota > 0) snprintf(quota_text, sizeof quota_text, "%.2f by the quota of the control group", quota);
    printf("\nprocessor\n");
    row("model", "%s", mega_cpu_model(model, sizeof model));
    show_instruction_sets();
    row("cores", "%ld online, %d by affinity, %s", sysconf(_SC_NPROCESSORS_ONLN), mega_cpu_affinity(), quota_text);
    show_cores();
}

static void show_bytes(const char *name, uint64_t bytes, const char *note)
{
    if (bytes == UINT64_MAX) {
        row(name, "no limit");
    } else {
        row(name, "%.2f GiB%s", (double)bytes / 1073741824.0, note);
    }
}

static void show_memory(void)
{
    mega_memory_limits limits;
    mega_memory_get_limits(&limits);
    printf("\nmemory\n");
    show_bytes("machine", limits.machine, "");
    show_bytes("available", limits.available, "");
    show_bytes("control group", limits.cgroup_left, " left");
    show_bytes("ulimit", limits.rlimit_left, " left");
}

static void show_libraries(void)
{
    printf("\nlibraries\n");
    row("jansson", "%s", jansson_version_str());
    char pcre2[64] = "";
    pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
    row("PCRE2", "%s", pcre2);
    row("utf8proc", "%s", utf8proc_version());
    row("zlib", "%s", zlibVersion());
    row("zstd", "%s", ZSTD_versionString());
    char mpi[160];
    row("MPI", "%s", mega_world_transport(mpi, sizeof mpi));
}

/* Returns the path where the shell would find a program; NULL if it would not. The caller frees it. */
static char *find_program(const char *name)
{
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        const size_t n = strcspn(path, ":");
        char *full = mega_format("%.*s/%s", (int)n, path, name);
        if (full != NULL && access(full, X_OK) == 0) return full;
        mega_free(full);
        path += n + (path[n] == ':');
    }
    return NULL;
}

static void show_mpi(void)
{
    char *mpirun = find_program("mpirun");
    if (mpirun == NULL) mpirun = find_program("mpiexec");
    row("MPI launcher", "%s", mpirun != NULL ? mpirun : "none found (apt-get install openmpi-bin)");
    mega_free(mpirun);
}

static void show_gpu(void)
{
    char text[MEGA_CUDA_TEXT];
    int64_t count = 0;
    for (; mega_cuda_describe(count, text) == MEGA_OK; count++)
        row("GPU", "%s; --device cuda:%lld takes it", text, (long long)count);
    if (count == 0) row("GPU", "none: %s", mega_error_message());
    else if (mega_cuda_nccl(text) == MEGA_OK)
        row("NCCL", "%s: ranks with a GPU each exchange by it", text);
    else
        row("NCCL", "%s; ranks with GPUs exchange through the memory of their hosts", mega_error_message());
}

static void show_use(void)
{
    const char *isa = getenv("MEGA_ISA"), *limit;
    const int threads = mega_default_threads(), cores = mega_cpu_count();
    const size_t memory = mega_memory_available(&limit);
    printf("\nwhat will be used\n");
    if (mega_threads_from_environment() > 0 && threads != cores) {
        row("threads", "%d, from OMP_NUM_THREADS (%d core%s; --num-threads N of a command overrides)", threads, cores,
            cores == 1 ? "" : "s");
    } else {
        row("threads", "%d (--num-threads N of a command overrides)", threads);
    }
    row("kernels", "%s%s", mega_isa_name(mega_cpu_isa()),
        isa != NULL && strcmp(isa, mega_isa_name(mega_cpu_isa())) == 0 ? ", lowered by MEGA_ISA" : "");
    char products[96], mistake[512];
    for (size_t at = 0; mega_environment_mistake(&at, mistake, sizeof mistake);) row("refused", "%s", mistake);
    row("matrix products", "%s", mega_gemm_description(products, sizeof products));
    row("memory", "up to %.2f GiB (limit: %s)", (double)memory / 1073741824.0, limit);
    int rank;
    const int ranks = mega_launched_ranks(&rank);
    if (ranks > 1) row("ranks", "%d, of a launcher; this describes the first", ranks);
    else
        row("ranks", "1; megalith launch --nproc_per_node N starts more (docs/launching.md)");
}

int mega_command_doctor(int argc, char **argv)
{
    if (argc > 1) {
        fprintf(stderr, "megalith doctor: error: found the argument %s, expected none\n", argv[1]);
        return 2;
    }
    show_program();
    show_processor();
    show_memory();
    show_libraries();
    printf("\nother machinery\n");
    show_mpi();
    show_gpu();
    show_use();
    return 0;
}
