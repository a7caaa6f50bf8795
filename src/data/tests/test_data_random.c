/* Compares the generators with the published outputs of NumPy and torch. */
#include "data_impl.h"
#include "kit.h"

static void mt19937_words(void **state)
{
    (void)state;
    const uint32_t expected[5] = {822569775u, 2137449171u, 2671936806u, 3512589365u, 1880026316u};
    mega_mt19937 r;
    mega_mt19937_seed(&r, 1234);
    for (int i = 0; i < 5; i++) assert_int_equal(mega_mt19937_u32(&r), expected[i]);
    /* The check value of mt19937 in the C++ standard: word 10000 for the default seed. */
    mega_mt19937_seed(&r, 5489);
    for (int i = 0; i < 9999; i++) (void)mega_mt19937_u32(&r);
    assert_int_equal(mega_mt19937_u32(&r), 4123659995u);
}

static void mt19937_intervals(void **state)
{
    (void)state;
    mega_mt19937 r;
    mega_mt19937_seed(&r, 0);
    const uint64_t expected[5] = {5, 0, 3, 3, 7};
    for (int i = 0; i < 5; i++) assert_int_equal(mega_mt19937_interval(&r, 9), expected[i]);
    mega_mt19937 copy = r;
    assert_int_equal(mega_mt19937_interval(&r, 0), 0);
    assert_int_equal(r.next, copy.next); /* nothing is drawn if only one value is possible */
    const uint64_t high = mega_mt19937_u32(&copy), low = mega_mt19937_u32(&copy);
    assert_true(mega_mt19937_interval(&r, UINT64_MAX) == (high << 32 | low));
}

static void mt19937_shuffles(void **state)
{
    (void)state;
    const int32_t expected[2][10] = {{2, 8, 4, 9, 1, 6, 7, 3, 0, 5}, {8, 1, 5, 0, 7, 2, 9, 4, 3, 6}};
    const uint32_t seed[2] = {0, 42};
    for (int k = 0; k < 2; k++) {
        int32_t narrow[10];
        int64_t wide[10];
        for (int i = 0; i < 10; i++) wide[i] = narrow[i] = i;
        mega_mt19937 r;
        mega_mt19937_seed(&r, seed[k]);
        mega_mt19937_shuffle_i32(&r, narrow, 10, NULL);
        mega_mt19937_seed(&r, seed[k]);
        mega_mt19937_shuffle_i64(&r, wide, 10, NULL);
        for (int i = 0; i < 10; i++) {
            assert_int_equal(narrow[i], expected[k][i]);
            assert_int_equal(wide[i], expected[k][i]);
        }
    }
}

static void torch_permutation(void **state)
{
    (void)state;
    const int64_t expected[10] = {4, 1, 7, 5, 3, 9, 0, 8, 6, 2};
    int64_t p[10];
    mega_torch_randperm(0, p, 10);
    for (int i = 0; i < 10; i++) assert_int_equal(p[i], expected[i]);
    mega_torch_randperm(0, p, 0);
    mega_torch_randperm(0, p, 1);
    assert_int_equal(p[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mt19937_words), cmocka_unit_test(mt19937_intervals),
                                       cmocka_unit_test(mt19937_shuffles), cmocka_unit_test(torch_permutation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
