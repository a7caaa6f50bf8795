/* Bulk normal numbers agree with their definition, and every body gives the same bits. */
#include "cpu/normal.h"
#include "kit.h"
#include "megalith/philox.h"
#include "megalith/threads.h"

#include <string.h>

enum { PAIRS = 40000 };

static void follows_the_definition(void **state)
{
    (void)state;
    static double x[2 * PAIRS];
    const uint32_t hash = mega_name_hash("transformer.wte.weight");
    const uint64_t first = (1ull << 32) - 1000; /* the upper word of the counter changes within the run */
    mega_normal_pairs(x, 1234, hash, first, PAIRS);
    int floats = 0;
    for (int i = 0; i < 2 * PAIRS; i++) {
        const double y = mega_philox_normal(1234, hash, 2 * first + (uint64_t)i);
        if (fabs(x[i] - y) > 1e-15 * fabs(y) + 1e-18) fail_msg("%d: %.17g, %.17g expected", i, x[i], y);
        floats += (float)x[i] != (float)y;
    }
    assert_true(floats <= 1); /* a value halfway between two floats may round either way: about one in 2^28 */
}

static void body_equals_body(normal_pairs_body *body)
{
    static double a[2 * PAIRS + 2], b[2 * PAIRS + 2];
    for (uint32_t seed = 1; seed <= 4; seed++) {
        memset(a, 0x55, sizeof a);
        memset(b, 0x55, sizeof b);
        const int64_t n = PAIRS - (int64_t)seed;
        mega_normal_pairs_portable(a, seed, 99, seed * 1000003u, n);
        body(b, seed, 99, seed * 1000003u, n);
        assert_memory_equal(a, b, sizeof a);
    }
    for (int64_t n = 0; n < 20; n++) {
        memset(b, 0x55, sizeof b);
        body(b, 4, 99, 4 * 1000003u + 3, n);
        assert_memory_equal(b, a + 6, (size_t)n * 2 * sizeof *b);
        for (int64_t i = 2 * n; i < 64; i++) assert_memory_equal(&b[i], "UUUUUUUU", 8);
    }
}

static void every_instruction_set_gives_the_same_bits(void **state)
{
    (void)state;
    body_equals_body(mega_normal_pairs_portable);
#if defined(__x86_64__)
    if (mega_cpu_isa() >= MEGA_ISA_AVX2) body_equals_body(mega_normal_pairs_avx2);
    if (mega_cpu_isa() >= MEGA_ISA_AVX512) body_equals_body(mega_normal_pairs_avx512);
#endif
    /* These bits belong to the meaning of a seed, so they must never change. */
    double x[4];
    mega_normal_pairs(x, 1234, mega_name_hash("transformer.wte.weight"), 0, 2);
    static const double known[4] = {0x1.f1869b35d307p-2, 0x1.280e82ab46109p-1, -0x1.aa68b66b6304bp-1,
                                    0x1.bc31db6cb39a3p-6};
    for (int i = 0; i < 4; i++)
        if (x[i] != known[i]) fail_msg("%d: %a, %a expected", i, x[i], known[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_definition),
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
    };
    return cmocka_run_group_tests_name("normal", tests, NULL, NULL);
}
