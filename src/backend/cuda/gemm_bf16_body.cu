/* Matrix product in bf16 by tensor cores (ops_linear.h): a block of four warps has 128 x 128 of c, a warp 64 x 64.
 * Along k it goes in slices of 32, of which the next is fetched while one is used. Part of gemm.cu. */

/* A slice in shared memory, as it lies in memory: 128 rows of 32, or 32 rows of 128 (is_across). Rows begin at
 * multiples of 16 bytes, and eight rows in a column are in different banks. */
enum { ALONG_LD = GEMM_BF16_DEPTH + 8, ACROSS_LD = GEMM_TILE + 8, SLICE = GEMM_TILE * ALONG_LD };
typedef struct gemm_bf16_shared {
    uint16_t a[2][SLICE], b[2][SLICE];
} gemm_bf16_shared;

/* Eight numbers of a row of which `count` are there: the others become 0. */
BODY void fetch_eight(uint16_t *to, const uint16_t *from, int64_t count)
{
    bytes_16 v;
    if (count >= 8 && is_aligned(from)) {
        copy_async_16(to, from, 16);
        return;
    }
    UNROLL
    for (int w = 0; w < 4; w++) {
        const uint32_t low = 2 * w < count ? from[2 * w] : 0, high = 2 * w + 1 < count ? from[2 * w + 1] : 0;
        v.v[w] = low | high << 16;
    }
    store_16(to, v);
}

/* Starts to fetch the slice at k of the rows (columns of b) from `first` on, of which `rows` are in all. */
BODY void fetch_slice(uint16_t *to, const void *from, int64_t ld, bool is_across, int64_t first, int64_t rows,
                      int64_t k, int64_t depth)
{
    enum { PIECES = GEMM_TILE * GEMM_BF16_DEPTH / 8 / GEMM_BF16_THREADS };
    UNROLL
    for (int n = 0; n < PIECES; n++) {
        const int i = n * GEMM_BF16_THREADS + (int)thread_x(), per_row = (is_across ? GEMM_TILE : GEMM_BF16_DEPTH) / 8;
        const int r = i / per_row, c = i % per_row * 8;
        const int64_t row = r + (is_across ? k : first), col = c + (is_across ? first : k);
        const int64_t end_row = is_across ? depth : rows, end_col = is_across ? rows : depth;
        const int64_t count = row < end_row ? end_col - col : 0;
        fetch_eight(to + r * (is_across ? ACROSS_LD : ALONG_LD) + c,
                    (const uint16_t *)from + (count > 0 ? row * ld + col : 0), count);
    }
}

/* Fragments of rows `row` to row + 15 and numbers k to k + 15 along k, as operand a. */
BODY void load_a(uint32_t f[4], const uint16_t *slice, bool is_across, int row, int k)
{
    const int lane = (int)thread_x() % 32;
    if (is_across)
        warp_load_matrices_transposed(f, slice + (k + lane / 16 * 8 + lane % 8) * ACROSS_LD + row + lane / 8 % 2 * 8);
    else
        warp_load_matrices(f, slice + (row + lane % 16) * ALONG_LD + k + lane / 16 * 8);
}

/* Of columns `col` to col + 15, as operand b: two for the first eight of them, two for the others. */
BODY void load_b(uint32_t f[4], const uint16_t *slice, bool is_across, int col, int k)
{
    const int lane = (int)thread_x() % 32;
    if (is_across)
        warp_load_matrices_transposed(f, slice + (k + lane / 8 % 2 * 8 + lane % 8) * ACROSS_LD + col + lane / 16 * 8);
    else
        warp_load_matrices(f, slice + (col + lane % 8 + lane / 16 * 8) * ALONG_LD + k + lane / 8 % 2 * 8);
}

BODY void multiply_slice(float sum[4][8][4], const uint16_t *a, const uint16_t *b, bool a_across, bool b_across)
{
    const int warp = (int)thread_x() / 32, row = warp / 2 * 64, col = warp % 2 * 64;
    UNROLL
    for (int k = 0; k < GEMM_BF16_DEPTH; k += 16) {
        uint32_t x[4][4], y[4][4];
        UNROLL
        for (int i = 0; i < 4; i++) load_a(x[i], a, a_across, row + i * 16, k);
        UNROLL
        for (int j = 0; j < 4; j++) load_b(y[j], b, b_across, col + j * 16, k);
        UNROLL
        for (int i = 0; i < 4; i++) {
            UNROLL
            for (int j = 0; j < 8; j++) warp_mma_bf16(sum[i][j], x[i], y[j / 2] + j % 2 * 2);
        }
    }
}

BODY void store_sums(const mega_gemm_args *a, int64_t m0, int64_t n0, float sum[4][8][4])
{
    const int lane = (int)thread_x() % 32, warp = (int)thread_x() / 32;
    const bool adds = gemm_adds(a);
    UNROLL
    for (int i = 0; i < 4; i++) {
        UNROLL
        for (int j = 0; j < 8; j++) {
            const int64_t m = m0 + warp / 2 * 64 + i * 16 + lane / 4, n = n0 + warp % 2 * 64 + j * 8 + lane % 4 * 2;
            gemm_store(a, MEGA_BF16, m, n, adds, sum[i][j][0], sum[i][j][1]);
            gemm_store(a, MEGA_BF16, m + 8, n, adds, sum[i][j][2], sum[i][j][3]);
        }
    }
}

BODY void gemm_bf16_run(const mega_gemm_args *a, bool trans_a, bool trans_b)
{
    SHARED(gemm_bf16_shared, s);
    const int64_t m0 = (int64_t)block_y() * GEMM_TILE, n0 = (int64_t)block_x() * GEMM_TILE;
    float sum[4][8][4];
    if (gemm_is_above(a, m0, n0)) return;
    UNROLL
    for (int i = 0; i < 4; i++) {
        UNROLL
        for (int j = 0; j < 8; j++) {
            UNROLL
            for (int e = 0; e < 4; e++) sum[i][j][e] = 0.0f;
        }
    }
    fetch_slice(s->a[0], a->a, a->lda, trans_a, m0, a->m, 0, a->k);
    fetch_slice(s->b[0], a->b, a->ldb, !trans_b, n0, a->n, 0, a->k);
    copy_async_commit();
    int turn = 0;
    for (int64_t k = 0; k < a->k; k += GEMM_BF16_DEPTH, turn ^= 1) {
        const int64_t next = k + GEMM_BF16_DEPTH;
        copy_async_wait(0);
        block_barrier(); /* all have copied, and all are done with the slice that is fetched next */
        if (next < a->k) {
            fetch_slice(s->a[turn ^ 1], a->a, a->lda, trans_a, m0, a->m, next, a->k);
            fetch_slice(s->b[turn ^ 1], a->b, a->ldb, !trans_b, n0, a->n, next, a->k);
            copy_async_commit();
        }
        multiply_slice(sum, s->a[turn], s->b[turn], trans_a, !trans_b);
    }
    store_sums(a, m0, n0, sum);
}
