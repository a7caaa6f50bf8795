/* Sums over the states of an optimizer: of chunks of elements into scratch, then of the chunks in order
 * (optimizer_kernels.h). */
#include "kernel.h"

typedef struct state_shared {
    double part[4][ROW_THREADS];
} state_shared;

/* The larger of both; a NaN where one is. */
BODY double larger(double a, double b)
{
    return b > a || b != b ? b : a;
}

KERNEL(state_sums_chunks, mega_state_sums_args, ROW_THREADS)
{
    SHARED(state_shared, s);
    const int64_t begin = (int64_t)block_x() * NORM_CHUNK, rest = a.count - begin;
    const int64_t count = rest < NORM_CHUNK ? rest : NORM_CHUNK;
    double squares = 0.0, sizes = 0.0, roots = 0.0, most = 0.0;
    for (int64_t i = (int64_t)thread_x() * 8; i < count; i += ROW_THREADS * 8) {
        const eight e = load_eight(a.x, MEGA_F32, begin + i, count - i);
        UNROLL
        for (int k = 0; k < 8; k++) { /* those that are not there are 0 */
            const double x = e.v[k] < 0.0f ? -(double)e.v[k] : (double)e.v[k];
            squares += x * x;
            sizes += x;
            roots += device_sqrt_double(x);
            most = larger(most, x);
        }
    }
    s->part[0][thread_x()] = squares;
    s->part[1][thread_x()] = sizes;
    s->part[2][thread_x()] = roots;
    s->part[3][thread_x()] = most;
    block_barrier();
    if (thread_x() >= 4) return;
    double all = 0.0;
    for (int w = 0; w < ROW_THREADS; w++) {
        const double x = s->part[thread_x()][w];
        all = thread_x() < 3 ? all + x : larger(all, x);
    }
    ((double *)a.head.scratch)[(int64_t)block_x() * 4 + thread_x()] = all;
}

KERNEL(state_sums_total, mega_state_sums_args, 32)
{
    if (thread_x() >= 4) return;
    double all = a.sums[thread_x()];
    for (int64_t n = 0; n * NORM_CHUNK < a.count; n++) {
        const double x = ((const double *)a.head.scratch)[n * 4 + thread_x()];
        all = thread_x() < 3 ? all + x : larger(all, x);
    }
    a.sums[thread_x()] = all;
}
