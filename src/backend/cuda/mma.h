/* Products of 16-bit numbers by tensor cores: what matrix products and attention share. A tile lies in shared memory as
 * rows that begin at multiples of 16 bytes; rows of 8 more numbers than a power of two have eight of them in different
 * banks. */
#ifndef MEGA_CUDA_MMA_H
#define MEGA_CUDA_MMA_H

#include "kernel.h"

/* d[16, 8] += a[16, 16] b[16, 8] of this type, which has 16 bits. */
BODY void warp_mma(mega_dtype t, float d[4], const uint32_t a[4], const uint32_t b[2])
{
    if (t == MEGA_BF16) warp_mma_bf16(d, a, b);
    else
        warp_mma_f16(d, a, b);
}

/* Fetches eight numbers of a row of which `count` are there: the others become 0. What it copies arrives as
 * copy_async_16 says. */
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

/* Fragments of rows `row` to row + 15 and numbers k to k + 15 along k, as operand a. The tile has rows of `ld` numbers:
 * they go along k, or across it (is_across). */
BODY void load_a(uint32_t f[4], const uint16_t *tile, int ld, bool is_across, int row, int k)
{
    const int lane = (int)thread_x() % 32;
    if (is_across)
        warp_load_matrices_transposed(f, tile + (k + lane / 16 * 8 + lane % 8) * ld + row + lane / 8 % 2 * 8);
    else
        warp_load_matrices(f, tile + (row + lane % 16) * ld + k + lane / 16 * 8);
}

/* Of columns `col` to col + 15, as operand b: two for the first eight of them, two for the others. */
BODY void load_b(uint32_t f[4], const uint16_t *tile, int ld, bool is_across, int col, int k)
{
    const int lane = (int)thread_x() % 32;
    if (is_across)
        warp_load_matrices_transposed(f, tile + (k + lane / 8 % 2 * 8 + lane % 8) * ld + col + lane / 16 * 8);
    else
        warp_load_matrices(f, tile + (col + lane % 8 + lane / 16 * 8) * ld + k + lane / 8 % 2 * 8);
}

/* Writes two numbers of a row, of which `count` are there. */
BODY void store_pair(void *x, mega_dtype t, int64_t at, int64_t count, float low, float high)
{
    uint16_t *const to = (uint16_t *)x + at;
    if (count >= 2 && t != MEGA_F32 && (uintptr_t)to % 4 == 0) {
        *(uint32_t *)to = pair_of(t, low, high);
        return;
    }
    if (count >= 1) put(x, t, at, low);
    if (count >= 2) put(x, t, at + 1, high);
}

#endif
