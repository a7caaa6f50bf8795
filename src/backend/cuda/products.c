/* Matrix products by cuBLASLt: finding the library, what it is given, and the algorithm of each shape. Sums are those
 * of the type that the program asks for, never TF32, and no algorithm adds with atomics: the same bits each time. */
#include "gpu.h"
#include "megalith/log.h"
#include "megalith/memory.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALIGNED = 16 /* bytes: what tensor cores are fed with at once */ };

/* ---- the library ---- */

static mega_status load_functions(void *library, cuda_products *p)
{
    void *symbol;
#define X(member, name, params)                                                                                 \
    symbol = dlsym(library, #name);                                                                             \
    if (symbol == NULL)                                                                                         \
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,                                                                  \
                         "--matmul-library: %s has no function %s; cuBLASLt of CUDA 12 or 13 is expected, own " \
                         "computes without it",                                                                 \
                         p->path, #name);                                                                       \
    memcpy(&p->library.member, &symbol, sizeof symbol);
    MEGA_CUBLASLT_FUNCTIONS(X)
    X(version, cublasLtGetVersion, (void))
#undef X
    return MEGA_OK;
}

/* ---- failures ---- */

static mega_status products_check(cublas_status status, const char *what)
{
    static const char *const names[] = {
        [CUBLAS_NOT_INITIALIZED] = "not initialized", [CUBLAS_ALLOC_FAILED] = "no memory",
        [CUBLAS_INVALID_VALUE] = "invalid value",     [CUBLAS_EXECUTION_FAILED] = "execution failed",
        [CUBLAS_INTERNAL_ERROR] = "internal error",   [CUBLAS_NOT_SUPPORTED] = "not supported"};
    if (status == CUBLAS_OK) return MEGA_OK;
    const char *name = status < sizeof names / sizeof *names && names[status] != NULL ? names[status] : "unknown error";
    return MEGA_FAIL(status == CUBLAS_ALLOC_FAILED ? MEGA_ERR_MEMORY : MEGA_ERR_IO,
                     "cuBLASLt: %s: %s (status %u); --matmul-library own computes without it", what, name, status);
}

/* ---- opening ---- */

/* What an algorithm may take and do. */
static mega_status make_preference(cuda_products *p)
{
    const uint64_t bytes = MEGA_CUDA_PRODUCTS_BYTES;
    const uint32_t sums = CUBLASLT_REDUCTION_BY_TYPE, aligned = ALIGNED;
    static const unsigned alignments[] = {CUBLASLT_ALIGNED_A, CUBLASLT_ALIGNED_B, CUBLASLT_ALIGNED_C,
                                          CUBLASLT_ALIGNED_D};
    MEGA_TRY(products_check(p->library.preference_create(&p->preference), "a preference"));
    MEGA_TRY(products_check(p->library.preference_set(p->preference, CUBLASLT_WORKSPACE_BYTES, &bytes, sizeof bytes),
                            "the size of its workspace"));
    MEGA_TRY(products_check(p->library.preference_set(p->preference, CUBLASLT_REDUCTIONS, &sums, sizeof sums),
                            "sums without atomics"));
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++)
        MEGA_TRY(products_check(p->library.preference_set(p->preference, alignments[i], &aligned, sizeof aligned),
                                "the alignment of matrices"));
    return MEGA_OK;
}

/* A driver that is given by name has no GPU, as a rule, and the real library cannot use it. */
size_t mega_cuda_library_bytes(const char *wanted)
{
    const char *stand_in = getenv("MEGA_CUDA_LIBRARY");
    const bool is_auto = wanted != NULL && strcmp(wanted, "auto") == 0;
    if (wanted == NULL || strcmp(wanted, "own") == 0) return 0;
    return is_auto && stand_in != NULL && stand_in[0] != '\0' ? 0 : MEGA_CUDA_PRODUCTS_BYTES;
}

mega_status mega_cuda_products_open(cuda_products *p, const mega_cuda_driver *cuda, const char *wanted)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    const bool is_path = strchr(wanted, '/') != NULL, is_auto = strcmp(wanted, "auto") == 0;
    if (mega_cuda_library_bytes(wanted) == 0) return MEGA_OK;
    void *library =
        is_path ? dlopen(wanted, RTLD_NOW | RTLD_LOCAL) : mega_cuda_library_find(names, 2, p->path); /* stays loaded */
    if (library == NULL && is_auto) return MEGA_OK;
    if (library == NULL && is_path) return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "--matmul-library: %s", dlerror());
    if (library == NULL)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "--matmul-library cublaslt: neither libcublasLt.so.13 nor .12 is where the loader, the "
                         "toolkit or Python's wheels have libraries; give its path, or auto");
    if (is_path) snprintf(p->path, sizeof p->path, "%s", wanted);
    MEGA_TRY(load_functions(library, p));
    MEGA_TRY(products_check(p->library.create(&p->handle), "opening it"));
    MEGA_TRY(make_preference(p));
    MEGA_TRY(
        mega_cuda_check(cuda, cuda->memory_alloc(&p->workspace, MEGA_CUDA_PRODUCTS_BYTES), "a workspace of cuBLASLt"));
    p->is_open = true;
    return MEGA_OK;
}

