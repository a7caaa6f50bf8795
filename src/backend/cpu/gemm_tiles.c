/* bf16 products where the library has none: tiles of both factors are widened to float in scratch, multiplied in float
 * and summed over tiles of k in order; what is stored as bf16 is rounded once, at the end. On one Zen 3 core this
 * reaches 51 to 75 GFLOP/s on GPT-2's shapes, where the same products of floats reach 60 to 95 (bench_kernels bf16). */
#include "cpu/gemm_impl.h"
#include <oneapi/dnnl/dnnl.h>

enum { TILE_M = MEGA_GEMM_TILE_M, TILE_N = MEGA_GEMM_TILE_N, TILE_K = 384 };

size_t mega_gemm_tile_bytes(void)
{
    return round_up_64(((size_t)TILE_M * TILE_K + (size_t)TILE_K * TILE_N + (size_t)TILE_M * TILE_N) * sizeof(float));
}

/* A rectangle of a tensor of bf16 (or float) as dense floats. */
static void load(const cpu_bodies *bodies, float *dst, const void *src, mega_dtype t, int64_t row, int64_t column,
                 int64_t ld, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = (row + i) * ld + column;
        if (t == MEGA_BF16) bodies->widen(dst + i * columns, (const uint16_t *)src + at, columns);
        else
            memcpy(dst + i * columns, (const float *)src + at, (size_t)columns * sizeof *dst);
    }
}

/* Finishes a tile of sums: bias, what was there, rounding. */
static void store(const mega_gemm_args *a, const float *sum, int64_t row, int64_t column, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = (row + i) * a->ldc + column;
        for (int64_t j = 0; j < columns; j++) {
            float v = sum[i * columns + j];
            if (a->bias != NULL) v += (float)get(a->bias, a->head.dtype, column + j);
            if (a->c_dtype == MEGA_BF16) {
                uint16_t *c = (uint16_t *)a->c + at + j;
                *c = mega_f32_to_bf16(a->accumulate ? mega_bf16_to_f32(*c) + v : v);
            } else {
                float *c = (float *)a->c + at + j;
                *c = a->accumulate ? *c + v : v;
            }
        }
    }
}

void mega_gemm_tile(const mega_gemm_args *a, const cpu_bodies *bodies, int64_t m, int64_t rows, int64_t n,
                    int64_t columns, void *scratch)
{
    float *const ta = scratch, *const tb = ta + (size_t)TILE_M * TILE_K, *const sum = tb + (size_t)TILE_K * TILE_N;
    for (int64_t k = 0; k < a->k; k += TILE_K) {
        const int64_t depth = a->k - k < TILE_K ? a->k - k : TILE_K;
        if (a->trans_a) load(bodies, ta, a->a, a->head.dtype, k, m, a->lda, depth, rows);
        else
            load(bodies, ta, a->a, a->head.dtype, m, k, a->lda, rows, depth);
        if (a->trans_b) load(bodies, tb, a->b, a->head.dtype, n, k, a->ldb, columns, depth);
        else
            load(bodies, tb, a->b, a->head.dtype, k, n, a->ldb, depth, columns);
        const dnnl_status_t st =
            dnnl_sgemm(a->trans_a ? 'T' : 'N', a->trans_b ? 'T' : 'N', rows, columns, depth, 1.0f, ta,
                       a->trans_a ? rows : depth, tb, a->trans_b ? depth : columns, k == 0 ? 0.0f : 1.0f, sum, columns);
        MEGA_ASSERT(st == dnnl_success, "product of tiles %lld x %lld x %lld failed: %d", (long long)rows,
                    (long long)columns, (long long)depth, (int)st);
        (void)st;
    }
    store(a, sum, m, n, rows, columns);
}
