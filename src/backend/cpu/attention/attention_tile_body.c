/* The small matrix products of attention, and the packing of their operands:
 *   c[M, N] (+)= a[M, K] b[K, N], sums in float.
 * Rows of a are along k and `lda` words apart; rows of b and of c are BLOCK words apart, and N is at most BLOCK. A word
 * is a float or, with PAIRS, two bf16 that are consecutive along k. */

#define BLOCK       MEGA_ATTENTION_BLOCK
#define GRAIN       MEGA_ATTENTION_GRAIN
#define STRIP       16 /* a causal mask is cut at multiples of this */
#define PER_WORD    (PAIRS ? 2 : 1)
#define QUERY_GRAIN (PAIRS ? GRAIN : STRIP) /* queries of a block are padded to a multiple of this */

/* Like BY_TYPE. Pairs are always BF16. */
#if PAIRS
#define BY_ROWS_TYPE(dtype, call)          \
    do {                                   \
        const mega_dtype type = MEGA_BF16; \
        call;                              \
    } while (0)
#else
#define BY_ROWS_TYPE BY_TYPE
#endif

/* Number of rows by which prefetching is ahead: the rows of a head are far apart, often each on its own page
 * (bench_attention). */
#define ROWS_AHEAD 8

ALWAYS void ask_for_row(const head_rows *x, int64_t i, int64_t rows)
{
    if (i >= rows) return;
    const int64_t size = vsize(x->type);
    const char *at = (const char *)x->x + (x->at + i * x->ld) * size;
    for (int64_t b = 0; b < x->width * size; b += 64) __builtin_prefetch(at + b);
}

/* Rows of tensors that are needed soon. Products prefetch `step` of them with each tile of sums. Prefetching all at
 * once would fill the processor's buffers for outstanding lines and stall it. */
typedef struct rows_ahead {
    uintptr_t at[8];
    int64_t stride[8], bytes, left, step; /* bytes between rows, and per row; rows left per tensor, and per prefetch */
    int tensors, tensor;                  /* tensor: the one whose row is next */
} rows_ahead;

ALWAYS void ahead_add(rows_ahead *t, head_rows x)
{
    const int64_t size = vsize(x.type);
    t->at[t->tensors] = (uintptr_t)x.x + (uintptr_t)(x.at * size);
    t->stride[t->tensors++] = x.ld * size;
    t->bytes = x.width * size;
}

ALWAYS void ask_ahead(rows_ahead *t)
{
    for (int64_t n = 0; n < t->step && t->left > 0; n++) {
        const uintptr_t at = t->at[t->tensor];
        for (int64_t b = 0; b < t->bytes; b += 64) __builtin_prefetch((const char *)at + b, 0, 2);
        t->at[t->tensor] = at + (uintptr_t)t->stride[t->tensor];
        if (++t->tensor == t->tensors) t->tensor = 0, t->left--;
    }
}

#if PAIRS
/* Returns x rounded to bf16 in the first half, and y in the second. */
ALWAYS __m512i narrow_two(vf x, vf y)
{
    return (__m512i)_mm512_cvtne2ps_pbh((__m512)y, (__m512)x);
}

/* Returns the lanes of narrow_two as words: each is the bf16 of x, then that of y. */
ALWAYS vf pairs_of_two(__m512i halves)
{
    static const uint16_t order[2 * VL] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                           8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return (vf)_mm512_permutexvar_epi16(_mm512_loadu_si512(order), halves);
}
#endif

#if PRODUCTS_BY_TILES
/* Tiles 0 to 3 hold sums, 4 and 5 hold rows of a, 6 and 7 hold columns of b. */
ALWAYS void attention_tile(const int R, const int N, float *c, const float *a, int64_t lda, const float *b, int64_t K,
                           bool accumulate)
{
    float *c1 = c + 16 * BLOCK;
    if (accumulate) {
        _tile_loadd(0, c, 4 * BLOCK);
        if (N > 1) _tile_loadd(1, c + 16, 4 * BLOCK);
        if (R > 1) _tile_loadd(2, c1, 4 * BLOCK);
        if (R > 1 && N > 1) _tile_loadd(3, c1 + 16, 4 * BLOCK);
    } else {
        _tile_zero(0);
        if (N > 1) _tile_zero(1);
        if (R > 1) _tile_zero(2);
        if (R > 1 && N > 1) _tile_zero(3);
    }
    for (int64_t k = 0; k < K; k += 16, a += 16, b += 16 * BLOCK) {
        _tile_loadd(6, b, 4 * BLOCK);
        _tile_loadd(4, a, 4 * lda);
        _tile_dpbf16ps(0, 4, 6);
        if (N > 1) _tile_loadd(7, b + 16, 4 * BLOCK);
        if (N > 1) _tile_dpbf16ps(1, 4, 7);
        if (R > 1) _tile_loadd(5, a + 16 * lda, 4 * lda);
        if (R > 1) _tile_dpbf16ps(2, 5, 6);
        if (R > 1 && N > 1) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, 4 * BLOCK);
    if (N > 1) _tile_stored(1, c + 16, 4 * BLOCK);
    if (R > 1) _tile_stored(2, c1, 4 * BLOCK);
    if (R > 1 && N > 1) _tile_stored(3, c1 + 16, 4 * BLOCK);
}

