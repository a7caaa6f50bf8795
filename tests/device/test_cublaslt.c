/* The stand-in for cuBLASLt: products of each type and transposition with bias and addition, against loops; what it
 * refuses; its place in the order of streams. */
#include "cublaslt_calls.h"
#include "kit.h"
#include "number.h"
#include "software.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define X(name, symbol, params) cublas_status symbol params;
MEGA_CUBLASLT_FUNCTIONS(X)
#undef X

enum { M = 24, N = 16, K = 32, WORKSPACE = 1024 };

static cublaslt_handle handle;
static cu_stream stream;
static cu_address memory, at_a, at_b, at_c, at_bias, at_work;
static char *host;

static int begin(void **state)
{
    cu_context context = NULL;
    (void)state;
    setenv("MEGA_SOFTWARE_CUDA_MEMORY", "1000000", 1);
    assert_int_equal(cuInit(0), CU_OK);
    watch_forget(true);
    software_reset(3);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CU_OK);
    assert_int_equal(cuCtxSetCurrent(context), CU_OK);
    assert_int_equal(cuStreamCreate(&stream, CU_NON_BLOCKING), CU_OK);
    assert_int_equal(cuMemAlloc_v2(&memory, 5 * 8192), CU_OK);
    assert_int_equal(cuMemHostAlloc((void **)&host, 5 * 8192, 0), CU_OK);
    at_a = memory;
    at_b = memory + 8192;
    at_c = memory + 2 * 8192;
    at_bias = memory + 3 * 8192;
    at_work = memory + 4 * 8192;
    assert_int_equal(cublasLtCreate(&handle), CUBLAS_OK);
    return 0;
}

static double number(unsigned i, unsigned seed)
{
    return (double)((i * 37 + seed * 11) % 17) / 8 - 1;
}

static cublaslt_matrix matrix(unsigned type, uint64_t rows, uint64_t cols)
{
    cublaslt_matrix m = NULL;
    assert_int_equal(cublasLtMatrixLayoutCreate(&m, type, rows, cols, (int64_t)rows), CUBLAS_OK);
    return m;
}

static cublaslt_product product(int32_t ta, int32_t tb, bool has_bias)
{
    cublaslt_product p = NULL;
    const uint32_t epilogue = CUBLASLT_BIAS;
    assert_int_equal(cublasLtMatmulDescCreate(&p, CUBLAS_SUM_F32, CUBLAS_F32), CUBLAS_OK);
    assert_int_equal(cublasLtMatmulDescSetAttribute(p, CUBLASLT_TRANSPOSE_A, &ta, sizeof ta), CUBLAS_OK);
    assert_int_equal(cublasLtMatmulDescSetAttribute(p, CUBLASLT_TRANSPOSE_B, &tb, sizeof tb), CUBLAS_OK);
    if (!has_bias) return p;
    assert_int_equal(cublasLtMatmulDescSetAttribute(p, CUBLASLT_EPILOGUE, &epilogue, sizeof epilogue), CUBLAS_OK);
    assert_int_equal(cublasLtMatmulDescSetAttribute(p, CUBLASLT_BIAS_POINTER, &at_bias, sizeof at_bias), CUBLAS_OK);
    return p;
}

static void inputs(uint32_t type)
{
    for (unsigned i = 0; i < M * K; i++) number_set(host, type, i, number(i, 1));
    for (unsigned i = 0; i < N * K; i++) number_set(host + 8192, type, i, number(i, 2));
    for (unsigned i = 0; i < M * N; i++) number_set(host + 2 * 8192, type, i, number(i, 3));
    for (unsigned i = 0; i < M; i++) number_set(host + 3 * 8192, type, i, number(i, 4));
    assert_int_equal(cuMemcpyHtoDAsync_v2(memory, host, 4 * 8192, stream), CU_OK);
    assert_int_equal(cuStreamSynchronize(stream), CU_OK);
}

static void *pointer(cu_address at)
{
    return (void *)(uintptr_t)at;
}

