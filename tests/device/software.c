/* The state of the software driver, and what can be asked of its devices. */
#include "software.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

software_state software;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
enum { MOST_PUSHED = 32 };
static _Thread_local cu_context current, pushed[MOST_PUSHED]; /* pushed: those below the current one */
static _Thread_local int num_pushed;

uint32_t software_draw(void)
{
    software.random ^= software.random << 13;
    software.random ^= software.random >> 7;
    software.random ^= software.random << 17;
    return (uint32_t)(software.random >> 32);
}

static void seed_set(uint64_t seed)
{
    software.random = (seed + 1) * 0xD1342543DE82EF95u | 1;
    for (int i = 0; i < 4; i++) software_draw();
    device_seed(seed);
}

void software_say(const char *format, ...)
{
    char text[600];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "software device: %s\n", text);
}

cu_result software_refuse(const char *name, const char *what)
{
    software_say("%s: %s", name, what);
    return CU_INVALID_HANDLE;
}

static uint64_t setting(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL && *text != 0 ? strtoull(text, NULL, 10) : fallback;
}

/* N, or NAME:N; NULL: none. */
static chosen_call chosen(const char *text)
{
    const char *colon = text != NULL ? strchr(text, ':') : NULL;
    chosen_call c = {.at = 0};
    if (text == NULL) return c;
    if (colon != NULL) snprintf(c.name, sizeof c.name, "%.*s", (int)(colon - text), text);
    c.at = strtoull(colon != NULL ? colon + 1 : text, NULL, 10);
    return c;
}

static bool is_chosen(chosen_call *c, const char *name)
{
    return c->at > 0 && (c->name[0] == 0 || strcmp(c->name, name) == 0) && ++c->count == c->at;
}

static void calls_choose(void)
{
    software.fails = chosen(getenv("MEGA_SOFTWARE_CUDA_FAIL"));
    software.fail_error = (cu_result)setting("MEGA_SOFTWARE_CUDA_ERROR", CU_OK);
    software.hangs = chosen(getenv("MEGA_SOFTWARE_CUDA_HANG"));
    software.left_out = chosen(getenv("MEGA_SOFTWARE_CUDA_LEAVE_OUT"));
}

/* MEGA_SOFTWARE_CUDA_OMIT: a site, as MEGA_SOFTWARE_CUDA_SITES has it. */
static void sites_set(void)
{
    const char *text = getenv("MEGA_SOFTWARE_CUDA_OMIT");
    device_site site;
    if (getenv("MEGA_SOFTWARE_CUDA_SITES") != NULL) device_sites_note();
    if (text == NULL) return;
    if (sscanf(text, "%63s %23s %d", site.kernel, site.op, &site.line) != 3) abort();
    device_site_omit(&site);
}

/* As NVIDIA's driver: the devices that CUDA_VISIBLE_DEVICES lists up to the first that is not there, or one MIG
 * instance of device 0, MIG-software-N. */
static int devices_visible(int devices)
{
    static const char mig[] = "MIG-software";
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    int count = 0;
    for (int i = 0; i < devices; i++) software.place[i] = i;
    if (text == NULL) return devices;
    software.is_instance = strncmp(text, mig, sizeof mig - 1) == 0;
    if (software.is_instance) software.instance = 1 - atoi(text + sizeof mig - 1); /* "-N" */
    if (software.is_instance) return devices > 0;
    for (char *end;; text = end + 1, count++) {
        const long number = strtol(text, &end, 10);
        if (end == text || number < 0 || number >= devices || count == devices) return count;
        software.place[count] = (int)number;
        if (*end != ',') return count + 1;
    }
}

static void settings_read(void)
{
    sites_set();
    if (getenv("MEGA_SOFTWARE_CUDA_SUMS") != NULL) {
        software.sums = calloc(MOST_KERNELS, sizeof *software.sums);
        if (software.sums == NULL) abort();
    }
    software.limit = setting("MEGA_SOFTWARE_CUDA_MEMORY", (uint64_t)2 << 30);
    software.taken = setting("MEGA_SOFTWARE_CUDA_TAKEN", 0);
    software.devices = (int)setting("MEGA_SOFTWARE_CUDA_DEVICES", 1);
    if (software.devices > 8) software.devices = 8;
    software.devices = devices_visible(software.devices);
    software.ends_at_report = setting("MEGA_SOFTWARE_CUDA_STOP", 0) != 0;
    software.version = (int)setting("MEGA_SOFTWARE_CUDA_VERSION", 12040);
    software.capability = (int)setting("MEGA_SOFTWARE_CUDA_CAPABILITY", 80);
    calls_choose();
    device_threads((int)setting("MEGA_SOFTWARE_CUDA_THREADS", 1));
    seed_set(setting("MEGA_SOFTWARE_CUDA_SEED", 0));
}

