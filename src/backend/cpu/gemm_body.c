/* Product of few rows with a weight [n, k]: each weight is read once, straight from memory, which is what bounds it. */

ALWAYS void gemm_row_block(bool bf16, const int R, const mega_gemm_args *a, int64_t row, int64_t j)
{
    const int64_t K = a->k;
    vf sum[MEGA_GEMV_ROWS];
    for (int r = 0; r < R; r++) sum[r] = vset(0.0f);
    int64_t k = 0;
    for (; k + VL <= K; k += VL) {
        const vf b = vget(bf16, a->b, j * a->ldb + k);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) sum[r] += vget(bf16, a->a, (row + r) * a->lda + k) * b;
    }
    if (k < K) {
        const vf b = vget_n(bf16, a->b, j * a->ldb + k, K - k);
        for (int r = 0; r < R; r++) sum[r] += vget_n(bf16, a->a, (row + r) * a->lda + k, K - k) * b;
    }
    for (int r = 0; r < R; r++) {
        const int64_t at = (row + r) * a->ldc + j;
        float v = vsum(sum[r]);
        if (a->bias != NULL) v += bf16 ? mega_bf16_to_f32(((const uint16_t *)a->bias)[j]) : ((const float *)a->bias)[j];
        if (a->c_dtype == MEGA_BF16) {
            uint16_t *c = (uint16_t *)a->c + at;
            *c = mega_f32_to_bf16(a->accumulate ? mega_bf16_to_f32(*c) + v : v);
        } else {
            float *c = (float *)a->c + at;
            *c = a->accumulate ? *c + v : v;
        }
    }
}

ALWAYS void gemm_rows_typed(bool bf16, const mega_gemm_args *a, int64_t begin, int64_t end)
{
    for (int64_t j = begin; j < end; j++) {
        switch (a->m) {
        case 1: gemm_row_block(bf16, 1, a, 0, j); break;
        case 2: gemm_row_block(bf16, 2, a, 0, j); break;
        case 3: gemm_row_block(bf16, 3, a, 0, j); break;
        default: gemm_row_block(bf16, MEGA_GEMV_ROWS, a, 0, j); break;
        }
    }
}

static void gemm_rows_columns(const mega_gemm_args *a, int64_t begin, int64_t end)
{
    if (a->head.dtype == MEGA_BF16) gemm_rows_typed(true, a, begin, end);
    else
        gemm_rows_typed(false, a, begin, end);
}
