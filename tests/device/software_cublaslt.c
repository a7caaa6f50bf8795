/* libcublasLt in software: products of matrices as work in a stream, summed in double and rounded once. What the real
 * library may refuse is refused here too: addresses and strides that tensor cores cannot take, a bias without its
 * pointer. */
#include "cublaslt_calls.h"
#include "number.h"
#include "software.h"
#include <stdlib.h>

#define X(name, symbol, params) cublas_status symbol params;
MEGA_CUBLASLT_FUNCTIONS(X)
#undef X
size_t cublasLtGetVersion(void);

/* Each begins with its kind, which is 0 when it is destroyed. */
enum { LIBRARY = 0x4c69, PRODUCT, MATRIX, PREFERENCE };
struct cublasLtContext {
    unsigned magic;
};
struct cublaslt_product_data {
    unsigned magic;
    unsigned sum_type;
    int32_t transpose[2];
    uint32_t epilogue;
    const void *bias;
};
struct cublaslt_matrix_data {
    unsigned magic;
    uint32_t type; /* NCCL's */
    uint64_t rows, cols;
    int64_t stride, batch_stride;
    int32_t batches;
};
struct cublaslt_preference_data {
    unsigned magic;
    uint64_t workspace_bytes;
    uint32_t aligned[4]; /* bytes, of a, b, c and d */
};

/* One product in a stream: everything by value. */
typedef struct product_work {
    struct cublaslt_product_data product;
    struct cublaslt_matrix_data a, b, c, d;
    const char *a_at, *b_at, *c_at;
    char *d_at;
    float alpha, beta;
    char *workspace;
    size_t workspace_bytes;
} product_work;

/* ---- computing ---- */

static double element(const char *at, const struct cublaslt_matrix_data *m, int batch, uint64_t row, uint64_t col)
{
    return number_get(at, m->type, (size_t)(batch * m->batch_stride + (int64_t)row + (int64_t)col * m->stride));
}

static double operand(const char *at, const struct cublaslt_matrix_data *m, int is_transposed, int batch, uint64_t row,
                      uint64_t col)
{
    return element(at, m, batch, is_transposed ? col : row, is_transposed ? row : col);
}

static uint64_t depth_of(const product_work *w)
{
    return w->product.transpose[0] ? w->a.rows : w->a.cols;
}

/* One column of d: the operand b is read once. */
static void column_run(const product_work *w, int batch, uint64_t col, double *column)
{
    const uint64_t depth = depth_of(w);
    for (uint64_t k = 0; k < depth; k++) column[k] = operand(w->b_at, &w->b, w->product.transpose[1], batch, k, col);
    for (uint64_t row = 0; row < w->d.rows; row++) {
        double sum = 0;
        for (uint64_t k = 0; k < depth; k++)
            sum += operand(w->a_at, &w->a, w->product.transpose[0], batch, row, k) * column[k];
        sum *= (double)w->alpha;
        if (w->beta != 0) sum += (double)w->beta * element(w->c_at, &w->c, batch, row, col);
        if (w->product.epilogue == CUBLASLT_BIAS) sum += number_get(w->product.bias, w->d.type, (size_t)row);
        number_set(w->d_at, w->d.type, (size_t)(batch * w->d.batch_stride + (int64_t)row + (int64_t)col * w->d.stride),
                   sum);
    }
}

static bool product_run(void *user)
{
    const product_work *w = user;
    double *column = malloc((depth_of(w) + 1) * sizeof *column);
    if (column == NULL) abort();
    for (int batch = 0; batch < w->d.batches; batch++)
        for (uint64_t col = 0; col < w->d.cols; col++) column_run(w, batch, col, column);
    free(column);
    /* What the workspace holds afterwards is nobody's business. */
    if (w->workspace_bytes > 0) memset(w->workspace, 0xFF, w->workspace_bytes);
    return true;
}

static void matrix_note(const char *at, const struct cublaslt_matrix_data *m, bool is_write)
{
    const size_t size = number_bytes(m->type);
    for (int batch = 0; batch < m->batches; batch++)
        for (uint64_t col = 0; col < m->cols; col++)
            watch_range(at + (size_t)(batch * m->batch_stride + (int64_t)col * m->stride) * size, m->rows * size,
                        is_write);
}

