/* The functions and types of cuBLASLt (libcublasLt.so.13 or .12) that matrix products of GPUs may use, declared by
 * megalith itself (products.c). Matrices are by columns there: a product of rows, c = a b^T, is asked for as
 * c^T = b a^T. */
#ifndef MEGALITH_CUDA_CUBLASLT_CALLS_H
#define MEGALITH_CUDA_CUBLASLT_CALLS_H

#include "driver.h"

typedef unsigned cublas_status; /* an enum there */
enum {
    CUBLAS_OK = 0,
    CUBLAS_NOT_INITIALIZED = 1,
    CUBLAS_ALLOC_FAILED = 3,
    CUBLAS_INVALID_VALUE = 7,
    CUBLAS_EXECUTION_FAILED = 13,
    CUBLAS_INTERNAL_ERROR = 14,
    CUBLAS_NOT_SUPPORTED = 15,
};
enum { CUBLAS_F32 = 0, CUBLAS_F16 = 2, CUBLAS_BF16 = 14 };    /* types of numbers */
enum { CUBLAS_SUM_F32 = 68, CUBLAS_SUM_TF32 = 77 };           /* in what is summed */
enum { CUBLASLT_NO_TRANSPOSE = 0, CUBLASLT_TRANSPOSE = 1 };   /* int32_t of the next two */
enum { CUBLASLT_TRANSPOSE_A = 3, CUBLASLT_TRANSPOSE_B = 4 };  /* attributes of a product */
enum { CUBLASLT_EPILOGUE = 7, CUBLASLT_BIAS_POINTER = 8 };    /* uint32_t; the address of a bias along the rows of d */
enum { CUBLASLT_PLAIN = 1, CUBLASLT_BIAS = 4 };               /* values of the first */
enum { CUBLASLT_BATCH_COUNT = 5, CUBLASLT_BATCH_STRIDE = 6 }; /* attributes of a matrix: int32_t, int64_t */
enum { CUBLASLT_WORKSPACE_BYTES = 1, CUBLASLT_REDUCTIONS = 3 }; /* attributes of a preference: uint64_t, uint32_t */
enum { CUBLASLT_REDUCTION_BY_TYPE = 2 };                        /* a value of the second: in a workspace, in order */
/* attributes of a preference, uint32_t: bytes to which the matrices are aligned, 256 if not said */
enum { CUBLASLT_ALIGNED_A = 5, CUBLASLT_ALIGNED_B = 6, CUBLASLT_ALIGNED_C = 7, CUBLASLT_ALIGNED_D = 8 };

typedef struct cublasLtContext *cublaslt_handle;
#ifdef MEGA_CUBLASLT_HEADER /* device_test_declarations includes cuBLASLt's own header too */
typedef cublasLtMatmulDesc_t cublaslt_product;
typedef cublasLtMatrixLayout_t cublaslt_matrix;
typedef cublasLtMatmulPreference_t cublaslt_preference;
typedef cublasLtMatmulAlgo_t cublaslt_algorithm;
typedef cublasLtMatmulHeuristicResult_t cublaslt_choice;
#else
typedef struct cublaslt_product_data *cublaslt_product;
typedef struct cublaslt_matrix_data *cublaslt_matrix;
typedef struct cublaslt_preference_data *cublaslt_preference;
typedef struct cublaslt_algorithm {
    uint64_t data[8];
} cublaslt_algorithm;
typedef struct cublaslt_choice {
    cublaslt_algorithm algorithm;
    size_t workspace_bytes;
    cublas_status status;
    float waves;
    int reserved[4];
} cublaslt_choice;
#endif

/* X(member of mega_cublaslt, symbol, parameters) */
#define MEGA_CUBLASLT_FUNCTIONS(X)                                                                                   \
    X(create, cublasLtCreate, (cublaslt_handle * out))                                                               \
    X(destroy, cublasLtDestroy, (cublaslt_handle handle))                                                            \
    X(product_create, cublasLtMatmulDescCreate, (cublaslt_product * out, unsigned sum_type, unsigned scale_type))    \
    X(product_destroy, cublasLtMatmulDescDestroy, (cublaslt_product product))                                        \
    X(product_set, cublasLtMatmulDescSetAttribute,                                                                   \
      (cublaslt_product product, unsigned attribute, const void *value, size_t bytes))                               \
    X(matrix_create, cublasLtMatrixLayoutCreate,                                                                     \
      (cublaslt_matrix * out, unsigned type, uint64_t rows, uint64_t cols, int64_t stride))                          \
    X(matrix_destroy, cublasLtMatrixLayoutDestroy, (cublaslt_matrix matrix))                                         \
    X(matrix_set, cublasLtMatrixLayoutSetAttribute,                                                                  \
      (cublaslt_matrix matrix, unsigned attribute, const void *value, size_t bytes))                                 \
    X(preference_create, cublasLtMatmulPreferenceCreate, (cublaslt_preference * out))                                \
    X(preference_destroy, cublasLtMatmulPreferenceDestroy, (cublaslt_preference preference))                         \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute,                                                          \
      (cublaslt_preference preference, unsigned attribute, const void *value, size_t bytes))                         \
    X(choose, cublasLtMatmulAlgoGetHeuristic,                                                                        \
      (cublaslt_handle handle, cublaslt_product product, cublaslt_matrix a, cublaslt_matrix b, cublaslt_matrix c,    \
       cublaslt_matrix d, cublaslt_preference preference, int most, cublaslt_choice *choices, int *count))           \
    X(multiply, cublasLtMatmul,                                                                                      \
      (cublaslt_handle handle, cublaslt_product product, const void *alpha, const void *a, cublaslt_matrix a_matrix, \
       const void *b, cublaslt_matrix b_matrix, const void *beta, const void *c, cublaslt_matrix c_matrix, void *d,  \
       cublaslt_matrix d_matrix, const cublaslt_algorithm *algorithm, void *workspace, size_t workspace_bytes,       \
       cu_stream stream))

/* The functions of a loaded library. */
typedef struct mega_cublaslt {
#define X(name, symbol, params) cublas_status(*name) params;
    MEGA_CUBLASLT_FUNCTIONS(X)
#undef X
    size_t (*version)(void); /* cublasLtGetVersion */
} mega_cublaslt;

#endif
