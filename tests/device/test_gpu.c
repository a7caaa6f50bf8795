/* A GPU as a device of an engine (megalith/cuda.h): memory, copies and kernels, and what is said when one of the
 * driver's calls fails. On the software device; each case is a process of its own, because the library reads its
 * environment once. */
#include "driver.h"
#include "kit.h"
#include "megalith/cuda.h"
#include "megalith/kernels.h"
#include "megalith/philox.h"
#include "software_device.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = (4 << 20) + 12345, ROWS = 5, COLS = 24, NOT_BUILT = 77 };

static mega_device *device;

static void good(mega_status st)
{
    if (st != MEGA_OK) fail_msg("%s", mega_error_message());
}

static void *taken(size_t bytes)
{
    void *block;
    good(mega_device_alloc(device, &block, bytes, "a test"));
    return block;
}

static bool gelu_is_right(void);

/* ---- memory ---- */

static void fill_with(unsigned char *numbers, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) numbers[i] = (unsigned char)((i * 2654435761u + seed) >> 13);
}

static int memory_works(void)
{
    unsigned char *host = malloc(LARGE), *seen = malloc(LARGE), zeros[100] = {0};
    good(mega_cuda_open(0, &device));
    unsigned char *a = taken(LARGE), *b = taken(LARGE);
    assert_ptr_equal(mega_device_of(a + LARGE - 1), device);
    assert_null(mega_device_of(host));
    assert_false(mega_device_is_host(b));
    mega_device_read(seen, a + 1000, sizeof zeros);
    assert_memory_equal(seen, zeros, sizeof zeros); /* new memory is zero */
    fill_with(host, LARGE, 7);
    mega_device_write(a, host, LARGE);
    fill_with(seen, LARGE, 8);
    mega_device_write(a + 5, seen, 3); /* `host` may change at once, too */
    memcpy(host + 5, seen, 3);
    mega_device_copy(b + 1, a, LARGE - 1);
    mega_device_fill(b, 0x55, 1);
    mega_device_read(seen, b, LARGE);
    assert_int_equal(seen[0], 0x55);
    assert_memory_equal(seen + 1, host, LARGE - 1);
    mega_device_write_rows(b, 100, host, ROWS, 10);
    mega_device_read_rows(seen, b, 100, ROWS, 10);
    assert_memory_equal(seen, host, (size_t)ROWS * 10);
    const mega_device_part part[] = {{seen, a + 7, 3}, {seen + 100, a, 20}, {seen + 200, a + 1000, 1}};
    mega_device_read_all(part, 3);
    assert_memory_equal(seen, host + 7, 3);
    assert_memory_equal(seen + 100, host, 20);
    assert_int_equal(seen[200], host[1000]);
    fill_with(seen, LARGE, 0);
    mega_device_ask(part, 3);
    mega_device_fill(a, 0x55, LARGE); /* after the question */
    mega_device_answer(part, 3);
    good(mega_device_failure(device));
    assert_memory_equal(seen, host + 7, 3);
    assert_memory_equal(seen + 100, host, 20);
    assert_int_equal(seen[200], host[1000]);
    good(mega_device_finish(device));
    mega_device_free(a, LARGE);
    mega_device_free(b, LARGE);
    assert_null(mega_device_of(a));
    mega_device_close(device);
    free(host);
    free(seen);
    return 0;
}

/* As many blocks as one likes, given back in any order. */
static int blocks_are_many(void)
{
    enum { BLOCKS = 300 };
    void *block[BLOCKS];
    good(mega_cuda_open(0, &device));
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < BLOCKS; i++) block[i] = taken(100);
        for (int i = 0; i < BLOCKS; i++) assert_ptr_equal(mega_device_of((char *)block[i] + 99), device);
        for (int i = 0; i < BLOCKS; i++) mega_device_free(block[i * 7 % BLOCKS], 100);
        for (int i = 0; i < BLOCKS; i++) assert_null(mega_device_of(block[i]));
    }
    mega_device_close(device);
    return 0;
}

static void a_device_has_many_blocks(void **state)
{
    (void)state;
    assert_int_equal(in_child(NULL, NULL, blocks_are_many), 0);
}