static void check(unsigned type, uint32_t number_type, int ta, int tb, float beta, bool has_bias)
{
    cublaslt_matrix a = ta ? matrix(type, K, M) : matrix(type, M, K), b = tb ? matrix(type, N, K) : matrix(type, K, N);
    cublaslt_matrix c = matrix(type, M, N);
    cublaslt_product p = product(ta, tb, has_bias);
    cublaslt_preference preference = NULL;
    cublaslt_choice choice;
    const uint64_t bytes = WORKSPACE;
    const float alpha = 0.5f;
    int count = 0;
    inputs(number_type);
    assert_int_equal(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_OK);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_WORKSPACE_BYTES, &bytes, sizeof bytes);
    assert_int_equal(cublasLtMatmulAlgoGetHeuristic(handle, p, a, b, c, c, preference, 1, &choice, &count), CUBLAS_OK);
    assert_true(count == 1 && choice.workspace_bytes <= WORKSPACE);
    assert_int_equal(cublasLtMatmul(handle, p, &alpha, pointer(at_a), a, pointer(at_b), b, &beta, pointer(at_c), c,
                                    pointer(at_c), c, &choice.algorithm, pointer(at_work), WORKSPACE, stream),
                     CUBLAS_OK);
    assert_int_equal(cuMemcpyDtoHAsync_v2(host, at_c, 8192 / 2, stream), CU_OK);
    assert_int_equal(cuStreamSynchronize(stream), CU_OK);
    for (unsigned m = 0; m < M; m++)
        for (unsigned n = 0; n < N; n++) {
            double sum = 0;
            for (unsigned k = 0; k < K; k++)
                sum += number(ta ? m * K + k : k * M + m, 1) * number(tb ? k * N + n : n * K + k, 2);
            sum = 0.5 * sum + (double)beta * number(n * M + m, 3) + (has_bias ? number(m, 4) : 0);
            assert_true(fabs(number_get(host, number_type, n * M + m) - sum) <= 4e-3 * (1 + fabs(sum)));
        }
    cublasLtMatrixLayoutDestroy(a);
    cublasLtMatrixLayoutDestroy(b);
    cublasLtMatrixLayoutDestroy(c);
    cublasLtMatmulDescDestroy(p);
    cublasLtMatmulPreferenceDestroy(preference);
}

static void values(void **state)
{
    (void)state;
    for (int ta = 0; ta < 2; ta++)
        for (int tb = 0; tb < 2; tb++) {
            check(CUBLAS_F32, NCCL_F32, ta, tb, 0, false);
            check(CUBLAS_BF16, NCCL_BF16, ta, tb, 1, false);
            check(CUBLAS_F16, NCCL_F16, ta, tb, 1, true);
        }
    assert_int_equal(watch_reports(), 0);
}

static cublas_status multiply(cublaslt_product p, cu_address at, cublaslt_matrix a, cublaslt_matrix b,
                              cublaslt_matrix c, cu_stream s)
{
    const float one = 1, zero = 0;
    return cublasLtMatmul(handle, p, &one, pointer(at), a, pointer(at_b), b, &zero, pointer(at_c), c, pointer(at_c), c,
                          NULL, NULL, 0, s);
}

static void refusals_and_order(void **state)
{
    (void)state;
    cublaslt_matrix a = matrix(CUBLAS_F32, M, K), b = matrix(CUBLAS_F32, K, N), c = matrix(CUBLAS_F32, M, N),
                    odd = NULL;
    cublaslt_product p = product(0, 0, false);
    cu_stream other = NULL;
    inputs(NCCL_F32);
    assert_int_equal(multiply(p, at_a, a, a, c, stream), CUBLAS_INVALID_VALUE);
    assert_int_equal(multiply(p, at_a + 4, a, b, c, stream), CUBLAS_NOT_SUPPORTED);
    assert_int_equal(cublasLtMatrixLayoutCreate(&odd, CUBLAS_F32, M, K, M - 1), CUBLAS_INVALID_VALUE);
    assert_int_equal(cublasLtMatrixLayoutCreate(&odd, CUBLAS_F32, M, K, M + 1), CUBLAS_OK);
    assert_int_equal(multiply(p, at_a, odd, b, c, stream), CUBLAS_NOT_SUPPORTED);
    assert_int_equal(multiply(p, at_a, a, b, c, stream), CUBLAS_OK);
    assert_int_equal(cuStreamSynchronize(stream), CU_OK);
    assert_int_equal(watch_reports(), 0);
    assert_int_equal(cuStreamCreate(&other, CU_NON_BLOCKING), CU_OK);
    assert_int_equal(cuMemsetD8Async(at_b, 0, 4 * K * N, other), CU_OK); /* no event between them */
    assert_int_equal(multiply(p, at_a, a, b, c, stream), CUBLAS_OK);
    assert_int_equal(cuCtxSynchronize(), CU_OK);
    assert_has(watch_first_report(), "no event orders it after a");
}

