/* First rows of groups of rows and their gradient: plain kernel (ops_rows.h). */
#include "backend_impl.h"

static void plain_first_rows_run(const mega_queue *queue, const void *args)
{
    const mega_first_rows_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->cols; c++) put(a->y, t, r * a->cols + c, get(a->x, t, r * a->group * a->cols + c));
}

static void plain_first_rows_grad_run(const mega_queue *queue, const void *args)
{
    const mega_first_rows_grad_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t r = 0; r < a->rows * a->group; r++)
        for (int64_t c = 0; c < a->cols; c++)
            put(a->dx, t, r * a->cols + c, r % a->group == 0 ? get(a->dy, t, r / a->group * a->cols + c) : 0.0);
}

const mega_kernel mega_plain_first_rows = {.name = "first_rows", .run = plain_first_rows_run};
const mega_kernel mega_plain_first_rows_grad = {.name = "first_rows_grad", .run = plain_first_rows_grad_run};
