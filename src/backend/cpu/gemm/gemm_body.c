/* GEMM of a few rows with a weight [n, k]. Each weight is read once, straight from memory, and this read bounds the
 * speed. A thread therefore divides its rows of the weight into parts and walks these side by side, each from front to
 * back, with prefetching. Several streams keep more cache lines in flight than one, and the hardware prefetcher alone
 * would restart at every page. */

/* Bytes by which prefetching is ahead, and the number of parts that are walked side by side for one row of a. The
 * figure that they serve is generate_124m_of_bandwidth (bench_generate). */
enum { GEMV_AHEAD = 2048, GEMV_STREAMS = 4 };

/* 2*VL consecutive numbers. For BF16, lo holds those at even indices and hi those at odd ones: this widening takes only
 * a shift and a mask, and a dot product only needs the same order on both sides. */
typedef struct gemv_pair {
    vf lo, hi;
} gemv_pair;

ALWAYS gemv_pair gemv_get(mega_dtype type, const void *x, int64_t i)
{
    if (type != MEGA_BF16) return (gemv_pair){vget(type, x, i), vget(type, x, i + VL)};
    vu w;
    memcpy(&w, (const uint16_t *)x + i, sizeof w);
    return (gemv_pair){(vf)(w << 16), (vf)(w & 0xffff0000u)};
}

/* Returns the last n < 2*VL numbers of a row, followed by zeros. */
ALWAYS gemv_pair gemv_get_n(mega_dtype type, const void *x, int64_t i, int64_t n)
{
    const int64_t size = vsize(type);
    float room[2 * VL] = {0};
    memcpy(room, (const char *)x + i * size, (size_t)(n * size));
    return gemv_get(type, room, 0);
}

/* Not inlined, because it would be copied for every row and column of every block. */
LONG void gemv_put(mega_dtype type, const mega_gemm_args *a, int64_t row, int64_t j, float v)
{
    const int64_t at = row * a->ldc + j;
    if (a->residual != NULL) v += get1(a->c_dtype, a->residual, at);
    if (a->bias != NULL) v += get1(type, a->bias, j);
    put1(a->c_dtype, a->c, at, a->accumulate ? get1(a->c_dtype, a->c, at) + v : v);
}

/* Multiplies R rows of a with J rows of the weight, which start at j and are `apart` from each other. Each sum is taken
 * in the same order for all R and J. */
ALWAYS void gemm_row_block(mega_dtype type, const int R, const int J, const mega_gemm_args *a, int64_t j, int64_t apart)
{
    const int64_t K = a->k, left = K % (2 * VL), size = vsize(type);
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
            b[i] = whole ? gemv_get(type, a->b, at) : gemv_get_n(type, a->b, at, left);
        }
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
            const gemv_pair x =
                whole ? gemv_get(type, a->a, r * a->lda + k) : gemv_get_n(type, a->a, r * a->lda + k, left);
#pragma GCC unroll 4
            for (int i = 0; i < J; i++) {
                lo[r][i] += x.lo * b[i].lo;
                hi[r][i] += x.hi * b[i].hi;
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < R * J; i++)
        gemv_put(type, a, i / J, j + i % J * apart, vsum(lo[i / J][i % J] + hi[i / J][i % J]));
}

/* Processes as many rows of the weight at once as there are registers for their sums. The range is divided into equal
 * parts, one for each of these rows. */
ALWAYS void gemm_rows_of(mega_dtype type, const int R, const mega_gemm_args *a, int64_t begin, int64_t end)
{
    const int J = R == 1 ? GEMV_STREAMS : R == 2 ? 2 : 1;
    const int64_t part = (end - begin) / J;
    for (int64_t j = begin; j < begin + part; j++) gemm_row_block(type, R, J, a, j, part);
    for (int64_t j = begin + part * J; j < end; j++) gemm_row_block(type, R, 1, a, j, 0);
}

ALWAYS void gemm_rows_typed(mega_dtype type, const mega_gemm_args *a, int64_t begin, int64_t end)
{
    switch (a->m) {
    case 1: gemm_rows_of(type, 1, a, begin, end); break;
    case 2: gemm_rows_of(type, 2, a, begin, end); break;
    case 3: gemm_rows_of(type, 3, a, begin, end); break;
    default: gemm_rows_of(type, MEGA_GEMV_ROWS, a, begin, end); break;
    }
}

static void gemm_rows_columns(const mega_gemm_args *a, int64_t begin, int64_t end)
{
    BY_TYPE(a->head.dtype, gemm_rows_typed(type, a, begin, end));
}
