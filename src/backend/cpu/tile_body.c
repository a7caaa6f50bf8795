/* A small matrix product on packed float blocks, what attention is made of: c[M, N] (+)= a[M, K] b[K, N]. N is a
 * multiple of 2 VL (blocks are padded with zeros), element (m, k) of a stands at a[m a_row + k a_k]. */

#define TILE_ROWS 6 /* 6 x 2 sums, 2 vectors of b and one of a fit 16 registers */
#define TILE_COLS (2 * VL)

ALWAYS void tile_rows(const int R, float *restrict c, int64_t ldc, const float *restrict a, int64_t a_row, int64_t a_k,
                      const float *restrict b, int64_t ldb, int64_t K, bool accumulate)
{
    vf sum[TILE_ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < R; r++) {
        sum[r][0] = accumulate ? vload(c + r * ldc) : vset(0.0f);
        sum[r][1] = accumulate ? vload(c + r * ldc + VL) : vset(0.0f);
    }
    for (int64_t k = 0; k < K; k++) {
        const vf b0 = vload(b + k * ldb), b1 = vload(b + k * ldb + VL);
#pragma GCC unroll 6
        for (int r = 0; r < R; r++) {
            const vf x = vset(a[r * a_row + k * a_k]);
            sum[r][0] += x * b0;
            sum[r][1] += x * b1;
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; r++) {
        vstore(c + r * ldc, sum[r][0]);
        vstore(c + r * ldc + VL, sum[r][1]);
    }
}

static void tile_product(float *c, int64_t ldc, const float *a, int64_t a_row, int64_t a_k, const float *b, int64_t ldb,
                         int64_t M, int64_t N, int64_t K, bool accumulate)
{
    for (int64_t n = 0; n < N; n += TILE_COLS) {
        int64_t m = 0;
        for (; m + TILE_ROWS <= M; m += TILE_ROWS)
            tile_rows(TILE_ROWS, c + m * ldc + n, ldc, a + m * a_row, a_row, a_k, b + n, ldb, K, accumulate);
        float *rest = c + m * ldc + n;
        const float *a_rest = a + m * a_row;
        switch (M - m) {
        case 5: tile_rows(5, rest, ldc, a_rest, a_row, a_k, b + n, ldb, K, accumulate); break;
        case 4: tile_rows(4, rest, ldc, a_rest, a_row, a_k, b + n, ldb, K, accumulate); break;
        case 3: tile_rows(3, rest, ldc, a_rest, a_row, a_k, b + n, ldb, K, accumulate); break;
        case 2: tile_rows(2, rest, ldc, a_rest, a_row, a_k, b + n, ldb, K, accumulate); break;
        case 1: tile_rows(1, rest, ldc, a_rest, a_row, a_k, b + n, ldb, K, accumulate); break;
        default: break;
        }
    }
}

/* dst[i, 0 … width) = scale * rows [row, row + rows) of x (leading dimension ld, from column `column`), zeros in
 * [width, padded). */
static void pack_rows(float *dst, int64_t padded, bool bf16, const void *x, int64_t row, int64_t column, int64_t ld,
                      int64_t rows, int64_t width, float scale)
{
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = (row + i) * ld + column;
        for (int64_t d = 0; d < width; d += VL) {
            const vf v = bf16 ? vget_n(true, x, at + d, width - d) : vget_n(false, x, at + d, width - d);
            vput_n(false, dst, i * padded + d, width - d, v * scale);
        }
        for (int64_t d = width; d < padded; d++) dst[i * padded + d] = 0.0f;
    }
}

/* dst[d, j] = packed[j, d]: rows [0, rows) of a packed block become columns; columns [rows, ld) are zeros. */
static void transpose_rows(float *restrict dst, int64_t ld, const float *restrict packed, int64_t padded, int64_t rows,
                           int64_t width)
{
    for (int64_t j = 0; j < rows; j += 8) {
        const int64_t stop = rows - j < 8 ? rows : j + 8;
        for (int64_t d = 0; d < width; d++)
            for (int64_t i = j; i < stop; i++) dst[d * ld + i] = packed[i * padded + d];
    }
    for (int64_t d = 0; d < width; d++)
        for (int64_t j = rows; j < ld; j++) dst[d * ld + j] = 0.0f;
}
