/* Tests of cases that the comparison of kernels (tests/ops) does not cover: masks in runs, the peak, the choice of GEMM
 * code, a team smaller than the one prepared for, and tensors that moved. */
#include "kit.h"
#include "megalith/kernels.h"
#include "megalith/memory.h"
#include "megalith/peak.h"
#include "megalith/philox.h"
#include <stdlib.h>
#include <string.h>

#define VECTOR_BYTES 16
#include "cpu/vector.h"

#include "cpu/philox_body.c"

static void test_dropout_factors(void **state)
{
    (void)state;
    const mega_step_block step = {.seed = 0xdeadbeef, .step = 70000};
    const dropout_key key = dropout_key_of(&step, 0x80000001u, 0.3);
    float buffer[MASK_BUFFER];
    /* Runs start anywhere within a counter and have any length; some elements need more than 32 bits of counters. */
    const uint64_t starts[] = {0, 1, 2, 3, 4, 7, 1022, ((uint64_t)1 << 35) - 9, (uint64_t)1 << 40};
    for (int s = 0; s < (int)(sizeof starts / sizeof starts[0]); s++)
        for (int64_t n = 0; n <= MASK_RUN; n = n < 40 ? n + 1 : n * 2 + 3) {
            const float *factor = dropout_factors(buffer, &key, 77, starts[s], n);
            for (int64_t i = 0; i < n; i++) {
                const uint64_t e = starts[s] + (uint64_t)i;
                const mega_philox r = mega_philox_dropout(step.seed, 0x80000001u, step.step, 77, e >> 3);
                const bool kept = mega_dropout_bits(r, (int)(e & 7)) >= mega_dropout_threshold(0.3);
                assert_true(factor[i] == (kept ? (float)mega_dropout_scale(0.3) : 0.0f));
            }
        }
}

static void test_peak(void **state)
{
    (void)state;
    const double one = mega_cpu_peak_flops(NULL, MEGA_F32);
    assert_true(one > 1e5 && one < 1e13);
    mega_team *team;
    assert_int_equal(mega_team_create(2, &team), MEGA_OK);
    const double two = mega_cpu_peak_flops(team, MEGA_BF16);
    assert_true(two > 1e5 && two < 1e13);
    const mega_peak peak = mega_cpu_peak_measure(team, MEGA_F32);
    assert_true(peak.flops > 1e5 && peak.share > 0 && peak.share < 1.5);
    mega_team_destroy(team);
}

static void test_description(void **state)
{
    (void)state;
    char text[64], cut[4];
    assert_ptr_equal(mega_gemm_description(text, sizeof text), text);
    assert_true(strncmp(text, "panels, ", 8) == 0 || strncmp(text, "pairs, ", 7) == 0);
    mega_gemm_description(cut, sizeof cut);
    assert_int_equal(strlen(cut), 3);
}

/* Checks c = factor * a b^T for small integers, where the result is exactly known. */
static void expect_product(const float *c, float factor)
{
    for (int m = 0; m < 40; m++)
        for (int n = 0; n < 30; n++) assert_true(c[m * 30 + n] == factor * (float)(m % 5) * (float)(n % 3) * 16.0f);
}

static void test_gemm_moves(void **state)
{
    (void)state;
    float a[2][40 * 16], b[30 * 16], c[2][40 * 30];
    for (int i = 0; i < 40 * 16; i++) a[0][i] = (float)(i / 16 % 5), a[1][i] = 2.0f * a[0][i];
    for (int i = 0; i < 30 * 16; i++) b[i] = (float)(i / 16 % 3);
    mega_gemm_args g = {.c = c[0], .a = a[0], .b = b, .m = 40, .n = 30, .k = 16, .lda = 16, .ldb = 16, .ldc = 30};
    g.trans_b = true;
    void *scratch = mega_malloc(mega_cpu_gemm.scratch(&g, 3) + 64);
    g.head.scratch = (void *)(((uintptr_t)scratch + 63) / 64 * 64);
    mega_cpu_gemm.run(NULL, &g); /* one thread, with scratch for three */
    expect_product(c[0], 1.0f);
    g.a = a[1], g.c = c[1];
    mega_cpu_gemm.run(NULL, &g);
    expect_product(c[1], 2.0f);
    expect_product(c[0], 1.0f);
    mega_free(scratch);
}

