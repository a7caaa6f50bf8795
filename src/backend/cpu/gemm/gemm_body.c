/* GEMM of a few rows with a weight [n, k]. Each weight is read once, straight from memory, and this read bounds the
 * speed. A thread therefore divides its rows of the weight into parts and walks these side by side, each from front to
 * back, with prefetching. Several streams keep more cache lines in flight than one, and the hardware prefetcher alone
 * would restart at every page. */

/* Bytes by which prefetching is ahead, and the number of parts that are walked side by side for one row of a. */
enum { GEMV_AHEAD = 2048, GEMV_STREAMS = 4 };

/* 2*VL consecutive numbers. For bf16, lo holds those at even indices and hi those at odd ones: this widening takes only
 * a shift and a mask, and a dot product only needs the same order on both sides. */
typedef struct gemv_pair {
    vf lo, hi;
} gemv_pair;

ALWAYS gemv_pair gemv_get(bool bf16, const void *x, int64_t i)
{
    if (!bf16) return (gemv_pair){vload((const float *)x + i), vload((const float *)x + i + VL)};
    vu w;
    memcpy(&w, (const uint16_t *)x + i, sizeof w);
    return (gemv_pair){(vf)(w << 16), (vf)(w & 0xffff0000u)};
}

/* Returns the last n < 2*VL numbers of a row, followed by zeros. */
ALWAYS gemv_pair gemv_get_n(bool bf16, const void *x, int64_t i, int64_t n)
{
    const int64_t size = bf16 ? 2 : 4;
    float room[2 * VL] = {0};
    memcpy(room, (const char *)x + i * size, (size_t)(n * size));
    return gemv_get(bf16, room, 0);
}

ALWAYS void gemv_put(bool bf16, const mega_gemm_args *a, int64_t row, int64_t j, float v)
{
    const int64_t at = row * a->ldc + j;
    if (a->residual != NULL)
        v += a->c_dtype == MEGA_BF16 ? mega_bf16_to_f32(((const uint16_t *)a->residual)[at])
                                     : ((const float *)a->residual)[at];
    if (a->bias != NULL) v += bf16 ? mega_bf16_to_f32(((const uint16_t *)a->bias)[j]) : ((const float *)a->bias)[j];
    if (a->c_dtype == MEGA_BF16) {
        uint16_t *c = (uint16_t *)a->c + at;
        *c = mega_f32_to_bf16(a->accumulate ? mega_bf16_to_f32(*c) + v : v);
    } else {
        float *c = (float *)a->c + at;
        *c = a->accumulate ? *c + v : v;
    }
}

/* Multiplies R rows of a with J rows of the weight, which start at j and are `apart` from each other. Each sum is taken
 * in the same order for all R and J. */
ALWAYS void gemm_row_block(bool bf16, const int R, const int J, const mega_gemm_args *a, int64_t j, int64_t apart)
{
    const int64_t K = a->k, left = K % (2 * VL), size = bf16 ? 2 : 4;
    vf lo[MEGA_GEMV_ROWS][4], hi[MEGA_GEMV_ROWS][4];
#pragma GCC unroll 8
    for (int i = 0; i < R * J; i++) lo[i / J][i % J] = hi[i / J][i % J] = vset(0.0f);
    for (int64_t k = 0; k < K; k += 2 * VL) {
        gemv_pair b[4];
        const bool whole = k + 2 * VL <= K;
#pragma GCC unroll 4
        for (int i = 0; i < J; i++) {
            const int64_t at = (j + i * apart) * a->ldb + k;
            __builtin_prefetch((const void *)((uintptr_t)a->b + (uintptr_t)(at * size) + GEMV_AHEAD));
            b[i] = whole ? gemv_get(bf16, a->b, at) : gemv_get_n(bf16, a->b, at, left);
        }
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
            const gemv_pair x =
                whole ? gemv_get(bf16, a->a, r * a->lda + k) : gemv_get_n(bf16, a->a, r * a->lda + k, left);
#pragma GCC unroll 4
            for (int i = 0; i < J; i++) {
                lo[r][i] += x.lo * b[i].lo;
                hi[r][i] += x.hi * b[i].hi;
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < R * J; i++)
        gemv_put(bf16, a, i / J, j + i % J * apart, vsum(lo[i / J][i % J] + hi[i / J][i % J]));
}

/* Processes as many rows of the weight at once as there are registers for their sums. The range is divided into equal
 * parts, one for each of these rows. */
ALWAYS void gemm_rows_of(bool bf16, const int R, const mega_gemm_args *a, int64_t begin, int64_t end)
{
    const int J = R == 1 ? GEMV_STREAMS : R == 2 ? 2 : 1;
    const int64_t part = (end - begin) / J;
    for (int64_t j = begin; j < begin + part; j++) gemm_row_block(bf16, R, J, a, j, part);
    for (int64_t j = begin + part * J; j < end; j++) gemm_row_block(bf16, R, 1, a, j, 0);
}

ALWAYS void gemm_rows_typed(bool bf16, const mega_gemm_args *a, int64_t begin, int64_t end)
{
    switch (a->m) {
    case 1: gemm_rows_of(bf16, 1, a, begin, end); break;
    case 2: gemm_rows_of(bf16, 2, a, begin, end); break;
    case 3: gemm_rows_of(bf16, 3, a, begin, end); break;
    default: gemm_rows_of(bf16, MEGA_GEMV_ROWS, a, begin, end); break;
    }
}

static void gemm_rows_columns(const mega_gemm_args *a, int64_t begin, int64_t end)
{
    if (a->head.dtype == MEGA_BF16) gemm_rows_typed(true, a, begin, end);
    else
        gemm_rows_typed(false, a, begin, end);
}
