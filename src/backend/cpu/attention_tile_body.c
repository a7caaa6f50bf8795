/* Small matrix products on packed float blocks, what attention is made of: c[M, N] (+)= a[M, K] b[K, N]. N is a
 * multiple of 2 VL (blocks are padded with zeros). Element (m, k) of a stands at a[m a_row + k a_k]; b comes in panels
 * of TILE_COLS columns, so that the rows one tile reads lie side by side: element (k, n) at b[n / TILE_COLS * panel + k
 * ldb + n % TILE_COLS]. */

/* Rows x 2 sums, 2 vectors of b and one of a fill 16 registers, or 32. */
#define TILE_ROWS (VECTOR_BYTES == 64 ? 12 : 6)
#define TILE_COLS (2 * VL)

ALWAYS int64_t round_to(int64_t n, int64_t grain)
{
    return (n + grain - 1) / grain * grain;
}

ALWAYS void tile_rows(const int R, float *restrict c, int64_t ldc, const float *restrict a, int64_t a_row, int64_t a_k,
                      const float *restrict b, int64_t ldb, int64_t K, bool accumulate)
{
    vf sum[TILE_ROWS][2];
#pragma GCC unroll 12
    for (int r = 0; r < R; r++) {
        sum[r][0] = accumulate ? vload(c + r * ldc) : vset(0.0f);
        sum[r][1] = accumulate ? vload(c + r * ldc + VL) : vset(0.0f);
    }
    for (int64_t k = 0; k < K; k++) {
        const vf b0 = vload(b + k * ldb), b1 = vload(b + k * ldb + VL);
#pragma GCC unroll 12
        for (int r = 0; r < R; r++) {
            const vf x = vset(a[r * a_row + k * a_k]);
            sum[r][0] += x * b0;
            sum[r][1] += x * b1;
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; r++) {
        vstore(c + r * ldc, sum[r][0]);
        vstore(c + r * ldc + VL, sum[r][1]);
    }
}

typedef struct tile_b {
    const float *at;
    int64_t panel, ld;
} tile_b;

static void tile_product(float *c, int64_t ldc, const float *a, int64_t a_row, int64_t a_k, tile_b b, int64_t M,
                         int64_t N, int64_t K, bool accumulate)
{
    for (int64_t n = 0; n < N; n += TILE_COLS) {
        const float *from = b.at + n / TILE_COLS * b.panel;
        float *rest = c + n;
        const float *a_rest = a;
        int64_t m = M;
        for (; m >= TILE_ROWS; m -= TILE_ROWS, rest += TILE_ROWS * ldc, a_rest += TILE_ROWS * a_row)
            tile_rows(TILE_ROWS, rest, ldc, a_rest, a_row, a_k, from, b.ld, K, accumulate);
        for (; m >= 6; m -= 6, rest += 6 * ldc, a_rest += 6 * a_row)
            tile_rows(6, rest, ldc, a_rest, a_row, a_k, from, b.ld, K, accumulate);
        switch (m) {
        case 5: tile_rows(5, rest, ldc, a_rest, a_row, a_k, from, b.ld, K, accumulate); break;
        case 4: tile_rows(4, rest, ldc, a_rest, a_row, a_k, from, b.ld, K, accumulate); break;
        case 3: tile_rows(3, rest, ldc, a_rest, a_row, a_k, from, b.ld, K, accumulate); break;
        case 2: tile_rows(2, rest, ldc, a_rest, a_row, a_k, from, b.ld, K, accumulate); break;
        case 1: tile_rows(1, rest, ldc, a_rest, a_row, a_k, from, b.ld, K, accumulate); break;
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

/* The same rows as panels [padded / TILE_COLS][room, TILE_COLS]: b of a product over rows. */
static void pack_panels(float *dst, int64_t room, int64_t padded, bool bf16, const void *x, int64_t row, int64_t column,
                        int64_t ld, int64_t rows, int64_t width)
{
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = (row + i) * ld + column;
        for (int64_t d = 0; d < padded; d += VL) {
            vf v = vset(0.0f);
            if (d < width) v = bf16 ? vget_n(true, x, at + d, width - d) : vget_n(false, x, at + d, width - d);
            vstore(dst + (d / TILE_COLS * room + i) * TILE_COLS + d % TILE_COLS, v);
        }
    }
}

/* The same rows as columns of panels [rows / TILE_COLS, rounded up][width, TILE_COLS]: b of a product over the width.
 * Columns past the last row are zeros. */
static void pack_columns(float *dst, bool bf16, const void *x, int64_t row, int64_t column, int64_t ld, int64_t rows,
                         int64_t width)
{
    for (int64_t j = 0; j < round_to(rows, TILE_COLS); j += VL)
        for (int64_t d = 0; d < width; d += VL) {
            vf r[VL];
            const int64_t at = (row + j) * ld + column + d;
            for (int64_t i = 0; i < VL; i++) {
                r[i] = vset(0.0f);
                if (j + i < rows)
                    r[i] = bf16 ? vget_n(true, x, at + i * ld, width - d) : vget_n(false, x, at + i * ld, width - d);
            }
            vtranspose(r);
            float *to = dst + (j / TILE_COLS * width + d) * TILE_COLS + j % TILE_COLS;
            for (int64_t i = 0; i < VL && i < width - d; i++) vstore(to + i * TILE_COLS, r[i]);
        }
}
