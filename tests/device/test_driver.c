/* The software driver as a program uses it: memory, copies, modules, launches, and what it refuses. */
#include "kernels.h"
#include "kit.h"
#include "software.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static cu_context context;

static void ok_at(cu_result r, int line)
{
    const char *name;
    cuGetErrorName(r, &name);
    if (r != CU_OK) fail_msg("line %d: %s", line, name);
}
#define ok(call) ok_at((call), __LINE__)

static int begin(void **state)
{
    (void)state;
    watch_forget(true);
    if (!software.is_initialized) {
        setenv("MEGA_SOFTWARE_CUDA_MEMORY", "4000000", 1);
        ok(cuInit(0));
        ok(cuDevicePrimaryCtxRetain(&context, 0));
    }
    software_reset(7);
    ok(cuCtxSetCurrent(context));
    return 0;
}

static cu_address device_memory(size_t bytes)
{
    cu_address at = 0;
    ok(cuMemAlloc_v2(&at, bytes));
    return at;
}

static void *pinned(size_t bytes)
{
    void *at = NULL;
    ok(cuMemHostAlloc(&at, bytes, 0));
    return at;
}

static cu_stream stream(void)
{
    cu_stream s = NULL;
    ok(cuStreamCreate(&s, CU_NON_BLOCKING));
    return s;
}

static cu_function function(const char *name)
{
    cu_module m = NULL;
    cu_function f = NULL;
    ok(cuModuleLoadDataEx(&m, "// software device", 0, NULL, NULL));
    ok(cuModuleGetFunction(&f, m, name));
    return f;
}

