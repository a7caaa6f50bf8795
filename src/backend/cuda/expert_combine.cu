/* Weighted sums of the rows of each token's experts; a thread has eight columns of a token. And their gradient, by a
 * block a choice (ops_experts.h). */
#include "kernel.h"

BODY void expert_combine_run(const mega_expert_combine_args *a, mega_dtype t)
{
    for (place p = tile_first(a->rows, a->cols); place_goes_on(&p); tile_next(&p, a->rows)) {
        if (p.left <= 0) continue;
        eight sum;
        UNROLL
        for (int k = 0; k < 8; k++) sum.v[k] = 0.0f;
        for (int64_t choice = p.row * a->slots; choice < (p.row + 1) * a->slots; choice++) {
            const int64_t row = a->place[choice];
            if (row < 0) continue;
            const float weight = a->weight != NULL ? ((const float *)a->weight)[choice] : 1.0f;
            const eight y = load_eight(a->y, t, row * a->cols + p.col, p.left);
            UNROLL
            for (int k = 0; k < 8; k++) sum.v[k] += weight * y.v[k];
        }
        store_eight(a->out, t, p.at, p.left, sum);
    }
}
KERNELS_BY_TYPE(expert_combine, mega_expert_combine_args, COLUMN_THREADS)

/* Writes the row of dy of a choice, and returns the part of a dot product that this thread has. */
BODY float choice_grad(const mega_expert_combine_grad_args *a, mega_dtype t, int64_t choice, int64_t row)
{
    const int64_t token = choice / a->slots;
    const float weight = ((const float *)a->weight)[choice];
    float dot = 0.0f;
    for (int64_t c = (int64_t)thread_x() * 8; c < a->cols; c += ROW_THREADS * 8) {
        eight dout = load_eight(a->dout, t, token * a->cols + c, a->cols - c);
        const eight y = load_eight(a->y, t, row * a->cols + c, a->cols - c);
        UNROLL
        for (int k = 0; k < 8; k++) {
            dot += dout.v[k] * y.v[k];
            dout.v[k] *= weight;
        }
        store_eight(a->dy, t, row * a->cols + c, a->cols - c, dout);
    }
    return dot;
}

BODY void expert_combine_grad_run(const mega_expert_combine_grad_args *a, mega_dtype t)
{
    SHARED(row_shared, s);
    const int64_t end = a->choices > a->rows ? a->choices : a->rows;
    for (int64_t i = block_x(); i < end; i += blocks_x()) { /* choice i, and row i if no choice has it */
        const int64_t row = i < a->choices ? a->place[i] : -1;
        const float dot = row_fold(row < 0 ? 0.0f : choice_grad(a, t, i, row), s);
        if (thread_x() == 0 && i < a->choices) ((float *)a->dweight)[i] = dot;
        if (i >= a->rows || a->source[i] >= 0) continue;
        for (int64_t c = (int64_t)thread_x() * 8; c < a->cols; c += ROW_THREADS * 8)
            store_eight(a->dy, t, i * a->cols + c, a->cols - c, load_eight(a->dy, t, 0, 0));
    }
}
KERNELS_BY_TYPE(expert_combine_grad, mega_expert_combine_grad_args, ROW_THREADS)
