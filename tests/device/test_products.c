/* Matrix products of a GPU by cuBLASLt (its stand-in): each form of a call against the plain kernel, which calls stay
 * with our own kernels, where the library is found, and what is said when a call of it fails. Each case is a process of
 * its own. */
#include "gpu.h"
#include "kit.h"
#include "megalith/cuda.h"
#include "megalith/kernels.h"
#include "software_device.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 64, NUMBERS = MOST * MOST, OPERANDS = 5, NOT_BUILT = 77 };

static mega_device *device;

static void good(mega_status st)
{
    if (st != MEGA_OK) fail_msg("%s", mega_error_message());
}

/* ---- one call ---- */

typedef struct shape {
    int64_t m, n, k, lda, ldb, ldc;
    mega_dtype dtype, c_dtype;
    bool trans_a, trans_b, accumulate, has_bias, has_residual, has_row_sum, is_first, lower;
    bool by_library;
} shape;

/* a, b, bias, residual and c, in this order, each of NUMBERS numbers of its type; row sums follow. */
static char host[OPERANDS + 1][NUMBERS * sizeof(float)], seen[NUMBERS * sizeof(float)], sums[MOST * sizeof(float)];

static mega_dtype type_of(const shape *s, int operand)
{
    return operand == OPERANDS ? MEGA_F32 : operand >= 3 ? s->c_dtype : s->dtype;
}

static void convert(void *to, mega_dtype to_type, const void *from, mega_dtype from_type, int64_t count)
{
    const mega_convert_args a = {.dst = to,
                                 .src = from,
                                 .count = count,
                                 .dst_dtype = to_type,
                                 .src_dtype = from_type,
                                 .head = {.dtype = MEGA_F32}};
    mega_kernel_of(MEGA_BACKEND_PLAIN, MEGA_KERNEL_convert)->run(NULL, &a);
}

static void fill(const shape *s)
{
    float x[NUMBERS];
    for (int o = 0; o <= OPERANDS; o++) {
        for (int i = 0; i < NUMBERS; i++) x[i] = (float)((i * 37 + o * 11) % 61) / 32 - 1;
        convert(host[o], type_of(s, o), x, MEGA_F32, o == OPERANDS ? MOST : NUMBERS);
    }
}

static mega_gemm_args call_of(const shape *s, char *const at[OPERANDS + 1])
{
    return (mega_gemm_args){.head = {.dtype = s->dtype},
                            .c = at[4],
                            .a = at[0],
                            .b = at[1],
                            .bias = s->has_bias ? at[2] : NULL,
                            .residual = s->has_residual ? at[3] : NULL,
                            .row_sum = s->has_row_sum ? at[5] : NULL,
                            .m = s->m,
                            .n = s->n,
                            .k = s->k,
                            .lda = s->lda,
                            .ldb = s->ldb,
                            .ldc = s->ldc,
                            .trans_a = s->trans_a,
                            .trans_b = s->trans_b,
                            .accumulate = s->accumulate,
                            .first_in_step = s->accumulate,
                            .c_dtype = s->c_dtype,
                            .lower = s->lower};
}

static void compare(const shape *s, const char *what, const char *wanted, const char *got, mega_dtype t, int64_t count)
{
    float w[NUMBERS], g[NUMBERS];
    const float most = t == MEGA_F32 ? 2e-6f : t == MEGA_F16 ? 1e-3f : 8e-3f;
    convert(w, MEGA_F32, wanted, t, count);
    convert(g, MEGA_F32, got, t, count);
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(w[i] - g[i]) <= most * (8 + fabsf(w[i]))))
            fail_msg("%s of %lld x %lld x %lld in %s: %g at %lld, not %g", what, (long long)s->m, (long long)s->n,
                     (long long)s->k, mega_dtype_name(s->dtype), (double)g[i], (long long)i, (double)w[i]);
}

