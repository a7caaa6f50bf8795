/* GEMM of bf16 on packed pairs: two numbers that are consecutive along k are adjacent, as the dot product instructions
 * expect. b is packed in panels of PAIRS_COLUMNS columns, [k/2][PAIRS_COLUMNS][2], and a in panels of PAIRS_ROWS rows.
 * The file that includes this one decides the layout of a and defines
 *   PAIRS_ROWS, PAIRS_BLOCK_K (rows of k that a tile is summed over at a time)
 *   pairs_pack_a  packs rows of op(a)
 *   pairs_sum     computes one tile of PAIRS_ROWS x PAIRS_COLUMNS sums over one block of k, from zero or added to those
 *                 of earlier blocks; may prefetch the next operands
 * Every element is summed in the same order for any division of the work: along k from front to back, slices of k in
 * order. */

#include "cpu/gemm/gemm_pairs.h"

/* Number of panels that rows of b are packed into at a time, so that a row is read in long runs (`bench_kernels bf16`
 * measures it by products whose b is not transposed). */
#define PAIRS_GROUP 24

/* Numbers of a c that is written past the caches: it would fill half of a core's second level. */
#define PAIRS_STREAMED (256 << 10)

/* Packs rows of op(a); with `sums` (only if trans_a) also adds them to row_sum. */
static void pairs_pack_a(const pairs_block *b, uint16_t *panel, int64_t row, int64_t rows, bool sums);

/* Returns the mask of the first n lanes: all for n of 32 (16) or more, none for n below 1. */
ALWAYS __mmask32 mask_of_32(int64_t n)
{
    return n >= 32 ? 0xffffffffu : n <= 0 ? 0 : (1u << n) - 1;
}

ALWAYS __mmask16 mask_of_16(int64_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : n <= 0 ? 0 : (1u << n) - 1);
}

/* Transposes lines that are along k: x points at k of the first of `lines` (at most 16) lines, which have `depth`
 * numbers left. Each of the next 16 pairs becomes a row of 16 pairs, one from each line, with zeros for missing lines
 * and numbers. */
ALWAYS void pairs_turn(vf out[16], const uint16_t *x, int64_t ld, int64_t lines, int64_t depth)
{
    const __mmask32 there = mask_of_32(depth);
    if (lines >= 16 && depth >= 32)
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) out[i] = (vf)_mm512_loadu_si512(x + i * ld);
    else
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            out[i] = i < lines ? (vf)_mm512_maskz_loadu_epi16(there, x + i * ld) : (vf)_mm512_setzero_ps();
    vtranspose(out);
}

/* Interleaves two rows that are across k into one row of 16 pairs. */
ALWAYS __m512i pairs_join(__m256i even, __m256i odd)
{
    return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

ALWAYS void pairs_pack_lines(uint16_t *panel, const uint16_t *x, int64_t ld, int64_t lines, int64_t depth,
                             int64_t padded)
{
    for (int64_t k = 0; k < padded; k += 32)
        for (int half = 0; half < 2; half++) {
            vf row[16];
            pairs_turn(row, x + half * 16 * ld + k, ld, lines - half * 16, depth - k);
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++)
                if (k + 2 * i < padded) _mm512_storeu_ps(panel + (k / 2 + i) * 2 * PAIRS_COLUMNS + half * 32, row[i]);
        }
}

/* Packs rows that are along the columns. Handles several panels at a time, because a row has only one cache line for
 * each. */
ALWAYS void pairs_pack_across(uint16_t *panel, const uint16_t *x, int64_t ld, int64_t columns, int64_t depth,
                              int64_t padded)
{
    const __m512i order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0); /* unpacking works per quarter register */
    for (int64_t k = 0; k < padded; k += 2, panel += 2 * PAIRS_COLUMNS)
        for (int64_t c = 0; c < columns; c += PAIRS_COLUMNS) {
            const __mmask32 there = mask_of_32(columns - c);
            const __m512i even = _mm512_maskz_loadu_epi16(k < depth ? there : 0, x + k * ld + c);
            const __m512i odd = _mm512_maskz_loadu_epi16(k + 1 < depth ? there : 0, x + (k + 1) * ld + c);
            const __m512i e = _mm512_permutexvar_epi64(order, even), o = _mm512_permutexvar_epi64(order, odd);
            _mm512_storeu_si512(panel + c * padded, _mm512_unpacklo_epi16(e, o));
            _mm512_storeu_si512(panel + c * padded + 32, _mm512_unpackhi_epi16(e, o));
        }
}

