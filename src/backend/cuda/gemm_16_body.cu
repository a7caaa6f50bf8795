/* Matrix product of 16-bit numbers by tensor cores (ops_linear.h): a block of four warps has 128 x 128 of c, a warp
 * 64 x 64. Along k it goes in slices of 32, of which the next is fetched while one is used. Part of gemm.cu. */

/* A slice in shared memory, as it lies in memory: 128 rows of 32, or 32 rows of 128 (is_across). Rows begin at
 * multiples of 16 bytes, and eight rows in a column are in different banks. */
enum { ALONG_LD = GEMM_16_DEPTH + 8, ACROSS_LD = GEMM_TILE + 8, SLICE = GEMM_TILE * ALONG_LD };
typedef struct gemm_16_shared {
    uint16_t a[2][SLICE], b[2][SLICE];
} gemm_16_shared;

/* Starts to fetch the slice at k of the rows (columns of b) from `first` on, of which `rows` are in all. */
BODY void fetch_slice(uint16_t *to, const void *from, int64_t ld, bool is_across, int64_t first, int64_t rows,
                      int64_t k, int64_t depth)
{
    enum { PIECES = GEMM_TILE * GEMM_16_DEPTH / 8 / GEMM_16_THREADS };
    UNROLL
    for (int n = 0; n < PIECES; n++) {
        const int i = n * GEMM_16_THREADS + (int)thread_x(), per_row = (is_across ? GEMM_TILE : GEMM_16_DEPTH) / 8;
        const int r = i / per_row, c = i % per_row * 8;
        const int64_t row = r + (is_across ? k : first), col = c + (is_across ? first : k);
        const int64_t end_row = is_across ? depth : rows, end_col = is_across ? rows : depth;
        const int64_t count = row < end_row ? end_col - col : 0;
        fetch_eight(to + r * (is_across ? ACROSS_LD : ALONG_LD) + c,
                    (const uint16_t *)from + (count > 0 ? row * ld + col : 0), count);
    }
}

BODY void multiply_slice(mega_dtype t, float sum[4][8][4], const uint16_t *a, const uint16_t *b, bool a_across,
                         bool b_across)
{
    const int warp = (int)thread_x() / 32, row = warp / 2 * 64, col = warp % 2 * 64;
    const int a_ld = a_across ? ACROSS_LD : ALONG_LD, b_ld = b_across ? ACROSS_LD : ALONG_LD;
    UNROLL
    for (int k = 0; k < GEMM_16_DEPTH; k += 16) {
        uint32_t x[4][4], y[4][4];
        UNROLL
        for (int i = 0; i < 4; i++) load_a(x[i], a, a_ld, a_across, row + i * 16, k);
        UNROLL
        for (int j = 0; j < 4; j++) load_b(y[j], b, b_ld, b_across, col + j * 16, k);
        UNROLL
        for (int i = 0; i < 4; i++) {
            UNROLL
            for (int j = 0; j < 8; j++) warp_mma(t, sum[i][j], x[i], y[j / 2] + j % 2 * 2);
        }
    }
}

BODY void store_sums(const mega_gemm_args *a, mega_dtype t, int64_t m0, int64_t n0, float sum[4][8][4])
{
    const int lane = (int)thread_x() % 32, warp = (int)thread_x() / 32;
    const bool adds = gemm_adds(a);
    UNROLL
    for (int i = 0; i < 4; i++) {
        UNROLL
        for (int j = 0; j < 8; j++) {
            const int64_t m = m0 + warp / 2 * 64 + i * 16 + lane / 4, n = n0 + warp % 2 * 64 + j * 8 + lane % 4 * 2;
            gemm_store(a, t, m, n, adds, sum[i][j][0], sum[i][j][1]);
            gemm_store(a, t, m + 8, n, adds, sum[i][j][2], sum[i][j][3]);
        }
    }
}

/* Computes the block of c that begins at row m0 and column n0. */
BODY void gemm_16_run(const mega_gemm_args *a, mega_dtype t, bool trans_a, bool trans_b, int64_t m0, int64_t n0)
{
    SHARED(gemm_16_shared, s);
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
    for (int64_t k = 0; k < a->k; k += GEMM_16_DEPTH, turn ^= 1) {
        const int64_t next = k + GEMM_16_DEPTH;
        copy_async_wait(0);
        block_barrier(); /* all have copied, and all are done with the slice that is fetched next */
        if (next < a->k) {
            fetch_slice(s->a[turn ^ 1], a->a, a->lda, trans_a, m0, a->m, next, a->k);
            fetch_slice(s->b[turn ^ 1], a->b, a->ldb, !trans_b, n0, a->n, next, a->k);
            copy_async_commit();
        }
        multiply_slice(t, sum, s->a[turn], s->b[turn], trans_a, !trans_b);
    }
    store_sums(a, t, m0, n0, sum);
}
