/* Rows of tokens in the order of experts; a thread has eight columns (ops_experts.h). */
#include "kernel.h"

BODY void expert_rows_run(const mega_expert_rows_args *a, mega_dtype t)
{
    for (place p = tile_first(a->rows, a->cols); place_goes_on(&p); tile_next(&p, a->rows)) {
        if (p.left <= 0) continue;
        const int32_t choice = a->source[p.row];
        const int64_t token = choice < 0 ? 0 : choice / a->slots;
        store_eight(a->y, t, p.at, p.left, load_eight(a->x, t, token * a->cols + p.col, choice < 0 ? 0 : p.left));
    }
}
KERNELS_BY_TYPE(expert_rows, mega_expert_rows_args, COLUMN_THREADS)