LONG void pairs_pack_b(const pairs_block *b, int64_t begin, int64_t end)
{
    const mega_gemm_args *a = b->args;
    const uint16_t *x = a->b;
    const int64_t group = a->trans_b ? 1 : PAIRS_GROUP;
    for (int64_t p = begin; p < end; p += group) {
        const int64_t n = b->n + p * PAIRS_COLUMNS, last = (p + group < end ? p + group : end) * PAIRS_COLUMNS;
        const int64_t columns = (b->columns < last ? b->columns : last) - p * PAIRS_COLUMNS;
        uint16_t *panel = b->packed + p * PAIRS_COLUMNS * b->padded;
        if (a->trans_b) pairs_pack_lines(panel, x + n * a->ldb + b->k, a->ldb, columns, b->depth, b->padded);
        else
            pairs_pack_across(panel, x + b->k * a->ldb + n, a->ldb, columns, b->depth, b->padded);
    }
}

ALWAYS __m512 pairs_widen(__m256i h)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* Rounds to nearest even, NaN stays NaN, like mega_f32_to_bf16; except that numbers below the least normal number
 * become zero, as they do inside the dot products. */
ALWAYS __m256i pairs_narrow(__m512 x)
{
    return (__m256i)_mm512_cvtneps_pbh(x);
}

/* Returns sum plus both numbers of each pair. Sums of rows may be long chains of these: a number of 8 bits is seldom
 * rounded, unlike a product of 16 bits. */
ALWAYS __m512 pairs_add(__m512 sum, __m512i pairs)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)pairs, (__m512bh)_mm512_set1_epi16(0x3f80)); /* 0x3f80 is 1 */
}

/* Adds the sums of 16 rows from `row` to row_sum; only the lanes in `across` are valid. */
ALWAYS void pairs_put_row_sum(const mega_gemm_args *a, int64_t row, __mmask16 across, __m512 sum)
{
    float *at = (float *)a->row_sum + row;
    _mm512_mask_storeu_ps(at, across, _mm512_add_ps(_mm512_maskz_loadu_ps(across, at), sum));
}

/* Returns whether c is written past the caches: a large gradient of weights, which nothing reads soon. Its lines then
 * need not be read from memory first. */
ALWAYS bool pairs_streams(const pairs_block *b)
{
    const mega_gemm_args *a = b->args;
    return a->trans_a && a->c_dtype == MEGA_F32 && b->first && b->last && b->overwrite && a->bias == NULL &&
           a->residual == NULL && a->ldc % 16 == 0 && (uintptr_t)a->c % 64 == 0 && a->m * a->n >= PAIRS_STREAMED;
}

/* Stores a tile of sums: to c or, if c is not float and slices are left, to b->sums. */
ALWAYS void pairs_finish_typed(const bool is_float, const float *tile, const pairs_block *b, int64_t row,
                               int64_t column, int64_t rows)
{
    const mega_gemm_args *a = b->args;
    const int64_t columns = b->columns - column, n = b->n + column;
    const bool streams = is_float && columns >= PAIRS_COLUMNS && pairs_streams(b);
    const bool add_sums = !is_float && !b->first, to_sums = !is_float && !b->last;
    const bool joins = a->residual != NULL && (is_float ? b->first : b->last);
    const bool add = joins || (is_float ? !(b->first && b->overwrite) : b->last && !b->overwrite);
    const void *from = joins ? a->residual : a->c;
    __m512 bias[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    __mmask16 there[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        there[h] = mask_of_16(columns - h * 16);
        if (a->bias != NULL && b->last)
            bias[h] = pairs_widen(_mm256_maskz_loadu_epi16(there[h], (const uint16_t *)a->bias + n + h * 16));
    }
    for (int64_t r = 0; r < rows; r++, tile += PAIRS_COLUMNS) {
        const int64_t at = (row + r) * a->ldc + n;
        float *sums = is_float || b->sums == NULL ? NULL : b->sums + (row + r) * b->ld_sums + column;
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            __m512 v = _mm512_loadu_ps(tile + h * 16);
            if (add_sums) v = _mm512_add_ps(_mm512_loadu_ps(sums + h * 16), v);
            if (to_sums) {
                _mm512_storeu_ps(sums + h * 16, v);
                continue;
            }
            if (streams) {
                _mm512_stream_ps((float *)a->c + at + h * 16, _mm512_add_ps(v, bias[h]));
                continue;
            }
            if (is_float) {
                const float *x = (const float *)from + at + h * 16;
                if (add) v = _mm512_add_ps(_mm512_maskz_loadu_ps(there[h], x), v);
                _mm512_mask_storeu_ps((float *)a->c + at + h * 16, there[h], _mm512_add_ps(v, bias[h]));
            } else {
                const uint16_t *x = (const uint16_t *)from + at + h * 16;
                if (add) v = _mm512_add_ps(pairs_widen(_mm256_maskz_loadu_epi16(there[h], x)), v);
                _mm256_mask_storeu_epi16((uint16_t *)a->c + at + h * 16, there[h],
                                         pairs_narrow(_mm512_add_ps(v, bias[h])));
            }
        }
    }
}

