/* Sum of squares, zeros and values that are not finite: of chunks of elements into scratch, then of the chunks in order
 * (kernels.h). */
#include "kernel.h"

typedef struct norm_shared {
    double part[3][ROW_THREADS / 32];
} norm_shared;

KERNEL(norm_chunks, mega_norm_args, ROW_THREADS)
{
    SHARED(norm_shared, s);
    const int64_t begin = (int64_t)block_x() * NORM_CHUNK, rest = a.count - begin;
    const int64_t count = rest < NORM_CHUNK ? rest : NORM_CHUNK;
    double sum[3] = {0.0, 0.0, 0.0};
    for (int64_t i = (int64_t)thread_x() * 8; i < count; i += ROW_THREADS * 8) {
        const eight x = load_eight(a.x, MEGA_F32, begin + i, count - i);
        UNROLL
        for (int k = 0; k < 8; k++) {
            const double v = x.v[k];
            if (i + k >= count) continue;
            sum[0] += v * v;
            sum[1] += x.v[k] == 0.0f ? 1.0 : 0.0;
            sum[2] += (float_bits(x.v[k]) & 0x7f800000u) == 0x7f800000u ? 1.0 : 0.0;
        }
    }
    UNROLL
    for (int n = 0; n < 3; n++) {
        sum[n] = warp_sum_double(sum[n]);
        if (thread_x() % 32 == 0) s->part[n][thread_x() / 32] = sum[n];
    }
    block_barrier();
    if (thread_x() >= 3) return;
    double all = 0.0;
    for (int w = 0; w < ROW_THREADS / 32; w++) all += s->part[thread_x()][w];
    ((double *)a.head.scratch)[(int64_t)block_x() * 3 + thread_x()] = all;
}

KERNEL(norm_total, mega_norm_args, 32)
{
    if (thread_x() >= 3) return;
    double all = 0.0;
    for (int64_t n = 0; n * NORM_CHUNK < a.count; n++) all += ((const double *)a.head.scratch)[n * 3 + thread_x()];
    a.out[thread_x()] = a.adds ? a.out[thread_x()] + all : all;
}
