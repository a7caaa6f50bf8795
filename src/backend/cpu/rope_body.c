/* Rotary position embedding. Cosines and sines are computed once for all heads of a row. */

#include <math.h>

/* `at` is the first channel of a head. */
ALWAYS void rope_halves(mega_dtype type, const mega_rope_args *a, int64_t at, const float *cosines, const float *sines)
{
    const int64_t half = a->rotated / 2;
    for (int64_t k = 0; k < half; k += VL) {
        const int64_t n = half - k;
        const vf c = vload(cosines + k), s = vload(sines + k);
        const vf x = vget_n(type, a->x, at + k, n), y = vget_n(type, a->x, at + half + k, n);
        vput_n(type, a->out, at + k, n, c * x - s * y);
        vput_n(type, a->out, at + half + k, n, c * y + s * x);
    }
}

ALWAYS void rope_interleaved(mega_dtype type, const mega_rope_args *a, int64_t at, const float *cosines,
                             const float *sines)
{
    for (int64_t d = 0; d < a->rotated; d += VL) {
        float x[VL], y[VL];
        const vf v = vget_n(type, a->x, at + d, a->rotated - d);
        memcpy(x, &v, sizeof x);
        for (int64_t l = 0; l < VL; l += 2) {
            const float c = cosines[(d + l) / 2], s = sines[(d + l) / 2];
            y[l] = c * x[l] - s * x[l + 1];
            y[l + 1] = c * x[l + 1] + s * x[l];
        }
        vput_n(type, a->out, at + d, a->rotated - d, vload(y));
    }
}

static void rope_angles(const mega_rope_args *a, int64_t row, float *cosines, float *sines)
{
    for (int64_t k = 0; k < a->rotated / 2; k++) {
        const float angle = (float)a->positions[row] * a->frequency[k];
        const float s = (float)sin((double)angle) * a->factor;
        cosines[k] = (float)cos((double)angle) * a->factor;
        sines[k] = a->inverse ? -s : s;
    }
}

ALWAYS void rope_typed(mega_dtype type, const mega_rope_args *a, int64_t begin, int64_t end, float *cosines,
                       float *sines)
{
    const size_t size = (size_t)vsize(type);
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row * a->cols;
        rope_angles(a, row, cosines, sines);
        for (int64_t h = 0; h < a->heads; h++) {
            const int64_t rest = at + h * a->head_dim + a->rotated;
            if (a->interleaved) rope_interleaved(type, a, at + h * a->head_dim, cosines, sines);
            else
                rope_halves(type, a, at + h * a->head_dim, cosines, sines);
            if (a->out != a->x)
                memcpy((char *)a->out + (size_t)rest * size, (const char *)a->x + (size_t)rest * size,
                       (size_t)(a->head_dim - a->rotated) * size);
        }
        const size_t rest = (size_t)(at + a->heads * a->head_dim) * size;
        if (a->out != a->x)
            memcpy((char *)a->out + rest, (const char *)a->x + rest, (size_t)(a->cols - a->heads * a->head_dim) * size);
    }
}

static void rope_rows(const mega_rope_args *a, int64_t begin, int64_t end, float *cosines, float *sines)
{
    for (int64_t k = a->rotated / 2; k < (a->rotated / 2 + 15) / 16 * 16; k++) cosines[k] = sines[k] = 0.0f;
    BY_TYPE(a->head.dtype, rope_typed(type, a, begin, end, cosines, sines));
}
