/* Embedding; a thread has eight columns of a row (ops_rows.h). */
#include "kernel.h"

BODY void embedding_run(const mega_embedding_args *a, mega_dtype t)
{
    for (place p = place_first(a->rows, a->cols); place_goes_on(&p); place_next(&p)) {
        const int64_t row = (a->ids != NULL ? a->ids[p.row] : p.row) - a->begin;
        const bool is_here = row >= 0 && row < a->table_rows;
        eight x = load_eight(a->table, t, (is_here ? row : 0) * a->cols + p.col, is_here ? p.left : 0);
        if (a->addend != NULL) {
            const eight addend = load_eight(a->addend, t, p.at, p.left);
            UNROLL
            for (int k = 0; k < 8; k++) x.v[k] += addend.v[k];
        }
        store_eight(a->y, t, p.at, p.left, x);
    }
}
KERNELS_BY_TYPE(embedding, mega_embedding_args, EIGHT_THREADS)
