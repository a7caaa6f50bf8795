/* Device memory: what is written is read, copied and filled; in a build with MEGA_FAR the host cannot touch it. */
#include "kit.h"
#include "megalith/device_memory.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 10000 };

static void what_is_written_is_read(void **state)
{
    (void)state;
    void *device;
    char host[BYTES], seen[BYTES];
    for (int i = 0; i < BYTES; i++) host[i] = (char)(i * 7);
    assert_int_equal(mega_device_alloc(NULL, &device, (size_t)2 * BYTES, "a test"), MEGA_OK);
    mega_device_write(device, host, BYTES);
    mega_device_copy((char *)device + BYTES, device, BYTES);
    mega_device_fill(device, 0x55, BYTES / 2);
    mega_device_read(seen, (char *)device + BYTES, BYTES);
    assert_memory_equal(seen, host, BYTES);
    mega_device_read(seen, device, BYTES);
    for (int i = 0; i < BYTES / 2; i++) assert_int_equal(seen[i], 0x55);
    assert_memory_equal(seen + BYTES / 2, host + BYTES / 2, BYTES / 2);
    mega_device_free(device, (size_t)2 * BYTES);
}

/* Returns the signal that ends a process that reads a byte of device memory, or 0. */
static int signal_of_touch(bool during_work)
{
    void *device;
    assert_int_equal(mega_device_alloc(NULL, &device, BYTES, "a test"), MEGA_OK);
    const pid_t child = fork();
    if (child == 0) {
        (void)close(STDERR_FILENO);
        if (during_work) mega_device_begin();
        const char byte = *(volatile char *)device;
        if (during_work) mega_device_end();
        _exit(byte);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    mega_device_free(device, BYTES);
    return WIFSIGNALED(how) ? WTERMSIG(how) : 0;
}

static void only_work_touches_it(void **state)
{
    (void)state;
    assert_int_equal(signal_of_touch(true), 0);
    assert_int_equal(signal_of_touch(false), mega_device_is_host(NULL) ? 0 : SIGSEGV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_written_is_read),
                                       cmocka_unit_test(only_work_touches_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