static void product_note(void *user)
{
    const product_work *w = user;
    matrix_note(w->a_at, &w->a, false);
    matrix_note(w->b_at, &w->b, false);
    if (w->beta != 0) matrix_note(w->c_at, &w->c, false);
    if (w->product.epilogue == CUBLASLT_BIAS) watch_range(w->product.bias, w->d.rows * number_bytes(w->d.type), false);
    if (w->workspace_bytes > 0) watch_range(w->workspace, w->workspace_bytes, true);
    matrix_note(w->d_at, &w->d, true);
}

/* ---- what is refused ---- */

static bool is_matrix(const struct cublaslt_matrix_data *m, const char *at, size_t aligned)
{
    const size_t size = number_bytes(m->type);
    return at == NULL ||
           (software_is_device(at, m->rows * size) && (uintptr_t)at % aligned == 0 &&
            (size_t)m->stride * size % 16 == 0 && (m->batches == 1 || (size_t)m->batch_stride * size % 16 == 0));
}

static bool is_product(const product_work *w)
{
    const int32_t *t = w->product.transpose;
    const uint64_t rows = t[0] ? w->a.cols : w->a.rows, cols = t[1] ? w->b.rows : w->b.cols;
    const uint64_t depth = depth_of(w), depth_b = t[1] ? w->b.cols : w->b.rows;
    return rows == w->d.rows && cols == w->d.cols && depth == depth_b && w->c.rows == rows && w->c.cols == cols &&
           w->a.type == w->b.type && w->c.type == w->d.type && w->a.batches == w->d.batches &&
           w->b.batches == w->d.batches && w->c.batches == w->d.batches &&
           (w->product.sum_type != CUBLAS_SUM_TF32 || w->a.type == NCCL_F32) &&
           (w->product.epilogue == CUBLASLT_PLAIN || w->product.bias != NULL);
}

/* ---- functions of the library ---- */

/* Returns `error` if the call is chosen to fail. */
static cublas_status enter(const char *name, cublas_status error)
{
    if (software_fails(name)) return error;
    return software_leave(software_enter_library(true)) == CU_OK ? CUBLAS_OK : CUBLAS_INTERNAL_ERROR;
}

/* Whether a handle is one of this kind that is not destroyed. (Those that are stay where they are.) */
static bool is_handle(const char *name, const unsigned *magic, unsigned kind)
{
    if (magic != NULL && *magic == kind) return true;
    software_refuse(name, "a handle or description that does not exist, or is destroyed");
    return false;
}
#define IS(name, handle, kind) is_handle(name, (handle) != NULL ? &(handle)->magic : NULL, kind)

static cublas_status destroy(const char *name, unsigned *magic, unsigned kind)
{
    if (software_fails(name)) return CUBLAS_INTERNAL_ERROR;
    if (!is_handle(name, magic, kind)) return CUBLAS_INVALID_VALUE;
    *magic = 0;
    return CUBLAS_OK;
}
#define DESTROY(name, handle, kind) destroy(name, (handle) != NULL ? &(handle)->magic : NULL, kind)

size_t cublasLtGetVersion(void)
{
    return 130000;
}

cublas_status cublasLtCreate(cublaslt_handle *out)
{
    if (enter("cublasLtCreate", CUBLAS_NOT_INITIALIZED) != CUBLAS_OK) return CUBLAS_NOT_INITIALIZED;
    if ((*out = software_handle(sizeof **out)) == NULL) return CUBLAS_ALLOC_FAILED;
    (*out)->magic = LIBRARY;
    return CUBLAS_OK;
}

cublas_status cublasLtDestroy(cublaslt_handle handle)
{
    return DESTROY("cublasLtDestroy", handle, LIBRARY);
}

cublas_status cublasLtMatmulDescCreate(cublaslt_product *out, unsigned sum_type, unsigned scale_type)
{
    const cublas_status s = enter("cublasLtMatmulDescCreate", CUBLAS_ALLOC_FAILED);
    if (s != CUBLAS_OK) return s;
    if ((sum_type != CUBLAS_SUM_F32 && sum_type != CUBLAS_SUM_TF32) || scale_type != CUBLAS_F32)
        return CUBLAS_NOT_SUPPORTED;
    if ((*out = software_handle(sizeof **out)) == NULL) return CUBLAS_ALLOC_FAILED;
    (*out)->magic = PRODUCT;
    (*out)->sum_type = sum_type;
    (*out)->epilogue = CUBLASLT_PLAIN;
    return CUBLAS_OK;
}

