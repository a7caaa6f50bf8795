/* mega_gemm_scratch_most: no product of fewer rows, or of a smaller depth, needs more scratch than it says, in any
 * type, instruction set and number of threads. */
#include "cpu/gemm/gemm_impl.h"
#include "kit.h"
#include <stdlib.h>

static int64_t drawn(uint32_t *seed, int64_t most)
{
    *seed = *seed * 1664525u + 1013904223u;
    return 1 + (int64_t)(*seed >> 8) % most;
}

static mega_gemm_args product(mega_dtype type, bool of_weights, int64_t m, int64_t n, int64_t k)
{
    mega_gemm_args a = {.head = {.dtype = type}, .m = m, .n = n, .k = k, .trans_a = of_weights, .trans_b = !of_weights};
    a.lda = of_weights ? m : k, a.ldb = of_weights ? n : k, a.ldc = n;
    a.c_dtype = of_weights ? MEGA_F32 : type;
    return a;
}

static void check_product(const mega_gemm_args *most, int threads, uint32_t *seed)
{
    const size_t bytes = mega_gemm_scratch_most(most, threads);
    assert_true(mega_cpu_gemm.scratch(most, threads) <= bytes);
    for (int i = 0; i < 200; i++) {
        mega_gemm_args a = *most;
        if (most->trans_a) a.k = drawn(seed, most->k);
        else
            a.m = drawn(seed, i % 2 == 0 ? most->m : most->m < 600 ? most->m : 600);
        if (mega_cpu_gemm.scratch(&a, threads) > bytes)
            fail_msg("%s %lld x %lld x %lld, %d threads: %zu bytes for up to %lld x %lld x %lld, %zu needed",
                     mega_dtype_name(a.head.dtype), (long long)a.m, (long long)a.n, (long long)a.k, threads, bytes,
                     (long long)most->m, (long long)most->n, (long long)most->k, mega_cpu_gemm.scratch(&a, threads));
    }
}

static void no_smaller_product_needs_more(void **state)
{
    static const mega_dtype types[] = {MEGA_F32, MEGA_BF16, MEGA_F16, MEGA_F64};
    const mega_isa best = mega_cpu_isa();
    uint32_t seed = 7;
    (void)state;
    for (int isa = MEGA_ISA_PORTABLE; isa <= (int)best; isa++) {
        setenv("MEGA_ISA", mega_isa_name((mega_isa)isa), 1);
        for (int i = 0; i < 400; i++) {
            const int64_t wide = i % 3 == 0 ? 20000 : 1500, m = drawn(&seed, wide);
            const int64_t n = drawn(&seed, i % 5 == 0 ? 20000 : 1500), k = drawn(&seed, i % 7 == 0 ? 20000 : 1500);
            const mega_gemm_args a = product(types[i % 4], i / 4 % 2 == 1, m, n, k);
            check_product(&a, 1 + i % 3, &seed);
        }
    }
    unsetenv("MEGA_ISA");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_smaller_product_needs_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
