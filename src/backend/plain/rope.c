/* Rotary position embedding: plain kernel (ops_rope.h). */
#include "backend_impl.h"
#include <math.h>

static void rotate_pair(const mega_rope_args *a, int64_t row, int64_t h, int64_t k, double c, double s)
{
    const mega_dtype t = a->head.dtype;
    const int64_t at = row * a->cols + h * a->head_dim, half = a->rotated / 2;
    const int64_t first = at + (a->interleaved ? 2 * k : k), second = at + (a->interleaved ? 2 * k + 1 : k + half);
    const double x = get(a->x, t, first), y = get(a->x, t, second);
    put(a->out, t, first, c * x - s * y);
    put(a->out, t, second, c * y + s * x);
}

static void copy_channels(const mega_rope_args *a, int64_t row, int64_t begin, int64_t end)
{
    for (int64_t i = row * a->cols + begin; i < row * a->cols + end; i++)
        put(a->out, a->head.dtype, i, get(a->x, a->head.dtype, i));
}

static void plain_rope_run(const mega_queue *queue, const void *args)
{
    const mega_rope_args *a = args;
    for (int64_t row = 0; row < a->rows; row++) {
        for (int64_t k = 0; k < a->rotated / 2; k++) {
            const float angle = (float)a->positions[row] * a->frequency[k];
            const float c = (float)cos((double)angle) * a->factor, s = (float)sin((double)angle) * a->factor;
            for (int64_t h = 0; h < a->heads; h++) rotate_pair(a, row, h, k, (double)c, (double)(a->inverse ? -s : s));
        }
        for (int64_t h = 0; h < a->heads; h++)
            copy_channels(a, row, h * a->head_dim + a->rotated, (h + 1) * a->head_dim);
        copy_channels(a, row, a->heads * a->head_dim, a->cols);
    }
}

const mega_kernel mega_plain_rope = {.name = "rope", .run = plain_rope_run};
