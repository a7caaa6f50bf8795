/* Kernels on which the software device is tested: each uses a few things of device.h, and plants a mistake if asked. */
#include "device.h"
#include "kernels.h"

KERNEL(test_scale, scale_args, 64)
{
    const int64_t step = (int64_t)blocks_x() * 64 * 4, end = a.mistake == SCALE_PAST_END ? a.count + 4 : a.count;
    int64_t i = ((int64_t)block_x() * 64 + thread_x()) * 4;
    if (a.mistake == SCALE_TWICE && block_x() > 0) i -= 64 * 4;
    for (; i < end; i += step) {
        bytes_16 v = load_16(a.x + i);
        UNROLL
        for (int k = 0; k < 4; k++) v.v[k] = float_bits(device_fma(bits_float(v.v[k]), a.factor, a.addend));
        store_16(a.y + i, v);
    }
    if (a.mistake == SCALE_UNALIGNED && thread_x() == 0) *(float *)((char *)a.y + 2) = 1;
    if (a.mistake == SCALE_OTHER_OPERAND && block_x() == 0 && thread_x() == 0) ((float *)a.x)[0] = 1;
}

typedef struct row_sum_shared {
    float part[4];
} row_sum_shared;

KERNEL(test_row_sum, row_sum_args, 128)
{
    SHARED(row_sum_shared, s);
    const int warp = (int)thread_x() / 32;
    for (int row = (int)block_x(); row < a.rows; row += (int)blocks_x()) {
        float sum = 0;
        for (int c = (int)thread_x(); c < a.cols; c += 128) sum += a.x[(int64_t)row * a.cols + c];
        sum = warp_sum(sum);
        if (thread_x() % 32 == 0) s->part[warp] = sum;
        if (a.mistake == ROW_SUM_HALF_BARRIER) {
            if (warp < 2) block_barrier();
        } else if (a.mistake != ROW_SUM_NO_BARRIER) {
            block_barrier();
        }
        if (a.mistake == ROW_SUM_ALONE && thread_x() == 5) sum = warp_xor(sum, 1);
        if (thread_x() == 0) {
            float all = 0;
            for (int w = 0; w < (a.mistake == ROW_SUM_FIFTH_WARP ? 5 : 4); w++) all += s->part[w];
            a.y[row] = all;
        }
        if (a.mistake != ROW_SUM_LATE_BARRIER) block_barrier(); /* the next row writes part[] */
    }
}

typedef struct transpose_shared {
    float at[32][33];
} transpose_shared;

KERNEL(test_transpose, transpose_args, 32)
{
    SHARED_DYNAMIC(transpose_shared, s);
    const int lane = (int)thread_x();
    for (int half = 0; half < 2; half++) {
        if (a.mistake != TRANSPOSE_FIRST_BARRIER) warp_barrier(); /* the first half has been read */
        for (int r = 0; r < 32; r++) s->at[r][lane] = a.x[r * 32 + lane];
        if (a.mistake == TRANSPOSE_BY_EXCHANGE) warp_xor_bits(0, 1); /* all lanes meet, but memory is not ordered */
        else if (a.mistake != TRANSPOSE_NO_BARRIER)
            warp_barrier();
        for (int r = half * 16; r < half * 16 + 16; r++) a.y[r * 32 + lane] = s->at[lane][r];
    }
}

/* ---- products: four warps have 64 x 64 of c, a warp 32 x 32; two buffers of 32 along k ---- */

enum { TILE = 64, DEPTH = 32, STRIDE = DEPTH + 8 };
typedef struct product_shared {
    uint16_t a[2][TILE][STRIDE], b[2][TILE][STRIDE];
} product_shared;

DEVICE void product_fetch(uint16_t (*to)[STRIDE], const uint16_t *from, int ld, int k)
{
    for (int i = (int)thread_x(); i < TILE * DEPTH / 8; i += 128) {
        const int r = i / (DEPTH / 8), c = i % (DEPTH / 8) * 8;
        copy_async_16(&to[r][c], from + (int64_t)r * ld + k + c, 16);
    }
}