/* M, N and K (in words) must be multiples of 16. */
static void attention_product(float *c, const float *a, int64_t lda, const float *b, int64_t M, int64_t N, int64_t K,
                              bool accumulate, rows_ahead *ahead)
{
    __asm__ volatile("" ::: "memory"); /* gcc's intrinsics do not declare that they access memory */
    for (int64_t n = 0; n < N; n += 32)
        for (int64_t m = 0; m < M; m += 32) {
            float *to = c + m * BLOCK + n;
            ask_ahead(ahead);
            if (M - m > 16 && N - n > 16) attention_tile(2, 2, to, a + m * lda, lda, b + n, K, accumulate);
            else if (M - m > 16)
                attention_tile(2, 1, to, a + m * lda, lda, b + n, K, accumulate);
            else if (N - n > 16)
                attention_tile(1, 2, to, a + m * lda, lda, b + n, K, accumulate);
            else
                attention_tile(1, 1, to, a + m * lda, lda, b + n, K, accumulate);
        }
    __asm__ volatile("" ::: "memory");
}
#else
/* The sums (rows x vectors), the vectors of b and one vector of a together fill the 16 or 32 registers. */
#define TILE_ROWS 6
#define TILE_VECS (VECTOR_BYTES == 64 ? 4 : 2)

/* Steps of k that are unrolled; bench_attention shows it. */
#define TILE_STEP 8

ALWAYS void attention_step(const int R, const int N, vf sum[TILE_ROWS][TILE_VECS], const float *a, int64_t lda,
                           const float *b)
{
    vf v[TILE_VECS];
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) v[n] = vload(b + n * VL);
#pragma GCC unroll 6
    for (int r = 0; r < R; r++) {
#if PAIRS
        int32_t pair;
        memcpy(&pair, a + r * lda, sizeof pair);
        const __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sum[r][n] = (vf)_mm512_dpbf16_ps((__m512)sum[r][n], x, (__m512bh)v[n]);
#else
        const vf x = vset(a[r * lda]);
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sum[r][n] += x * v[n];
#endif
    }
}

ALWAYS void attention_tile(const int R, const int N, float *restrict c, const float *restrict a, int64_t lda,
                           const float *restrict b, int64_t K, bool accumulate)
{
    vf sum[TILE_ROWS][TILE_VECS];
#pragma GCC unroll 24
    for (int i = 0; i < R * N; i++) {
        if (accumulate) __builtin_prefetch(c + i / N * BLOCK + i % N * VL, 1);
        sum[i / N][i % N] = vset(0.0f);
    }
    for (int64_t k = 0; k < K; k += TILE_STEP) { /* few iterations, which the processor predicts fully */
#pragma GCC unroll 6
        for (int r = 0; r < R; r++) __builtin_prefetch(a + (R + r) * lda + k);
        const int64_t stop = K - k < TILE_STEP ? K : k + TILE_STEP;
        if (stop == k + TILE_STEP)
#pragma GCC unroll 8
            for (int s = 0; s < TILE_STEP; s++) attention_step(R, N, sum, a + k + s, lda, b + (k + s) * BLOCK);
        else
            for (int64_t s = k; s < stop; s++) attention_step(R, N, sum, a + s, lda, b + s * BLOCK);
    }
#pragma GCC unroll 24
    for (int i = 0; i < R * N; i++) {
        float *at = c + i / N * BLOCK + i % N * VL;
        vstore(at, accumulate ? vload(at) + sum[i / N][i % N] : sum[i / N][i % N]);
    }
}