enum { KEPT_M = 40, KEPT_N = 130, KEPT_K = 1100 };

/* Runs a GEMM as micro-batch `number` of a step; if packed is NULL, no packed weights are kept between
 * micro-batches. */
static void kept_product(uint16_t *c, const uint16_t *a, const uint16_t *b, bool turned, void *packed, int number)
{
    const mega_step_block step = {.first_micro_batch = number == 0, .keeps_packed = true};
    mega_gemm_args g = {.head = {.dtype = MEGA_BF16, .step = &step, .packed = packed, .packs = true},
                        .c = c,
                        .a = a,
                        .b = b,
                        .m = KEPT_M,
                        .n = KEPT_N,
                        .k = KEPT_K,
                        .lda = KEPT_K,
                        .ldb = turned ? KEPT_K : KEPT_N,
                        .ldc = KEPT_N,
                        .trans_b = turned,
                        .c_dtype = MEGA_BF16};
    void *scratch = mega_malloc(mega_cpu_gemm.scratch(&g, 1) + 64);
    g.head.scratch = (void *)(((uintptr_t)scratch + 63) / 64 * 64);
    mega_cpu_gemm.run(NULL, &g);
    mega_free(scratch);
}

/* Later micro-batches use the weights that the first one packed, even if b has changed since. */
static void test_packed_is_kept(void **state)
{
    (void)state;
    static uint16_t a[KEPT_M * KEPT_K], b[KEPT_N * KEPT_K], c[2][KEPT_M * KEPT_N];
    for (int i = 0; i < KEPT_M * KEPT_K; i++) a[i] = mega_f32_to_bf16((float)(i * 7 % 31) - 15.0f);
    for (int turned = 0; turned < 2; turned++) {
        mega_gemm_args g = {.head.dtype = MEGA_BF16, .m = KEPT_M, .n = KEPT_N, .k = KEPT_K, .trans_b = turned == 1};
        const size_t bytes = mega_cpu_gemm.packed(&g);
        assert_true((bytes > 0) == (mega_cpu_isa() >= MEGA_ISA_AVX512_BF16));
        if (bytes == 0) continue;
        for (int i = 0; i < KEPT_N * KEPT_K; i++) b[i] = mega_f32_to_bf16((float)(i * 5 % 23) - 11.0f);
        char *block = mega_malloc(bytes + 128), *packed = (char *)(((uintptr_t)block + 63) / 64 * 64);
        memset(packed, 0x7e, bytes + 64);
        kept_product(c[0], a, b, turned == 1, NULL, 0);
        kept_product(c[1], a, b, turned == 1, packed, 0);
        assert_memory_equal(c[0], c[1], sizeof c[0]);
        memset(b, 0, sizeof b);
        memset(c[1], 0, sizeof c[1]);
        kept_product(c[1], a, b, turned == 1, packed, 1);
        assert_memory_equal(c[0], c[1], sizeof c[0]);
        for (int i = 0; i < 64; i++) assert_int_equal(packed[bytes + (size_t)i], 0x7e);
        mega_free(block);
    }
}

/* Kernels allocate nothing with mega_malloc during a run. */
static void test_run_allocates_nothing(void **state)
{
    (void)state;
    enum { M = 64, K = 32, N = 48 };
    static float a[M * K], b[N * K], c[M * N];
    mega_gemm_args g = {.c = c, .a = a, .b = b, .m = M, .n = N, .k = K, .lda = K, .ldb = K, .ldc = N, .trans_b = true};
    void *scratch = mega_malloc(mega_cpu_gemm.scratch(&g, 1) + 64);
    g.head.scratch = (void *)(((uintptr_t)scratch + 63) / 64 * 64);
    const uint64_t before = mega_alloc_count();
    mega_cpu_gemm.run(NULL, &g);
    assert_int_equal(mega_alloc_count(), before);
    mega_free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropout_factors),       cmocka_unit_test(test_peak),
        cmocka_unit_test(test_description),           cmocka_unit_test(test_gemm_moves),
        cmocka_unit_test(test_run_allocates_nothing), cmocka_unit_test(test_packed_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