DEVICE void product_multiply(float sum[2][4][4], uint16_t (*x)[STRIDE], uint16_t (*y)[STRIDE], int is_f16)
{
    const int lane = (int)thread_x() % 32;
    UNROLL
    for (int c = 0; c < DEPTH; c += 16) {
        uint32_t xf[2][4], yf[2][4];
        UNROLL
        for (int i = 0; i < 2; i++) warp_load_matrices(xf[i], &x[i * 16 + lane % 16][c + lane / 16 * 8]);
        UNROLL
        for (int j = 0; j < 2; j++)
            warp_load_matrices(yf[j], &y[j * 16 + lane % 8 + lane / 16 * 8][c + lane / 8 % 2 * 8]);
        UNROLL
        for (int i = 0; i < 2; i++) UNROLL
        for (int j = 0; j < 4; j++) {
            if (is_f16) warp_mma_f16(sum[i][j], xf[i], yf[j / 2] + j % 2 * 2);
            else
                warp_mma_bf16(sum[i][j], xf[i], yf[j / 2] + j % 2 * 2);
        }
    }
}

DEVICE void product(const product_args *a, product_shared *s, int is_f16)
{
    const int lane = (int)thread_x() % 32, warp = (int)thread_x() / 32, row = warp / 2 * 32, col = warp % 2 * 32;
    const uint16_t *x = a->a + (int64_t)block_y() * TILE * a->k, *y = a->b + (int64_t)block_x() * TILE * a->k;
    float sum[2][4][4];
    UNROLL
    for (int i = 0; i < 32; i++) sum[i / 16][i / 4 % 4][i % 4] = 0;
    product_fetch(s->a[0], x, a->k, 0);
    product_fetch(s->b[0], y, a->k, 0);
    if (a->mistake != PRODUCT_NO_COMMIT) copy_async_commit();
    for (int k = 0, turn = 0; k < a->k; k += DEPTH, turn ^= 1) {
        if (a->mistake != PRODUCT_NO_WAIT) copy_async_wait(0);
        if (a->mistake != PRODUCT_NO_BARRIER) block_barrier(); /* all have copied, and all have used the other buffer */
        if (k + DEPTH < a->k) {
            product_fetch(s->a[turn ^ 1], x, a->k, k + DEPTH);
            product_fetch(s->b[turn ^ 1], y, a->k, k + DEPTH);
            copy_async_commit();
        }
        product_multiply(sum, s->a[turn] + row, s->b[turn] + col, is_f16);
        if (a->mistake == PRODUCT_LATE_BARRIER) block_barrier(); /* needless, and so no mistake */
    }
    UNROLL
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            for (int e = 0; e < 4; e++) {
                const int64_t r = (int64_t)block_y() * TILE + row + i * 16 + lane / 4 + e / 2 * 8;
                a->c[r * a->n + (int)block_x() * TILE + col + j * 8 + lane % 4 * 2 + e % 2] = sum[i][j][e];
            }
}

KERNEL(test_product_bf16, product_args, 128)
{
    SHARED(product_shared, s);
    product(&a, s, 0);
}

KERNEL(test_product_f16, product_args, 128)
{
    SHARED(product_shared, s);
    product(&a, s, 1);
}

KERNEL(test_tile_tf32, tile_args, 32)
{
    const int g = (int)thread_x() / 4, t = (int)thread_x() % 4;
    uint32_t x[4], y[2];
    float d[4] = {0, 0, 0, 0};
    UNROLL
    for (int i = 0; i < 4; i++) x[i] = tf32_round(a.a[(g + i % 2 * 8) * 8 + t + i / 2 * 4]);
    UNROLL
    for (int i = 0; i < 2; i++) y[i] = tf32_round(a.b[g * 8 + t + i * 4]);
    warp_mma_tf32(d, x, y);
    UNROLL
    for (int i = 0; i < 4; i++) a.d[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = d[i];
}

/* Numbers and exchanges: y[0..] by thread. */
KERNEL(test_numbers, scale_args, 32)
{
    const float x = a.x[thread_x()];
    float *y = a.y + thread_x() * 12;
    y[0] = device_tanh(x);
    y[1] = f16_high(f16_pair(0, x));
    y[2] = bf16_low(bf16_pair(x, 0));
    y[3] = warp_sum(x);
    y[4] = warp_max(x);
    y[5] = warp_from(x, 31 - (int)thread_x());
    y[6] = (float)warp_sum_double((double)x * 0x1p-30);
    y[7] = device_exp2(device_log2(device_sqrt(device_divide(x * x, 4))));
    y[8] = device_sin(x) * device_sin(x) + device_cos(x) * device_cos(x);
    y[9] = bits_float(tf32_round(x));
    y[10] = device_min(x, 0) + device_max(x, 0);
    const device_philox c = {{thread_x(), 1, 2, 3}};
    y[11] = (float)(philox_4x32(c, 4, 5).v[2] >> 8);
}
