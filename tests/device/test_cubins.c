/* Which images of the program a GPU gets, by its compute capability: those of its chip, or of an earlier one of its
 * generation, or the PTX; and the PTX where the driver refuses the code. The images are those of make_cubins.sh: of
 * sm_80, sm_86 and sm_90. Each case is a process of its own, because the library reads its environment once. */
#include "gpu.h"
#include "kit.h"
#include "megalith/cuda.h"
#include "megalith/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FAILED = 1 };

/* Opens the GPU and loads the kernels of a file or two; returns the chip whose code was loaded last. */
static int chip_loaded(bool with_mul)
{
    mega_device *device;
    if (mega_cuda_open(0, &device) != MEGA_OK || mega_cuda_load(device, MEGA_KERNEL_add, NULL) != MEGA_OK ||
        (with_mul && mega_cuda_load(device, MEGA_KERNEL_mul, NULL) != MEGA_OK)) {
        (void)fprintf(stderr, "%s\n", mega_error_message());
        return FAILED;
    }
    const mega_cuda_loaded loaded = mega_cuda_loaded_get(device);
    mega_device_close(device);
    return loaded.images == (with_mul ? 2 : 1) ? loaded.chip : FAILED;
}

static int chip_for(const char *capability, bool with_mul)
{
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        setenv("MEGA_CUDA_LIBRARY", MEGA_CUDA_SOFTWARE, 1);
        setenv("MEGA_SOFTWARE_CUDA_CAPABILITY", capability, 1);
        _exit(chip_loaded(with_mul));
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

static void the_code_of_the_chip(void **state)
{
    (void)state;
    assert_int_equal(chip_for("80", true), 80);
    assert_int_equal(chip_for("86", true), 86);
    assert_int_equal(chip_for("90", false), 90);
}

static void an_earlier_one_of_its_generation(void **state)
{
    (void)state;
    assert_int_equal(chip_for("89", true), 86);
}

static void the_ptx_for_others(void **state)
{
    (void)state;
    assert_int_equal(chip_for("120", true), 0);
}

/* The code of add is loaded, that of mul refused. */
static void the_ptx_where_the_driver_refuses(void **state)
{
    (void)state;
    assert_int_equal(chip_for("90", true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_code_of_the_chip), cmocka_unit_test(an_earlier_one_of_its_generation),
        cmocka_unit_test(the_ptx_for_others), cmocka_unit_test(the_ptx_where_the_driver_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
