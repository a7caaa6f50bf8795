/* Conversions of the 16-bit floats: every value, and every rounding boundary. */
#include "kit.h"
#include "megalith/dtype.h"
#include "megalith/threads.h"

#include <math.h>
#include <stdbool.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* The definition of a 16-bit float: sign, exponent, fraction. */
static double value_of(uint16_t h, int fraction_bits)
{
    const int exponent_bits = 15 - fraction_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = h >> fraction_bits & ((1 << exponent_bits) - 1), fraction = h & ((1 << fraction_bits) - 1);
    const double sign = h & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

typedef float widen(uint16_t h);
typedef uint16_t narrow(float f);

static void check_all(widen *up, narrow *down, int fraction_bits)
{
    for (uint32_t h = 0; h < 65536; h++) {
        const double value = value_of((uint16_t)h, fraction_bits);
        const float wide = up((uint16_t)h);
        if (isnan(value)) {
            assert_true(isnan(wide));
            assert_true(isnan(up(down(wide))));
            assert_int_equal(down(wide) & 0x8000u, h & 0x8000u);
            continue;
        }
        assert_true((double)wide == value);
        assert_int_equal(signbit(wide) != 0, h >> 15);
        assert_int_equal(down(wide), h);
        if (isinf(value) || isinf(value_of((uint16_t)(h + 1), fraction_bits))) continue;
        /* Numbers between this value and the next one away from zero round to the nearer one, and the middle to the
         * even one. */
        const float middle = (float)((value + value_of((uint16_t)(h + 1), fraction_bits)) / 2);
        assert_int_equal(down(middle), h & 1 ? h + 1 : h);
        assert_int_equal(down(from_bits(bits(middle) - 1)), h);
        assert_int_equal(down(from_bits(bits(middle) + 1)), h + 1);
    }
}

static void bf16_every_value(void **state)
{
    (void)state;
    check_all(mega_bf16_to_f32, mega_f32_to_bf16, 7);
    assert_int_equal(mega_f32_to_bf16(from_bits(0x7f7fffff)), 0x7f80); /* the largest float rounds to infinity */
    assert_int_equal(mega_f32_to_bf16(from_bits(0x7f7f7fff)), 0x7f7f);
    assert_true(isnan(mega_bf16_to_f32(mega_f32_to_bf16(from_bits(0x7f800001)))));
}

static void f16_every_value(void **state)
{
    (void)state;
    check_all(mega_f16_to_f32, mega_f32_to_f16, 10);
    assert_int_equal(mega_f32_to_f16(65519.996f), 0x7bff); /* the largest float below the midpoint before 65536 */
    assert_int_equal(mega_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(mega_f32_to_f16(-1e30f), 0xfc00);
    /* half of the smallest subnormal rounds to even, which is zero */
    assert_int_equal(mega_f32_to_f16(ldexpf(1, -25)), 0);
    assert_int_equal(mega_f32_to_f16(ldexpf(1.0001f, -25)), 1);
    assert_int_equal(mega_f32_to_f16(ldexpf(-1, -60)), 0x8000);
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) static uint16_t hardware_f16(float f)
{
    return _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT);
}

static void f16_agrees_with_the_processor(void **state)
{
    (void)state;
    if (mega_cpu_isa() < MEGA_ISA_AVX2) mega_kit_skip("this processor has no F16C");
    for (uint64_t u = 0; u <= UINT32_MAX; u += 4093) {
        const float f = from_bits((uint32_t)u);
        assert_int_equal(mega_f32_to_f16(f), hardware_f16(f));
    }
}
#else
static void f16_agrees_with_the_processor(void **state)
{
    (void)state;
    mega_kit_skip("not an x86-64 processor");
}
#endif

static void arrays_are_like_numbers(void **state)
{
    (void)state;
    static const mega_dtype types[] = {MEGA_BF16, MEGA_F16};
    static float wide[65536];
    static uint16_t half[65536], back[65536];
    for (int t = 0; t < 2; t++)
        for (int64_t n = 65536; n > 65520; n--) { /* whole vectors, and some numbers more */
            for (uint32_t h = 0; h < 65536; h++) half[h] = (uint16_t)h;
            memset(wide, 0, sizeof wide);
            mega_half_widen(wide, half, n, types[t]);
            for (int64_t i = 0; i < 65536; i++)
                assert_true(bits(wide[i]) == (i < n ? bits(mega_half_to_f32(half[i], types[t])) : 0));
            for (int64_t i = 0; i < 65536; i++) wide[i] = from_bits((uint32_t)(i * 65539));
            memset(back, 0, sizeof back);
            mega_half_narrow(back, wide, n, types[t]);
            for (int64_t i = 0; i < 65536; i++)
                assert_true(back[i] == (i < n ? mega_f32_to_half(wide[i], types[t]) : 0));
        }
    assert_true(mega_dtype_is_half(MEGA_F16) && mega_dtype_is_half(MEGA_BF16) && !mega_dtype_is_half(MEGA_F32));
}

static void names_and_sizes(void **state)
{
    (void)state;
    static const struct {
        mega_dtype type;
        const char *name;
        size_t size;
    } rows[] = {{MEGA_F32, "f32", 4}, {MEGA_BF16, "bf16", 2}, {MEGA_F64, "f64", 8}, {MEGA_F16, "f16", 2},
                {MEGA_I32, "i32", 4}, {MEGA_I64, "i64", 8},   {MEGA_U8, "u8", 1},   {MEGA_U16, "u16", 2},
                {MEGA_I8, "i8", 1},   {MEGA_I16, "i16", 2}};
    assert_int_equal(sizeof rows / sizeof rows[0], MEGA_DTYPE_COUNT);
    for (size_t i = 0; i < MEGA_DTYPE_COUNT; i++) {
        assert_string_equal(mega_dtype_name(rows[i].type), rows[i].name);
        assert_int_equal(mega_dtype_size(rows[i].type), rows[i].size);
    }
    assert_int_equal(mega_dtype_size(MEGA_DTYPE_COUNT), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_every_value),
        cmocka_unit_test(f16_every_value),
        cmocka_unit_test(f16_agrees_with_the_processor),
        cmocka_unit_test(arrays_are_like_numbers),
        cmocka_unit_test(names_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