/* Runs the call on the GPU and by the plain kernel, and compares all of c, so that nothing outside is written. */
static void check(const shape *s)
{
    const mega_step_block step = {.first_micro_batch = s->is_first};
    char *block, *plain[OPERANDS + 1], *gpu[OPERANDS + 1];
    const uint64_t before = calls_of("cublasLtMatmul");
    fill(s);
    good(mega_device_alloc(device, (void **)&block, sizeof host + 256, "a test"));
    for (int o = 0; o <= OPERANDS; o++) {
        plain[o] = host[o];
        gpu[o] = block + (size_t)o * sizeof host[0];
        mega_device_write(gpu[o], host[o], sizeof host[0]);
    }
    mega_device_write(block + sizeof host, &step, sizeof step);
    mega_gemm_args a = call_of(s, gpu);
    const mega_kernel *const kernel = mega_kernel_of(MEGA_BACKEND_CUDA, MEGA_KERNEL_gemm);
    const size_t scratch_bytes = kernel->scratch(&a, 1);
    good(mega_device_alloc(device, &a.head.scratch, scratch_bytes + 1, "scratch"));
    a.head.step = (const void *)(block + sizeof host);
    good(mega_cuda_load(device, MEGA_KERNEL_gemm, &a));
    good(kernel->prepare(&a, 1));
    kernel->run(&(mega_queue){.device = device, .first_micro_batch = s->is_first}, &a);
    mega_device_read(seen, gpu[4], sizeof seen);
    mega_device_read(sums, gpu[5], sizeof sums);
    good(mega_device_finish(device));
    assert_int_equal(calls_of("cublasLtMatmul") - before, s->by_library ? 1 : 0);
    mega_gemm_args p = call_of(s, plain);
    p.head.step = &step;
    mega_kernel_of(MEGA_BACKEND_PLAIN, MEGA_KERNEL_gemm)->run(NULL, &p);
    if (!s->lower) compare(s, "a product", host[4], seen, s->c_dtype, NUMBERS);
    compare(s, "row sums", host[5], sums, MEGA_F32, MOST);
    mega_device_free(a.head.scratch, scratch_bytes + 1);
    mega_device_free(block, sizeof host + 256);
}

/* ---- forms ---- */

static int forms_are_right(void)
{
    static const mega_dtype types[] = {MEGA_F32, MEGA_BF16, MEGA_F16};
    good(mega_cuda_open(0, &device));
    good(mega_cuda_use_library(device, MEGA_CUDA_SOFTWARE));
    char text[MEGA_CUDA_TEXT];
    assert_true(mega_cuda_library_get(device, text));
    assert_has(text, "cuBLASLt 13.0.0 (");
    for (int i = 0; i < 3 * 4 * 7; i++) {
        shape s = {.m = 24, .n = 40, .k = 16, .lda = 48, .ldb = 56, .ldc = 64, .by_library = true};
        const int form = i / 12;
        s.dtype = s.c_dtype = types[i % 3];
        s.trans_a = i / 3 % 2 != 0;
        s.trans_b = i / 6 % 2 != 0;
        s.has_bias = form == 1 || form == 3;
        s.has_residual = form == 2 || form == 3;
        s.accumulate = form >= 4 && form <= 5;
        s.is_first = form == 5;
        s.has_row_sum = s.trans_a && form >= 4;
        if (form >= 4) s.c_dtype = MEGA_F32;
        check(&s);
    }
    mega_device_close(device);
    return 0;
}

/* Rows that are not a multiple of 16 bytes apart, symmetric products, biases of another type than c. */
static int others_are_own(void)
{
    static const shape own[] = {
        {.m = 5, .n = 7, .k = 3, .lda = 3, .ldb = 7, .ldc = 7, .dtype = MEGA_F32, .c_dtype = MEGA_F32},
        {.m = 8, .n = 8, .k = 8, .lda = 12, .ldb = 16, .ldc = 16, .dtype = MEGA_BF16, .c_dtype = MEGA_BF16},
        {.m = 8, .n = 8, .k = 8, .lda = 8, .ldb = 8, .ldc = 8, .dtype = MEGA_F32, .c_dtype = MEGA_F32, .lower = true},
        {.m = 8,
         .n = 8,
         .k = 8,
         .lda = 8,
         .ldb = 8,
         .ldc = 8,
         .dtype = MEGA_F16,
         .c_dtype = MEGA_F32,
         .has_bias = true},
    };
    shape library = {.m = 8, .n = 8, .k = 8, .lda = 8, .ldb = 8, .ldc = 8, .dtype = MEGA_F32, .c_dtype = MEGA_F32};
    good(mega_cuda_open(0, &device));
    check(&library); /* before it is asked for */
    good(mega_cuda_use_library(device, "own"));
    good(mega_cuda_use_library(device, "auto")); /* the driver is no GPU's */
    check(&library);
    good(mega_cuda_use_library(device, MEGA_CUDA_SOFTWARE));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) check(&own[i]);
    library.by_library = true;
    check(&library);
    mega_device_close(device);
    return 0;
}

