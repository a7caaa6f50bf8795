/* Sums of tiles by dot products of pairs in vectors of 64 bytes. Packed a is laid out as [k/2][PAIRS_ROWS][2]. */

#define PAIRS_ROWS 12 /* 24 sums, 2 vectors of b, 1 broadcast pair of a: of 32 registers */

/* A panel of b of this depth, and the panels of a that it is multiplied with, stay in the first level of cache. It also
 * bounds the roundings in one chain: a dot product is two fused multiply-adds in sequence, so a sum that went on from
 * block to block would be rounded k times, each time at the size that it has by then. */
#define PAIRS_BLOCK_K 256

ALWAYS void pairs_sum(float *sum, const uint16_t *pa, const uint16_t *pb, int64_t depth, bool from_zero,
                      pairs_next next)
{
    (void)next; /* the processor prefetches plain loads by itself */
    __m512 s[PAIRS_ROWS][2];
#pragma GCC unroll 12
    for (int r = 0; r < PAIRS_ROWS; r++) s[r][0] = s[r][1] = _mm512_setzero_ps();
    for (int64_t k = 0; k < depth; k += 2, pa += 2 * PAIRS_ROWS, pb += 2 * PAIRS_COLUMNS) {
        const __m512bh b0 = (__m512bh)_mm512_loadu_si512(pb), b1 = (__m512bh)_mm512_loadu_si512(pb + 32);
#pragma GCC unroll 12
        for (int r = 0; r < PAIRS_ROWS; r++) {
            int32_t pair;
            memcpy(&pair, pa + 2 * r, sizeof pair);
            const __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
            s[r][0] = _mm512_dpbf16_ps(s[r][0], x, b0);
            s[r][1] = _mm512_dpbf16_ps(s[r][1], x, b1);
        }
    }
    if (!from_zero)
#pragma GCC unroll 12
        for (int r = 0; r < PAIRS_ROWS; r++) {
            s[r][0] = _mm512_add_ps(_mm512_loadu_ps(sum + r * PAIRS_COLUMNS), s[r][0]);
            s[r][1] = _mm512_add_ps(_mm512_loadu_ps(sum + r * PAIRS_COLUMNS + 16), s[r][1]);
        }
#pragma GCC unroll 12
    for (int r = 0; r < PAIRS_ROWS; r++) {
        _mm512_storeu_ps(sum + r * PAIRS_COLUMNS, s[r][0]);
        _mm512_storeu_ps(sum + r * PAIRS_COLUMNS + 16, s[r][1]);
    }
}

static void dots_nothing(void)
{
}

#include "cpu/gemm/gemm_pairs_body.c"

static void pairs_pack_a(const pairs_block *b, uint16_t *panel, int64_t row, int64_t rows, bool sums)
{
    const mega_gemm_args *a = b->args;
    const uint16_t *x = (const uint16_t *)a->a + (a->trans_a ? b->k * a->lda + row : row * a->lda + b->k);
    const __mmask16 across = mask_of_16(rows), whole = mask_of_16(PAIRS_ROWS);
    if (a->trans_a) {
        __m512 sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
        for (int64_t k = 0; k < b->padded; k += 2, panel += 2 * PAIRS_ROWS) {
            const __m256i even = _mm256_maskz_loadu_epi16(across, x + k * a->lda);
            const __m256i odd = _mm256_maskz_loadu_epi16(k + 1 < b->depth ? across : 0, x + (k + 1) * a->lda);
            const __m512i pairs = pairs_join(even, odd);
            _mm512_mask_storeu_epi32(panel, whole, pairs);
            if (!sums) continue;
            const __m512 older = sum[1];
            sum[1] = pairs_add(sum[0], pairs);
            sum[0] = older;
        }
        if (sums) pairs_put_row_sum(a, row, across, _mm512_add_ps(sum[0], sum[1]));
        return;
    }
    for (int64_t k = 0; k < b->padded; k += 32) {
        vf pairs[16];
        pairs_turn(pairs, x + k, a->lda, rows, b->depth - k);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++, panel += 2 * PAIRS_ROWS)
            if (k + 2 * i < b->padded) _mm512_mask_storeu_epi32(panel, whole, (__m512i)pairs[i]);
    }
}

static double dots_spin(int64_t rounds, float *sink)
{
    enum { SUMS = 24 };
    __m512 s[SUMS];
    const __m512bh x = (__m512bh)_mm512_castps_si512(_mm512_loadu_ps(sink));
#pragma GCC unroll 24
    for (int i = 0; i < SUMS; i++) s[i] = _mm512_setzero_ps();
    for (int64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 24
        for (int j = 0; j < SUMS; j++) s[j] = _mm512_dpbf16_ps(s[j], x, x);
#pragma GCC unroll 24
        for (int j = 0; j < SUMS; j++) __asm__ volatile("" : "+v"(s[j]));
    }
#pragma GCC unroll 24
    for (int i = 1; i < SUMS; i++) s[0] = _mm512_add_ps(s[0], s[i]);
    _mm512_storeu_ps(sink, s[0]);
    return (double)rounds * SUMS * 2 * 32;
}
