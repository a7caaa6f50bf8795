/* The runner: what the names of device.h compute, the same bits whatever the order, and mistakes in the use of barriers
 * and warps that it finds itself. */
#include "kernels.h"
#include "kit.h"
#include "megalith/philox.h"
#include "runner.h"
#include <math.h>
#include <stdlib.h>

extern const device_kernel device_kernel_test_scale, device_kernel_test_row_sum, device_kernel_test_transpose,
    device_kernel_test_product_bf16, device_kernel_test_product_f16, device_kernel_test_tile_tf32,
    device_kernel_test_numbers;

static float number(unsigned i)
{
    return (float)(int)(i * 7919u % 2003u) / 1001.0f - 1.0f;
}

static const char *run(const device_kernel *k, unsigned x, unsigned y, const void *args, size_t shared)
{
    return device_run(&(device_launch){k, args, {x, y, 1}, shared});
}

static float *numbers(unsigned count)
{
    float *x = aligned_alloc(64, (count * sizeof *x + 63) / 64 * 64);
    assert_non_null(x);
    for (unsigned i = 0; i < count; i++) x[i] = number(i);
    return x;
}

static void row_sums(void **state)
{
    (void)state;
    enum { ROWS = 7, COLS = 300 };
    float *x = numbers(ROWS * COLS), y[ROWS], first[ROWS];
    for (unsigned seed = 0; seed < 8; seed++) {
        device_seed(seed);
        const row_sum_args a = {y, x, ROWS, COLS, 0};
        assert_null(run(&device_kernel_test_row_sum, 3, 1, &a, 0));
        for (int r = 0; r < ROWS; r++) {
            double sum = 0;
            for (int c = 0; c < COLS; c++) sum += (double)x[r * COLS + c];
            assert_float_equal(y[r], sum, 1e-4);
        }
        if (seed == 0) memcpy(first, y, sizeof y);
        assert_memory_equal(first, y, sizeof y);
    }
    free(x);
}

static uint16_t half(float f, bool is_f16)
{
    return (uint16_t)(is_f16 ? f16_pair(f, 0) : bf16_pair(f, 0));
}

static void check_product(const device_kernel *k, bool is_f16)
{
    enum { M = 64, N = 128, K = 96 };
    static uint16_t a[M * K] __attribute__((aligned(16))), b[N * K] __attribute__((aligned(16)));
    static float c[M * N], first[M * N];
    for (unsigned i = 0; i < M * K; i++) a[i] = half(number(i), is_f16);
    for (unsigned i = 0; i < N * K; i++) b[i] = half(number(i + 5), is_f16);
    for (unsigned seed = 0; seed < 4; seed++) {
        device_seed(seed);
        const product_args args = {c, a, b, M, N, K, 0};
        assert_null(run(k, N / 64, M / 64, &args, 0));
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                double sum = 0;
                for (int l = 0; l < K; l++) {
                    const uint32_t x = a[i * K + l], y = b[j * K + l];
                    sum += is_f16 ? (double)f16_low(x) * (double)f16_low(y) : (double)bf16_low(x) * (double)bf16_low(y);
                }
                assert_float_equal(c[i * N + j], sum, 1e-5);
            }
        if (seed == 0) memcpy(first, c, sizeof c);
        assert_memory_equal(first, c, sizeof c);
    }
}

static void products(void **state)
{
    (void)state;
    check_product(&device_kernel_test_product_bf16, false);
    check_product(&device_kernel_test_product_f16, true);
    float *a = numbers(16 * 8), *b = numbers(8 * 8), d[16 * 8];
    const tile_args args = {d, a, b};
    assert_null(run(&device_kernel_test_tile_tf32, 1, 1, &args, 0));
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            double sum = 0;
            for (int k = 0; k < 8; k++)
                sum += (double)bits_float(tf32_round(a[i * 8 + k])) * (double)bits_float(tf32_round(b[j * 8 + k]));
            assert_float_equal(d[i * 8 + j], sum, 1e-6);
        }
    free(a);
    free(b);
}

static void transposed(void **state)
{
    (void)state;
    float *x = numbers(1024), y[1024];
    const transpose_args a = {y, x, 0};
    assert_null(run(&device_kernel_test_transpose, 1, 1, &a, 32 * 33 * 4));
    for (int r = 0; r < 32; r++)
        for (int c = 0; c < 32; c++) assert_float_equal(y[r * 32 + c], x[c * 32 + r], 0);
    assert_has(run(&device_kernel_test_transpose, 1, 1, &a, 100), "SHARED_DYNAMIC of 4224 bytes");
    free(x);
}

