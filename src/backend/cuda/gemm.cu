/* Matrix product (ops_linear.h): a kernel for each way in which a and b are stored, n as they are multiplied, t
 * transposed; and the sums of the rows of op(a), which are those of the columns of a. */
#include "gemm_result.h"

#include "gemm_16_body.cu"
#include "gemm_f32_body.cu"

/* The forms of a product; `run` is called with `type` and the place of the block as well. */
#define GEMM_KERNEL(name, threads, run, type, trans_a, trans_b)                                          \
    KERNEL(name, mega_gemm_args, threads)                                                                \
    {                                                                                                    \
        run(&a, type, trans_a, trans_b, (int64_t)block_y() * GEMM_TILE, (int64_t)block_x() * GEMM_TILE); \
    }
#define GEMM_KERNELS(name, threads, run, type)               \
    GEMM_KERNEL(name##_nn, threads, run, type, false, false) \
    GEMM_KERNEL(name##_nt, threads, run, type, false, true)  \
    GEMM_KERNEL(name##_tn, threads, run, type, true, false)  \
    GEMM_KERNEL(name##_tt, threads, run, type, true, true)

GEMM_KERNELS(gemm_f32, GEMM_F32_THREADS, gemm_f32_run, MEGA_F32)
GEMM_KERNELS(gemm_bf16, GEMM_16_THREADS, gemm_16_run, MEGA_BF16)
GEMM_KERNELS(gemm_f16, GEMM_16_THREADS, gemm_16_run, MEGA_F16)

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
