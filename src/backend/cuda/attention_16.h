/* What the kernels of attention of 16-bit numbers share: tiles of rows of a head in shared memory, their products by
 * tensor cores, and the bits of dropout. A block of four warps has ATTENTION_16_OWN queries (or keys), a warp 16 of
 * them, and goes over tiles of the others. Of a product of 16 x 8 a lane has the numbers e = 0 to 3: in row
 * lane / 4 + e / 2 * 8, column lane % 4 * 2 + e % 2. */
#ifndef MEGA_CUDA_ATTENTION_16_H
#define MEGA_CUDA_ATTENTION_16_H

#include "attention_seen.h"
#include "mma.h"

/* Starts to fetch `rows` rows of a head, of which `left` are there; what is not there is 0. */
BODY void head_fetch(uint16_t *tile, int rows, int dim, const void *x, int64_t at, int64_t ld, int64_t left,
                     int64_t head_dim)
{
    NO_UNROLL
    for (int n = (int)thread_x(); n < rows * (dim / 8); n += ATTENTION_THREADS) {
        const int r = n / (dim / 8), c = n % (dim / 8) * 8;
        const int64_t count = r < left ? head_dim - c : 0;
        fetch_eight(tile + r * (dim + 8) + c, (const uint16_t *)x + (count > 0 ? at + r * ld + c : 0), count);
    }
}

/* Loops over the sums of `count` columns. (The compilers keep an array in registers only where the end of a loop over
 * it is a constant in this place.) */
#define EACH_8(n, most, count)           \
    UNROLL                               \
    for (int n = 0; n < (most) / 8; n++) \
        if (n < (count) / 8)
#define EACH_NUMBER(e) UNROLL for (int e = 0; e < 4; e++)

BODY void head_clear(float (*sum)[4], int dim)
{
    EACH_8(n, ATTENTION_MOST_DIM, dim) EACH_NUMBER(e) sum[n][e] = 0.0f;
}

/* s[16, count] = rows `row` to row + 15 of x, times all rows of y, over their channels. */
BODY void head_products(mega_dtype t, float (*s)[4], int count, const uint16_t *x, int row, const uint16_t *y, int dim,
                        int head_dim)
{
    EACH_8(n, ATTENTION_16_MOST_TILE, count) EACH_NUMBER(e) s[n][e] = 0.0f;
    NO_UNROLL
    for (int d = 0; d < head_dim; d += 16) {
        uint32_t f[4], g[4];
        load_a(f, x, dim + 8, false, row, d);
        UNROLL
        for (int n = 0; n < ATTENTION_16_MOST_TILE; n += 16) {
            if (n >= count) continue;
            load_b(g, y, dim + 8, false, n, d);
            warp_mma(t, s[n / 8], f, g);
            warp_mma(t, s[n / 8 + 1], f, g + 2);
        }
    }
}

/* sum[16, dim] += factors s[16, count], rounded, times the rows of y. */
BODY void head_sums(mega_dtype t, float (*sum)[4], float (*s)[4], int count, const uint16_t *y, int dim, int head_dim)
{
    UNROLL
    for (int k = 0; k < ATTENTION_16_MOST_TILE; k += 16) {
        uint32_t f[4], g[4];
        if (k >= count) continue;
        UNROLL
        for (int w = 0; w < 4; w++) {
            const float *const pair = s[k / 8 + w / 2] + w % 2 * 2;
            f[w] = pair_of(t, pair[0], pair[1]);
        }
        UNROLL
        for (int n = 0; n < ATTENTION_MOST_DIM; n += 16) {
            if (n >= dim || n >= head_dim) continue;
            load_b(g, y, dim + 8, true, n, k);
            warp_mma(t, sum[n / 8], f, g);
            warp_mma(t, sum[n / 8 + 1], f, g + 2);
        }
    }
}

/* Writes 16 rows of sums, of which `left` are there, times a factor each of its two rows of a lane. */
BODY void head_store(void *x, mega_dtype t, int64_t at, int64_t ld, int64_t left, float (*sum)[4], int dim,
                     int64_t head_dim, float factor, float later_factor)
{
    const int row = (int)thread_x() % 32 / 4;
    EACH_8(n, ATTENTION_MOST_DIM, dim)
    {
        const int col = n * 8 + (int)thread_x() % 4 * 2;
        if (row < left) store_pair(x, t, at + row * ld + col, head_dim - col, sum[n][0] * factor, sum[n][1] * factor);
        if (row + 8 < left)
            store_pair(x, t, at + (row + 8) * ld + col, head_dim - col, sum[n][2] * later_factor,
                       sum[n][3] * later_factor);
    }
}

/* keep[r * keys / 8 + c / 8], bit c % 8: whether dropout keeps key j0 + c of query i0 + r. j0 is a multiple of 8. */
BODY void keep_load(uint8_t *keep, const mega_attention_args *a, const mega_step_block *step, int64_t b, int64_t h,
                    int64_t i0, int rows, int64_t j0, int keys)
{
    if (!(a->dropout > 0.0)) return;
    const uint32_t threshold = dropout_threshold(a->dropout);
    NO_UNROLL
    for (int n = (int)thread_x(); n < rows * (keys / 8); n += ATTENTION_THREADS) {
        const int64_t i = i0 + n / (keys / 8), j = j0 / 8 + n % (keys / 8);
        uint32_t bits = 0;
        if (i < a->seq) {
            const device_philox r = dropout_block(step, a->site, a->sample_id[b * a->seq + i],
                                                  (uint32_t)((a->head_begin + h) * a->seq + i) | (uint64_t)j << 32);
            UNROLL
            for (int k = 0; k < 8; k++)
                if ((r.v[k / 2] >> (k % 2 * 16) & 0xffffu) >= threshold) bits |= 1u << k;
        }
        keep[n] = (uint8_t)bits;
    }
}

/* The factor of a probability, 0 or `scale`; 1 if that is 0: there is no dropout. */
BODY float kept(const uint8_t *keep, float scale, int keys, int r, int c)
{
    if (!(scale > 0.0f)) return 1.0f;
    return keep[r * (keys / 8) + c / 8] >> c % 8 & 1 ? scale : 0.0f;
}

BODY float keep_scale(const mega_attention_args *a)
{
    return a->dropout > 0.0 ? dropout_scale(a->dropout) : 0.0f;
}

/* The kernels of a name for heads of up to `dim` channels; `run` is called with dim and tile as well. */
#define ATTENTION_16_KERNELS(name, type, dim, tile)      \
    KERNEL(name##_##dim##_bf16, type, ATTENTION_THREADS) \
    {                                                    \
        name##_16_run(&a, MEGA_BF16, dim, tile(dim));    \
    }                                                    \
    KERNEL(name##_##dim##_f16, type, ATTENTION_THREADS)  \
    {                                                    \
        name##_16_run(&a, MEGA_F16, dim, tile(dim));     \
    }

#endif