static void product_free(const cuda_products *p, cuda_product *x)
{
    if (x->how != NULL) (void)p->library.product_destroy(x->how);
    for (int i = 0; i < 3; i++)
        if (x->matrix[i] != NULL) (void)p->library.matrix_destroy(x->matrix[i]);
}

void mega_cuda_products_close(cuda_products *p, const mega_cuda_driver *cuda)
{
    for (int i = 0; i < p->count; i++) product_free(p, &p->product[i]);
    mega_free(p->product);
    if (p->preference != NULL) (void)p->library.preference_destroy(p->preference);
    if (p->handle != NULL) (void)p->library.destroy(p->handle);
    if (p->workspace != 0) (void)cuda->memory_free(p->workspace);
    *p = (cuda_products){.is_open = false};
}

/* ---- what it is given ---- */

static bool is_aligned(const void *at, int64_t stride, mega_dtype t)
{
    return (uintptr_t)at % ALIGNED == 0 && (size_t)stride * mega_dtype_size(t) % ALIGNED == 0;
}

static bool is_multiplied(mega_dtype t)
{
    return t == MEGA_F32 || t == MEGA_BF16 || t == MEGA_F16;
}

/* Symmetric products stay with our kernels, which compute a half; so do biases that have another type than c. */
static bool is_taken(const mega_gemm_args *a)
{
    const mega_dtype t = a->head.dtype;
    return is_multiplied(t) && (a->c_dtype == t || a->c_dtype == MEGA_F32) && a->m > 0 && a->n > 0 && a->k > 0 &&
           a->m <= INT_MAX && a->n <= INT_MAX && a->k <= INT_MAX && !a->lower &&
           (a->bias == NULL || (a->c_dtype == t && is_aligned(a->bias, 0, t))) && is_aligned(a->a, a->lda, t) &&
           is_aligned(a->b, a->ldb, t) && is_aligned(a->c, a->ldc, a->c_dtype) &&
           is_aligned(a->residual, a->ldc, a->c_dtype);
}

static cuda_product_key product_key_of(const mega_gemm_args *a)
{
    cuda_product_key key;
    memset(&key, 0, sizeof key); /* its gaps too: keys are compared as bytes */
    key.m = a->m;
    key.n = a->n;
    key.k = a->k;
    key.lda = a->lda;
    key.ldb = a->ldb;
    key.ldc = a->ldc;
    key.dtype = a->head.dtype;
    key.c_dtype = a->c_dtype;
    key.trans_a = a->trans_a;
    key.trans_b = a->trans_b;
    key.has_bias = a->bias != NULL;
    return key;
}

static unsigned cublas_type(mega_dtype t)
{
    return t == MEGA_F32 ? CUBLAS_F32 : t == MEGA_F16 ? CUBLAS_F16 : CUBLAS_BF16;
}

static mega_status make_matrix(const cuda_products *p, cublaslt_matrix *out, mega_dtype t, int64_t rows, int64_t cols,
                               int64_t stride)
{
    return products_check(p->library.matrix_create(out, cublas_type(t), (uint64_t)rows, (uint64_t)cols, stride),
                          "a matrix");
}

/* The library has matrices by columns: our c [m, n] is its [n, m], the product of op(b) and op(a) in that order. */
static mega_status describe(const cuda_products *p, const cuda_product_key *k, cuda_product *x)
{
    const int32_t transposes[2] = {k->trans_b ? CUBLASLT_TRANSPOSE : CUBLASLT_NO_TRANSPOSE,
                                   k->trans_a ? CUBLASLT_TRANSPOSE : CUBLASLT_NO_TRANSPOSE};
    const uint32_t epilogue = k->has_bias ? CUBLASLT_BIAS : CUBLASLT_PLAIN;
    MEGA_TRY(products_check(p->library.product_create(&x->how, CUBLAS_SUM_F32, CUBLAS_F32), "a product"));
    MEGA_TRY(products_check(p->library.product_set(x->how, CUBLASLT_TRANSPOSE_A, &transposes[0], sizeof transposes[0]),
                            "a transposed matrix"));
    MEGA_TRY(products_check(p->library.product_set(x->how, CUBLASLT_TRANSPOSE_B, &transposes[1], sizeof transposes[1]),
                            "a transposed matrix"));
    MEGA_TRY(products_check(p->library.product_set(x->how, CUBLASLT_EPILOGUE, &epilogue, sizeof epilogue), "a bias"));
    MEGA_TRY(make_matrix(p, &x->matrix[0], k->dtype, k->trans_b ? k->k : k->n, k->trans_b ? k->n : k->k, k->ldb));
    MEGA_TRY(make_matrix(p, &x->matrix[1], k->dtype, k->trans_a ? k->m : k->k, k->trans_a ? k->k : k->m, k->lda));
    return make_matrix(p, &x->matrix[2], k->c_dtype, k->n, k->m, k->ldc);
}