static void devices(void **state)
{
    (void)state;
    int n = 0;
    size_t bytes = 0, free_bytes = 0;
    char name[64];
    const char *text;
    ok(cuDeviceGetCount(&n));
    assert_int_equal(n, 1);
    ok(cuDeviceGetName(name, sizeof name, 0));
    assert_string_equal(name, "software device");
    ok(cuDeviceGetAttribute(&n, CU_CAPABILITY_MAJOR, 0));
    assert_int_equal(n, 8);
    ok(cuDeviceTotalMem_v2(&bytes, 0));
    ok(cuMemGetInfo_v2(&free_bytes, &bytes));
    assert_int_equal(free_bytes, bytes);
    cu_uuid id;
    ok(cuDeviceGetUuid_v2(&id, 0));
    assert_memory_equal(id.bytes, "GPU", 3);
    assert_int_equal(cuDeviceGetUuid_v2(&id, 1), CU_INVALID_DEVICE);
    assert_int_equal(cuDeviceGet(&n, 1), CU_INVALID_DEVICE);
    ok(cuGetErrorString(CU_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "out of memory");
}

static void memory(void **state)
{
    (void)state;
    cu_address a, all[3];
    size_t free_bytes, bytes;
    for (int i = 0; i < 3; i++) all[i] = device_memory(1000);
    assert_true(all[1] % 256 == 0 && all[1] > all[0] + 1000);
    ok(cuMemGetInfo_v2(&free_bytes, &bytes));
    assert_int_equal(bytes - free_bytes, 3000);
    assert_int_equal(cuMemAlloc_v2(&a, bytes), CU_OUT_OF_MEMORY);
    assert_int_equal(cuMemAlloc_v2(&a, SIZE_MAX), CU_OUT_OF_MEMORY);
    assert_int_equal(cuMemAlloc_v2(&a, 0), CU_INVALID_VALUE);
    ok(cuMemFree_v2(all[1]));
    assert_int_equal(cuMemFree_v2(all[1]), CU_INVALID_VALUE);
    ok(cuMemGetInfo_v2(&free_bytes, &bytes));
    assert_int_equal(bytes - free_bytes, 2000);
    ok(cuMemFree_v2(0));
    for (int i = 0; i < 20; i++) { /* freed memory is used again when the device is full */
        ok(cuMemAlloc_v2(&a, bytes / 2));
        ok(cuMemFree_v2(a));
    }
    assert_int_equal(cuMemFreeHost(&a), CU_INVALID_VALUE);
}

static void copies(void **state)
{
    (void)state;
    enum { N = 1024 };
    cu_stream s = stream();
    cu_address a = device_memory(N * 4), b = device_memory(N * 4);
    float *in = pinned(N * 4), *out = pinned(N * 4), pageable[4] = {1, 2, 3, 4};
    for (int i = 0; i < N; i++) in[i] = (float)i;
    ok(cuMemcpyHtoDAsync_v2(a, in, N * 4, s));
    ok(cuMemcpyDtoDAsync_v2(b, a, N * 4, s));
    ok(cuMemsetD32Async(b + 16, 0x3f800000, 2, s));
    ok(cuMemsetD8Async(b + 24, 0, 8, s));
    ok(cuMemcpyHtoDAsync_v2(b, pageable, sizeof pageable, s));
    pageable[0] = 9; /* the driver has read it */
    ok(cuMemcpyDtoHAsync_v2(out, b, N * 4, s));
    assert_true(out[5] != out[5]); /* nothing has arrived: NaN */
    ok(cuStreamSynchronize(s));
    const float expected[] = {1, 2, 3, 4, 1, 1, 0, 0, 8};
    assert_memory_equal(out, expected, sizeof expected);
    assert_int_equal((int)out[N - 1], N - 1);
    assert_int_equal(cuMemcpyHtoDAsync_v2(a, in, N * 4 + 1, s), CU_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoHAsync_v2(in, a - 4, 8, s), CU_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoDAsync_v2(a + 8, b, SIZE_MAX - 3, s), CU_INVALID_VALUE); /* no sum wraps */
    assert_int_equal(cuMemsetD32Async(a, 0, SIZE_MAX / 4 + 2, s), CU_INVALID_VALUE);
    assert_int_equal(cuMemsetD32Async(a + 2, 0, 1, s), CU_INVALID_VALUE);
    assert_int_equal(cuMemcpyHtoDAsync_v2(a, in, 4, NULL), CU_INVALID_HANDLE);
    const uint64_t waits = mega_software_cuda_count("waits");
    ok(cuMemcpyDtoHAsync_v2(pageable, a + 4, 4, s)); /* waits, as the real one does */
    assert_int_equal((int)pageable[0], 1);
    assert_int_equal(mega_software_cuda_count("waits"), waits + 1);
    assert_int_equal(watch_reports(), 0);
}

static void early_reuse(void **state)
{
    (void)state;
    cu_stream s = stream();
    cu_address a = device_memory(64);
    float *in = pinned(64);
    memset(in, 0, 64);
    ok(cuMemcpyHtoDAsync_v2(a, in, 64, s));
    in[3] = 1;
    assert_int_equal(cuStreamSynchronize(s), CU_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemcpyHtoDAsync_v2(a, in, 64, s), CU_ILLEGAL_ADDRESS); /* and so are all calls after it */
}

static const char ptx[] = "// text\n.version 7.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry test_scale(\n  .param .align 8 .b8 test_scale_param_0[40]\n)\n"
                          ".maxntid 64, 1, 1\n{\n}\n.visible .entry test_unknown(\n)\n{\n}\n";

static cu_result load(const char *image, char *log, size_t bytes)
{
    cu_module m = NULL;
    unsigned option[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BYTES};
    void *value[] = {log, (void *)(uintptr_t)bytes};
    return cuModuleLoadDataEx(&m, image, 2, option, value);
}

static void replaced(char *to, const char *what, const char *by)
{
    const char *at = strstr(ptx, what);
    assert_non_null(at);
    sprintf(to, "%.*s%s%s", (int)(at - ptx), ptx, by, at + strlen(what));
}

static void modules(void **state)
{
    (void)state;
    cu_module m = NULL;
    cu_function f = NULL;
    char text[sizeof ptx + 40], log[200];
    int value = 0;
    assert_int_equal(sizeof(scale_args), 40);
    ok(cuModuleLoadDataEx(&m, ptx, 0, NULL, NULL));
    ok(cuModuleGetFunction(&f, m, "test_scale"));
    assert_int_equal(cuModuleGetFunction(&f, m, "test_row_sum"), CU_NOT_FOUND); /* not in this image */
    assert_int_equal(cuModuleGetFunction(&f, m, "test_unknown"), CU_NOT_FOUND); /* not compiled for the host */
    ok(cuFuncGetAttribute(&value, CU_FUNCTION_MAX_THREADS, f));
    assert_int_equal(value, 64);
    ok(cuModuleUnload(m));
    assert_int_equal(cuFuncGetAttribute(&value, CU_FUNCTION_MAX_THREADS, f), CU_INVALID_HANDLE);
    assert_int_equal(cuModuleUnload(NULL), CU_INVALID_HANDLE);
    replaced(text, "[40]", "[48]");
    assert_int_equal(load(text, log, sizeof log), CU_INVALID_PTX);
    assert_has(log, "test_scale takes 48 bytes, and 40 when it is compiled for the host");
    replaced(text, "maxntid 64", "maxntid 32");
    assert_int_equal(load(text, log, sizeof log), CU_INVALID_PTX);
    assert_has(log, "blocks of 32 threads, and of 64");
    replaced(text, ".version 7.0", ".version 9.0");
    assert_int_equal(load(text, log, sizeof log), CU_UNSUPPORTED_PTX_VERSION);
    replaced(text, "sm_80", "sm_90");
    assert_int_equal(load(text, log, sizeof log), CU_NO_BINARY_FOR_GPU);
    assert_int_equal(load("no image", log, sizeof log), CU_INVALID_IMAGE);
    char cubin[64] = "\177ELF";
    cubin[8] = 8;
    cubin[49] = 80;
    ok(load(cubin, log, sizeof log));
    cubin[49] = 86;
    assert_int_equal(load(cubin, log, sizeof log), CU_NO_BINARY_FOR_GPU);
}

static cu_result launch(cu_function f, unsigned x, unsigned threads, unsigned shared, cu_stream s, void *args)
{
    void *params[] = {args};
    return cuLaunchKernel(f, x, 1, 1, threads, 1, 1, shared, s, params, NULL);
}

static void launches(void **state)
{
    (void)state;
    cu_stream s = stream();
    cu_address x = device_memory(4096), y = device_memory(4096);
    float *out = pinned(4096);
    transpose_args t = {(float *)y, (float *)x, 0};
    cu_function f = function("test_transpose");
    for (unsigned i = 0; i < 1024; i++) ok(cuMemsetD32Async(x + i * 4, i, 1, s));
    ok(launch(f, 1, 32, 32 * 33 * 4, s, &t));
    t.y = NULL; /* arguments are read when the launch is queued */
    ok(cuMemcpyDtoHAsync_v2(out, y, 4096, s));
    ok(cuStreamSynchronize(s));
    assert_int_equal(((uint32_t *)out)[32], 1);
    assert_int_equal(launch(f, 1, 64, 0, s, &t), CU_INVALID_VALUE);
    assert_int_equal(launch(f, 0, 32, 0, s, &t), CU_INVALID_VALUE);
    assert_int_equal(launch(f, 1, 32, 50000, s, &t), CU_INVALID_VALUE);
    ok(cuFuncSetAttribute(f, CU_FUNCTION_DYNAMIC_SHARED_BYTES, 50000));
    t.y = (float *)y;
    ok(launch(f, 1, 32, 50000, s, &t));
    assert_int_equal(cuFuncSetAttribute(f, CU_FUNCTION_DYNAMIC_SHARED_BYTES, 200000), CU_INVALID_VALUE);
    ok(cuStreamSynchronize(s));
    assert_int_equal(watch_reports(), 0);
    ok(launch(f, 1, 32, 100, s, &t)); /* the kernel wants more: it fails when it runs, and with it all that follows */
    assert_int_equal(cuStreamSynchronize(s), CU_LAUNCH_FAILED);
    assert_int_equal(cuMemFree_v2(x), CU_LAUNCH_FAILED);
}

static void operands(void **state)
{
    (void)state;
    cu_stream s = stream();
    cu_address x = device_memory(4096), y = device_memory(4096);
    const cu_address at[] = {y, x};
    const size_t bytes[] = {4096, 4096}, fewer[] = {4096, 4000};
    const unsigned use[] = {WATCH_WRITES, WATCH_READS};
    const scale_args a = {(float *)y, (float *)x, 2, 0, 1024, 0};
    cu_function f = function("test_scale");
    ok(cuMemsetD32Async(x, 0, 1024, s));
    ok(mega_software_cuda_operands(s, 2, at, bytes, use));
    ok(launch(f, 2, 64, 0, s, (void *)&a));
    ok(launch(f, 2, 64, 0, s, (void *)&a)); /* the next one has declared nothing */
    ok(cuStreamSynchronize(s));
    assert_int_equal(watch_reports(), 0);
    ok(mega_software_cuda_operands(s, 2, at, fewer, use));
    ok(launch(f, 2, 64, 0, s, (void *)&a));
    ok(cuStreamSynchronize(s));
    assert_has(watch_first_report(), "outside of the operands that the launch declares: test_scale");
}

/* ---- mistakes that end the process ---- */

static int status_of(void (*body)(void), const char *said)
{
    int pipes[2], status = 0;
    char text[2000] = "";
    assert_int_equal(pipe(pipes), 0);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 2);
        signal(SIGSEGV, SIG_DFL); /* instead of cmocka */
        software_guard();
        software_guard();
        body();
        _exit(0);
    }
    close(pipes[1]);
    for (size_t n = 0, got = 1; got > 0 && n < sizeof text - 1; n += got) {
        const ssize_t r = read(pipes[0], text + n, sizeof text - 1 - n);
        got = r > 0 ? (size_t)r : 0;
    }
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_has(text, said);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static cu_address touched;
static void touch(void)
{
    *(volatile char *)(uintptr_t)(touched + 5) = 1;
}