/* Rows that take many pieces of pinned memory, that do not fit into one, and that are no piece by themselves. */
static int rows_work(void)
{
    static const size_t shapes[][3] = {{3000, 4000, 5000}, {2, LARGE, LARGE + 64}, {70000, 3, 11}, {1, 17, 100}};
    good(mega_cuda_open(0, &device));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t rows = shapes[i][0], bytes = shapes[i][1], pitch = shapes[i][2];
        unsigned char *host = malloc(rows * bytes), *seen = calloc(rows, bytes);
        char *a = taken(rows * pitch);
        fill_with(host, rows * bytes, (unsigned)i);
        mega_device_fill(a, 0x55, rows * pitch);
        mega_device_write_rows(a, pitch, host, (int64_t)rows, bytes);
        mega_device_read_rows(seen, a, pitch, (int64_t)rows, bytes);
        assert_memory_equal(seen, host, rows * bytes);
        mega_device_read(seen, a + bytes, 1); /* between the rows */
        assert_int_equal(seen[0], 0x55);
        good(mega_device_finish(device));
        mega_device_free(a, rows * pitch);
        free(host);
        free(seen);
    }
    mega_device_close(device);
    return 0;
}

static void rows_are_copied_at_once(void **state)
{
    (void)state;
    assert_int_equal(in_child(NULL, NULL, rows_work), 0);
}

/* A program that uses CUDA itself finds its own context after each call. */
static int context_stays(void)
{
    void *const library = dlopen(MEGA_CUDA_SOFTWARE, RTLD_NOW);
    cu_result (*retain)(cu_context *, cu_device), (*set)(cu_context), (*get)(cu_context *);
    *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&set = dlsym(library, "cuCtxSetCurrent");
    *(void **)&get = dlsym(library, "cuCtxGetCurrent");
    cu_context own, now = NULL;
    char number = 1;
    good(mega_cuda_open(0, &device));
    assert_int_equal(get(&now), CU_OK);
    assert_null(now);
    assert_int_equal(retain(&own, 1), CU_OK);
    assert_int_equal(set(own), CU_OK);
    char *const block = taken(100);
    mega_device_write(block, &number, 1);
    assert_true(gelu_is_right());
    mega_device_read(&number, block, 1);
    good(mega_device_finish(device));
    mega_device_free(block, 100);
    mega_device_close(device);
    assert_int_equal(get(&now), CU_OK);
    assert_ptr_equal(now, own);
    return 0;
}

static void the_context_of_the_caller_stays(void **state)
{
    (void)state;
    assert_int_equal(in_child("MEGA_SOFTWARE_CUDA_DEVICES", "2", context_stays), 0);
}

static void memory_is_written_and_read(void **state)
{
    (void)state;
    assert_int_equal(in_child(NULL, NULL, memory_works), 0);
}

/* Two devices in one process, and host memory beside them. */
static int devices_work(void)
{
    mega_device *other;
    unsigned char host[40000], seen[40000];
    good(mega_cuda_open(0, &device));
    good(mega_cuda_open(1, &other));
    assert_string_equal(other->name, "cuda:1");
    void *a = taken(sizeof host), *b;
    good(mega_device_alloc(other, &b, sizeof host, "a test"));
    fill_with(host, sizeof host, 3);
    mega_device_write(a, host, sizeof host);
    mega_device_copy(b, a, sizeof host);
    mega_device_free(a, sizeof host);
    mega_device_read(seen, b, sizeof host);
    assert_memory_equal(seen, host, sizeof host);
    mega_device_free(b, sizeof host);
    mega_device_close(other);
    mega_device_close(device);
    return 0;
}

static void two_devices_exchange_by_the_host(void **state)
{
    (void)state;
    assert_int_equal(in_child("MEGA_SOFTWARE_CUDA_DEVICES", "2", devices_work), 0);
}

/* ---- kernels ---- */

static float number(int i)
{
    return (float)((i * 7919) % 2003) / 1000.0f - 1.0f;
}