ALWAYS void pairs_finish(const float *tile, const pairs_block *b, int64_t row, int64_t column, int64_t rows)
{
    if (b->args->c_dtype == MEGA_F32) pairs_finish_typed(true, tile, b, row, column, rows);
    else
        pairs_finish_typed(false, tile, b, row, column, rows);
}

/* Prefetches the lines of c that the last block of k will access, while that block is summed. */
ALWAYS void pairs_ask(const pairs_block *b, int64_t row, int64_t column, int64_t rows)
{
    const mega_gemm_args *a = b->args;
    if ((a->c_dtype != MEGA_F32 && !b->last) || pairs_streams(b)) return;
    const size_t size = mega_dtype_size(a->c_dtype);
    const char *c = (const char *)a->c + (size_t)(row * a->ldc + b->n + column) * size;
    for (int64_t r = 0; r < rows; r++, c += (size_t)a->ldc * size) {
        __builtin_prefetch(c, 1);
        if (size == 4) __builtin_prefetch(c + 64, 1);
    }
    if (a->residual == NULL) return;
    const char *x = (const char *)a->residual + (size_t)(row * a->ldc + b->n + column) * size;
    for (int64_t r = 0; r < rows; r++, x += (size_t)a->ldc * size) __builtin_prefetch(x);
}

/* Returns the share of block `i` of `blocks` in prefetching the panel after pb, which has the same depth. */
ALWAYS pairs_next pairs_next_of(const uint16_t *pb, int64_t depth, int64_t i, int64_t blocks)
{
    const int64_t lines = (PAIRS_COLUMNS + blocks - 1) / blocks; /* a step of k: PAIRS_COLUMNS lines */
    return (pairs_next){pb + depth * PAIRS_COLUMNS + i * lines * depth, i * lines < PAIRS_COLUMNS ? lines : 0};
}

static void pairs_block_run(const pairs_block *b, int64_t row, int64_t rows, int64_t begin, int64_t end, uint16_t *pa,
                            float *tiles)
{
    const bool sums = b->args->row_sum != NULL && b->n == 0 && begin == 0;
    const int64_t blocks = (rows + PAIRS_ROWS - 1) / PAIRS_ROWS;
    for (int64_t i = 0; i < rows; i += PAIRS_ROWS)
        pairs_pack_a(b, pa + i * b->padded, row + i, rows - i < PAIRS_ROWS ? rows - i : PAIRS_ROWS, sums);
    for (int64_t p = begin; p < end; p++)
        for (int64_t k = 0; k < b->padded; k += PAIRS_BLOCK_K) {
            const int64_t left = b->padded - k, depth = left < PAIRS_BLOCK_K ? left : PAIRS_BLOCK_K;
            const uint16_t *pb = b->packed + p * PAIRS_COLUMNS * b->padded + k * PAIRS_COLUMNS;
            for (int64_t i = 0; i < rows; i += PAIRS_ROWS) {
                const int64_t height = rows - i < PAIRS_ROWS ? rows - i : PAIRS_ROWS;
                float *tile = tiles + i * PAIRS_COLUMNS;
                if (depth == left) pairs_ask(b, row + i, p * PAIRS_COLUMNS, height);
                pairs_sum(tile, pa + i * b->padded + k * PAIRS_ROWS, pb, depth, k == 0,
                          pairs_next_of(pb, depth, i / PAIRS_ROWS, blocks));
                if (depth == left) pairs_finish(tile, b, row + i, p * PAIRS_COLUMNS, height);
            }
        }
    if (pairs_streams(b)) _mm_sfence(); /* other threads may read c after this */
}