/* Every call fails in turn, and what is destroyed is refused. */
static bool product_runs(void)
{
    cublaslt_handle h = NULL;
    cublaslt_product p = NULL;
    cublaslt_matrix a = NULL;
    cublaslt_preference preference = NULL;
    cublaslt_choice choice;
    const int32_t transpose = CUBLASLT_TRANSPOSE, batches = 1;
    const uint64_t bytes = WORKSPACE;
    const float one = 1, zero = 0;
    int count = 0;
    if (cublasLtCreate(&h) != CUBLAS_OK) return false;
    bool is_ok =
        cublasLtMatmulDescCreate(&p, CUBLAS_SUM_F32, CUBLAS_F32) == CUBLAS_OK &&
        cublasLtMatmulDescSetAttribute(p, CUBLASLT_TRANSPOSE_A, &transpose, sizeof transpose) == CUBLAS_OK &&
        cublasLtMatrixLayoutCreate(&a, CUBLAS_F32, 16, 16, 16) == CUBLAS_OK &&
        cublasLtMatrixLayoutSetAttribute(a, CUBLASLT_BATCH_COUNT, &batches, sizeof batches) == CUBLAS_OK &&
        cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_OK &&
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_WORKSPACE_BYTES, &bytes, sizeof bytes) == CUBLAS_OK &&
        cublasLtMatmulAlgoGetHeuristic(h, p, a, a, a, a, preference, 1, &choice, &count) == CUBLAS_OK &&
        cublasLtMatmul(h, p, &one, pointer(at_a), a, pointer(at_b), a, &zero, pointer(at_c), a, pointer(at_c), a,
                       &choice.algorithm, pointer(at_work), WORKSPACE, stream) == CUBLAS_OK &&
        cuStreamSynchronize(stream) == CU_OK;
    is_ok = is_ok && cublasLtMatrixLayoutDestroy(a) == CUBLAS_OK &&
            cublasLtMatrixLayoutDestroy(a) == CUBLAS_INVALID_VALUE &&
            cublasLtMatmulAlgoGetHeuristic(h, p, a, a, a, a, preference, 1, &choice, &count) == CUBLAS_INVALID_VALUE;
    return is_ok && cublasLtMatmulDescDestroy(p) == CUBLAS_OK &&
           cublasLtMatmulPreferenceDestroy(preference) == CUBLAS_OK && cublasLtDestroy(h) == CUBLAS_OK &&
           cublasLtDestroy(h) == CUBLAS_INVALID_VALUE;
}

static void failing_calls(void **state)
{
    static const char *const functions[] = {"cublasLtCreate",
                                            "cublasLtMatmulDescCreate",
                                            "cublasLtMatmulDescSetAttribute",
                                            "cublasLtMatrixLayoutCreate",
                                            "cublasLtMatrixLayoutSetAttribute",
                                            "cublasLtMatmulPreferenceCreate",
                                            "cublasLtMatmulPreferenceSetAttribute",
                                            "cublasLtMatmulAlgoGetHeuristic",
                                            "cublasLtMatmul",
                                            "cublasLtMatrixLayoutDestroy",
                                            "cublasLtMatmulDescDestroy",
                                            "cublasLtMatmulPreferenceDestroy",
                                            "cublasLtDestroy"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        char text[60];
        snprintf(text, sizeof text, "%s:%d", functions[i], i == 0 ? 2 : 1); /* `begin` makes a handle too */
        setenv("MEGA_SOFTWARE_CUDA_FAIL", text, 1);
        assert_int_equal(begin(state), 0);
        unsetenv("MEGA_SOFTWARE_CUDA_FAIL");
        inputs(NCCL_F32);
        assert_false(product_runs());
        assert_true(product_runs()); /* it was that call alone */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(values, begin),
                                       cmocka_unit_test_setup(refusals_and_order, begin),
                                       cmocka_unit_test(failing_calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
