/* Rotary position embedding: a block has a row; sine and cosine of a pair are computed once for all heads
 * (ops_rope.h). */
#include "kernel.h"

typedef struct rope_shared {
    float cosine[ROW_THREADS], sine[ROW_THREADS];
} rope_shared;

/* Sine and cosine of any angle: the quarter turns are taken off in double, then series within pi / 4. */
BODY void sine_cosine(float angle, float *sine, float *cosine)
{
    const double turns = (double)angle * 0.63661977236758134308;
    const int64_t n = (int64_t)(turns + (turns < 0.0 ? -0.5 : 0.5));
    const float x = (float)((double)angle - (double)n * 1.57079632679489661923), z = x * x;
    const float s = x + x * z * (-1.66666667e-1f + z * (8.33333333e-3f + z * (-1.98412698e-4f + z * 2.75573192e-6f)));
    const float c = 1.0f + z * (-0.5f + z * (4.16666667e-2f + z * (-1.38888889e-3f + z * 2.48015873e-5f)));
    const float even = (n & 1) != 0 ? c : s, odd = (n & 1) != 0 ? s : c;
    *sine = (n & 2) != 0 ? -even : even;
    *cosine = ((n + 1) & 2) != 0 ? -odd : odd;
}

BODY void rope_row(const mega_rope_args *a, mega_dtype t, int64_t row, rope_shared *s)
{
    const int64_t half = a->rotated / 2, at = row * a->cols;
    for (int64_t begin = 0; begin < half; begin += ROW_THREADS) {
        const int64_t pairs = half - begin < ROW_THREADS ? half - begin : ROW_THREADS;
        block_barrier(); /* what an earlier turn left has been read */
        if (thread_x() < pairs) {
            float sine, cosine;
            sine_cosine((float)a->positions[row] * a->frequency[begin + thread_x()], &sine, &cosine);
            s->cosine[thread_x()] = cosine * a->factor;
            s->sine[thread_x()] = a->inverse ? -(sine * a->factor) : sine * a->factor;
        }
        block_barrier();
        for (int64_t i = thread_x(); i < pairs * a->heads; i += ROW_THREADS) {
            const int64_t h = i / pairs, own = i - h * pairs, k = begin + own, head = at + h * a->head_dim;
            const int64_t first = head + (a->interleaved ? 2 * k : k),
                          second = a->interleaved ? first + 1 : first + half;
            const float x = get(a->x, t, first), y = get(a->x, t, second), c = s->cosine[own], sine = s->sine[own];
            put(a->out, t, first, c * x - sine * y);
            put(a->out, t, second, c * y + sine * x);
        }
    }
    if (a->out == a->x) return;
    const int64_t rest = a->head_dim - a->rotated;
    for (int64_t i = thread_x(); i < rest * a->heads; i += ROW_THREADS) {
        const int64_t from = at + i / rest * a->head_dim + a->rotated + i % rest;
        put(a->out, t, from, get(a->x, t, from));
    }
    for (int64_t c = a->heads * a->head_dim + thread_x(); c < a->cols; c += ROW_THREADS)
        put(a->out, t, at + c, get(a->x, t, at + c));
}

BODY void rope_run(const mega_rope_args *a, mega_dtype t)
{
    SHARED(rope_shared, s);
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) rope_row(a, t, row, s);
}
KERNELS_BY_TYPE(rope, mega_rope_args, ROW_THREADS)