cublas_status cublasLtMatmulDescDestroy(cublaslt_product product)
{
    return DESTROY("cublasLtMatmulDescDestroy", product, PRODUCT);
}

static cublas_status take(void *to, size_t size, const void *value, size_t bytes)
{
    if (bytes != size) return CUBLAS_INVALID_VALUE;
    memcpy(to, value, size);
    return CUBLAS_OK;
}

cublas_status cublasLtMatmulDescSetAttribute(cublaslt_product product, unsigned attribute, const void *value,
                                             size_t bytes)
{
    if (software_fails("cublasLtMatmulDescSetAttribute")) return CUBLAS_INTERNAL_ERROR;
    if (!IS("cublasLtMatmulDescSetAttribute", product, PRODUCT)) return CUBLAS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_TRANSPOSE_A: return take(&product->transpose[0], 4, value, bytes);
    case CUBLASLT_TRANSPOSE_B: return take(&product->transpose[1], 4, value, bytes);
    case CUBLASLT_EPILOGUE: return take(&product->epilogue, 4, value, bytes);
    case CUBLASLT_BIAS_POINTER: return take(&product->bias, sizeof product->bias, value, bytes);
    default: return CUBLAS_NOT_SUPPORTED;
    }
}

cublas_status cublasLtMatrixLayoutCreate(cublaslt_matrix *out, unsigned type, uint64_t rows, uint64_t cols,
                                         int64_t stride)
{
    const cublas_status s = enter("cublasLtMatrixLayoutCreate", CUBLAS_ALLOC_FAILED);
    if (s != CUBLAS_OK) return s;
    if (stride < (int64_t)rows) return CUBLAS_INVALID_VALUE;
    if (type != CUBLAS_F32 && type != CUBLAS_F16 && type != CUBLAS_BF16) return CUBLAS_NOT_SUPPORTED;
    if ((*out = software_handle(sizeof **out)) == NULL) return CUBLAS_ALLOC_FAILED;
    const unsigned number = type == CUBLAS_F32 ? NCCL_F32 : type == CUBLAS_F16 ? NCCL_F16 : NCCL_BF16;
    **out = (struct cublaslt_matrix_data){MATRIX, number, rows, cols, stride, 0, 1};
    return CUBLAS_OK;
}

cublas_status cublasLtMatrixLayoutDestroy(cublaslt_matrix matrix)
{
    return DESTROY("cublasLtMatrixLayoutDestroy", matrix, MATRIX);
}

cublas_status cublasLtMatrixLayoutSetAttribute(cublaslt_matrix matrix, unsigned attribute, const void *value,
                                               size_t bytes)
{
    if (software_fails("cublasLtMatrixLayoutSetAttribute")) return CUBLAS_INTERNAL_ERROR;
    if (!IS("cublasLtMatrixLayoutSetAttribute", matrix, MATRIX)) return CUBLAS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_BATCH_COUNT: return take(&matrix->batches, 4, value, bytes);
    case CUBLASLT_BATCH_STRIDE: return take(&matrix->batch_stride, 8, value, bytes);
    default: return CUBLAS_NOT_SUPPORTED;
    }
}

cublas_status cublasLtMatmulPreferenceCreate(cublaslt_preference *out)
{
    const cublas_status s = enter("cublasLtMatmulPreferenceCreate", CUBLAS_ALLOC_FAILED);
    if (s != CUBLAS_OK) return s;
    if ((*out = software_handle(sizeof **out)) == NULL) return CUBLAS_ALLOC_FAILED;
    (*out)->magic = PREFERENCE;
    for (int i = 0; i < 4; i++) (*out)->aligned[i] = 256;
    return CUBLAS_OK;
}

cublas_status cublasLtMatmulPreferenceDestroy(cublaslt_preference preference)
{
    return DESTROY("cublasLtMatmulPreferenceDestroy", preference, PREFERENCE);
}