static mega_status set_bias(const cuda_products *p, const cuda_product *x, const void *bias)
{
    if (!x->key.has_bias) return MEGA_OK;
    return products_check(p->library.product_set(x->how, CUBLASLT_BIAS_POINTER, &bias, sizeof bias), "a bias");
}

/* Describes the product of a call and asks for an algorithm; without one, our kernel computes this shape. */
static mega_status products_choose(const cuda_products *p, const mega_gemm_args *a, cuda_product *x)
{
    cublaslt_choice choice;
    int count = 0;
    MEGA_TRY(describe(p, &x->key, x));
    MEGA_TRY(set_bias(p, x, a->bias));
    const cublas_status status = p->library.choose(p->handle, x->how, x->matrix[0], x->matrix[1], x->matrix[2],
                                                   x->matrix[2], p->preference, 1, &choice, &count);
    if (status != CUBLAS_NOT_SUPPORTED) MEGA_TRY(products_check(status, "choosing an algorithm"));
    x->is_own = status != CUBLAS_OK || count < 1;
    if (x->is_own) return MEGA_OK;
    x->algorithm = choice.algorithm;
    return MEGA_OK;
}

/* Sets *out to the product of a call, which is chosen when it is first asked for; NULL: our kernel computes it. */
static mega_status products_find(cuda_products *p, const mega_gemm_args *a, const cuda_product **out)
{
    const cuda_product_key key = product_key_of(a);
    *out = NULL;
    if (!p->is_open || !is_taken(a)) return MEGA_OK;
    for (int i = 0; i < p->count; i++)
        if (memcmp(&p->product[i].key, &key, sizeof key) == 0) {
            if (!p->product[i].is_own) *out = &p->product[i];
            return MEGA_OK;
        }
    if (!mega_array_add(&p->product, p->count, sizeof *p->product)) return MEGA_NO_MEMORY("cuBLASLt", "a product");
    cuda_product *x = &p->product[p->count];
    memset(x, 0, sizeof *x);
    x->key = key;
    const mega_status st = products_choose(p, a, x);
    if (st != MEGA_OK) {
        product_free(p, x);
        return st;
    }
    p->count++;
    if (!x->is_own) *out = x;
    return MEGA_OK;
}

mega_status mega_cuda_products_load(cuda_products *p, const mega_gemm_args *a)
{
    const cuda_product *x;
    return products_find(p, a, &x);
}

mega_status mega_cuda_products_run(cuda_products *p, const mega_gemm_args *a, bool first_micro_batch, cu_stream stream,
                                   bool *is_done)
{
    const bool adds = a->accumulate && !(a->first_in_step && first_micro_batch);
    const float one = 1, more = adds || a->residual != NULL ? 1 : 0;
    const void *c = a->residual != NULL ? a->residual : a->c;
    const cuda_product *x;
    MEGA_TRY(products_find(p, a, &x));
    *is_done = x != NULL;
    if (x == NULL) return MEGA_OK;
    MEGA_TRY(set_bias(p, x, a->bias));
    return products_check(p->library.multiply(p->handle, x->how, &one, a->b, x->matrix[0], a->a, x->matrix[1], &more, c,
                                              x->matrix[2], a->c, x->matrix[2], &x->algorithm,
                                              (void *)(uintptr_t)p->workspace, MEGA_CUDA_PRODUCTS_BYTES, stream),
                          "a product");
}

/* ---- of a GPU ---- */

bool mega_cuda_gpu_multiply(mega_device *device, const mega_gemm_args *args, bool first_micro_batch)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    bool is_library = false;
    if (!g->products.is_open) return false;
    if (mega_cuda_gpu_enter(g, 1) &&
        mega_cuda_gpu_keep(g, mega_cuda_products_run(&g->products, args, first_micro_batch, g->stream, &is_library)) &&
        is_library) {
        g->last = "of cuBLASLt";
        if (g->recording != NULL) g->recording->launches++;
    }
    mega_cuda_gpu_leave(g);
    return is_library;
}

mega_status mega_cuda_use_library(mega_device *device, const char *wanted)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    if (mega_cuda_library_bytes(wanted) == 0 || g->products.is_open) return MEGA_OK;
    if (mega_cuda_gpu_enter(g, 1)) (void)mega_cuda_gpu_keep(g, mega_cuda_products_open(&g->products, &g->cuda, wanted));
    g->device.has_library = g->products.is_open;
    const mega_status st = mega_cuda_gpu_status(g);
    mega_cuda_gpu_leave(g);
    return st;
}

bool mega_cuda_library_get(mega_device *device, char text[MEGA_CUDA_TEXT])
{
    const cuda_products *p = &((const mega_cuda_gpu *)device)->products;
    if (!p->is_open) return false;
    const size_t version = p->library.version();
    snprintf(text, MEGA_CUDA_TEXT, "cuBLASLt %zu.%zu.%zu (%.120s)", version / 10000, version / 100 % 100, version % 100,
             p->path);
    return true;
}
