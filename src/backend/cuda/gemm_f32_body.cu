/* Matrix product in fp32 by multiply-adds (ops_linear.h): a block has 128 x 128 of c, a thread 8 x 8 of them, four
 * rows and columns and those 64 further on. Along k it goes in slices of 8, of which the next is fetched into registers
 * while one is used. Part of gemm.cu. */

enum { F32_LD = GEMM_TILE + 4, F32_PIECE = GEMM_TILE * GEMM_F32_DEPTH / GEMM_F32_THREADS };
typedef struct gemm_f32_shared {
    float a[2][GEMM_F32_DEPTH][F32_LD], b[2][GEMM_F32_DEPTH][F32_LD];
} gemm_f32_shared;

/* Where the four numbers of a thread lie in a slice: consecutive in memory. */
typedef struct f32_piece {
    int row, k; /* of the first; the others follow along k, or along the rows if is_across */
} f32_piece;

BODY f32_piece f32_place(bool is_across)
{
    const int x = (int)thread_x();
    f32_piece p;
    p.row = is_across ? x % 32 * F32_PIECE : x / 2;
    p.k = is_across ? x / 32 : x % 2 * F32_PIECE;
    return p;
}

BODY void f32_fetch(float to[F32_PIECE], const void *from, int64_t ld, bool is_across, int64_t first, int64_t rows,
                    int64_t k, int64_t depth)
{
    const f32_piece p = f32_place(is_across);
    UNROLL
    for (int i = 0; i < F32_PIECE; i++) {
        const int64_t row = first + p.row + (is_across ? i : 0), at = k + p.k + (is_across ? 0 : i);
        to[i] = row < rows && at < depth ? ((const float *)from)[is_across ? at * ld + row : row * ld + at] : 0.0f;
    }
}

BODY void f32_keep(float (*slice)[F32_LD], const float from[F32_PIECE], bool is_across)
{
    const f32_piece p = f32_place(is_across);
    UNROLL
    for (int i = 0; i < F32_PIECE; i++) slice[p.k + (is_across ? 0 : i)][p.row + (is_across ? i : 0)] = from[i];
}

BODY void f32_multiply(float sum[8][8], float (*a)[F32_LD], float (*b)[F32_LD])
{
    const int row = (int)thread_x() / 16 * 4, col = (int)thread_x() % 16 * 4;
    UNROLL
    for (int k = 0; k < GEMM_F32_DEPTH; k++) {
        float x[8], y[8];
        UNROLL
        for (int i = 0; i < 8; i++) x[i] = a[k][row + i % 4 + i / 4 * 64], y[i] = b[k][col + i % 4 + i / 4 * 64];
        UNROLL
        for (int i = 0; i < 8; i++) {
            UNROLL
            for (int j = 0; j < 8; j++) sum[i][j] = device_fma(x[i], y[j], sum[i][j]);
        }
    }
}

/* Computes the block of c that begins at row m0 and column n0. */
BODY void gemm_f32_run(const mega_gemm_args *a, mega_dtype t, bool trans_a, bool trans_b, int64_t m0, int64_t n0)
{
    SHARED(gemm_f32_shared, s);
    float sum[8][8], x[F32_PIECE], y[F32_PIECE];
    if (gemm_is_above(a, m0, n0)) return;
    UNROLL
    for (int i = 0; i < 8; i++) {
        UNROLL
        for (int j = 0; j < 8; j++) sum[i][j] = 0.0f;
    }
    f32_fetch(x, a->a, a->lda, trans_a, m0, a->m, 0, a->k);
    f32_fetch(y, a->b, a->ldb, !trans_b, n0, a->n, 0, a->k);
    int turn = 0;
    for (int64_t k = 0; k < a->k; k += GEMM_F32_DEPTH, turn ^= 1) {
        f32_keep(s->a[turn], x, trans_a);
        f32_keep(s->b[turn], y, !trans_b);
        block_barrier(); /* the slice is whole; the one before may still be in use, and is not the next to be written */
        f32_fetch(x, a->a, a->lda, trans_a, m0, a->m, k + GEMM_F32_DEPTH, a->k);
        f32_fetch(y, a->b, a->ldb, !trans_b, n0, a->n, k + GEMM_F32_DEPTH, a->k);
        f32_multiply(sum, s->a[turn], s->b[turn]);
    }
    const bool adds = gemm_adds(a);
    UNROLL
    for (int i = 0; i < 8; i++) {
        UNROLL
        for (int j = 0; j < 8; j += 2)
            gemm_store(a, t, m0 + thread_x() / 16 * 4 + i % 4 + i / 4 * 64,
                       n0 + thread_x() % 16 * 4 + j % 4 + j / 4 * 64, adds, sum[i][j], sum[i][j + 1]);
    }
}