/* ---- failures ---- */

static int ends_with_a_message(void)
{
    float *block;
    good(mega_cuda_open(0, &device));
    mega_status st = mega_cuda_use_library(device, MEGA_CUDA_SOFTWARE);
    if (st == MEGA_OK) {
        good(mega_device_alloc(device, (void **)&block, 3 * 64 * sizeof *block, "a test"));
        const mega_gemm_args a = {.head = {.dtype = MEGA_F32},
                                  .c_dtype = MEGA_F32,
                                  .c = block,
                                  .a = block + 64,
                                  .b = block + 128,
                                  .m = 8,
                                  .n = 8,
                                  .k = 8,
                                  .lda = 8,
                                  .ldb = 8,
                                  .ldc = 8};
        mega_kernel_of(MEGA_BACKEND_CUDA, MEGA_KERNEL_gemm)->run(&(mega_queue){.device = device}, &a);
        st = mega_device_finish(device);
        assert_int_equal(mega_device_finish(device), st); /* the first failure stays */
        mega_device_free(block, 3 * 64 * sizeof *block);
    }
    assert_int_not_equal(st, MEGA_OK);
    assert_has(mega_error_message(), "cuBLASLt: ");
    assert_has(mega_error_message(), "--matmul-library own computes without it");
    mega_device_close(device);
    return 0;
}

static int a_missing_library_is_named(void)
{
    good(mega_cuda_open(0, &device));
    assert_int_not_equal(mega_cuda_use_library(device, "/nowhere/libcublasLt.so.13"), MEGA_OK);
    assert_has(mega_error_message(), "--matmul-library: /nowhere/libcublasLt.so.13");
    mega_device_close(device);
    return 0;
}

/* A wheel of a Python that is active, which has the older of two names. */
static int a_wheel_is_found(void)
{
    static const char *const names[] = {"libmega_none.so.2", "libmega_none.so.1"};
    char folder[] = "/tmp/mega_wheel_XXXXXX", path[128], command[2048], found[MEGA_CUDA_PATH];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/lib/python3.9/site-packages/nvidia/none/lib", folder);
    snprintf(command, sizeof command, "mkdir -p %s && ln -s %s %s/%s", path, MEGA_CUDA_SOFTWARE, path, names[1]);
    assert_int_equal(system(command), 0);
    setenv("VIRTUAL_ENV", "", 1);
    assert_null(mega_cuda_library_find(names, 2, found));
    setenv("VIRTUAL_ENV", folder, 1);
    assert_non_null(mega_cuda_library_find(names, 2, found));
    snprintf(command, sizeof command, "%s/%s", path, names[1]);
    assert_string_equal(found, command);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    return 0;
}

static int has_kernels(void)
{
    char text[MEGA_CUDA_TEXT];
    return mega_cuda_describe(0, text) == MEGA_OK ? 0 : NOT_BUILT;
}

static void forms(void **state)
{
    (void)state;
    assert_int_equal(in_child(NULL, NULL, forms_are_right), 0);
}

static void others(void **state)
{
    (void)state;
    assert_int_equal(in_child(NULL, NULL, others_are_own), 0);
}

static void failures(void **state)
{
    static const char *const functions[] = {"cublasLtCreate",
                                            "cublasLtMatmulPreferenceCreate",
                                            "cublasLtMatmulPreferenceSetAttribute",
                                            "cublasLtMatmulDescCreate",
                                            "cublasLtMatmulDescSetAttribute",
                                            "cublasLtMatrixLayoutCreate",
                                            "cublasLtMatmulAlgoGetHeuristic",
                                            "cublasLtMatmul"};
    (void)state;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s:1", functions[i]);
        if (in_child("MEGA_SOFTWARE_CUDA_FAIL", text, ends_with_a_message) != 0) fail_msg("%s", functions[i]);
    }
    assert_int_equal(in_child(NULL, NULL, a_missing_library_is_named), 0);
    assert_int_equal(in_child(NULL, NULL, a_wheel_is_found), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms), cmocka_unit_test(others), cmocka_unit_test(failures)};
    setenv("MEGA_CUDA_LIBRARY", MEGA_CUDA_SOFTWARE, 1);
    if (in_child(NULL, NULL, has_kernels) != 0) {
        puts("SKIPPED: the build has no kernels for GPUs");
        return NOT_BUILT;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
