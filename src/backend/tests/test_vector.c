/* Checks the functions of cpu/vector_math.h against the C library in double, and their rounding against the scalar
 * rounding. This file is compiled for the base instruction set with the widest vectors, so that the code runs on any
 * machine. */
#define VECTOR_BYTES 64
#include "kit.h"

#include "cpu/vector_math.h"

/* Applies one vector function to n numbers. */
typedef enum function { EXP, LOGISTIC2, LOGISTIC2_COARSE, CDF } function;

static float apply(function f, float x)
{
    float lane[VL];
    const vf v = vset(x);
    const vf y = f == EXP                ? vexp(v)
                 : f == LOGISTIC2        ? vlogistic2(false, v)
                 : f == LOGISTIC2_COARSE ? vlogistic2(true, v)
                                         : vnormal_cdf(v);
    vstore(lane, y);
    for (int l = 1; l < VL; l++) assert_true(lane[l] == lane[0] || (isnan(lane[l]) && isnan(lane[0])));
    return lane[0];
}

static double truth(function f, double x)
{
    return f == EXP ? exp(x) : f == CDF ? 0.5 * erfc(-x / sqrt(2.0)) : 1.0 / (1.0 + exp2(x));
}

static void check_range(function f, double low, double high, double tolerance)
{
    const int points = 20000;
    for (int i = 0; i <= points; i++) {
        const float x = (float)(low + (high - low) * i / points);
        const double expected = truth(f, x), error = fabs(apply(f, x) - expected) / expected;
        if (!(error <= tolerance)) fail_msg("function %d of %.9g: relative error %.3g", f, (double)x, error);
    }
}

static void test_functions(void **state)
{
    (void)state;
    check_range(EXP, -87.3, 88.7, 2e-7);
    check_range(EXP, -1e-3, 1e-3, 1.2e-7);
    check_range(LOGISTIC2, -126.0, 126.0, 4e-7);
    check_range(LOGISTIC2_COARSE, -126.0, 126.0, 1e-4);
    check_range(CDF, -2.0, 6.0, 8e-7);
    check_range(CDF, -12.0, -2.0, 2e-5); /* e^(-z^2) multiplies the error 2e-7 of z^2 by z^2, up to 72 */
}

static void test_edges(void **state)
{
    (void)state;
    assert_true(apply(EXP, 0.0f) == 1.0f);
    assert_true(apply(EXP, -INFINITY) == 0.0f);
    assert_true(apply(EXP, -1e30f) == 0.0f);
    assert_true(apply(EXP, INFINITY) == INFINITY);
    assert_true(apply(EXP, 100.0f) == INFINITY);
    assert_true(isnan(apply(EXP, NAN)));
    for (function f = LOGISTIC2; f <= LOGISTIC2_COARSE; f++) {
        assert_true(apply(f, INFINITY) == 0.0f);
        assert_true(apply(f, -INFINITY) == 1.0f);
        assert_true(isnan(apply(f, NAN)));
    }
    assert_true(apply(CDF, -40.0f) == 0.0f);
    assert_true(apply(CDF, 40.0f) == 1.0f);
    assert_true(isnan(apply(CDF, NAN)));
}

static void test_bf16(void **state)
{
    (void)state;
    for (uint32_t high = 0; high < 65536; high++) {
        /* Every bf16 number, and values below, at and above the midpoint to the next one. */
        static const uint32_t low[] = {0x0000, 0x0001, 0x7fff, 0x8000, 0x8001, 0xffff};
        for (int i = 0; i < 6; i++) {
            const uint32_t bits = high << 16 | low[i];
            float x;
            uint16_t lane[VL];
            memcpy(&x, &bits, sizeof x);
            const vh narrow = vnarrow(MEGA_BF16, vset(x));
            memcpy(lane, &narrow, sizeof lane);
            if (lane[VL - 1] != mega_f32_to_bf16(x)) fail_msg("%08x: %04x", bits, lane[VL - 1]);
            float wide[VL];
            vstore(wide, vwiden(MEGA_BF16, narrow));
            const float back = mega_bf16_to_f32(lane[0]);
            assert_memory_equal(&wide[0], &back, sizeof back);
        }
    }
}

/* Checks the F16 that bits round to. */
static void check_f16(uint32_t bits)
{
    float x;
    uint16_t lane[VL];
    memcpy(&x, &bits, sizeof x);
    const vh narrow = vnarrow(MEGA_F16, vset(x));
    memcpy(lane, &narrow, sizeof lane);
    if (lane[VL - 1] != mega_f32_to_f16(x))
        fail_msg("%08x: %04x, expected %04x", bits, lane[VL - 1], mega_f32_to_f16(x));
}

static void test_f16(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 65536; half++) {
        uint16_t lane[VL];
        for (int l = 0; l < VL; l++) lane[l] = (uint16_t)half;
        vh h;
        memcpy(&h, lane, sizeof h);
        float wide[VL];
        vstore(wide, vwiden(MEGA_F16, h));
        const float expected = mega_f16_to_f32((uint16_t)half);
        if (memcmp(&wide[0], &expected, sizeof expected) != 0)
            fail_msg("%04x: %.9g, expected %.9g", half, (double)wide[0], (double)expected);
        /* This number, and values below, at and above the midpoint to the next one. */
        uint32_t bits;
        memcpy(&bits, &expected, sizeof bits);
        for (uint32_t i = 0; i < 3; i++) {
            check_f16(bits + i);
            check_f16(bits + 0xfff + i);
        }
    }
    for (uint64_t u = 0; u <= UINT32_MAX; u += 16381) check_f16((uint32_t)u); /* denormal and large numbers */
}

static void test_lanes(void **state)
{
    (void)state;
    float x[VL], y[VL + 1];
    double sum = 0.0;
    for (int l = 0; l < VL; l++) x[l] = (float)(l * l), sum += x[l];
    assert_true(vsum(vload(x)) == (float)sum);
    assert_true(vmax_lane(vload(x)) == x[VL - 1]);
    for (int n = 0; n < VL; n++) {
        for (int l = 0; l <= VL; l++) y[l] = -1.0f;
        vput_n(MEGA_F32, y, 0, n, vload(x));
        for (int l = 0; l <= VL; l++) assert_true(y[l] == (l < n ? x[l] : -1.0f));
        vstore(y, vkeep(vload(x), n));
        for (int l = 0; l < VL; l++) assert_true(y[l] == (l < n ? x[l] : 0.0f));
        vstore(y, vget_n(MEGA_F32, x, 0, n));
        for (int l = 0; l < VL; l++) assert_true(y[l] == (l < n ? x[l] : 0.0f));
    }
    assert_false(vany(vload(x) != vload(x)));
    x[VL - 1] = NAN;
    assert_true(vany(vload(x) != vload(x)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions), cmocka_unit_test(test_edges), cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_f16),       cmocka_unit_test(test_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
