/* Gradient of dropout, with the column sums for the bias in the same pass (ops_elementwise.h). */
#include "dropout.h"

BODY void dropout_grad_run(const mega_dropout_grad_args *a, mega_dtype t)
{
    SHARED(column_shared, s);
    const column_part p = column_place(a->rows, a->cols);
    eight dbias;
    UNROLL
    for (int k = 0; k < 8; k++) dbias.v[k] = 0.0f;
    for (int64_t r = p.begin; r < p.end && p.left > 0; r += COLUMN_LANES) {
        eight dx = load_eight(a->dy, t, r * a->cols + p.col, p.left);
        if (a->dropout > 0.0)
            dropout_eight(&dx, a->head.step, a->site, a->sample_id[r], (uint64_t)(a->seq_position[r] * a->cols + p.col),
                          a->dropout);
        UNROLL
        for (int k = 0; k < 8; k++) dbias.v[k] += dx.v[k];
        store_eight(a->dx, t, r * a->cols + p.col, p.left, dx);
    }
    if (a->dbias != NULL) column_fold(&dbias, s, (float *)a->head.scratch, a->cols);
}
KERNELS_BY_TYPE(dropout_grad, mega_dropout_grad_args, COLUMN_THREADS)

KERNEL(dropout_grad_total, mega_dropout_grad_args, COLUMN_THREADS)
{
    column_total((float *)a.dbias, (const float *)a.head.scratch, a.rows, a.cols);
}