/* Calls of a function so far. */
static struct function_count {
    const char *name;
    uint64_t count;
} functions[MOST_FUNCTIONS];

static struct function_count *calls_of(const char *name)
{
    int i = 0;
    while (functions[i].name != NULL && strcmp(functions[i].name, name) != 0)
        if (++i == MOST_FUNCTIONS) abort();
    functions[i].name = name;
    return &functions[i];
}

/* Whether this call is the one that was chosen to fail. */
static bool fails_now(const char *name)
{
    software.counts.calls++;
    calls_of(name)->count++;
    if (!is_chosen(&software.fails, name)) return false;
    software_say("%s fails, as asked", name);
    return true;
}

bool software_leaves_out(const char *name)
{
    const bool leaves_out = is_chosen(&software.left_out, name);
    if (leaves_out) software_say("%s is left out, as asked", name);
    return leaves_out;
}

bool software_fails(const char *name)
{
    pthread_mutex_lock(&lock);
    const bool fails = fails_now(name), hangs = is_chosen(&software.hangs, name);
    pthread_mutex_unlock(&lock);
    if (hangs) software_say("%s never returns, as asked", name);
    while (hangs) pause();
    return fails;
}

static cu_result state_now(void)
{
    return software.is_initialized ? software.sticky : CU_NOT_INITIALIZED;
}

/* A context that nobody retains is no longer one. */
static bool has_context(void)
{
    return current != NULL && current->retained > 0;
}

cu_result software_enter_library(bool needs_context)
{
    pthread_mutex_lock(&lock);
    const cu_result r = state_now();
    return r == CU_OK && needs_context && !has_context() ? CU_INVALID_CONTEXT : r;
}

/* Whether the context is of no use after this error. */
static bool is_sticky(cu_result r)
{
    return r == CU_ECC_UNCORRECTABLE || r == CU_NVLINK_UNCORRECTABLE ||
           (r >= CU_ILLEGAL_ADDRESS && r <= CU_LAUNCH_FAILED && r != CU_LAUNCH_OUT_OF_RESOURCES);
}

cu_result software_enter(const char *name, cu_result error)
{
    pthread_mutex_lock(&lock);
    if (fails_now(name)) {
        const cu_result r = software.fail_error != CU_OK ? software.fail_error : error;
        if (is_sticky(r)) software.sticky = r;
        return r;
    }
    return state_now();
}

cu_result software_enter_context(const char *name, cu_result error)
{
    const cu_result r = software_enter(name, error);
    return r == CU_OK && !has_context() ? CU_INVALID_CONTEXT : r;
}

cu_result software_leave(cu_result result)
{
    if (software.is_open) software_close();
    pthread_mutex_unlock(&lock);
    return result;
}

void software_reset(uint64_t seed)
{
    for (int i = 0; i < MOST_STREAMS; i++)
        if (software.stream[i] != NULL) stream_end(software.stream[i]);
    software_memory_reset();
    software.sticky = CU_OK;
    software.host = (watch_clock){{0}};
    memset(software.lane_count, 0, sizeof software.lane_count);
    software.counts = (software_counts){0};
    software.next_lane = MOST_STREAMS;
    calls_choose();
    seed_set(seed);
}

/* ---- functions of the driver ---- */

cu_result cuInit(unsigned flags)
{
    pthread_mutex_lock(&lock);
    if (software.devices == 0) settings_read();
    if (fails_now("cuInit")) return software_leave(software.fail_error != CU_OK ? software.fail_error : CU_NO_DEVICE);
    if (software.is_initialized) return software_leave(CU_OK);
    if (flags != 0) return software_leave(CU_INVALID_VALUE);
    if (software.devices == 0) return software_leave(CU_NO_DEVICE);
    for (int i = 0; i < software.devices; i++) software.context[i].device = i;
    software.next_lane = MOST_STREAMS;
    software_memory_begin();
    watch_begin();
    software.is_initialized = true;
    return software_leave(CU_OK);
}

cu_result cuDriverGetVersion(int *version)
{
    const cu_result r = software_enter("cuDriverGetVersion", CU_INVALID_VALUE);
    /* the only question that may be asked before cuInit */
    *version = (int)setting("MEGA_SOFTWARE_CUDA_VERSION", 12040);
    return software_leave(r == CU_NOT_INITIALIZED ? CU_OK : r);
}