/* gelu of x + bias by CUDA, compared with the plain kernel. Returns false after a failure of the device. */
static bool gelu_is_right(void)
{
    float x[ROWS * COLS], bias[COLS], wanted[ROWS * COLS], seen[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++) x[i] = number(i);
    for (int i = 0; i < COLS; i++) bias[i] = number(i + 1000);
    void *block;
    if (mega_device_alloc(device, &block, 2 * sizeof x + sizeof bias, "a test") != MEGA_OK) return false;
    float *const at = block;
    mega_device_write(at, x, sizeof x);
    mega_device_write(at + ROWS * COLS, bias, sizeof bias);
    mega_gelu_args a = {.head = {.dtype = MEGA_F32}, .rows = ROWS, .cols = COLS, .x = x, .bias = bias, .y = wanted};
    mega_kernel_of(MEGA_BACKEND_PLAIN, MEGA_KERNEL_gelu)->run(NULL, &a);
    a.x = at;
    a.bias = at + ROWS * COLS;
    a.y = at + ROWS * COLS + COLS;
    const mega_kernel *k = mega_kernel_of(MEGA_BACKEND_CUDA, MEGA_KERNEL_gelu);
    if (k->prepare(&a, 1) != MEGA_OK) return false;
    k->run(&(mega_queue){.device = device}, &a);
    mega_device_read(seen, a.y, sizeof seen);
    const bool is_good = mega_device_finish(device) == MEGA_OK;
    for (int i = 0; i < ROWS * COLS && is_good; i++)
        if (!(seen[i] - wanted[i] < 1e-5f && wanted[i] - seen[i] < 1e-5f)) fail_msg("%g, not %g", seen[i], wanted[i]);
    mega_device_free(block, 2 * sizeof x + sizeof bias);
    return is_good;
}

static int kernels_work(void)
{
    good(mega_cuda_open(0, &device));
    assert_true(gelu_is_right());
    assert_true(gelu_is_right()); /* its image is there */
    mega_gelu_args a = {.head = {.dtype = MEGA_F64}, .rows = ROWS, .cols = COLS};
    assert_int_equal(mega_kernel_of(MEGA_BACKEND_CUDA, MEGA_KERNEL_gelu)->prepare(&a, 1), MEGA_ERR_UNSUPPORTED);
    assert_non_null(strstr(mega_error_message(), "no kernel gelu in f64"));
    mega_device_close(device);
    return 0;
}

static void kernels_run_in_the_queue_of_the_device(void **state)
{
    (void)state;
    assert_int_equal(in_child(NULL, NULL, kernels_work), 0);
}

/* ---- recordings ---- */

enum { RECORDED = 3, NUMBERS = 64 };

/* y += x as often as it is asked for. */
static void add_to(float *y, const float *x)
{
    const mega_accumulate_args a = {.head = {.dtype = MEGA_F32}, .y = y, .x = x, .count = NUMBERS, .y_dtype = MEGA_F32};
    mega_kernel_of(MEGA_BACKEND_CUDA, MEGA_KERNEL_accumulate)->run(&(mega_queue){.device = device}, &a);
}

static mega_recording *record_sum(float *y, const float *x)
{
    if (!device->record(device)) return NULL;
    for (int i = 0; i < RECORDED; i++) add_to(y, x);
    return device->record_end(device);
}

/* What could not be recorded is asked for once more, by itself. */
static void sum_again(const mega_recording *r, float *y, const float *x)
{
    if (r != NULL) device->replay(device, r);
    for (int i = 0; r == NULL && i < RECORDED; i++) add_to(y, x);
}

/* What is recorded is not done; each replay does it, with what is in memory then. Returns false after a failure. */
static bool recordings_are_right(void)
{
    float x[NUMBERS], seen[NUMBERS], *block;
    if (mega_device_alloc(device, (void **)&block, 2 * sizeof x, "a test") != MEGA_OK) return false;
    for (int i = 0; i < NUMBERS; i++) x[i] = number(i);
    mega_device_write(block, x, sizeof x);
    mega_recording *const r = record_sum(block + NUMBERS, block);
    for (int i = 0; i < 2; i++) sum_again(r, block + NUMBERS, block);
    for (int i = 0; i < NUMBERS; i++) x[i] *= 2;
    mega_device_write(block, x, sizeof x);
    sum_again(r, block + NUMBERS, block);
    mega_device_read(seen, block + NUMBERS, sizeof seen);
    const bool is_good = mega_device_finish(device) == MEGA_OK;
    for (int i = 0; i < NUMBERS && is_good; i++)
        if (!(fabs((double)(seen[i] - RECORDED * 2 * x[i])) < 1e-5)) fail_msg("%g, not %g", seen[i], 6 * x[i]);
    if (is_good) assert_int_equal(device->recorded.launches, r != NULL ? RECORDED : 0);
    device->forget(device, r);
    assert_int_equal(device->recorded.recordings, 0);
    mega_device_free(block, 2 * sizeof x);
    return is_good;
}

