/* Known-answer vectors of Random123 for philox4x32-10, and our addressing rules on top of it. */
#include "kit.h"
#include "megalith/philox.h"

#include <stdlib.h>

static void check(const uint32_t counter[4], uint32_t key0, uint32_t key1, const uint32_t expected[4])
{
    mega_philox c;
    for (int i = 0; i < 4; i++) c.v[i] = counter[i];
    c = mega_philox4x32(c, key0, key1);
    for (int i = 0; i < 4; i++) assert_int_equal(c.v[i], expected[i]);
}

static void philox_known_answers(void **state)
{
    (void)state;
    check((const uint32_t[]){0, 0, 0, 0}, 0, 0, (const uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    check((const uint32_t[]){~0u, ~0u, ~0u, ~0u}, ~0u, ~0u,
          (const uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    check((const uint32_t[]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0,
          (const uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

/* Every coordinate of a dropout changes its random words. */
static void dropout_words_depend_on_each_coordinate(void **state)
{
    (void)state;
    const mega_philox a = mega_philox_dropout(1, 2, 3, 4, 5);
    const mega_philox others[] = {
        mega_philox_dropout(9, 2, 3, 4, 5), mega_philox_dropout(1, 9, 3, 4, 5),
        mega_philox_dropout(1, 2, 9, 4, 5), mega_philox_dropout(1, 2, 3, 9, 5),
        mega_philox_dropout(1, 2, 3, 4, 9), mega_philox_dropout(1, 2, 3, 4, 5 + (1ull << 32))};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) assert_memory_not_equal(&a, &others[i], sizeof a);
    const mega_philox again = mega_philox_dropout(1, 2, 3, 4, 5);
    assert_memory_equal(&a, &again, sizeof a);
}

static void dropout_thresholds(void **state)
{
    (void)state;
    assert_int_equal(mega_dropout_threshold(0), 0);
    assert_int_equal(mega_dropout_threshold(0.5), 0x8000u);
    assert_int_equal(mega_dropout_threshold(0.1), 6554u);
    assert_int_equal(mega_dropout_threshold(1), 0xffffu);
    assert_true(mega_dropout_scale(0.5) == 2.0 && mega_dropout_scale(0.75) == 4.0);
    assert_true(mega_dropout_scale(0.1) * (1.0 - 6554.0 / 65536.0) == 1.0);
    const uint32_t threshold = mega_dropout_threshold(0.1);
    int kept = 0;
    enum { BLOCKS = 12500 };
    for (uint64_t b = 0; b < BLOCKS; b++) {
        const mega_philox r = mega_philox_dropout(1234, 7, 1, 0, b);
        for (int i = 0; i < 8; i++) kept += mega_dropout_bits(r, i) >= threshold;
    }
    /* 100,000 draws with probability 0.9: the standard deviation is 95 */
    assert_in_range(kept, 90000 - 500, 90000 + 500);
}

static void normal_numbers_have_their_moments(void **state)
{
    (void)state;
    enum { N = 100000 };
    double sum[5] = {0};
    for (uint64_t i = 0; i < N; i++) {
        const double x = mega_philox_normal(42, mega_name_hash("wte"), i);
        double power = 1;
        for (int k = 1; k <= 4; k++) sum[k] += power *= x;
    }
    /* Five standard errors: sqrt(var(x^k) / N), with var 1, 2, 15, 96. */
    static const double expected[] = {1, 0, 1, 0, 3}, variance[] = {0, 1, 2, 15, 96};
    for (int k = 1; k <= 4; k++) {
        if (fabs(sum[k] / N - expected[k]) > 5 * sqrt(variance[k] / N)) fail_msg("moment %d is %g", k, sum[k] / N);
    }
}

static void name_hash_vectors(void **state)
{
    (void)state;
    assert_int_equal(mega_name_hash(""), 0x811c9dc5u);
    assert_int_equal(mega_name_hash("a"), 0xe40c292cu);
    assert_int_equal(mega_name_hash("foobar"), 0xbf9cf968u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers), cmocka_unit_test(dropout_words_depend_on_each_coordinate),
        cmocka_unit_test(dropout_thresholds),   cmocka_unit_test(normal_numbers_have_their_moments),
        cmocka_unit_test(name_hash_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
