/* Lamb's states and sums, of chunks of elements into scratch, and then of the chunks in order; and its trust ratio
 * (optimizer_kernels.h). */
#include "kernel.h"

typedef struct lamb_shared {
    double part;
} lamb_shared;

KERNEL(lamb_moments_chunks, mega_lamb_moments_args, ROW_THREADS)
{
    SHARED(lamb_shared, shared);
    if (MEGA_UPDATE_IS_REFUSED(a.block)) return;
    const double *const n = a.number;
    const float beta1 = (float)n[4], beta2 = (float)n[5], rest1 = (float)(1.0 - n[4]), rest2 = (float)(1.0 - n[5]);
    const float inside = (float)n[1], outside = (float)n[2], decay = (float)n[3], factor = (float)MEGA_UPDATE_FACTOR(&a);
    const int64_t begin = (int64_t)block_x() * NORM_CHUNK, rest = a.count - begin;
    const int64_t count = rest < NORM_CHUNK ? rest : NORM_CHUNK;
    double sum[2] = {0.0, 0.0};
    for (int64_t i = (int64_t)thread_x() * 8; i < count; i += ROW_THREADS * 8) {
        const int64_t at = begin + i, left = count - i;
        const eight p = load_eight(a.p, MEGA_F32, at, left), g = load_eight(a.g, MEGA_F32, at, left);
        eight m = load_eight(a.m, MEGA_F32, at, left), v = load_eight(a.v, MEGA_F32, at, left);
        UNROLL
        for (int k = 0; k < 8; k++) {
            if (k >= left) continue;
            const float gradient = g.v[k] * factor;
            m.v[k] = beta1 * m.v[k] + rest1 * gradient;
            v.v[k] = beta2 * v.v[k] + rest2 * (gradient * gradient);
            const float step = device_divide(m.v[k], device_sqrt(v.v[k] + inside) + outside) + decay * p.v[k];
            sum[0] += (double)p.v[k] * p.v[k];
            sum[1] += (double)step * step;
        }
        store_eight(a.m, MEGA_F32, at, left, m);
        store_eight(a.v, MEGA_F32, at, left, v);
    }
    for (int j = 0; j < 2; j++) {
        if (j > 0) block_barrier(); /* the first sum has been read */
        const double all = block_sum_double(sum[j], &shared->part);
        if (thread_x() == 0) ((double *)a.head.scratch)[(int64_t)block_x() * 2 + j] = all;
    }
}

KERNEL(lamb_moments_total, mega_lamb_moments_args, 32)
{
    if (thread_x() >= 2 || a.sums == NULL || MEGA_UPDATE_IS_REFUSED(a.block)) return;
    double all = a.sums[thread_x()];
    for (int64_t n = 0; n * NORM_CHUNK < a.count; n++) all += ((const double *)a.head.scratch)[n * 2 + thread_x()];
    a.sums[thread_x()] = all;
}

KERNEL(lamb_ratio, mega_lamb_ratio_args, 32)
{
    if (thread_x() != 0) return;
    const double param = device_sqrt_double(a.squares[0]), step = device_sqrt_double(a.squares[1]);
    double ratio = 1.0;
    if (param != 0.0 && step != 0.0) {
        ratio = param / step;
        ratio = ratio < a.most ? ratio : a.most;
        ratio = ratio > a.least ? ratio : a.least;
    }
    a.ratio[0] = ratio;
}
