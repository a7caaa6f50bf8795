/* residual + dropout(x + bias); a thread has eight elements of a row (ops_elementwise.h). */
#include "dropout.h"

BODY void dropout_add_run(const mega_dropout_add_args *a, mega_dtype t)
{
    for (place p = place_first(a->rows, a->cols); place_goes_on(&p); place_next(&p)) {
        if (p.left <= 0) continue;
        eight x = load_eight(a->x, t, p.at, p.left);
        if (a->bias != NULL) {
            const eight bias = load_eight(a->bias, t, p.col, p.left);
            UNROLL
            for (int k = 0; k < 8; k++) x.v[k] += bias.v[k];
        }
        if (a->dropout > 0.0)
            dropout_eight(&x, a->head.step, a->site, a->sample_id[p.row],
                          (uint64_t)(a->seq_position[p.row] * a->cols + p.col), a->dropout);
        if (a->residual != NULL) {
            const eight residual = load_eight(a->residual, t, p.at, p.left);
            UNROLL
            for (int k = 0; k < 8; k++) x.v[k] += residual.v[k];
        }
        store_eight(a->y, t, p.at, p.left, x);
    }
}
KERNELS_BY_TYPE(dropout_add, mega_dropout_add_args, EIGHT_THREADS)
