/* The functions of null_cuda.c that return nothing but that they have worked. */
#include "driver.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

cu_result null_cuda_done(void);

#define X(name, symbol, params)                   \
    cu_result symbol params;                      \
    __attribute__((weak)) cu_result symbol params \
    {                                             \
        return null_cuda_done();                  \
    }
MEGA_CUDA_FUNCTIONS(X)