static int recordings_work(void)
{
    good(mega_cuda_open(0, &device));
    assert_true(gelu_is_right());
    assert_true(recordings_are_right());
    assert_true(recordings_are_right());
    mega_device_close(device);
    return 0;
}

static void recordings_are_replayed(void **state)
{
    (void)state;
    assert_int_equal(in_child(NULL, NULL, recordings_work), 0);
}

/* ---- failures ---- */

/* Exit status 1: an error with a message, and NaNs in place of results; 0: no failure. */
static int fails_or_works(void)
{
    if (mega_cuda_open(0, &device) != MEGA_OK) return mega_error_message()[0] != '\0' ? 1 : 2;
    const bool is_good = gelu_is_right() && recordings_are_right();
    if (!is_good && mega_error_message()[0] == '\0') return 2;
    if (!is_good && mega_device_finish(device) == MEGA_OK && strstr(mega_error_message(), "for a test") == NULL)
        return 3; /* the failure was forgotten */
    mega_device_close(device);
    return is_good ? 0 : 1;
}

/* Every call of the driver fails in turn, until there are no more. */
static void each_call_of_the_driver_may_fail(void **state)
{
    (void)state;
    int failures = 0, works = 0;
    for (int n = 1; works < 8 && n < 200; n++) { /* what closes the device may fail unheard */
        char text[16];
        snprintf(text, sizeof text, "%d", n);
        const int status = in_child("MEGA_SOFTWARE_CUDA_FAIL", text, fails_or_works);
        if (status > 1) fail_msg("call %d fails: status %d", n, status);
        failures += status;
        works = status == 0 ? works + 1 : 0;
    }
    assert_in_range(failures, 20, 100);
}

static const char *expected; /* in the message */

static int is_refused(void)
{
    if (mega_cuda_open(0, &device) == MEGA_OK) return 1;
    if (strstr(mega_error_message(), expected) != NULL) return 0;
    (void)fprintf(stderr, "\"%s\" has no \"%s\"\n", mega_error_message(), expected);
    return 2;
}

static int memory_is_refused(void)
{
    void *block;
    good(mega_cuda_open(0, &device));
    if (mega_device_alloc(device, &block, 1 << 20, "a test") != MEGA_ERR_MEMORY) return 1;
    return strstr(mega_error_message(), "1.049 MB for a test") != NULL ? 0 : 2;
}

static const struct {
    const char *chosen; /* MEGA_SOFTWARE_CUDA_FAIL */
    unsigned error;
    const char *expected; /* in the message */
} * planted;

/* A call fails with an error; the message says what it means. */
static int is_explained(void)
{
    char code[16];
    void *block;
    unsigned char host[100];
    snprintf(code, sizeof code, "%u", planted->error);
    setenv("MEGA_SOFTWARE_CUDA_ERROR", code, 1);
    mega_status st = mega_cuda_open(0, &device);
    if (st == MEGA_OK) st = mega_device_alloc(device, &block, sizeof host, "a test");
    if (st == MEGA_OK) {
        mega_device_read(host, block, sizeof host);
        st = mega_device_finish(device);
    }
    if (st == MEGA_OK) return 1;
    if (strstr(mega_error_message(), planted->expected) != NULL) return 0;
    (void)fprintf(stderr, "error %u: \"%s\" has no \"%s\"\n", planted->error, mega_error_message(), planted->expected);
    return 2;
}