/* Other faults are not the device's, also where it has taken the signal twice. */
static void touch_nothing(void)
{
    volatile uintptr_t at = 8;
    *(volatile char *)at = 1;
}

static void host_touches(void **state)
{
    (void)state;
    cu_stream s = stream();
    touched = device_memory(100);
    ok(cuMemsetD8Async(touched, 0, 100, s));
    ok(cuStreamSynchronize(s)); /* it could be touched while the work ran */
    assert_int_equal(status_of(touch, "the host touches device memory: byte 5 of allocation 0 (100 bytes)"), 86);
    assert_int_equal(status_of(touch_nothing, ""), -SIGSEGV);
    ok(cuMemFree_v2(touched));
    assert_int_equal(status_of(touch, "the host touches device memory: memory that is not allocated"), 86);
}

static void *without_context(void *user)
{
    cu_address a;
    *(cu_result *)user = cuMemAlloc_v2(&a, 16);
    return NULL;
}

static void handles(void **state)
{
    (void)state;
    pthread_t thread;
    cu_result r = CU_OK;
    cu_stream s = stream(), other;
    cu_event e;
    float ms = 0;
    assert_int_equal(pthread_create(&thread, NULL, without_context, &r), 0);
    pthread_join(thread, NULL);
    assert_int_equal(r, CU_INVALID_CONTEXT);
    assert_int_equal(cuStreamCreate(&other, 0), CU_INVALID_VALUE);
    ok(cuStreamDestroy_v2(s));
    assert_int_equal(cuStreamSynchronize(s), CU_INVALID_HANDLE);
    s = stream();
    ok(cuEventCreate(&e, CU_NO_TIMING));
    ok(cuStreamWaitEvent(s, e, 0)); /* never recorded: nothing to wait for */
    ok(cuEventRecord(e, s));
    assert_int_equal(cuEventElapsedTime(&ms, e, e), CU_INVALID_HANDLE);
    ok(cuEventSynchronize(e));
    ok(cuEventQuery(e));
    ok(cuEventDestroy_v2(e));
    assert_int_equal(cuEventRecord(e, s), CU_INVALID_HANDLE);
}

