/* Sums of tiles by AMX: four tiles of 16 x 16 sums, with two tiles of a and two of b as operands (Intel's optimization
 * manual, chapter on AMX). Packed a is laid out as [k/32][2][16 rows][32]. The instruction sums 32 products by itself,
 * in two chains of 16, and adds one number to the tile: sums that go on from block to block are rounded k/32 times. */

#define PAIRS_ROWS 32

/* Panels of this depth are read from the second level of cache. On a noisy Sapphire Rapids, 1024 was between 5 % slower
 * and 20 % faster than 256, depending on the shape: sums are stored and loaded less often. */
#define PAIRS_BLOCK_K 1024

/* Tiles 0 to 3 hold sums, 4 and 5 hold rows of a, 6 and 7 hold columns of b: 16 rows of 64 bytes each. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

static const tile_config tiles_whole __attribute__((aligned(64))) = {
    .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

static void tiles_enter(void)
{
    _tile_loadconfig(&tiles_whole);
}

/* Releases the tiles, so that the system need not save them when it switches threads. */
static void tiles_leave(void)
{
    _tile_release();
}

/* Tile loads often miss the first level of cache, and the processor does not prefetch them. Rows of a are prefetched
 * PAIRS_AHEAD steps before they are used, and the next panel of b (from memory) while this one is multiplied. */
#define PAIRS_AHEAD 2

ALWAYS void tiles_ask(const uint16_t *pa, const pairs_next *next, int64_t k)
{
#pragma GCC unroll 32
    for (int line = 0; line < 32; line++) __builtin_prefetch(pa + PAIRS_AHEAD * 1024 + line * 32);
    const uint16_t *b = next->at + k / 32 * next->lines * 32;
    for (int64_t line = 0; line < next->lines; line++) __builtin_prefetch(b + line * 32, 0, 2);
}

ALWAYS void pairs_sum(float *sum, const uint16_t *pa, const uint16_t *pb, int64_t depth, bool from_zero,
                      pairs_next next)
{
    __asm__ volatile("" ::: "memory"); /* gcc's intrinsics do not declare that they read memory */
    if (from_zero) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, sum, PAIRS_COLUMNS * 4);
        _tile_loadd(1, sum + 16, PAIRS_COLUMNS * 4);
        _tile_loadd(2, sum + 16 * PAIRS_COLUMNS, PAIRS_COLUMNS * 4);
        _tile_loadd(3, sum + 16 * PAIRS_COLUMNS + 16, PAIRS_COLUMNS * 4);
    }
    for (int64_t k = 0; k < depth; k += 32, pa += 1024, pb += 1024) {
        tiles_ask(pa, &next, k);
        _tile_loadd(6, pb, PAIRS_COLUMNS * 4);
        _tile_loadd(4, pa, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, pb + 32, PAIRS_COLUMNS * 4);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, pa + 512, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sum, PAIRS_COLUMNS * 4);
    _tile_stored(1, sum + 16, PAIRS_COLUMNS * 4);
    _tile_stored(2, sum + 16 * PAIRS_COLUMNS, PAIRS_COLUMNS * 4);
    _tile_stored(3, sum + 16 * PAIRS_COLUMNS + 16, PAIRS_COLUMNS * 4);
}

#include "cpu/gemm/gemm_pairs_body.c"

static void pairs_pack_a(const pairs_block *b, uint16_t *panel, int64_t row, int64_t rows, bool sums)
{
    const mega_gemm_args *a = b->args;
    __m512 sum[2][2] = {{_mm512_setzero_ps(), _mm512_setzero_ps()}, {_mm512_setzero_ps(), _mm512_setzero_ps()}};
    const uint16_t *x = (const uint16_t *)a->a + (a->trans_a ? b->k * a->lda + row : row * a->lda + b->k);
    for (int64_t k = 0; k < b->padded; k += 32, panel += 1024) {
        const __mmask32 there = mask_of_32(b->depth - k);
        if (!a->trans_a)
            for (int64_t i = 0; i < 32; i++)
                _mm512_storeu_si512(panel + i * 32, _mm512_maskz_loadu_epi16(i < rows ? there : 0,
                                                                             x + (i < rows ? i : 0) * a->lda + k));
        else
            for (int64_t half = 0; half < 2; half++) {
                const uint16_t *at = x + k * a->lda + half * 16;
                const __mmask16 across = mask_of_16(rows - half * 16);
                vf line[16];
#pragma GCC unroll 16
                for (int j = 0; j < 16; j++) {
                    const int64_t left = b->depth - k - 2 * j;
                    const __m256i even = _mm256_maskz_loadu_epi16(left > 0 ? across : 0, at + 2 * j * a->lda);
                    const __m256i odd = _mm256_maskz_loadu_epi16(left > 1 ? across : 0, at + (2 * j + 1) * a->lda);
                    line[j] = (vf)pairs_join(even, odd);
                    if (sums) sum[half][j & 1] = pairs_add(sum[half][j & 1], (__m512i)line[j]);
                }
                vtranspose(line);
#pragma GCC unroll 16
                for (int j = 0; j < 16; j++) _mm512_storeu_ps(panel + half * 512 + j * 32, line[j]);
            }
    }
    if (sums)
        for (int64_t half = 0; half < 2 && half * 16 < rows; half++)
            pairs_put_row_sum(a, row + half * 16, mask_of_16(rows - half * 16),
                              _mm512_add_ps(sum[half][0], sum[half][1]));
}

static double tiles_spin(int64_t rounds, float *sink)
{
    float sum[256];
    tiles_enter();
    for (int64_t i = 0; i < rounds; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sum, 64);
    tiles_leave();
    sink[0] = sum[0];
    return (double)rounds * 4 * 2 * 16 * 16 * 32;
}
