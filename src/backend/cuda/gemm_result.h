/* What both matrix products share: how a result is written, and sums of the rows of op(a). */
#ifndef MEGA_CUDA_GEMM_RESULT_H
#define MEGA_CUDA_GEMM_RESULT_H

#include "mma.h"

/* Whether c is added to. */
BODY bool gemm_adds(const mega_gemm_args *a)
{
    return a->accumulate && !(a->first_in_step && a->head.step->first_micro_batch);
}

/* What the result at (m, n) gets besides the product. */
BODY float gemm_more(const mega_gemm_args *a, mega_dtype t, mega_dtype c_type, int64_t m, int64_t n, bool adds)
{
    float v = a->bias != NULL ? get(a->bias, t, n) : 0.0f;
    if (adds) v += get(a->c, c_type, m * a->ldc + n);
    if (a->residual != NULL) v += get(a->residual, c_type, m * a->ldc + n);
    return v;
}

/* Writes results (m, n) and (m, n + 1), as far as they are inside. */
BODY void gemm_store(const mega_gemm_args *a, mega_dtype t, int64_t m, int64_t n, bool adds, float x, float y)
{
    if (m >= a->m || n >= a->n) return;
    const mega_dtype c_type = t != MEGA_F32 && a->c_dtype == t ? t : MEGA_F32;
    x += gemm_more(a, t, c_type, m, n, adds);
    if (n + 1 < a->n) y += gemm_more(a, t, c_type, m, n + 1, adds);
    store_pair(a->c, c_type, m * a->ldc + n, a->n - n, x, y);
}

/* Whether a block has only results above the diagonal, which are not wanted. */
BODY bool gemm_is_above(const mega_gemm_args *a, int64_t m0, int64_t n0)
{
    return a->lower && n0 >= m0 + GEMM_TILE;
}

#endif
