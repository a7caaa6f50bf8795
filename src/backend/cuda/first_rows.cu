/* First rows of groups of rows, and their gradient; a thread has eight columns (ops_rows.h). */
#include "kernel.h"

BODY void first_rows_run(const mega_first_rows_args *a, mega_dtype t)
{
    for (place p = tile_first(a->rows, a->cols); place_goes_on(&p); tile_next(&p, a->rows))
        if (p.left > 0)
            store_eight(a->y, t, p.at, p.left, load_eight(a->x, t, p.row * a->group * a->cols + p.col, p.left));
}
KERNELS_BY_TYPE(first_rows, mega_first_rows_args, COLUMN_THREADS)

BODY void first_rows_grad_run(const mega_first_rows_grad_args *a, mega_dtype t)
{
    const int64_t rows = a->rows * a->group;
    for (place p = tile_first(rows, a->cols); place_goes_on(&p); tile_next(&p, rows)) {
        const int64_t from = p.row / a->group;
        const bool is_first = p.row == from * a->group;
        if (p.left > 0)
            store_eight(a->dx, t, p.at, p.left, load_eight(a->dy, t, from * a->cols + p.col, is_first ? p.left : 0));
    }
}
KERNELS_BY_TYPE(first_rows_grad, mega_first_rows_grad_args, COLUMN_THREADS)