/* Computes all rows for N vectors of columns. */
ALWAYS void attention_columns(const int N, float *c, const float *a, int64_t lda, const float *b, int64_t M, int64_t K,
                              bool accumulate, rows_ahead *ahead)
{
    int64_t m = M;
    for (; m >= TILE_ROWS; m -= TILE_ROWS, c += TILE_ROWS * BLOCK, a += TILE_ROWS * lda) {
        ask_ahead(ahead);
        attention_tile(TILE_ROWS, N, c, a, lda, b, K, accumulate);
    }
    if (m >= 4) {
        attention_tile(4, N, c, a, lda, b, K, accumulate);
        m -= 4, c += 4 * BLOCK, a += 4 * lda;
    }
    if (m >= 2) {
        attention_tile(2, N, c, a, lda, b, K, accumulate);
        m -= 2, c += 2 * BLOCK, a += 2 * lda;
    }
    if (!PAIRS && m > 0) attention_tile(1, N, c, a, lda, b, K, accumulate); /* rows of pairs are even */
}

/* K is in words. */
static void attention_product(float *c, const float *a, int64_t lda, const float *b, int64_t M, int64_t N, int64_t K,
                              bool accumulate, rows_ahead *ahead)
{
    for (; N >= TILE_VECS * VL; N -= TILE_VECS * VL, c += TILE_VECS * VL, b += TILE_VECS * VL)
        attention_columns(TILE_VECS, c, a, lda, b, M, K, accumulate, ahead);
#if VECTOR_BYTES == 64
    if (N >= 3 * VL) attention_columns(3, c, a, lda, b, M, K, accumulate, ahead);
    else if (N >= 2 * VL)
        attention_columns(2, c, a, lda, b, M, K, accumulate, ahead);
    else
#endif
        if (N >= VL)
        attention_columns(1, c, a, lda, b, M, K, accumulate, ahead);
}
#endif

/* Returns words [w, w + VL) of row i: VL elements or, with PAIRS, 2 VL. Zeros after the end of the row. */
ALWAYS vf row_words(const mega_dtype type, const head_rows *x, int64_t i, int64_t w)
{
    const int64_t at = x->at + i * x->ld + w * PER_WORD, n = x->width - w * PER_WORD;
#if PAIRS
    (void)type;
    if (n >= 2 * VL) {
        vf v;
        memcpy(&v, (const uint16_t *)x->x + at, sizeof v);
        return v;
    }
    uint16_t few[2 * VL] = {0};
    if (n > 0) memcpy(few, (const uint16_t *)x->x + at, (size_t)n * sizeof *few);
    vf v;
    memcpy(&v, few, sizeof v);
    return v;
#else
    return n > 0 ? vget_n(type, x->x, at, n) : vset(0.0f);
#endif
}

/* Returns words of elements [d, d + VL) from consecutive rows: from row i or, with PAIRS, from rows 2 i and 2 i + 1. */
ALWAYS vf column_words(const mega_dtype type, const head_rows *x, int64_t i, int64_t rows, int64_t d)
{
    const int64_t n = x->width - d;
#if PAIRS
    (void)type;
    vh h[2];
    for (int l = 0; l < 2; l++) {
        const int64_t row = 2 * i + l, at = x->at + row * x->ld + d;
        h[l] = (vh){0};
        if (row >= rows || n <= 0) continue;
        if (n >= VL) memcpy(&h[l], (const uint16_t *)x->x + at, sizeof h[l]);
        else
            for (int64_t c = 0; c < n; c++) h[l][c] = ((const uint16_t *)x->x)[at + c];
    }
    return (vf)(__builtin_convertvector(h[0], vu) | __builtin_convertvector(h[1], vu) << 16);
#else
    if (i >= rows || n <= 0) return vset(0.0f);
    return vget_n(type, x->x, x->at + i * x->ld + d, n);
#endif
}

/* Packs to dst[i, w): rows [0, rows) along their elements, and zeros in rows [rows, padded). */
ALWAYS void pack_rows_typed(const mega_dtype type, float *dst, int64_t ld, const head_rows *x, int64_t rows,
                            int64_t padded)
{
    for (int64_t i = 0; i < padded; i++) {
        ask_for_row(x, i + ROWS_AHEAD, rows);
        for (int64_t w = 0; w < ld; w += VL) vstore(dst + i * ld + w, i < rows ? row_words(type, x, i, w) : vset(0.0f));
    }
}

static void pack_rows(float *dst, int64_t ld, const head_rows *x, int64_t rows, int64_t padded)
{
    BY_ROWS_TYPE(x->type, pack_rows_typed(type, dst, ld, x, rows, padded));
}

/* Transposes rows [0, rows) into columns, with zeros up to column `padded`. Writes dst[w, i), with BLOCK words between
 * rows, from words w of row i; with `along`, writes dst[d, i), with BLOCK / PER_WORD words between rows, from elements
 * d of the rows along i. */
