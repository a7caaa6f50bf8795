/* Compares the cpu and the plain kernel for every kernel of MEGA_KERNEL_LIST: on random and awkward shapes (empty, one,
 * odd, one more than a block), in every type, for each instruction set of this machine, with 1, 2 and 3 threads, which
 * must give the same bits. `ops_test_kernels 'layer_norm*'` runs the tests of these kernels. */
#include "kit.h"
#include "megalith/kernels.h"
#include "megalith/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_check_body.c"
#include "kernel_run_body.c"

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

static const mega_dtype types[] = {MEGA_F32, MEGA_BF16, MEGA_F16, MEGA_F64};

/* Rows and columns: nothing, one, odd, whole vectors, past a chunk of rows, a real size that the team shares. */
static const int64_t sizes[][2] = {{0, 8}, {1, 1}, {3, 5}, {2, 16}, {17, 33}, {65, 64}, {300, 129}, {70, 768}};

#include "main_cases_body.c"

#include "attention_cases_body.c"
#include "kernel_cases_body.c"
#include "optimizer_cases_body.c"

/* Every kernel of the list and its case, the function check_NAME: without it this file does not compile. */
typedef struct kernel_case {
    const mega_kernel *plain, *cpu;
    const char *name;
    void (*run)(mega_dtype type, int64_t rows, int64_t cols);
} kernel_case;

#define KERNEL_CASE(name) {&mega_plain_##name, &mega_cpu_##name, #name, check_##name},
static const kernel_case cases[] = {MEGA_KERNEL_LIST(KERNEL_CASE)};
#undef KERNEL_CASE

static void test_kernel(void **state)
{
    const kernel_case *c = *state;
    assert_string_equal(c->plain->name, c->name);
    assert_string_equal(c->cpu->name, c->name);
    const int before = comparisons;
    for (int t = 0; t < COUNT(types); t++)
        for (int s = 0; s < COUNT(sizes); s++) c->run(types[t], sizes[s][0], sizes[s][1]);
    if (comparisons == before) fail_msg("the case of kernel %s compared nothing", c->name);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[COUNT(cases)];
    for (int i = 0; i < COUNT(cases); i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i].name, .test_func = test_kernel, .initial_state = (void *)(uintptr_t)&cases[i]};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    find_ways();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
