/* Compares fast kernels with the plain kernels, which compute in double, on numbers that fit a float but whose squares,
 * sums or factors do not. */
#include "kit.h"
#include "megalith/kernels.h"
#include "megalith/memory.h"
#include "megalith/philox.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { GROUPS = 2, ROWS = 300, COLS = 5, ALL = GROUPS * ROWS * COLS };

/* Returns a pseudo-random number in [-1, 1) for each index. */
static float noise(int i, uint32_t what)
{
    const mega_philox r = mega_philox4x32((mega_philox){{(uint32_t)i, what, 0, 0}}, 3, 4);
    return (float)((double)r.v[0] / 2147483648.0 - 1.0);
}

static void run(const mega_kernel *k, void *args, mega_kernel_head *head)
{
    void *scratch = NULL;
    const size_t bytes = k->scratch == NULL ? 0 : k->scratch(args, 1);
    if (bytes > 0) assert_int_equal(mega_pages_alloc(&scratch, bytes, "scratch"), MEGA_OK);
    head->dtype = MEGA_F32;
    head->scratch = scratch;
    k->run(NULL, args);
    if (bytes > 0) mega_pages_free(scratch, bytes);
}

/* Checks that `found` differs from `expected` by at most `tolerance` times the largest expected number. */
static void expect_near(const char *what, const float *found, const float *expected, int n, double tolerance)
{
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs((double)expected[i]));
    for (int i = 0; i < n; i++)
        if (found[i] != expected[i] && !(fabs((double)found[i] - (double)expected[i]) <= tolerance * most))
            fail_msg("%s, element %d: %.9g, by the definition %.9g", what, i, (double)found[i], (double)expected[i]);
}

typedef struct norm {
    float y[ALL], mean[GROUPS * COLS], var[GROUPS * COLS], dx[ALL], dgain[COLS], dbias[COLS], fixed[ALL];
} norm;

static void run_norm(norm *out, bool plain, const float *x, const float *dy, const float *gain, double eps)
{
    static const float bias[COLS] = {0.5f, -0.25f, 0, 1, 2};
    memset(out, 0, sizeof *out);
    mega_batch_norm_args a = {.y = out->y,
                              .mean = out->mean,
                              .var = out->var,
                              .x = x,
                              .gain = gain,
                              .bias = bias,
                              .groups = GROUPS,
                              .rows = ROWS,
                              .cols = COLS,
                              .eps = eps};
    mega_batch_norm_grad_args g = {.dx = out->dx,
                                   .dgain = out->dgain,
                                   .dbias = out->dbias,
                                   .dy = dy,
                                   .x = x,
                                   .mean = out->mean,
                                   .var = out->var,
                                   .gain = gain,
                                   .groups = GROUPS,
                                   .rows = ROWS,
                                   .cols = COLS,
                                   .eps = eps};
    mega_batch_norm_fixed_args f = {.y = out->fixed,
                                    .x = x,
                                    .gain = gain,
                                    .bias = bias,
                                    .mean = out->mean,
                                    .var = out->var,
                                    .rows = ROWS * GROUPS,
                                    .cols = COLS,
                                    .eps = eps,
                                    .stats = MEGA_F32};
    run(plain ? &mega_plain_batch_norm : &mega_cpu_batch_norm, &a, &a.head);
    run(plain ? &mega_plain_batch_norm_grad : &mega_cpu_batch_norm_grad, &g, &g.head);
    run(plain ? &mega_plain_batch_norm_fixed : &mega_cpu_batch_norm_fixed, &f, &f.head);
}

static void compare_norms(const char *what, const float *x, double eps)
{
    static norm found, expected;
    float dy[ALL], gain[COLS];
    for (int i = 0; i < ALL; i++) dy[i] = noise(i, 2);
    for (int c = 0; c < COLS; c++) gain[c] = 1.0f + 0.1f * (float)c;
    run_norm(&expected, true, x, dy, gain, eps);
    run_norm(&found, false, x, dy, gain, eps);
    expect_near(what, found.y, expected.y, ALL, 1e-6);
    expect_near(what, found.mean, expected.mean, GROUPS * COLS, 1e-6);
    expect_near(what, found.var, expected.var, GROUPS * COLS, 1e-6);
    expect_near(what, found.dx, expected.dx, ALL, 1e-5);
    expect_near(what, found.dgain, expected.dgain, COLS, 1e-5);
    expect_near(what, found.dbias, expected.dbias, COLS, 1e-5);
    expect_near(what, found.fixed, expected.fixed, ALL, 1e-6);
}