static void number_functions(void **state)
{
    (void)state;
    float *x = numbers(32), y[32 * 12], sum = 0, most = x[0];
    x[7] = 1e-4f;
    x[8] = 0.25f;
    for (int i = 0; i < 32; i++) sum += x[i], most = fmaxf(most, x[i]);
    const scale_args a = {y, x, 0, 0, 32, 0};
    assert_null(run(&device_kernel_test_numbers, 1, 1, &a, 0));
    for (int i = 0; i < 32; i++) {
        const float *v = y + i * 12;
        assert_float_equal(v[0] / tanhf(x[i]), 1, 5e-7);
        assert_float_equal(v[1], x[i], 0x1p-12);
        assert_float_equal(v[2], x[i], 0x1p-9);
        assert_float_equal(v[3], sum, 1e-5);
        assert_float_equal(v[4], most, 0);
        assert_float_equal(v[5], x[31 - i], 0);
        assert_float_equal(v[6] * 0x1p30f, sum, 1e-5);
        assert_float_equal(v[7], fabsf(x[i]) / 2, 1e-6);
        assert_float_equal(v[8], 1, 1e-6);
        assert_float_equal(v[9], x[i], 0x1p-11);
        assert_float_equal(v[10], x[i], 0);
        const mega_philox p = mega_philox4x32((mega_philox){{(uint32_t)i, 1, 2, 3}}, 4, 5);
        assert_float_equal(v[11], (float)(p.v[2] >> 8), 0);
    }
    free(x);
}

/* All numbers of f16: from 16 bits to f32 and back. */
static void half_numbers(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        const float f = f16_low(h);
        if ((h & 0x7fff) > 0x7c00) assert_true(isnan(f));
        else
            assert_int_equal(f16_pair(f, 0), h);
    }
    assert_int_equal(f16_pair(65519.0f, 65520.0f), 0x7c007bff);
    assert_int_equal(f16_pair(1.00048828125f, 1.00146484375f), 0x3c023c00); /* ties go to the even one */
    assert_int_equal(f16_pair(0x1p-25f, 0x1.8p-24f), 0x00020000);
    assert_int_equal(bf16_pair(1.00390625f, -1.01171875f), 0xbf823f80);
}

static void mistakes(void **state)
{
    (void)state;
    float *x = numbers(1024), y[1024];
    row_sum_args a = {y, x, 2, 64, ROW_SUM_HALF_BARRIER};
    assert_has(run(&device_kernel_test_row_sum, 1, 1, &a, 0), "at the barrier of line");
    a.mistake = ROW_SUM_ALONE;
    assert_has(run(&device_kernel_test_row_sum, 1, 1, &a, 0), "threads wait for ever: thread 0");
    a.mistake = 0; /* the runner is whole after a mistake */
    assert_null(run(&device_kernel_test_row_sum, 1, 1, &a, 0));
    const scale_args s = {y + 1, x, 1, 0, 64, 0};
    assert_has(run(&device_kernel_test_scale, 1, 1, &s, 0), "no multiple of 16");
    const device_kernel odd = {"odd", device_kernel_test_scale.call, sizeof(scale_args), 48};
    assert_has(run(&odd, 1, 1, &s, 0), "48 threads, expected a multiple of 32");
    free(x);
}

/* With blocks on several threads of the process, the threads of a block take turns in the same order, so the same
 * mistakes are found. */
static void several_threads(void **state)
{
    (void)state;
    enum { ROWS = 200, COLS = 40 };
    float *x = numbers(ROWS * COLS), y[ROWS], first[ROWS];
    char said[400] = "";
    for (int threads = 1; threads <= 4; threads++) {
        device_threads(threads);
        row_sum_args a = {y, x, ROWS, COLS, 0};
        for (unsigned seed = 0; seed < 4; seed++) {
            device_seed(seed);
            memset(y, 0, sizeof y);
            assert_null(run(&device_kernel_test_row_sum, ROWS, 1, &a, 0));
            if (threads == 1 && seed == 0) memcpy(first, y, sizeof y);
            assert_memory_equal(first, y, sizeof y);
        }
        a.mistake = ROW_SUM_HALF_BARRIER;
        device_seed(1);
        const char *error = run(&device_kernel_test_row_sum, ROWS, 1, &a, 0);
        assert_non_null(error);
        if (threads == 1) strcpy(said, error);
        assert_string_equal(error, said);
    }
    device_threads(1);
    free(x);
}

/* Threads that wait for nobody need no fibers of their own. */
static void few_switches(void **state)
{
    (void)state;
    enum { COUNT = 64 * 4 * 16 };
    float *x = numbers(COUNT);
    const scale_args a = {x, x, 2, 0, COUNT, 0};
    const uint64_t before = device_switches();
    assert_null(run(&device_kernel_test_scale, 16, 1, &a, 0));
    assert_int_equal(device_switches() - before, 16 * 2); /* to a fiber and back, for each block */
    assert_float_equal(x[COUNT - 1], 2 * number(COUNT - 1), 0);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_sums),         cmocka_unit_test(products),     cmocka_unit_test(transposed),
        cmocka_unit_test(number_functions), cmocka_unit_test(half_numbers), cmocka_unit_test(mistakes),
        cmocka_unit_test(several_threads),  cmocka_unit_test(few_switches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