ALWAYS void pack_columns_typed(const mega_dtype type, const bool along, float *dst, const head_rows *x, int64_t rows,
                               int64_t padded)
{
    const int64_t ld = along ? BLOCK / PER_WORD : BLOCK, columns = along ? padded / PER_WORD : padded;
    const int64_t words = attention_round(x->width, GRAIN) / (along ? 1 : PER_WORD);
    for (int64_t i = 0; i < columns; i += VL)
        for (int64_t w = 0; w < words; w += VL) {
            vf r[VL];
#pragma GCC unroll 16
            for (int l = 0; l < VL; l++)
                r[l] = along          ? column_words(type, x, i + l, rows, w)
                       : i + l < rows ? row_words(type, x, i + l, w)
                                      : vset(0.0f);
            vtranspose(r);
#pragma GCC unroll 16
            for (int l = 0; l < VL; l++) vstore(dst + (w + l) * ld + i, r[l]);
        }
}

ALWAYS void pack_columns(const bool along, float *dst, const head_rows *x, int64_t rows, int64_t padded)
{
    for (int64_t i = 0; i < rows; i++) ask_for_row(x, i, rows);
    BY_ROWS_TYPE(x->type, pack_columns_typed(type, along, dst, x, rows, padded));
}

#if PRODUCTS_BY_TILES
static void pack_turned(float *dst, const head_rows *x, int64_t rows, int64_t padded)
{
    mega_attention_dots.pack_turned(dst, x, rows, padded);
}

static void pack_along(float *dst, const head_rows *x, int64_t rows, int64_t padded)
{
    mega_attention_dots.pack_along(dst, x, rows, padded);
}
#else
static void pack_turned(float *dst, const head_rows *x, int64_t rows, int64_t padded)
{
    pack_columns(false, dst, x, rows, padded);
}

#if PAIRS
static void pack_along(float *dst, const head_rows *x, int64_t rows, int64_t padded)
{
    pack_columns(true, dst, x, rows, padded);
}
#else
#define pack_along pack_turned /* for words of floats both layouts are the same */
#endif
#endif

/* Copies rows to dst as panels of BLOCK columns [BLOCK / PER_WORD, BLOCK], with zeros up to row `padded`. */
ALWAYS void pack_panels_typed(const mega_dtype type, float *dst, const head_rows *x, int64_t rows, int64_t padded)
{
    for (int64_t d = 0; d < attention_round(x->width, GRAIN); d += VL)
        for (int64_t i = 0; i < padded / PER_WORD; i++)
            vstore(dst + d / BLOCK * (BLOCK * BLOCK) + i * BLOCK + d % BLOCK, column_words(type, x, i, rows, d));
}

static void pack_panels(float *dst, const head_rows *x, int64_t rows, int64_t padded)
{
    BY_ROWS_TYPE(x->type, pack_panels_typed(type, dst, x, rows, padded));
}

/* Writes rows [0, rows) of x = factor[i] * columns [0, rows) of src[width, BLOCK). */
static void unpack_turned(const head_rows *x, const float *src, const float *factor, int64_t rows)
{
    void *to = (void *)(uintptr_t)x->x;
    for (int64_t i = 0; i < rows; i += VL)
        for (int64_t d = 0; d < x->width; d += VL) {
            vf r[VL];
            const vf by = vload(factor + i);
#pragma GCC unroll 16
            for (int l = 0; l < VL; l++) r[l] = vload(src + (d + l) * BLOCK + i) * by;
            vtranspose(r);
            float lines[VL][VL];
            memcpy(lines, r, sizeof lines);
            for (int64_t l = 0; l < VL && l < rows - i; l++) {
                const int64_t at = x->at + (i + l) * x->ld + d;
                BY_ROWS_TYPE(x->type, vput_n(type, to, at, x->width - d, vload(lines[l])));
            }
        }
}

/* Writes rows [0, rows) of x = scale * rows of src, which has panels of BLOCK columns, `panel` words apart. */
static void unpack_panels(const head_rows *x, const float *src, int64_t panel, int64_t rows, float scale)
{
    void *to = (void *)(uintptr_t)x->x;
    for (int64_t i = 0; i < rows; i++) {
        ask_for_row(x, i + ROWS_AHEAD, rows);
        for (int64_t d = 0; d < x->width; d += VL) {
            const int64_t at = x->at + i * x->ld + d;
            const vf v = vload(src + d / BLOCK * panel + i * BLOCK + d % BLOCK) * scale;
            BY_ROWS_TYPE(x->type, vput_n(type, to, at, x->width - d, v));
        }
    }
}
