/* Gradient of GELU, with the column sums for the bias in the same pass (ops_elementwise.h). */
#include "functions.h"

BODY void gelu_grad_run(const mega_gelu_grad_args *a, mega_dtype t)
{
    SHARED(column_shared, s);
    const column_part p = column_place(a->rows, a->cols);
    eight bias, dbias;
    if (a->bias != NULL) bias = load_eight(a->bias, t, p.col, p.left);
    UNROLL
    for (int k = 0; k < 8; k++) dbias.v[k] = 0.0f;
    for (int64_t r = p.begin; r < p.end; r += COLUMN_LANES) {
        const int64_t at = r * a->cols + p.col;
        const eight dy = load_eight(a->dy, t, at, p.left), x = load_eight(a->x, t, at, p.left);
        eight dx;
        UNROLL
        for (int k = 0; k < 8; k++) {
            dx.v[k] = dy.v[k] * gelu_slope(a->bias != NULL ? x.v[k] + bias.v[k] : x.v[k], a->tanh_form);
            dbias.v[k] += dx.v[k];
        }
        store_eight(a->dx, t, at, p.left, dx);
    }
    if (a->dbias != NULL) column_fold(&dbias, s, (float *)a->head.scratch, a->cols);
}
KERNELS_BY_TYPE(gelu_grad, mega_gelu_grad_args, COLUMN_THREADS)

KERNEL(gelu_grad_total, mega_gelu_grad_args, COLUMN_THREADS)
{
    column_total((float *)a.dbias, (const float *)a.head.scratch, a.rows, a.cols);
}
