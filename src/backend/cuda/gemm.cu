/* Matrix product (ops_linear.h): a kernel for each way in which a and b are stored, n as they are multiplied, t
 * transposed; and the sums of the rows of op(a), which are those of the columns of a. */
#include "gemm_result.h"

#include "gemm_bf16_body.cu"
#include "gemm_f32_body.cu"

KERNEL(gemm_bf16_nn, mega_gemm_args, GEMM_BF16_THREADS)
{
    gemm_bf16_run(&a, false, false);
}
KERNEL(gemm_bf16_nt, mega_gemm_args, GEMM_BF16_THREADS)
{
    gemm_bf16_run(&a, false, true);
}
KERNEL(gemm_bf16_tn, mega_gemm_args, GEMM_BF16_THREADS)
{
    gemm_bf16_run(&a, true, false);
}
KERNEL(gemm_bf16_tt, mega_gemm_args, GEMM_BF16_THREADS)
{
    gemm_bf16_run(&a, true, true);
}

KERNEL(gemm_f32_nn, mega_gemm_args, GEMM_F32_THREADS)
{
    gemm_f32_run(&a, false, false);
}
KERNEL(gemm_f32_nt, mega_gemm_args, GEMM_F32_THREADS)
{
    gemm_f32_run(&a, false, true);
}
KERNEL(gemm_f32_tn, mega_gemm_args, GEMM_F32_THREADS)
{
    gemm_f32_run(&a, true, false);
}
KERNEL(gemm_f32_tt, mega_gemm_args, GEMM_F32_THREADS)
{
    gemm_f32_run(&a, true, true);
}

/* Scratch: the sums of chunks. */
BODY void gemm_row_sum_run(const mega_gemm_args *a, mega_dtype t)
{
    SHARED(column_shared, s);
    const column_part p = column_place(a->k, a->m);
    eight sum;
    UNROLL
    for (int k = 0; k < 8; k++) sum.v[k] = 0.0f;
    for (int64_t r = p.begin; r < p.end; r += COLUMN_LANES) {
        const eight x = load_eight(a->a, t, r * a->lda + p.col, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) sum.v[k] += x.v[k];
    }
    column_fold(&sum, s, (float *)a->head.scratch, a->m);
}
KERNELS_BY_TYPE(gemm_row_sum, mega_gemm_args, COLUMN_THREADS)

KERNEL(gemm_row_sum_total, mega_gemm_args, COLUMN_THREADS)
{
    column_total((float *)a.row_sum, (const float *)a.head.scratch, a.k, a.m);
}