static void errors_in_the_middle_are_explained(void **state)
{
    static const __typeof__(*planted) errors[] = {
        {"cuInit:1", 34, "for linking only; take its folder out of LD_LIBRARY_PATH"},
        {"cuInit:1", 802, "systemctl start nvidia-fabricmanager"},
        {"cuInit:1", 803, "restart the machine"},
        {"cuInit:1", 804, "compatibility package"},
        {"cuInit:1", 999, "/dev/nvidia-uvm may be missing"},
        {"cuDevicePrimaryCtxRetain:1", 46, "another process has the GPU for itself"},
        {"cuDevicePrimaryCtxRetain:1", 805, "start nvidia-cuda-mps-control -d"},
        {"cuDevicePrimaryCtxRetain:1", 808, "as many clients as it takes"},
        {"cuDevicePrimaryCtxRetain:1", 102, "no licence"},
        {"cuMemAlloc_v2:1", 2, "megalith plan"},
        {"cuStreamSynchronize:1", 214, "resume from the last checkpoint on another GPU, and reset this one"},
        {"cuStreamSynchronize:1", 220, "Xid 74"},
        {"cuStreamSynchronize:1", 700, "79: the GPU has left the bus"},
        {"cuStreamSynchronize:1", 702, "give smaller micro-batches"},
        {"cuStreamSynchronize:1", 719, "dmesg | grep Xid"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        planted = &errors[i];
        assert_int_equal(in_child("MEGA_SOFTWARE_CUDA_FAIL", planted->chosen, is_explained), 0);
    }
}

/* Of 2 GB another process has 1.9; this one asks for 200 MB. */
static int others_are_named(void)
{
    void *block;
    setenv("MEGA_SOFTWARE_CUDA_MEMORY", "2000000000", 1);
    good(mega_cuda_open(0, &device));
    if (mega_device_alloc(device, &block, 200000000, "a test") != MEGA_ERR_MEMORY) return 1;
    return strstr(mega_error_message(), "other processes and the driver had 1900 MB before this one") != NULL ? 0 : 2;
}

/* The name of the only GPU contains it. */
static int is_seen(void)
{
    char text[MEGA_CUDA_TEXT];
    good(mega_cuda_describe(0, text));
    return strstr(text, expected) != NULL && mega_cuda_describe(1, text) != MEGA_OK ? 0 : 1;
}

static void visible_devices_are_explained(void **state)
{
    static const char name[] = "CUDA_VISIBLE_DEVICES";
    (void)state;
    expected = "CUDA_VISIBLE_DEVICES=7 names the GPUs that a program may see, up to the first that is not there";
    assert_int_equal(in_child(name, "7", is_refused), 0);
    expected = "CUDA_VISIBLE_DEVICES=MIG-other names an instance of MIG";
    assert_int_equal(in_child(name, "MIG-other", is_refused), 0);
    expected = "software device MIG 1g.2gb, compute capability";
    assert_int_equal(in_child(name, "MIG-software", is_seen), 0);
    expected = "software device, compute capability";
    assert_int_equal(in_child(name, "0", is_seen), 0);
    assert_int_equal(in_child("MEGA_SOFTWARE_CUDA_TAKEN", "1900000000", others_are_named), 0);
}

static void messages_say_what_is_missing(void **state)
{
    (void)state;
    expected = "no-such-library";
    assert_int_equal(in_child("MEGA_CUDA_LIBRARY", "/no-such-library.so", is_refused), 0);
    expected = "no function cuInit";
    assert_int_equal(in_child("MEGA_CUDA_LIBRARY", "libz.so.1", is_refused), 0);
    expected = "is for CUDA 11.0";
    assert_int_equal(in_child("MEGA_SOFTWARE_CUDA_VERSION", "11000", is_refused), 0);
    expected = "no CUDA-capable device";
    assert_int_equal(in_child("MEGA_SOFTWARE_CUDA_DEVICES", "0", is_refused), 0);
    assert_int_equal(in_child("MEGA_SOFTWARE_CUDA_MEMORY", "5000000", memory_is_refused), 0);
}

/* Whether this build has kernels for GPUs. */
static int has_images(void)
{
    char text[MEGA_CUDA_TEXT];
    if (mega_cuda_describe(0, text) == MEGA_OK) return strstr(text, "compute capability") != NULL ? 0 : 1;
    return strstr(mega_error_message(), "this build has no kernels for GPUs") != NULL ? NOT_BUILT : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_written_and_read),
                                       cmocka_unit_test(two_devices_exchange_by_the_host),
                                       cmocka_unit_test(kernels_run_in_the_queue_of_the_device),
                                       cmocka_unit_test(recordings_are_replayed),
                                       cmocka_unit_test(each_call_of_the_driver_may_fail),
                                       cmocka_unit_test(messages_say_what_is_missing),
                                       cmocka_unit_test(a_device_has_many_blocks),
                                       cmocka_unit_test(rows_are_copied_at_once),
                                       cmocka_unit_test(the_context_of_the_caller_stays),
                                       cmocka_unit_test(errors_in_the_middle_are_explained),
                                       cmocka_unit_test(visible_devices_are_explained)};
    setenv("MEGA_CUDA_LIBRARY", MEGA_CUDA_SOFTWARE, 1);
    const int status = in_child(NULL, NULL, has_images);
    return status != 0 ? status : cmocka_run_group_tests(tests, NULL, NULL);
}
