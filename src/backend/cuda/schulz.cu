/* What Newton-Schulz iterations do besides products (optimizer_kernels.h): sums of squares by chunks of elements, as
 * norm.cu; a thread of the others has eight elements, or a pair of elements that mirror each other. */
#include "kernel.h"

typedef struct squares_shared {
    double part;
} squares_shared;

KERNEL(matrix_squares_chunks, mega_matrix_squares_args, ROW_THREADS)
{
    SHARED(squares_shared, s);
    const int64_t begin = (int64_t)block_x() * NORM_CHUNK, rest = a.count - begin;
    const int64_t count = rest < NORM_CHUNK ? rest : NORM_CHUNK;
    double sum = 0.0;
    for (int64_t i = (int64_t)thread_x() * 8; i < count; i += ROW_THREADS * 8) {
        const eight x = load_eight(a.x, MEGA_F32, begin + i, count - i);
        UNROLL
        for (int k = 0; k < 8; k++) sum += (double)x.v[k] * x.v[k];
    }
    sum = block_sum_double(sum, &s->part);
    if (thread_x() == 0) ((double *)a.head.scratch)[block_x()] = sum;
}

KERNEL(matrix_squares_total, mega_matrix_squares_args, 32)
{
    if (thread_x() != 0) return;
    double all = 0.0;
    for (int64_t n = 0; n * NORM_CHUNK < a.count; n++) all += ((const double *)a.head.scratch)[n];
    a.sum[0] = all;
}

KERNEL(matrix_scale, mega_matrix_scale_args, EIGHT_THREADS)
{
    const double norm = device_sqrt_double(a.squares[0]);
    const float factor = (float)(1.0 / (norm > 1e-7 ? norm : 1e-7));
    for (place p = place_first(1, a.count); place_goes_on(&p); place_next(&p)) {
        eight x = load_eight(a.x, MEGA_F32, p.at, p.left);
        UNROLL
        for (int k = 0; k < 8; k++) x.v[k] *= factor;
        store_eight(a.y, MEGA_F32, p.at, p.left, x);
    }
}

KERNEL(mirror, mega_mirror_args, EIGHT_THREADS)
{
    float *const s = (float *)a.s;
    const int64_t all = a.size * a.size, step = (int64_t)blocks_x() * EIGHT_THREADS;
    for (int64_t at = (int64_t)block_x() * EIGHT_THREADS + thread_x(); at < all; at += step) {
        const int64_t row = at / a.size, col = at - row * a.size;
        if (row < col) s[at] = s[col * a.size + row];
    }
}

KERNEL(polynomial, mega_polynomial_args, EIGHT_THREADS)
{
    const float c0 = (float)a.a, c1 = (float)a.b, c2 = (float)a.c, *const x = (const float *)a.x;
    float *const s = (float *)a.s;
    const int64_t all = a.size * a.size, step = (int64_t)blocks_x() * EIGHT_THREADS;
    for (int64_t at = (int64_t)block_x() * EIGHT_THREADS + thread_x(); at < all; at += step) {
        const int64_t row = at / a.size, col = at - row * a.size;
        if (row < col) continue;
        const float v = c1 * x[at] + c2 * s[at] + (row == col ? c0 : 0.0f);
        s[at] = v;
        if (row > col) s[col * a.size + row] = v;
    }
}