cublas_status cublasLtMatmulPreferenceSetAttribute(cublaslt_preference preference, unsigned attribute,
                                                   const void *value, size_t bytes)
{
    uint32_t reductions; /* how partial sums are added: no difference here */
    if (software_fails("cublasLtMatmulPreferenceSetAttribute")) return CUBLAS_INTERNAL_ERROR;
    if (!IS("cublasLtMatmulPreferenceSetAttribute", preference, PREFERENCE)) return CUBLAS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_WORKSPACE_BYTES: return take(&preference->workspace_bytes, 8, value, bytes);
    case CUBLASLT_REDUCTIONS: return take(&reductions, sizeof reductions, value, bytes);
    case CUBLASLT_ALIGNED_A:
    case CUBLASLT_ALIGNED_B:
    case CUBLASLT_ALIGNED_C:
    case CUBLASLT_ALIGNED_D: return take(&preference->aligned[attribute - CUBLASLT_ALIGNED_A], 4, value, bytes);
    default: return CUBLAS_NOT_SUPPORTED;
    }
}

/* Whether all that describes a product is there. */
static bool are_handles(const char *name, cublaslt_handle handle, cublaslt_product product, cublaslt_matrix a,
                        cublaslt_matrix b, cublaslt_matrix c, cublaslt_matrix d)
{
    return IS(name, handle, LIBRARY) && IS(name, product, PRODUCT) && IS(name, a, MATRIX) && IS(name, b, MATRIX) &&
           IS(name, c, MATRIX) && IS(name, d, MATRIX);
}

/* One algorithm, which wants half of the workspace that it may have, and matrices that are aligned as was promised. */
cublas_status cublasLtMatmulAlgoGetHeuristic(cublaslt_handle handle, cublaslt_product product, cublaslt_matrix a,
                                             cublaslt_matrix b, cublaslt_matrix c, cublaslt_matrix d,
                                             cublaslt_preference preference, int most, cublaslt_choice *choices,
                                             int *count)
{
    const cublas_status s = enter("cublasLtMatmulAlgoGetHeuristic", CUBLAS_INTERNAL_ERROR);
    *count = 0;
    if (s != CUBLAS_OK) return s;
    if (!are_handles("cublasLtMatmulAlgoGetHeuristic", handle, product, a, b, c, d) || most < 1 ||
        !IS("cublasLtMatmulAlgoGetHeuristic", preference, PREFERENCE))
        return CUBLAS_INVALID_VALUE;
    const product_work w = {.product = *product, .a = *a, .b = *b, .c = *c, .d = *d};
    if (!is_product(&w)) return CUBLAS_NOT_SUPPORTED;
    memset(choices, 0, sizeof *choices);
    choices->algorithm.data[0] = 1;
    for (int i = 0; i < 4; i++) choices->algorithm.data[1 + i] = preference->aligned[i];
    choices->workspace_bytes = preference->workspace_bytes / 2;
    *count = 1;
    return CUBLAS_OK;
}

cublas_status cublasLtMatmul(cublaslt_handle handle, cublaslt_product product, const void *alpha, const void *a,
                             cublaslt_matrix a_matrix, const void *b, cublaslt_matrix b_matrix, const void *beta,
                             const void *c, cublaslt_matrix c_matrix, void *d, cublaslt_matrix d_matrix,
                             const cublaslt_algorithm *algorithm, void *workspace, size_t workspace_bytes,
                             cu_stream stream)
{
    const cublas_status s = enter("cublasLtMatmul", CUBLAS_EXECUTION_FAILED);
    if (s != CUBLAS_OK) return s;
    if (!are_handles("cublasLtMatmul", handle, product, a_matrix, b_matrix, c_matrix, d_matrix))
        return CUBLAS_INVALID_VALUE;
    const software_call call = {"cublasLtMatmul", NULL, product_run, product_note, sizeof(product_work)};
    const product_work w = {*product,
                            *a_matrix,
                            *b_matrix,
                            *c_matrix,
                            *d_matrix,
                            a,
                            b,
                            c,
                            d,
                            *(const float *)alpha,
                            *(const float *)beta,
                            workspace,
                            workspace != NULL ? workspace_bytes : 0};
    if (algorithm != NULL && algorithm->data[0] != 1) return CUBLAS_INVALID_VALUE;
    if (!is_product(&w)) return CUBLAS_INVALID_VALUE;
    const void *const at[4] = {a, b, c, d};
    const cublaslt_matrix matrices[4] = {a_matrix, b_matrix, c_matrix, d_matrix};
    for (int i = 0; i < 4; i++)
        if (!is_matrix(matrices[i], at[i], algorithm != NULL ? algorithm->data[1 + i] : 16))
            return CUBLAS_NOT_SUPPORTED;
    return software_call_queue(stream, &call, &w) == CU_OK ? CUBLAS_OK : CUBLAS_EXECUTION_FAILED;
}
