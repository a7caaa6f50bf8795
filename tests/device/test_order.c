/* The order between the host, the copies of a GPU and its kernels: what the host writes reaches kernels that were asked
 * for after it, and none that was asked for before, with every order of streams; and with one wait left out, whichever
 * it is, the watch reports it, or values are wrong. Each run is a process of its own, on the software device. */
#include "kit.h"
#include "megalith/cuda.h"
#include "megalith/kernels.h"
#include "software_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* More in all than what the host writes ahead has room for. */
enum { ROUNDS = 6, NUMBERS = 3 * MEGA_CUDA_STAGING_BYTES / 8 / (int)sizeof(float), SEEDS = 8, MOST_WAITS = 100 };
enum { GOOD, WRONG, UNNOTICED = 3, NOT_BUILT = 77, REPORTED = 88 };

static mega_device *device;

/* y = y + x. */
static void add_to(float *y, const float *x)
{
    const mega_accumulate_args a = {.head = {.dtype = MEGA_F32}, .y = y, .x = x, .count = NUMBERS, .y_dtype = MEGA_F32};
    mega_kernel_of(MEGA_BACKEND_CUDA, MEGA_KERNEL_accumulate)->run(&(mega_queue){.device = device}, &a);
}

static float written(int round, int i)
{
    return (float)(round + 1) * (float)(i % 1000);
}

/* Adds what each round writes: with a launch, then with a recording of it. */
static void add_rounds(float *sum, float *of_round, float *host)
{
    mega_recording *r = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < NUMBERS; i++) host[i] = written(round, i);
        mega_device_write(of_round, host, sizeof *host * NUMBERS);
        if (round == 1 && device->record(device)) {
            add_to(sum, of_round);
            r = device->record_end(device);
        }
        if (r != NULL) device->replay(device, r);
        else
            add_to(sum, of_round);
    }
    mega_device_read(host, sum, sizeof *host * NUMBERS);
    device->forget(device, r);
}

static int run(void)
{
    float *host = malloc(sizeof *host * NUMBERS), *block;
    if (mega_cuda_open(0, &device) != MEGA_OK ||
        mega_device_alloc(device, (void **)&block, 2 * sizeof *host * NUMBERS, "a test") != MEGA_OK)
        return WRONG;
    add_rounds(block, block + NUMBERS, host);
    if (mega_device_finish(device) != MEGA_OK) return WRONG;
    for (int i = 0; i < NUMBERS; i++)
        if (host[i] != (float)(ROUNDS * (ROUNDS + 1) / 2) * (float)(i % 1000)) return WRONG;
    mega_device_free(block, 2 * sizeof *host * NUMBERS);
    mega_device_close(device);
    free(host);
    return GOOD;
}

/* Runs in a child, with the wait number `left_out` of a function left out. */
static int status_of(int seed, const char *function, int left_out)
{
    char text[64], number[16];
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        snprintf(text, sizeof text, "%s:%d", function, left_out);
        snprintf(number, sizeof number, "%d", seed);
        setenv("MEGA_SOFTWARE_CUDA_LEAVE_OUT", text, 1);
        setenv("MEGA_SOFTWARE_CUDA_SEED", number, 1);
        const int status = run();
        _exit(status == GOOD && left_out > 0 && calls_of(function) >= (uint64_t)left_out ? UNNOTICED : status);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

static int seeds(void)
{
    const char *text = getenv("MEGA_DEVICE_SEEDS");
    return text != NULL && atoi(text) > 0 ? atoi(text) : SEEDS;
}

static void nothing_is_reported_without_a_mistake(void **state)
{
    (void)state;
    for (int seed = 0; seed < seeds(); seed++) assert_int_equal(status_of(seed, "", 0), GOOD);
}

static void each_wait_is_needed(void **state)
{
    static const char *const function[] = {"cuStreamWaitEvent", "cuEventSynchronize", "cuStreamSynchronize"};
    (void)state;
    for (int f = 0; f < 3; f++) {
        int n = 1, status;
        for (; (status = status_of(n % SEEDS, function[f], n)) != GOOD && n < MOST_WAITS; n++)
            if (status != REPORTED && status != WRONG) fail_msg("%s %d: status %d", function[f], n, status);
        print_message("%s: %d left out, one at a time\n", function[f], n - 1);
        assert_in_range(n, 2, MOST_WAITS - 1);
    }
}

static bool is_built(void)
{
    char text[MEGA_CUDA_TEXT];
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) _exit(mega_cuda_describe(0, text) == MEGA_OK ? 0 : 1);
    int how;
    return waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_reported_without_a_mistake),
                                       cmocka_unit_test(each_wait_is_needed)};
    setenv("MEGA_CUDA_LIBRARY", MEGA_CUDA_SOFTWARE, 1);
    setenv("MEGA_SOFTWARE_CUDA_STOP", "1", 1);
    return is_built() ? cmocka_run_group_tests(tests, NULL, NULL) : NOT_BUILT;
}
