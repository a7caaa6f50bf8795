/* What other kernels that multiply matrices need of the matrix product (gemm.c). */
#ifndef MEGA_CPU_GEMM_IMPL_H
#define MEGA_CPU_GEMM_IMPL_H

#include "megalith/kernels.h"

/* Returns whether a product overwrites c. */
static inline bool mega_gemm_overwrites(const mega_gemm_args *a)
{
    return !a->accumulate || (a->first_in_step && a->head.step != NULL && a->head.step->first_micro_batch);
}

/* Returns the bytes of scratch that suffice for the product and for every one of fewer rows m or, if c is F32, of a
 * smaller depth k. */
size_t mega_gemm_scratch_most(const mega_gemm_args *a, int threads);

#endif