static const struct error_text {
    cu_result error;
    const char *name, *text;
} error_texts[] = {
    {CU_OK, "CUDA_SUCCESS", "no error"},
    {CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CU_STUB_LIBRARY, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {CU_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CU_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CU_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {CU_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {CU_NVLINK_UNCORRECTABLE, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "uncorrectable NVLink error detected"},
    {CU_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CU_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CU_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CU_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {CU_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CU_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CU_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CU_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "operation would result in a merge of separate capture"
     " sequences"},
    {CU_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {CU_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {CU_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
};

static const struct error_text *error_find(cu_result error)
{
    for (size_t i = 0; i < sizeof error_texts / sizeof *error_texts; i++)
        if (error_texts[i].error == error) return &error_texts[i];
    return NULL;
}

cu_result cuGetErrorName(cu_result error, const char **text)
{
    const struct error_text *e = error_find(error);
    *text = e != NULL ? e->name : "CUDA_ERROR_UNKNOWN";
    return CU_OK;
}

cu_result cuGetErrorString(cu_result error, const char **text)
{
    const struct error_text *e = error_find(error);
    *text = e != NULL ? e->text : "unknown error";
    return CU_OK;
}

cu_result cuDeviceGetCount(int *count)
{
    const cu_result r = software_enter("cuDeviceGetCount", CU_NO_DEVICE);
    *count = r == CU_OK ? software.devices : 0;
    return software_leave(r);
}

static cu_result enter_device(const char *name, cu_device device)
{
    const cu_result r = software_enter(name, CU_INVALID_DEVICE);
    return r == CU_OK && (device < 0 || device >= software.devices) ? CU_INVALID_DEVICE : r;
}

cu_result cuDeviceGet(cu_device *out, int ordinal)
{
    const cu_result r = enter_device("cuDeviceGet", ordinal);
    *out = ordinal;
    return software_leave(r);
}

cu_result cuDeviceGetName(char *name, int bytes, cu_device device)
{
    const cu_result r = enter_device("cuDeviceGetName", device);
    if (r == CU_OK) snprintf(name, (size_t)bytes, "software device%s", software.is_instance ? " MIG 1g.2gb" : "");
    return software_leave(r);
}

/* Instances of a GPU have its place, each with its own UUID. */
cu_result cuDeviceGetUuid_v2(cu_uuid *out, cu_device device)
{
    const cu_result r = enter_device("cuDeviceGetUuid_v2", device);
    memset(out, 0, sizeof *out);
    if (r == CU_OK)
        memcpy(out->bytes, (char[]){'G', 'P', 'U', (char)software.place[device], (char)software.instance}, 5);
    return software_leave(r);
}

cu_result cuDeviceGetPCIBusId(char *text, int bytes, cu_device device)
{
    const cu_result r = enter_device("cuDeviceGetPCIBusId", device);
    if (r == CU_OK) snprintf(text, (size_t)bytes, "0000:%02x:00.0", (unsigned)software.place[device] + 1);
    return software_leave(r);
}

cu_result cuDeviceGetAttribute(int *value, unsigned attribute, cu_device device)
{
    const cu_result r = enter_device("cuDeviceGetAttribute", device);
    const int values[][2] = {{CU_MAX_THREADS_PER_BLOCK, DEVICE_MOST_THREADS},
                             {CU_MULTIPROCESSORS, 4},
                             {CU_CLOCK_KHZ, 1000000},
                             {CU_MEMORY_CLOCK_KHZ, 1000000},
                             {CU_MEMORY_BUS_BITS, 64},
                             {CU_CAPABILITY_MAJOR, software.capability / 10},
                             {CU_CAPABILITY_MINOR, software.capability % 10},
                             {CU_SHARED_BYTES_OPTIN, DEVICE_MOST_SHARED}};
    *value = 0;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if ((unsigned)values[i][0] == attribute) *value = values[i][1];
    return software_leave(r);
}

cu_result cuDeviceTotalMem_v2(size_t *bytes, cu_device device)
{
    const cu_result r = enter_device("cuDeviceTotalMem_v2", device);
    *bytes = software.limit;
    return software_leave(r);
}

cu_result cuDevicePrimaryCtxRetain(cu_context *out, cu_device device)
{
    cu_result r = software_enter("cuDevicePrimaryCtxRetain", CU_OUT_OF_MEMORY);
    if (r == CU_OK && (device < 0 || device >= software.devices)) r = CU_INVALID_DEVICE;
    if (r == CU_OK) (*out = &software.context[device])->retained++;
    return software_leave(r);
}

cu_result cuDevicePrimaryCtxRelease_v2(cu_device device)
{
    cu_result r = enter_device("cuDevicePrimaryCtxRelease_v2", device);
    struct CUctx_st *c = &software.context[r == CU_OK ? device : 0];
    if (r == CU_OK && c->retained == 0) r = CU_INVALID_CONTEXT;
    if (r == CU_OK) c->retained--;
    return software_leave(r);
}

cu_result cuCtxSetCurrent(cu_context context)
{
    cu_result r = software_enter("cuCtxSetCurrent", CU_INVALID_CONTEXT);
    bool is_known = context == NULL;
    for (int i = 0; i < software.devices; i++) is_known = is_known || context == &software.context[i];
    if (r == CU_OK && (!is_known || (context != NULL && context->retained == 0))) r = CU_INVALID_CONTEXT;
    if (r == CU_OK) current = context;
    return software_leave(r);
}

cu_result cuCtxPushCurrent_v2(cu_context context)
{
    cu_result r = software_enter("cuCtxPushCurrent_v2", CU_INVALID_CONTEXT);
    bool is_known = false;
    for (int i = 0; i < software.devices; i++) is_known = is_known || context == &software.context[i];
    if (r == CU_OK && (!is_known || context->retained == 0 || num_pushed == MOST_PUSHED)) r = CU_INVALID_CONTEXT;
    if (r != CU_OK) return software_leave(r);
    pushed[num_pushed++] = current;
    current = context;
    return software_leave(CU_OK);
}

/* A failed kernel leaves the thread its contexts. */
cu_result cuCtxPopCurrent_v2(cu_context *out)
{
    const cu_result r = software_enter("cuCtxPopCurrent_v2", CU_INVALID_CONTEXT);
    if (r == CU_INVALID_CONTEXT || r == CU_NOT_INITIALIZED) return software_leave(r);
    if (num_pushed == 0) return software_leave(CU_INVALID_CONTEXT);
    *out = current;
    current = pushed[--num_pushed];
    return software_leave(CU_OK);
}

cu_result cuCtxGetCurrent(cu_context *out)
{
    const cu_result r = software_enter("cuCtxGetCurrent", CU_INVALID_CONTEXT);
    *out = current;
    return software_leave(r);
}

/* ---- for tests ---- */

/* Returns a number that a test may ask for by its name (dlsym): of calls, if it is that of a function; 0 for an
 * unknown one. */
uint64_t mega_software_cuda_count(const char *name)
{
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {{"calls", software.counts.calls},
               {"work", software.counts.work},
               {"launches", software.counts.launches},
               {"copies", software.counts.copies},
               {"waits", software.counts.waits},
               {"allocated", software.used},
               {"most allocated", software.counts.most_allocated},
               {"accesses", watch_accesses()},
               {"reports", watch_reports()},
               {"switches", device_switches()}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i].name) == 0) return all[i].value;
    for (int i = 0; i < MOST_FUNCTIONS && functions[i].name != NULL; i++)
        if (strcmp(name, functions[i].name) == 0) return functions[i].count;
    return 0;
}

#ifdef SOFTWARE_EXITS
static void sites_write(const char *path)
{
    FILE *f = path != NULL ? fopen(path, "w") : NULL;
    int count = 0;
    if (f == NULL) return;
    const device_site *s = device_sites(&count);
    for (int i = 0; i < count; i++) fprintf(f, "%s %s %d\n", s[i].kernel, s[i].op, s[i].line);
    fclose(f);
}

static void sums_write(const char *path)
{
    FILE *f = path != NULL && software.sums != NULL ? fopen(path, "w") : NULL;
    if (f == NULL) return;
    for (int i = 0; i < software.num_sums; i++)
        fprintf(f, "%s %016llx\n", software.sums[i].kernel->name, (unsigned long long)software.sums[i].sum);
    fclose(f);
}

static void counts_print(void)
{
    software_say("%llu calls, %llu pieces of work, %llu launches, %llu copies, %llu waits, %llu bytes at most, "
                 "%llu accesses watched, %llu reports",
                 (unsigned long long)software.counts.calls, (unsigned long long)software.counts.work,
                 (unsigned long long)software.counts.launches, (unsigned long long)software.counts.copies,
                 (unsigned long long)software.counts.waits, (unsigned long long)software.counts.most_allocated,
                 (unsigned long long)watch_accesses(), (unsigned long long)watch_reports());
    for (int i = 0; i < MOST_FUNCTIONS && functions[i].name != NULL; i++)
        software_say("calls of %s: %llu", functions[i].name, (unsigned long long)functions[i].count);
}

__attribute__((destructor)) static void leave(void)
{
    sums_write(getenv("MEGA_SOFTWARE_CUDA_SUMS"));
    sites_write(getenv("MEGA_SOFTWARE_CUDA_SITES"));
    if (getenv("MEGA_SOFTWARE_CUDA_COUNTS") != NULL) counts_print();
    if (watch_reports() == 0) return;
    fflush(NULL); /* what the program has printed */
    _exit(88);
}
#endif