static void batch_norm_over_the_range_of_float(void **state)
{
    (void)state;
    static const float size[] = {3e19f, 1e30f, 1e-20f, 1.0f}, mean[] = {0, 0, 0, 1000.0f};
    float x[ALL];
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < ALL; i++) x[i] = mean[k] + size[k] * noise(i, 1);
        compare_norms(k == 0 ? "squares above float" : k == 1 ? "1e30" : k == 2 ? "1e-20" : "a mean of 1000", x, 1e-5);
    }
    for (int i = 0; i < ALL; i++) x[i] = 2e38f * (float)(i / COLS % 2 == 0 ? 1 : -1); /* differences overflow */
    compare_norms("2e38", x, 1e-5);
    for (int i = 0; i < ALL; i++) x[i] = 7; /* no variance, and an epsilon with a small root */
    compare_norms("no variance", x, FLT_MIN);
}

/* Checks the values themselves, not only that both kernels agree: of two values, one becomes -1 and the other 1. */
static void batch_norm_of_two_values(void **state)
{
    (void)state;
    static norm found;
    float x[ALL], dy[ALL] = {0};
    const float gain[COLS] = {1, 1, 1, 1, 1};
    for (int i = 0; i < ALL; i++) x[i] = i / COLS % 2 == 0 ? 0 : 9e19f;
    run_norm(&found, false, x, dy, gain, 1e-5);
    assert_true(fabs((double)found.y[0] + 0.5) < 1e-6 && fabs((double)found.y[COLS] - 1.5) < 1e-6);
}

static void mean_pool_near_the_end_of_float(void **state)
{
    (void)state;
    enum { H = 4, W = 4, C = 3, N = H * W * C };
    float x[N], found[N], expected[N];
    const mega_windows w = {.height = H, .width = W, .size = 2, .stride = 1, .padding = 0};
    for (int i = 0; i < N; i++) x[i] = 3e38f * noise(i, 4);
    for (int c = 0; c < 2 * C; c++) x[c] = 3e38f;
    x[W * C] = x[W * C + C] = 3e38f;
    mega_mean_pool2d_args a = {.y = expected, .x = x, .windows = w, .samples = 1, .channels = C};
    run(&mega_plain_mean_pool2d, &a, &a.head);
    a.y = found;
    run(&mega_cpu_mean_pool2d, &a, &a.head);
    assert_true(expected[0] == 3e38f);
    expect_near("mean_pool2d", found, expected, (H - 1) * (W - 1) * C, 1e-6);
    mega_mean_pool2d_grad_args g = {.dx = expected, .dy = x, .windows = w, .samples = 1, .channels = C};
    for (int i = 0; i < (H - 1) * (W - 1) * C; i++) x[i] = 3e38f; /* a pixel in four windows gets four quarters */
    run(&mega_plain_mean_pool2d_grad, &g, &g.head);
    g.dx = found;
    run(&mega_cpu_mean_pool2d_grad, &g, &g.head);
    assert_true(isfinite(expected[(W + 1) * C]));
    expect_near("mean_pool2d_grad", found, expected, N, 1e-6);
}

static void factors_that_float_does_not_hold(void **state)
{
    (void)state;
    static const double factor[] = {1e300, -1e39, 1e-46, 1e-40, 0.1, 0};
    const float x[5] = {0, 1e-30f, 1, 1e38f, -3e-45f};
    float found[5], expected[5];
    for (size_t k = 0; k < sizeof factor / sizeof *factor; k++) {
        mega_convert_args a = {
            .dst = expected, .src = x, .count = 5, .dst_dtype = MEGA_F32, .src_dtype = MEGA_F32, .scale = factor[k]};
        run(&mega_plain_convert, &a, &a.head);
        a.dst = found;
        run(&mega_cpu_convert, &a, &a.head);
        for (int i = 0; i < 5; i++)
            if (found[i] != expected[i] && !(fabs(found[i] / (double)expected[i] - 1) < 1e-6))
                fail_msg("%g * %g is %g, by the definition %g", (double)x[i], factor[k], (double)found[i],
                         (double)expected[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_norm_over_the_range_of_float),
        cmocka_unit_test(batch_norm_of_two_values),
        cmocka_unit_test(mean_pool_near_the_end_of_float),
        cmocka_unit_test(factors_that_float_does_not_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
