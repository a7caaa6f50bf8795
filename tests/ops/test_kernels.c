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
#include "expert_cases_body.c"
#include "kernel_cases_body.c"
#include "optimizer_cases_body.c"
#include "route_cases_body.c"

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

/* The rows of every expert have the bits that a product of these rows alone gives, forward and backward: of few rows,
 * of a row, of none, and of enough rows for the whole team to multiply. The gradients are so large that they are
 * written past the caches where they are aligned, as those of the experts are. */
static void experts_have_the_bits_of_products(mega_dtype type, mega_team *team)
{
    static const int32_t first[] = {0, 3, 3, 4, 44, 345, 350};
    enum { ROWS = 350, IN = 560, OUT = 512, EXPERTS = 6, SCRATCH = 32 << 20 };
    const mega_queue queue = {.team = team};
    check k = check_begin("expert_linear", type, "bits");
    const mega_kernel_head head = {.dtype = type, .scratch = check_bytes(&k, SCRATCH)};
    const char *const x = check_input(&k, type, ROWS * IN), *const dy = check_input(&k, type, ROWS * OUT);
    const char *const weight = check_input(&k, type, EXPERTS * OUT * IN);
    char *const y = check_bytes(&k, ROWS * OUT * 4), *const y_one = check_bytes(&k, ROWS * OUT * 4);
    char *const block = check_bytes(&k, (EXPERTS + 1) * OUT * IN * 4 + 256);
    float *const dw = (float *)(void *)(block + (64 - (uintptr_t)block % 64));
    float *const dw_one = dw + EXPERTS * OUT * IN + 4;
    const size_t size = mega_dtype_size(type);
    const mega_expert_linear_args a = {head, y, x, weight, NULL, first, ROWS, IN, OUT, EXPERTS, false};
    const mega_expert_linear_grad_w_args g = {head, dw, NULL, dy, x, first, ROWS, IN, OUT, EXPERTS, false, false};
    assert_true(mega_cpu_expert_linear.scratch(&a, 3) <= SCRATCH);
    assert_true(mega_cpu_expert_linear_grad_w.scratch(&g, 3) <= SCRATCH);
    mega_cpu_expert_linear.run(&queue, &a);
    mega_cpu_expert_linear_grad_w.run(&queue, &g);
    for (int e = 0; e < EXPERTS; e++) {
        const int64_t rows = first[e + 1] - first[e];
        mega_gemm_args one = {.head = head, .c = y_one, .a = x + (size_t)(first[e] * IN) * size, .m = rows, .n = OUT};
        one.b = weight + (size_t)(e * OUT * IN) * size;
        one.k = one.lda = one.ldb = IN, one.ldc = OUT, one.trans_b = true, one.c_dtype = type;
        mega_cpu_gemm.run(&queue, &one);
        assert_memory_equal(y + (size_t)(first[e] * OUT) * size, y_one, (size_t)(rows * OUT) * size);
        mega_gemm_args grad = {.head = head, .c = dw_one, .a = dy + (size_t)(first[e] * OUT) * size, .b = one.a};
        grad.m = grad.lda = OUT, grad.n = grad.ldb = grad.ldc = IN, grad.k = rows, grad.trans_a = true;
        grad.c_dtype = MEGA_F32;
        mega_cpu_gemm.run(&queue, &grad);
        assert_memory_equal(dw + e * OUT * IN, dw_one, (size_t)(OUT * IN) * sizeof(float));
    }
    mega_arena_fini(&k.arena);
}

static void test_experts_as_products(void **state)
{
    (void)state;
    for (int w = 0; w < num_ways; w++)
        for (int threads = 1; threads <= MAX_THREADS; threads += is_slow ? 2 : 1) {
            mega_team *team = NULL;
            go_way(ways[w]);
            assert_int_equal(mega_team_create(threads, &team), MEGA_OK);
            experts_have_the_bits_of_products(MEGA_F32, team);
            experts_have_the_bits_of_products(MEGA_BF16, team);
            experts_have_the_bits_of_products(MEGA_F16, team);
            mega_team_destroy(team);
        }
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[COUNT(cases) + 1] = {
        [COUNT(cases)] = {.name = "experts_as_products", .test_func = test_experts_as_products}};
    for (int i = 0; i < COUNT(cases); i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i].name, .test_func = test_kernel, .initial_state = (void *)(uintptr_t)&cases[i]};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    find_ways();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