/* What is destroyed is known for it, also when something new has taken its place. */
static void destroyed_handles(void **state)
{
    (void)state;
    const scale_args a = {0};
    cu_stream old = stream(), s;
    cu_module m = NULL;
    cu_function f = NULL;
    cu_graph graph = NULL;
    cu_graph_exec exec = NULL;
    ok(cuStreamDestroy_v2(old));
    s = stream();
    assert_int_equal(cuStreamDestroy_v2(old), CU_INVALID_HANDLE);
    ok(cuStreamQuery(s));
    ok(cuModuleLoadDataEx(&m, ptx, 0, NULL, NULL));
    ok(cuModuleGetFunction(&f, m, "test_scale"));
    ok(cuModuleUnload(m));
    assert_int_equal(cuModuleUnload(m), CU_INVALID_HANDLE);
    assert_int_equal(cuModuleGetFunction(&f, m, "test_scale"), CU_INVALID_HANDLE);
    assert_int_equal(launch(f, 1, 64, 0, s, (void *)&a), CU_INVALID_HANDLE);
    ok(cuStreamBeginCapture_v2(s, CU_CAPTURE_THREAD));
    ok(cuStreamEndCapture(s, &graph));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphDestroy(graph));
    assert_int_equal(cuGraphDestroy(graph), CU_INVALID_VALUE);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), CU_INVALID_VALUE);
    ok(cuGraphLaunch(exec, s));
    ok(cuGraphExecDestroy(exec));
    assert_int_equal(cuGraphLaunch(exec, s), CU_INVALID_VALUE);
    assert_int_equal(cuGraphExecDestroy(exec), CU_INVALID_VALUE);
    ok(cuStreamSynchronize(s));
}

static void contexts(void **state)
{
    (void)state;
    cu_address a;
    int other;
    assert_int_equal(cuCtxSetCurrent((cu_context)(void *)&other), CU_INVALID_CONTEXT);
    ok(cuDevicePrimaryCtxRelease_v2(0));
    assert_int_equal(cuMemAlloc_v2(&a, 16), CU_INVALID_CONTEXT);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CU_INVALID_CONTEXT);
    assert_int_equal(cuCtxSetCurrent(context), CU_INVALID_CONTEXT);
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuMemAlloc_v2(&a, 16));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, begin)
    const struct CMUnitTest tests[] = {
        TEST(devices),  TEST(memory),       TEST(copies),  TEST(early_reuse),       TEST(modules), TEST(launches),
        TEST(operands), TEST(host_touches), TEST(handles), TEST(destroyed_handles), TEST(contexts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
