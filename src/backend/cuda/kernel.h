/* What the kernels of this folder share: numbers by their type, eight at a time, and sums over a block. A function of a
 * kernel takes the type as an argument that is a constant where it is called, so that each kernel is a copy of it for
 * one type. */
#ifndef MEGA_CUDA_KERNEL_H
#define MEGA_CUDA_KERNEL_H

#include "device.h"
#include "megalith/kernels.h"
#include "shapes.h"

#define BODY DEVICE __attribute__((always_inline))

/* The kernels of a name for F32, BF16 and F16, which call the name's function. */
#define KERNELS_BY_TYPE(name, type, threads) \
    KERNEL(name##_f32, type, threads)        \
    {                                        \
        name##_run(&a, MEGA_F32);            \
    }                                        \
    KERNEL(name##_bf16, type, threads)       \
    {                                        \
        name##_run(&a, MEGA_BF16);           \
    }                                        \
    KERNEL(name##_f16, type, threads)        \
    {                                        \
        name##_run(&a, MEGA_F16);            \
    }

/* Of numbers of 16 bits: the two of a pair, and a pair of two. */
BODY float pair_low(mega_dtype t, uint32_t pair)
{
    return t == MEGA_BF16 ? bf16_low(pair) : f16_low(pair);
}

BODY float pair_high(mega_dtype t, uint32_t pair)
{
    return t == MEGA_BF16 ? bf16_high(pair) : f16_high(pair);
}

BODY uint32_t pair_of(mega_dtype t, float low, float high)
{
    return t == MEGA_BF16 ? bf16_pair(low, high) : f16_pair(low, high);
}

BODY float get(const void *x, mega_dtype t, int64_t i)
{
    return t == MEGA_F32 ? ((const float *)x)[i] : pair_low(t, ((const uint16_t *)x)[i]);
}

BODY void put(void *x, mega_dtype t, int64_t i, float v)
{
    if (t == MEGA_F32) ((float *)x)[i] = v;
    else
        ((uint16_t *)x)[i] = (uint16_t)pair_of(t, v, 0.0f);
}

typedef struct eight {
    float v[8];
} eight;

BODY bool is_aligned(const void *x)
{
    return (uintptr_t)x % 16 == 0;
}

/* base^exponent */
BODY double whole_power(double base, int64_t exponent)
{
    double power = 1.0;
    for (; exponent > 0; exponent /= 2, base *= base)
        if (exponent % 2 == 1) power *= base;
    return power;
}

/* Elements i to i + 7, of which `left` are there; the others are 0. */
BODY eight load_eight(const void *x, mega_dtype t, int64_t i, int64_t left)
{
    eight e;
    const char *at = (const char *)x + i * (t == MEGA_F32 ? 4 : 2);
    if (left >= 8 && is_aligned(at)) {
        const bytes_16 low = load_16(at);
        if (t != MEGA_F32) {
            UNROLL
            for (int k = 0; k < 4; k++) e.v[2 * k] = pair_low(t, low.v[k]), e.v[2 * k + 1] = pair_high(t, low.v[k]);
        } else {
            const bytes_16 high = load_16(at + 16);
            UNROLL
            for (int k = 0; k < 4; k++) e.v[k] = bits_float(low.v[k]), e.v[4 + k] = bits_float(high.v[k]);
        }
        return e;
    }
    UNROLL
    for (int k = 0; k < 8; k++) e.v[k] = k < left ? get(x, t, i + k) : 0.0f;
    return e;
}

BODY void store_eight(void *x, mega_dtype t, int64_t i, int64_t left, eight e)
{
    char *at = (char *)x + i * (t == MEGA_F32 ? 4 : 2);
    if (left >= 8 && is_aligned(at)) {
        bytes_16 low, high;
        if (t != MEGA_F32) {
            UNROLL
            for (int k = 0; k < 4; k++) low.v[k] = pair_of(t, e.v[2 * k], e.v[2 * k + 1]);
            store_16(at, low);
        } else {
            UNROLL
            for (int k = 0; k < 4; k++) low.v[k] = float_bits(e.v[k]), high.v[k] = float_bits(e.v[4 + k]);
            store_16(at, low);
            store_16(at + 16, high);
        }
        return;
    }
    UNROLL
    for (int k = 0; k < 8; k++)
        if (k < left) put(x, t, i + k, e.v[k]);
}

/* A place of eight elements in a matrix whose rows are shared by the blocks in pieces of EIGHT_COUNT columns:
 *     for (place p = place_first(rows, cols); place_goes_on(&p); place_next(&p)) if (p.left > 0) … */
typedef struct place {
    int64_t piece, pieces, pieces_of_row, cols; /* of the whole matrix */
    int64_t row, col, at, left;                 /* at: row * cols + col; left: columns from col on, may be negative */
} place;

BODY void place_find(place *p)
{
    p->row = p->piece / p->pieces_of_row;
    p->col = (p->piece - p->row * p->pieces_of_row) * EIGHT_COUNT + (int64_t)thread_x() * 8;
    p->at = p->row * p->cols + p->col;
    p->left = p->cols - p->col;
}

BODY place place_first(int64_t rows, int64_t cols)
{
    place p;
    p.pieces_of_row = (cols + EIGHT_COUNT - 1) / EIGHT_COUNT;
    p.pieces = rows * p.pieces_of_row;
    p.piece = block_x();
    p.cols = cols;
    if (p.piece < p.pieces) place_find(&p);
    return p;
}

BODY bool place_goes_on(const place *p)
{
    return p->piece < p->pieces;
}

BODY void place_next(place *p)
{
    p->piece += blocks_x();
    if (p->piece < p->pieces) place_find(p);
}

/* The same where rows may be short: a piece is COLUMN_LANES rows of COLUMN_WIDTH columns.
 *     for (place p = tile_first(rows, cols); place_goes_on(&p); tile_next(&p, rows)) if (p.left > 0) … */
BODY void tile_find(place *p, int64_t rows)
{
    const int64_t tile = p->piece / p->pieces_of_row;
    p->row = tile * COLUMN_LANES + thread_x() / (COLUMN_WIDTH / 8);
    p->col = (p->piece - tile * p->pieces_of_row) * COLUMN_WIDTH + thread_x() % (COLUMN_WIDTH / 8) * 8;
    p->at = p->row * p->cols + p->col;
    p->left = p->row < rows ? p->cols - p->col : 0;
}

BODY place tile_first(int64_t rows, int64_t cols)
{
    place p;
    p.pieces_of_row = (cols + COLUMN_WIDTH - 1) / COLUMN_WIDTH;
    p.pieces = (rows + COLUMN_LANES - 1) / COLUMN_LANES * p.pieces_of_row;
    p.piece = block_x();
    p.cols = cols;
    if (p.piece < p.pieces) tile_find(&p, rows);
    return p;
}

BODY void tile_next(place *p, int64_t rows)
{
    p->piece += blocks_x();
    if (p->piece < p->pieces) tile_find(p, rows);
}

/* ---- sums over a block of ROW_THREADS ---- */

typedef struct row_shared {
    float part[ROW_THREADS / 32];
} row_shared;

/* The sum of v over the threads of a block, in all of them. */
DEVICE float row_fold(float v, row_shared *s)
{
    v = warp_sum(v);
    block_barrier(); /* what an earlier sum left has been read */
    if (thread_x() % 32 == 0) s->part[thread_x() / 32] = v;
    block_barrier();
    v = s->part[0];
    UNROLL
    for (int w = 1; w < ROW_THREADS / 32; w++) v += s->part[w];
    return v;
}

/* The sum of v over the threads of a block, in thread 0: the warps add theirs one after the other. */
DEVICE double block_sum_double(double v, double *part)
{
    v = warp_sum_double(v);
    for (unsigned w = 0; w < ROW_THREADS / 32; w++) {
        if (thread_x() == w * 32) *part = w == 0 ? v : *part + v;
        block_barrier();
    }
    return *part;
}

/* ---- sums over the rows of a matrix, in two kernels: of a chunk of rows into scratch, then of the chunks ---- */

typedef struct column_shared {
    float part[COLUMN_LANES][COLUMN_WIDTH];
} column_shared;

/* The part of the matrix that this thread has: rows begin, begin + COLUMN_LANES, … before end, eight columns. */
typedef struct column_part {
    int64_t begin, end, col, left;
} column_part;

BODY column_part column_place(int64_t rows, int64_t cols)
{
    column_part p;
    const int64_t first = (int64_t)block_y() * COLUMN_ROWS(rows), end = first + COLUMN_ROWS(rows);
    p.begin = first + thread_x() / (COLUMN_WIDTH / 8);
    p.end = end < rows ? end : rows;
    p.col = (int64_t)block_x() * COLUMN_WIDTH + thread_x() % (COLUMN_WIDTH / 8) * 8;
    p.left = cols - p.col;
    return p;
}

/* Writes to `sums` [chunks, cols] the sums that the lanes of this block have. */
DEVICE void column_fold(const eight *e, column_shared *s, float *sums, int64_t cols)
{
    const unsigned x = thread_x(), lane = x / (COLUMN_WIDTH / 8), first = x % (COLUMN_WIDTH / 8) * 8;
    block_barrier(); /* what an earlier sum left has been read */
    UNROLL
    for (unsigned k = 0; k < 8; k++) s->part[lane][first + k] = e->v[k];
    block_barrier();
    const int64_t col = (int64_t)block_x() * COLUMN_WIDTH + x;
    if (x >= COLUMN_WIDTH || col >= cols) return;
    float v = s->part[0][x];
    UNROLL
    for (int l = 1; l < COLUMN_LANES; l++) v += s->part[l][x];
    sums[(int64_t)block_y() * cols + col] = v;
}

/* out[c] += the sums of the chunks, in their order. A thread has a column. */
DEVICE void column_total(float *out, const float *sums, int64_t rows, int64_t cols)
{
    const int64_t c = (int64_t)block_x() * COLUMN_THREADS + thread_x();
    if (c >= cols || rows == 0) return;
    float v = 0.0f;
    for (int64_t n = 0; n < COLUMN_CHUNKS(rows); n++) v += sums[n * cols + c];
    out[c] += v;
}

#endif
